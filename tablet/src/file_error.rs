//! What may go wrong with a file, whatever it holds.

use std::io;
use std::path::{Path, PathBuf};

/// A file that the system does not let us use, or that is too new.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
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
}

impl FileError {
    /// True if it may pass without a change of the files: the disk was full or busy.
    pub const fn is_retriable(&self) -> bool {
        matches!(self, Self::Io { .. })
    }

    /// The file, below the root of its backend.
    pub fn file(&self) -> &Path {
        match self {
            Self::Io { file, .. } | Self::NewerFormat { file, .. } => file,
        }
    }

    /// For `map_err` of what was tried with this file.
    pub(crate) fn io(action: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io {
            action,
            file: file.to_owned(),
            kind: error.kind(),
            message: error.to_string(),
        }
    }
}
