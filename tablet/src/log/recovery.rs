//! Reading a log when its tablet is opened: whole entries are handed over, a torn tail is cut off.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::entry::EntryError;
use super::error::Problem;
use super::reader::{Bad, Records};
use super::segment::{self, BadHeader, HEADER, Header};
use super::writer::{Closed, Log, Place};
use super::{LogError, LogOptions, SyncPolicy};
use crate::backend::Backend;
use crate::file_error::FileError;

/// Reads the entries of the log in `folder` that follow entry `base`, in order, and opens it for more. `owner` is the id of
/// the tablet. What the files of the tablet hold already, up to `base`, need not be there or whole.
pub(crate) fn recover(
    backend: &Arc<dyn Backend>,
    folder: &Path,
    owner: &str,
    options: LogOptions,
    base: u64,
    mut each: impl FnMut(u64, &[u8]) -> Result<(), EntryError>,
) -> Result<Log, LogError> {
    let names = backend.list(folder).map_err(FileError::io("list", folder))?;
    let numbers: Vec<u64> = names.iter().filter_map(|name| segment::number_of(name)).collect();
    let segment = |number| Segment { path: folder.join(segment::name(number)), number, owner, backend };
    if numbers.is_empty() && base > 0 {
        return Err(segment(1).corrupt(0, Problem::MissingSegment));
    }
    let mut place = Place {
        backend: Arc::clone(backend),
        folder: folder.to_owned(),
        owner: owner.to_owned(),
        next_segment: numbers.last().map_or(1, |number| number + 1),
        next_entry: FIRST_ENTRY,
        closed: VecDeque::new(),
    };
    let mut next = match numbers.first() {
        Some(first) => Some(segment(*first).load(numbers.len() == 1)?),
        None => None,
    };
    for (index, &number) in numbers.iter().enumerate() {
        let file = segment(number);
        let Some(current) = next.take() else { break };
        let is_last = index + 1 == numbers.len();
        if let Some(&after) = numbers.get(index + 1) {
            if after != number + 1 {
                return Err(segment(after).corrupt(0, Problem::MissingSegment));
            }
            next = Some(segment(after).load(index + 2 == numbers.len())?);
        }
        let Loaded { bytes, header: Some(header) } = current else {
            place.next_segment = number;
            continue;
        };
        let found = header.first;
        if found != place.next_entry && found > base + 1 {
            let problem = match index {
                0 if number != 1 => Problem::MissingSegment,
                _ => Problem::Gap { expected: place.next_entry.max(base + 1), found },
            };
            return Err(file.corrupt(0, problem));
        }
        let closed = |bytes: usize| Closed { number, first: found, bytes: bytes as u64 };
        let after = next.as_ref().and_then(|next| next.header.as_ref());
        if after.is_some_and(|after| after.first <= base + 1) {
            place.closed.push_back(closed(bytes.len()));
            continue;
        }
        let mut records = Records::new(&bytes, header.salt, header.first);
        let mut end = bytes.len();
        let mut is_synced = !is_last || options.sync == SyncPolicy::System;
        while let Some(record) = records.next_record() {
            match record {
                Ok(record) => {
                    for (number, entry) in (record.first..).zip(&record.entries).filter(|(n, _)| *n > base) {
                        let problem = |why| Problem::Entry { number, why };
                        each(number, entry).map_err(|why| file.corrupt(record.offset, problem(why)))?;
                    }
                }
                Err(Bad { offset, is_tail: true, .. }) if is_last => {
                    file.cut(offset, bytes.len())?;
                    (end, is_synced) = (offset, true);
                    break;
                }
                Err(bad) => return Err(file.corrupt(bad.offset, bad.problem)),
            }
        }
        if !is_synced {
            // The process before may have ended, or failed, before it synced what is read here: it must not be lost when what
            // is written to the next segment is not.
            backend.truncate(&file.path, end as u64).map_err(FileError::io("sync", &file.path))?;
        }
        place.next_entry = records.next_number();
        place.closed.push_back(closed(end));
    }
    place.next_entry = place.next_entry.max(base + 1);
    Ok(Log::new(place, options))
}

struct Segment<'a> {
    path: PathBuf,
    number: u64,
    owner: &'a str,
    backend: &'a Arc<dyn Backend>,
}

/// The bytes of a segment.
struct Loaded {
    bytes: Vec<u8>,
    /// `None` for a last segment whose making was cut off: it was removed.
    header: Option<Header>,
}

impl Segment<'_> {
    fn load(&self, is_last: bool) -> Result<Loaded, LogError> {
        let bytes = self.backend.read(&self.path).map_err(FileError::io("read", &self.path))?;
        let header = self.header(&bytes, is_last)?;
        let problem = match &header {
            Some(header) if header.owner != segment::owner_of(self.owner) => Some(Problem::OtherOwner),
            Some(header) if header.number != self.number => {
                Some(Problem::OtherNumber { found: header.number, named: self.number })
            }
            _ => None,
        };
        problem.map_or(Ok(Loaded { bytes, header }), |problem| Err(self.corrupt(0, problem)))
    }

    /// `None` for a last segment whose making was cut off: it is removed.
    fn header(&self, bytes: &[u8], is_last: bool) -> Result<Option<Header>, LogError> {
        match Header::decode(bytes) {
            Ok(header) => Ok(Some(header)),
            Err(BadHeader::Newer(found)) => {
                Err(FileError::NewerFormat { file: self.path.clone(), found, known: segment::VERSION }.into())
            }
            Err(_) if is_last && (bytes.len() < HEADER || bytes.iter().all(|byte| *byte == 0)) => {
                tracing::info!(file = %self.path.display(), "removed a log segment that was never begun");
                self.backend.remove(&self.path).map_err(FileError::io("remove", &self.path))?;
                Ok(None)
            }
            Err(BadHeader::Problem(problem)) => Err(self.corrupt(0, problem)),
        }
    }

    fn cut(&self, offset: usize, length: usize) -> Result<(), LogError> {
        let cut = length.saturating_sub(offset);
        tracing::info!(file = %self.path.display(), offset, cut, "cut off a write that had not ended");
        Ok(self.backend.truncate(&self.path, offset as u64).map_err(FileError::io("cut", &self.path))?)
    }

    fn corrupt(&self, offset: usize, problem: Problem) -> LogError {
        LogError::Corrupt { file: self.path.clone(), offset: offset as u64, problem }
    }
}

/// The number of the first entry of a log.
const FIRST_ENTRY: u64 = 1;
