//! The log of a tablet: entries in the order of their numbers, each there whole or not at all.
//!
//! Entries that wait at the same time are written as one record, by one of the threads that wait, with at most one sync.
//! FORMAT.md draws the bytes.

pub(crate) mod entry;
mod error;
mod reader;
mod recovery;
mod segment;
mod writer;

use std::time::Duration;

pub use entry::EntryError;
pub use error::{LogError, Problem};
pub(crate) use recovery::recover;
pub(crate) use writer::Log;

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// A segment of this many bytes is followed by a new one. Kudu: 8 MiB.
    pub segment_bytes: u64,
    /// When the system is asked to write things out.
    pub sync: SyncPolicy,
}

/// When what was acknowledged is safe from the end of the machine. From the end of the process it always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Whenever the system likes, mostly within half a minute: Kudu's default.
    System,
    /// At most this long after it was acknowledged.
    Interval(Duration),
    /// Before it is acknowledged: Kudu's `--log_force_fsync_all`.
    Always,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { segment_bytes: 8 << 20, sync: SyncPolicy::System }
    }
}
