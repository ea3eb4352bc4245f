//! Reading a log when its tablet is opened: whole entries are handed over, a torn tail is cut off.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::entry::EntryError;
use super::error::Problem;
use super::reader::{Bad, Records};
use super::segment::{self, BadHeader, HEADER, Header};
use super::writer::{Log, Place};
use super::{LogError, LogOptions};
use crate::backend::Backend;

/// Reads all entries of the log in `folder` in order and opens it for more. `owner` is the id of the tablet.
pub(crate) fn recover(
    backend: &Arc<dyn Backend>,
    folder: &Path,
    owner: &str,
    options: LogOptions,
    mut each: impl FnMut(&[u8]) -> Result<(), EntryError>,
) -> Result<Log, LogError> {
    let names = backend.list(folder).map_err(LogError::io("list", folder))?;
    let numbers: Vec<u64> = names.iter().filter_map(|name| segment::number_of(name)).collect();
    let mut place = Place {
        backend: Arc::clone(backend),
        folder: folder.to_owned(),
        owner: owner.to_owned(),
        next_segment: numbers.last().map_or(1, |number| number + 1),
        next_entry: FIRST_ENTRY,
        bytes: 0,
    };
    for (index, &number) in numbers.iter().enumerate() {
        let file = Segment { path: folder.join(segment::name(number)), backend };
        let before = index.checked_sub(1).and_then(|before| numbers.get(before));
        if before.is_some_and(|before| before + 1 != number) || index == 0 && number != 1 {
            return Err(file.corrupt(0, Problem::MissingSegment));
        }
        let is_last = index + 1 == numbers.len();
        let bytes = backend.read(&file.path).map_err(LogError::io("read", &file.path))?;
        let Some(header) = file.header(&bytes, is_last)? else {
            place.next_segment = number;
            continue;
        };
        let wrong = match header {
            _ if header.owner != segment::owner_of(owner) => Some(Problem::OtherOwner),
            _ if header.number != number => {
                Some(Problem::OtherNumber { found: header.number, named: number })
            }
            _ if header.first != place.next_entry => {
                Some(Problem::Gap { expected: place.next_entry, found: header.first })
            }
            _ => None,
        };
        if let Some(problem) = wrong {
            return Err(file.corrupt(0, problem));
        }
        let mut records = Records::new(&bytes, header.salt, header.first);
        let mut end = bytes.len();
        while let Some(record) = records.next_record() {
            match record {
                Ok(record) => {
                    for (number, entry) in (record.first..).zip(&record.entries) {
                        let problem = |why| Problem::Entry { number, why };
                        each(entry).map_err(|why| file.corrupt(record.offset, problem(why)))?;
                    }
                }
                Err(Bad { offset, is_tail: true, .. }) if is_last => {
                    file.cut(offset, bytes.len())?;
                    end = offset;
                    break;
                }
                Err(bad) => return Err(file.corrupt(bad.offset, bad.problem)),
            }
        }
        place.next_entry = records.next_number();
        place.bytes += end as u64;
    }
    Ok(Log::new(place, options))
}

struct Segment<'a> {
    path: PathBuf,
    backend: &'a Arc<dyn Backend>,
}

impl Segment<'_> {
    /// `None` for a last segment whose making was cut off: it is removed.
    fn header(&self, bytes: &[u8], is_last: bool) -> Result<Option<Header>, LogError> {
        match Header::decode(bytes) {
            Ok(header) => Ok(Some(header)),
            Err(BadHeader::Newer(found)) => {
                Err(LogError::NewerFormat { file: self.path.clone(), found, known: segment::VERSION })
            }
            Err(_) if is_last && (bytes.len() < HEADER || bytes.iter().all(|byte| *byte == 0)) => {
                tracing::info!(file = %self.path.display(), "removed a log segment that was never begun");
                self.backend.remove(&self.path).map_err(LogError::io("remove", &self.path))?;
                Ok(None)
            }
            Err(BadHeader::Problem(problem)) => Err(self.corrupt(0, problem)),
        }
    }

    fn cut(&self, offset: usize, length: usize) -> Result<(), LogError> {
        let cut = length.saturating_sub(offset);
        tracing::info!(file = %self.path.display(), offset, cut, "cut off a write that had not ended");
        self.backend.truncate(&self.path, offset as u64).map_err(LogError::io("cut", &self.path))
    }

    fn corrupt(&self, offset: usize, problem: Problem) -> LogError {
        LogError::Corrupt { file: self.path.clone(), offset: offset as u64, problem }
    }
}

/// The number of the first entry of a log.
const FIRST_ENTRY: u64 = 1;
