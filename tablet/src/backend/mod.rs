//! Where a tablet's files are: on disk, in memory, or on a disk that fails when a test wants it to.
//!
//! Paths are relative to the backend's root. What was appended survives the end of the process; what was synced survives
//! the end of the machine.

mod disk;
mod faulty;
mod memory;

use std::fmt::Debug;
use std::io;
use std::path::Path;

use bytes::Bytes;

pub use disk::Disk;
pub use faulty::{Fault, Faulty};
pub use memory::Memory;

/// A place for files.
pub trait Backend: Debug + Send + Sync {
    /// Makes a file that was not there.
    ///
    /// # Errors
    /// `AlreadyExists`, or what the system says.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Append>>;

    /// All bytes of a file.
    ///
    /// # Errors
    /// `NotFound`, or what the system says.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// All bytes of a file that will not change any more, to be looked at a few at a time. It may be renamed and removed
    /// meanwhile.
    ///
    /// # Errors
    /// `NotFound`, or what the system says.
    fn map(&self, path: &Path) -> io::Result<Bytes>;

    /// The names in a folder, sorted.
    ///
    /// # Errors
    /// `NotFound`, or what the system says.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Renames a file or a folder; a file that has the new name is replaced at once.
    ///
    /// # Errors
    /// `NotFound`, or what the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// `NotFound`, or what the system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Cuts a file to `bytes` and syncs it.
    ///
    /// # Errors
    /// `NotFound`, or what the system says.
    fn truncate(&self, path: &Path, bytes: u64) -> io::Result<()>;

    /// Makes a folder and those above it; it may be there already.
    ///
    /// # Errors
    /// What the system says.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// Removes a folder and everything in it.
    ///
    /// # Errors
    /// `NotFound`, or what the system says.
    fn remove_folder(&self, folder: &Path) -> io::Result<()>;

    /// Makes the names in a folder last: files made, renamed and removed.
    ///
    /// # Errors
    /// What the system says.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// A file that grows at its end.
pub trait Append: Debug + Send {
    /// Appends the parts one behind the other. After an error the file may hold any part of them.
    ///
    /// # Errors
    /// What the system says, e.g. that the disk is full.
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()>;

    /// Makes all that was appended last.
    ///
    /// # Errors
    /// What the system says. What was appended before may be lost then, even if a later sync succeeds.
    fn sync(&mut self) -> io::Result<()>;
}
