//! What makes a tablet outlive its process: each write is in the log before it is seen.
//!
//! A batch is appended to the rows in memory and to the log's queue under one lock, so both have the same order. Scans show
//! nothing that is not in the log yet; if the log fails, they go on showing what it has, and writes end.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use schema::{Ops, Timestamp};

use crate::Tablet;
use crate::backend::Backend;
use crate::log::entry::{self, Entry, EntryError, Pieces};
use crate::log::{self, Log, LogError, LogOptions};
use crate::rowset::BlockCache;
use crate::write::request::RequestKey;

/// Where a tablet's files are, and how its log is written.
#[derive(Clone, Debug)]
pub struct Storage {
    /// Who keeps the files.
    pub backend: Arc<dyn Backend>,
    /// The folder of the tablet: its log, and what else it needs. It is there.
    pub folder: PathBuf,
    /// How the log is written.
    pub log: LogOptions,
    /// Keeps decoded blocks; the tablets of a server share it.
    pub cache: Arc<BlockCache>,
}

#[derive(Debug)]
pub(crate) struct Durability {
    log: Log,
    /// All writes before this timestamp are in the log.
    logged_before: AtomicU64,
    /// The newest write in the log's queue.
    appended: Mutex<Appended>,
}

#[derive(Clone, Copy, Debug)]
struct Appended {
    timestamp: Timestamp,
    /// Its entry.
    number: u64,
}

/// A write on its way into the log.
#[derive(Debug)]
pub(crate) struct Staged<'a> {
    durability: &'a Durability,
    entry: Pieces,
    appended: Option<Appended>,
}

impl Durability {
    pub(crate) fn recover(storage: &Storage, tablet: &Tablet) -> Result<Self, LogError> {
        let base = tablet.kept.lock().entry;
        let mut newest = Timestamp(tablet.rows.read().last_commit);
        let each = |number: u64, entry: &[u8]| {
            tablet.replayed.store(number - 1, Ordering::Relaxed);
            let write = match Entry::decode(entry)? {
                Entry::Write(write) => write,
                Entry::Alteration(to) => {
                    return tablet.replay_alteration(to).map_err(|_| EntryError::Alteration);
                }
            };
            let decoder = write.decoder(&tablet.schema())?;
            let ops = decoder.decode(write.rows, write.indirect)?;
            let outcome = tablet.replay(&ops, write.timestamp).map_err(|_| EntryError::OtherOutcome)?;
            if outcome.row_errors.len() as u32 != write.failed {
                return Err(EntryError::OtherOutcome);
            }
            newest = write.timestamp;
            if let Some(request) = write.request {
                tablet.answers.lock().note(request, &outcome);
            }
            Ok(())
        };
        let Storage { backend, folder, log, .. } = storage;
        let log = log::recover(backend, folder, &tablet.options().id, *log, base, each)?;
        let number = log.last_entry();
        Ok(Self {
            log,
            logged_before: AtomicU64::new(newest.next().0),
            appended: Mutex::new(Appended { timestamp: newest, number }),
        })
    }

    /// The first step of a write, before any lock.
    pub(crate) fn stage(&self, ops: &Ops<'_>, request: Option<RequestKey<'_>>) -> Staged<'_> {
        Staged { durability: self, entry: entry::encode(ops, request), appended: None }
    }

    /// Puts an alteration into the log's queue, under the lock that orders writes.
    pub(crate) fn append_alteration(&self, entry: Vec<u8>) -> Result<Staged<'_>, LogError> {
        let mut newest = self.appended.lock();
        let number = self.log.append(entry)?;
        // The writes before it are no newer than they were.
        newest.number = number;
        Ok(Staged { durability: self, entry: Pieces::default(), appended: Some(*newest) })
    }

    /// Scans show what is before this timestamp.
    pub(crate) fn logged_before(&self) -> u64 {
        self.logged_before.load(Ordering::Acquire)
    }

    /// Returns when all writes up to `timestamp` that were appended are in the log, or never will be.
    pub(crate) fn wait_for(&self, timestamp: Timestamp) {
        if timestamp.0 < self.logged_before() {
            return;
        }
        let appended = *self.appended.lock();
        if self.log.commit(appended.number).is_ok() {
            self.logged_before.fetch_max(appended.timestamp.next().0, Ordering::AcqRel);
        }
    }

    /// The newest entry in the log's queue.
    pub(crate) fn last_entry(&self) -> u64 {
        self.appended.lock().number
    }

    /// Writes everything up to an entry; a new segment begins behind it, if nothing follows yet.
    pub(crate) fn close_segment(&self, entry: u64) -> Result<(), LogError> {
        self.log.commit(entry)?;
        self.log.close_segment(entry)
    }

    /// The rows of all entries up to this one are in files.
    pub(crate) fn forget_entries(&self, entry: u64) {
        self.log.remove_until(entry);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.log.bytes()
    }
}

impl Staged<'_> {
    /// Whether the log may still take it. To be asked under the lock that orders writes and before the write is decided: the
    /// key index of a tablet whose log has failed may name rows that were never appended.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        self.durability.log.failure().map_or(Ok(()), Err)
    }

    /// The second step, under the lock that orders writes.
    pub(crate) fn append(&mut self, timestamp: Timestamp, failed: usize) -> Result<(), LogError> {
        entry::complete(&mut self.entry, timestamp, failed as u32);
        let mut newest = self.durability.appended.lock();
        let number = self.durability.log.append(std::mem::take(&mut self.entry))?;
        *newest = Appended { timestamp, number };
        self.appended = Some(*newest);
        Ok(())
    }

    /// The last step, without locks: returns when the log has it.
    pub(crate) fn commit(self) -> Result<(), LogError> {
        let Some(Appended { timestamp, number }) = self.appended else { return Ok(()) };
        self.durability.log.commit(number)?;
        self.durability.logged_before.fetch_max(timestamp.next().0, Ordering::AcqRel);
        Ok(())
    }
}

impl Tablet {
    /// Why the tablet takes no writes any more, if that is so.
    pub fn log_failure(&self) -> Option<LogError> {
        self.durability.as_ref().and_then(|durability| durability.log.failure())
    }

    /// To be called every now and then if the log is to be synced at intervals.
    ///
    /// # Errors
    /// What the system said; writes fail from then on.
    pub fn sync_if_due(&self, now: Instant) -> Result<(), LogError> {
        self.durability.as_ref().map_or(Ok(()), |durability| durability.log.sync_if_due(now))
    }

    /// Syncs the log and ends writes, flushes and compactions: the tablet is to be closed or deleted.
    ///
    /// # Errors
    /// What the system said: the last writes may be lost if the machine ends before it has written them out.
    pub fn close(&self) -> Result<(), LogError> {
        // A flush or compaction is waited for.
        let kept = self.kept.lock();
        self.closed.store(true, Ordering::Release);
        drop(kept);
        self.durability.as_ref().map_or(Ok(()), |durability| durability.log.close())
    }
}
