//! What may go wrong with a rowset.

use std::path::PathBuf;

use crate::file_error::FileError;
use crate::sealed::SealedError;

/// A rowset that cannot be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowsetError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The bytes are not those that were written. Restore the file from a copy, or delete the replica.
    #[error("{} is corrupt at offset {offset}: {problem}", .file.display())]
    Corrupt {
        /// The file, below the root of its backend.
        file: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What is wrong there.
        problem: &'static str,
    },
    /// The caller's fault: rows that no rowset can hold.
    #[error("cannot write {}: {problem}", .folder.display())]
    Rows {
        /// The rowset, below the root of its backend.
        folder: PathBuf,
        /// What is wrong with its rows.
        problem: &'static str,
    },
}

impl RowsetError {
    /// True if it may pass without a change of the files: the disk was full or busy.
    pub const fn is_retriable(&self) -> bool {
        matches!(self, Self::File(error) if error.is_retriable())
    }
}

impl From<SealedError> for RowsetError {
    fn from(error: SealedError) -> Self {
        match error {
            SealedError::File(error) => Self::File(error),
            SealedError::Corrupt { file } => {
                Self::Corrupt { file, offset: 0, problem: "it does not fit its checksum" }
            }
        }
    }
}
