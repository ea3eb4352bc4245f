//! Which files a tablet consists of, and which part of the log they hold.

use std::path::{Path, PathBuf};

use schema::Timestamp;

use crate::Alteration;
use crate::backend::Backend;
use crate::binary::{Cut, Rest, put_bytes};
use crate::description::{self, NoDescription};
use crate::rowset::RowsetError;
use crate::sealed::{self, Kind, SealedError};

/// The files of a tablet at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    /// The last entry of the log whose effects the files hold; 0 for none.
    pub(crate) entry: u64,
    /// The time of the last write among them.
    pub(crate) time: Timestamp,
    /// Snapshots before this time have lost rows.
    pub(crate) oldest: Timestamp,
    /// The number that the next new file gets.
    pub(crate) next_file: u64,
    /// What the table was after that entry.
    pub(crate) about: Alteration,
    /// Oldest first.
    pub(crate) rowsets: Vec<Listed>,
    /// Of the calls until that entry.
    pub(crate) answers: Vec<u8>,
}

/// A rowset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) rowset: u64,
    /// The file of its rows that ended after it was written; 0 for none.
    pub(crate) ends: u64,
}

impl Manifest {
    /// Of a tablet that was never flushed.
    pub(crate) fn new(about: Alteration) -> Self {
        let (time, oldest) = (Timestamp::MIN, Timestamp::MIN);
        Self { entry: 0, time, oldest, next_file: 1, about, rowsets: Vec::new(), answers: Vec::new() }
    }

    /// What is in the tablet's folder; `None` if nothing was ever flushed.
    pub(crate) fn read(backend: &dyn Backend, folder: &Path) -> Result<Option<Self>, RowsetError> {
        let file = folder.join(MANIFEST);
        let content = match sealed::read(backend, &file, KIND) {
            Err(error) if error.is_not_found() => return Ok(None),
            content => content?,
        };
        Self::decode(&content).map(Some).map_err(|NoDescription| RowsetError::Corrupt {
            file,
            offset: 0,
            problem: "it is no manifest",
        })
    }

    pub(crate) fn write(&self, backend: &dyn Backend, folder: &Path) -> Result<(), SealedError> {
        sealed::write(backend, &folder.join(MANIFEST), KIND, &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [self.entry, self.time.0, self.oldest.0, self.next_file] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        description::encode(&self.about, &mut bytes);
        bytes.extend_from_slice(&(self.rowsets.len() as u32).to_le_bytes());
        for Listed { rowset, ends } in &self.rowsets {
            bytes.extend_from_slice(&rowset.to_le_bytes());
            bytes.extend_from_slice(&ends.to_le_bytes());
        }
        put_bytes(&mut bytes, &self.answers);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, NoDescription> {
        let mut rest = Rest(bytes);
        let (entry, time) = (rest.u64()?, Timestamp(rest.u64()?));
        let (oldest, next_file) = (Timestamp(rest.u64()?), rest.u64()?);
        let about = description::decode(&mut rest)?;
        let count = rest.u32()?;
        let mut rowset = || -> Result<Listed, Cut> { Ok(Listed { rowset: rest.u64()?, ends: rest.u64()? }) };
        let rowsets = (0..count).map(|_| rowset()).collect::<Result<Vec<_>, Cut>>()?;
        let answers = rest.bytes()?.to_vec();
        Ok(Self { entry, time, oldest, next_file, about, rowsets, answers })
    }
}

/// When rows of a rowset ended: row and time.
pub(crate) type Ends = Vec<(u32, u64)>;

pub(crate) fn read_ends(backend: &dyn Backend, file: &Path) -> Result<Ends, RowsetError> {
    let content = sealed::read(backend, file, ENDS_KIND)?;
    let corrupt =
        || RowsetError::Corrupt { file: file.to_owned(), offset: 16, problem: "it holds no ends of rows" };
    let (all, []) = content.as_chunks::<12>() else { return Err(corrupt()) };
    let one = |bytes: &[u8; 12]| -> Result<(u32, u64), Cut> {
        let mut rest = Rest(bytes);
        Ok((rest.u32()?, rest.u64()?))
    };
    all.iter().map(one).collect::<Result<_, Cut>>().map_err(|Cut| corrupt())
}

pub(crate) fn write_ends(
    backend: &dyn Backend,
    file: &Path,
    ends: impl Iterator<Item = (u32, u64)>,
) -> Result<(), SealedError> {
    let mut bytes = Vec::new();
    for (row, end) in ends {
        bytes.extend_from_slice(&row.to_le_bytes());
        bytes.extend_from_slice(&end.to_le_bytes());
    }
    sealed::write(backend, file, ENDS_KIND, &bytes)
}

/// The folder of a rowset.
pub(crate) fn rowset_folder(folder: &Path, number: u64) -> PathBuf {
    folder.join(ROWSETS).join(name(number))
}

/// The file of a rowset's ends.
pub(crate) fn ends_file(folder: &Path, number: u64) -> PathBuf {
    folder.join(ROWSETS).join(format!("{}.{ENDS}", name(number)))
}

/// Removes files that the manifest does not list. What cannot be removed now is tried again with the next manifest.
pub(crate) fn remove_others(backend: &dyn Backend, folder: &Path, listed: &[Listed]) {
    let rowsets = folder.join(ROWSETS);
    let Ok(names) = backend.list(&rowsets) else { return };
    for file in names {
        let is_rowset = listed.iter().any(|listed| file == name(listed.rowset));
        let is_ends = listed.iter().any(|l| file == format!("{}.{ENDS}", name(l.ends)));
        if is_rowset || is_ends {
            continue;
        }
        let path = rowsets.join(&file);
        let is_file = path.extension().is_some_and(|extension| extension == ENDS || extension == "draft");
        let removed = if is_file { backend.remove(&path) } else { backend.remove_folder(&path) };
        if let Err(error) = removed {
            tracing::warn!(file = %path.display(), %error, "a file that is not needed any more was not removed");
        }
    }
}

/// A number that no file has, whatever became of the flush that made it.
pub(crate) fn unused_number(backend: &dyn Backend, folder: &Path) -> u64 {
    let names = backend.list(&folder.join(ROWSETS)).unwrap_or_default();
    let number = |file: &String| file.split('.').next()?.parse::<u64>().ok();
    names.iter().filter_map(number).max().map_or(1, |number| number + 1)
}

fn name(number: u64) -> String {
    format!("{number:016}")
}

/// What holds the rowsets, in the tablet's folder.
pub(crate) const ROWSETS: &str = "rowsets";
const MANIFEST: &str = "manifest";
const ENDS: &str = "ends";
const KIND: Kind = Kind { magic: *b"NYALAMAN", version: 1 };
const ENDS_KIND: Kind = Kind { magic: *b"NYALAEND", version: 1 };
