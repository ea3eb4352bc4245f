//! Entries in, records out: whoever waits first writes for all that wait.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::entry::Pieces;
use super::segment::{self, FRAME, HEADER, Header};
use super::{LogError, LogOptions, SyncPolicy};
use crate::backend::{Append, Backend};
use crate::file_error::FileError;

/// A log that takes entries. Shared by threads.
#[derive(Debug)]
pub(crate) struct Log {
    queue: Mutex<Queue>,
    changed: Condvar,
    file: Mutex<Segments>,
    bytes: AtomicU64,
}

#[derive(Debug)]
struct Queue {
    pending: VecDeque<Pieces>,
    /// The number of the next entry that is appended.
    next: u64,
    /// All entries before this one are written.
    written: u64,
    writing: bool,
    failed: Option<LogError>,
}

/// Where a log goes on.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) folder: PathBuf,
    pub(super) owner: String,
    pub(super) next_segment: u64,
    pub(super) next_entry: u64,
    /// The segments that are there, none of them open.
    pub(super) closed: VecDeque<Closed>,
}

/// A segment that takes no more entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    pub(super) number: u64,
    /// Its first entry.
    pub(super) first: u64,
    pub(super) bytes: u64,
}

#[derive(Debug)]
struct Segments {
    place: Place,
    options: LogOptions,
    open: Option<Open>,
    unsynced_since: Option<Instant>,
    /// The name of the open segment may not last yet.
    folder_unsynced: bool,
}

#[derive(Debug)]
struct Open {
    file: Box<dyn Append>,
    path: PathBuf,
    number: u64,
    /// Its first entry.
    first: u64,
    salt: u32,
    bytes: u64,
}

impl Log {
    pub(super) fn new(place: Place, options: LogOptions) -> Self {
        let queue = Queue {
            pending: VecDeque::new(),
            next: place.next_entry,
            written: place.next_entry,
            writing: false,
            failed: None,
        };
        let bytes = AtomicU64::new(place.closed.iter().map(|segment| segment.bytes).sum());
        let file = Segments { place, options, open: None, unsynced_since: None, folder_unsynced: false };
        Self { queue: Mutex::new(queue), changed: Condvar::new(), file: Mutex::new(file), bytes }
    }

    /// Takes an entry; the order of calls is the order of the log. Returns its number. Does not block on files.
    pub(crate) fn append(&self, entry: impl Into<Pieces>) -> Result<u64, LogError> {
        let mut queue = self.queue.lock();
        if let Some(error) = &queue.failed {
            return Err(error.clone());
        }
        queue.pending.push_back(entry.into());
        queue.next += 1;
        Ok(queue.next - 1)
    }

    /// Returns when entry `number` and all before it are as safe as the policy says. Blocks on files.
    pub(crate) fn commit(&self, number: u64) -> Result<(), LogError> {
        let mut queue = self.queue.lock();
        while queue.written <= number {
            if let Some(error) = &queue.failed {
                return Err(error.clone());
            }
            if queue.writing {
                self.changed.wait(&mut queue);
                continue;
            }
            queue.writing = true;
            let (first, entries) = (queue.written, queue.take());
            drop(queue);
            let done = self.file.lock().write(first, &entries);
            queue = self.queue.lock();
            queue.writing = false;
            match done {
                Ok(bytes) => {
                    queue.written = first + entries.len() as u64;
                    self.bytes.fetch_add(bytes, Ordering::Relaxed);
                }
                Err(error) => queue.fail(error),
            }
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Why it takes no more entries, if that is so.
    pub(crate) fn failure(&self) -> Option<LogError> {
        self.queue.lock().failed.clone()
    }

    /// Syncs what has waited for as long as the policy allows.
    pub(crate) fn sync_if_due(&self, now: Instant) -> Result<(), LogError> {
        let mut file = self.file.lock();
        let SyncPolicy::Interval(longest) = file.options.sync else { return Ok(()) };
        let due = file.unsynced_since.is_some_and(|since| now.saturating_duration_since(since) >= longest);
        let done = if due { file.sync() } else { Ok(()) };
        drop(file);
        done.inspect_err(|error| self.queue.lock().fail(error.clone()))
    }

    /// Ends the log: what was acknowledged is synced, nothing more is taken.
    pub(crate) fn close(&self) -> Result<(), LogError> {
        let mut queue = self.queue.lock();
        while queue.writing {
            self.changed.wait(&mut queue);
        }
        let failed = queue.failed.is_some();
        queue.fail(LogError::Closed);
        drop(queue);
        self.changed.notify_all();
        if failed { Ok(()) } else { self.file.lock().sync() }
    }

    /// The number of the newest entry; 0 if there was none.
    pub(crate) fn last_entry(&self) -> u64 {
        self.queue.lock().next - 1
    }

    /// Ends the segment whose last entry this is, if there is one: it can be removed as a whole then.
    pub(crate) fn close_segment(&self, entry: u64) -> Result<(), LogError> {
        let mut file = self.file.lock();
        if self.queue.lock().written == entry + 1 && file.open.is_some() {
            let closed = file.close_segment();
            drop(file);
            closed.inspect_err(|error| self.queue.lock().fail(error.clone()))?;
        }
        Ok(())
    }

    /// Removes segments whose entries are all up to this one, but for the newest segment. What cannot be removed now is
    /// tried again the next time.
    pub(crate) fn remove_until(&self, entry: u64) {
        let mut file = self.file.lock();
        while let Some(&oldest) = file.place.closed.front() {
            let next = file.place.closed.get(1).map(|next| next.first);
            if next.or(file.open.as_ref().map(|open| open.first)).is_none_or(|first| first > entry + 1) {
                return;
            }
            let (path, bytes) = (file.place.folder.join(segment::name(oldest.number)), oldest.bytes);
            match file.place.backend.remove(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    tracing::warn!(file = %path.display(), %error, "a log segment that is not needed any more was not removed");
                    return;
                }
                _ => {}
            }
            file.place.closed.pop_front();
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Queue {
    /// As many entries as one record should hold, at least one.
    fn take(&mut self) -> Vec<Pieces> {
        let mut bytes = 0;
        let fits = |entry: &&Pieces| {
            bytes += entry.len();
            bytes <= RECORD_BYTES
        };
        let count = self.pending.iter().take_while(fits).count().max(1).min(self.pending.len());
        self.pending.drain(..count).collect()
    }

    fn fail(&mut self, error: LogError) {
        self.failed.get_or_insert(error);
        self.pending.clear();
    }
}

impl Segments {
    /// Writes one record; how many bytes the log has grown by.
    fn write(&mut self, first: u64, entries: &[Pieces]) -> Result<u64, LogError> {
        let before = match &self.open {
            Some(open) if open.bytes < self.options.segment_bytes => open.bytes,
            _ => self.roll(first)?,
        };
        let Some(open) = &mut self.open else { return Err(LogError::Closed) };
        let frame = segment::frame(open.salt, first, entries);
        let lengths: Vec<[u8; 4]> = entries.iter().map(|entry| (entry.len() as u32).to_le_bytes()).collect();
        let mut parts: Vec<&[u8]> = vec![&frame];
        for (length, entry) in lengths.iter().zip(entries) {
            parts.push(length);
            parts.extend(entry.slices());
        }
        open.file.append(&parts).map_err(FileError::io("write to", &open.path))?;
        open.bytes += (FRAME + entries.iter().map(|entry| entry.len() + 4).sum::<usize>()) as u64;
        let grown = open.bytes - before;
        let since = *self.unsynced_since.get_or_insert_with(Instant::now);
        match self.options.sync {
            SyncPolicy::Always => self.sync()?,
            SyncPolicy::Interval(longest) if since.elapsed() >= longest => self.sync()?,
            _ => {}
        }
        Ok(grown)
    }

    /// Starts the next segment; 0, the bytes that were in it before.
    fn roll(&mut self, first: u64) -> Result<u64, LogError> {
        self.close_segment()?;
        let number = self.place.next_segment;
        let path = self.place.folder.join(segment::name(number));
        let mut file = self.place.backend.create(&path).map_err(FileError::io("create", &path))?;
        let header = Header::new(&self.place.owner, number, first);
        file.append(&[&header.encode()]).map_err(FileError::io("write to", &path))?;
        self.place.next_segment += 1;
        self.folder_unsynced = true;
        self.open = Some(Open { file, path, number, first, salt: header.salt, bytes: HEADER as u64 });
        Ok(0)
    }

    /// The next entry begins another segment.
    fn close_segment(&mut self) -> Result<(), LogError> {
        if self.options.sync != SyncPolicy::System {
            self.sync()?;
        }
        if let Some(Open { number, first, bytes, .. }) = self.open.take() {
            self.place.closed.push_back(Closed { number, first, bytes });
        }
        self.unsynced_since = None;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), LogError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        if self.unsynced_since.take().is_some() {
            open.file.sync().map_err(FileError::io("sync", &open.path))?;
        }
        if std::mem::take(&mut self.folder_unsynced) {
            let folder = &self.place.folder;
            self.place.backend.sync_folder(folder).map_err(FileError::io("sync", folder))?;
        }
        Ok(())
    }
}

/// A record takes no further entry beyond this.
const RECORD_BYTES: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::super::recover;
    use super::*;
    use crate::backend::{Fault, Faulty, Memory};

    fn log(backend: &Arc<dyn Backend>, sync: SyncPolicy) -> Log {
        let options = LogOptions { segment_bytes: 100, sync };
        recover(backend, Path::new(""), "t", options, 0, |_, _| Ok(())).unwrap()
    }

    fn entries(memory: &Memory) -> Vec<Vec<u8>> {
        let (backend, mut read): (Arc<dyn Backend>, _) = (Arc::new(memory.clone()), Vec::new());
        let each = |_, entry: &[u8]| {
            read.push(entry.to_vec());
            Ok(())
        };
        recover(&backend, Path::new(""), "t", LogOptions::default(), 0, each).unwrap();
        read
    }

    #[test]
    fn all_that_wait_are_written_at_once_with_one_sync() {
        let faulty = Faulty::new(Memory::new(), u64::MAX, Fault::Error);
        let backend: Arc<dyn Backend> = Arc::new(faulty.clone());
        let log = log(&backend, SyncPolicy::Always);
        let numbers: Vec<u64> = (0..10).map(|_| log.append(vec![7; 5]).unwrap()).collect();
        log.commit(numbers[9]).unwrap();
        assert_eq!(
            faulty.operations(),
            5,
            "the file, its header, one record, one sync of each file and folder"
        );
        log.commit(numbers[3]).unwrap();
        assert_eq!(faulty.operations(), 5);
        let last = log.append(vec![8]).unwrap();
        log.commit(last).unwrap();
        assert_eq!((last, faulty.operations()), (11, 10), "the first segment was full");
    }

    #[test]
    fn threads_that_write_at_the_same_time_all_find_their_entries() {
        let memory = Memory::new();
        let backend: Arc<dyn Backend> = Arc::new(memory.clone());
        let log = log(&backend, SyncPolicy::Always);
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let log = &log;
                scope.spawn(move || {
                    (0..200_u8).for_each(|i| log.commit(log.append(vec![thread, i]).unwrap()).unwrap());
                });
            }
        });
        let read = entries(&memory.after_power_cut(|_| 0));
        assert_eq!(read.len(), 800);
        for thread in 0..4 {
            let own: Vec<u8> = read.iter().filter(|entry| entry[0] == thread).map(|entry| entry[1]).collect();
            assert_eq!(own, (0..200).collect::<Vec<u8>>());
        }
    }

    #[test]
    fn after_a_failed_write_nothing_is_taken_even_if_the_disk_is_well_again() {
        let memory = Memory::new();
        let backend: Arc<dyn Backend> = Arc::new(Faulty::new(memory.clone(), 2, Fault::Error));
        let log = log(&backend, SyncPolicy::System);
        let number = log.append(vec![1]).unwrap();
        let error = log.commit(number).unwrap_err();
        assert_eq!(error.to_string(), "cannot write to 0000000000000001.log: the disk of the test failed");
        assert_eq!(log.append(vec![2]).unwrap_err(), error);
        assert_eq!(log.failure(), Some(error));
        log.close().unwrap();
        assert!(entries(&memory).is_empty());
    }

    #[test]
    fn an_interval_is_kept_with_and_without_further_writes() {
        let memory = Memory::new();
        let backend: Arc<dyn Backend> = Arc::new(memory.clone());
        let log = log(&backend, SyncPolicy::Interval(Duration::from_secs(60)));
        log.commit(log.append(vec![1]).unwrap()).unwrap();
        log.sync_if_due(Instant::now()).unwrap();
        assert!(entries(&memory.after_power_cut(|_| 0)).is_empty(), "not due yet");
        log.sync_if_due(Instant::now() + Duration::from_secs(61)).unwrap();
        assert_eq!(entries(&memory.after_power_cut(|_| 0)), [[1]]);
        log.commit(log.append(vec![2]).unwrap()).unwrap();
        log.close().unwrap();
        assert_eq!(
            entries(&memory.after_power_cut(|_| 0)),
            [[1], [2]],
            "an orderly end leaves nothing behind"
        );
        assert_eq!(log.append(vec![3]), Err(LogError::Closed));
    }
}
