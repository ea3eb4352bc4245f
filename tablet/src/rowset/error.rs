//! What may go wrong with a rowset.

use std::io;
use std::path::{Path, PathBuf};

use crate::sealed::SealedError;

/// A rowset that cannot be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowsetError {
    /// The system refused: e.g. the disk is full.
    #[error("cannot {action} {}: {message}", .file.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file, below the root of its backend.
        file: PathBuf,
        /// The kind of the system's error.
        kind: io::ErrorKind,
        /// The system's words.
        message: String,
    },
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
    /// A file of a later version of this program.
    #[error("{} has format {found}, this program reads up to {known}: use the newer program", .file.display())]
    NewerFormat {
        /// The file, below the root of its backend.
        file: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format known here.
        known: u32,
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
        matches!(self, Self::Io { .. })
    }

    pub(crate) fn io(action: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io {
            action,
            file: file.to_owned(),
            kind: error.kind(),
            message: error.to_string(),
        }
    }
}

impl From<SealedError> for RowsetError {
    fn from(error: SealedError) -> Self {
        match error {
            SealedError::Io { action, file, source } => Self::io(action, &file)(source),
            SealedError::NewerFormat { file, found, known } => Self::NewerFormat { file, found, known },
            SealedError::Corrupt { file } => {
                Self::Corrupt { file, offset: 0, problem: "it does not fit its checksum" }
            }
        }
    }
}
