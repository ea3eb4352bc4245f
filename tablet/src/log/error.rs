//! What may go wrong with a log.

use std::path::PathBuf;

use crate::file_error::FileError;

/// A log that cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// A file cannot be used. After a failed write the log takes no more entries until the tablet is opened again.
    #[error(transparent)]
    File(#[from] FileError),
    /// The bytes are not those that were written, and what follows them is: this is no cut tail. Restore the file from a
    /// copy, or delete the replica.
    #[error("{} is corrupt at offset {offset}: {problem}", .file.display())]
    Corrupt {
        /// The file, below the root of its backend.
        file: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What is wrong there.
        problem: Problem,
    },
    /// The tablet was closed or deleted meanwhile.
    #[error("the log is closed")]
    Closed,
}

/// What is wrong with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Problem {
    #[error("it is no log segment")]
    NoSegment,
    #[error("the header does not fit its checksum")]
    Header,
    #[error("it is of another tablet")]
    OtherOwner,
    #[error("it is segment {found}, its name says {named}")]
    OtherNumber { found: u64, named: u64 },
    #[error("a record does not fit its checksum")]
    Checksum,
    #[error("a record ends behind the end of the file")]
    Cut,
    #[error("entry {expected} should follow, but it is entry {found}")]
    Gap { expected: u64, found: u64 },
    #[error("the segment before it is missing")]
    MissingSegment,
    #[error("entry {number} cannot be read: {why}")]
    Entry { number: u64, why: super::entry::EntryError },
}

impl LogError {
    /// True if it may pass without a change of the files: the disk was full or busy.
    pub const fn is_retriable(&self) -> bool {
        matches!(self, Self::File(error) if error.is_retriable())
    }
}
