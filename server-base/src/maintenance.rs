//! Threads that keep the tablets of a server in order: one flushes and compacts them, one at a time; another syncs their logs
//! if that is to be done at intervals.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use schema::Timestamp;
use tablet::maintenance::{Limits, Load, Work, next_work};
use tablet::{LogError, MaintenanceError, RowsetError, SyncPolicy, Tablet};

use crate::flags::FlagSet;
use crate::{durability, physical_micros};

/// The tablets of a server, as the threads see them.
pub trait Tablets: Send + Sync + 'static {
    /// Those whose rows can be read and written now.
    fn running(&self) -> Vec<Arc<Tablet>>;
    /// Snapshots of a tablet before this time are not asked for any more.
    fn oldest(&self, tablet: &Tablet) -> Timestamp;
    /// With more bytes of rows than this in memory, some have to go to files.
    fn memory_bytes(&self) -> u64;
    /// A tablet takes other memory than before.
    fn changed(&self);
    /// The log of a tablet has failed, since the disk was full or busy: opens the tablet anew in its place. False if that does
    /// not work yet.
    fn reopen(&self, tablet: &Arc<Tablet>) -> bool;
    /// Files of a tablet are damaged: its rows are not to be read any more.
    fn failed(&self, tablet: &str, error: &RowsetError);
}

/// The threads; they end when it is dropped, after what they do just then.
#[derive(Debug)]
pub struct MaintenanceManager {
    /// Closed to end them.
    stop: Vec<mpsc::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl MaintenanceManager {
    /// Starts them, for tablets that are on disk.
    ///
    /// # Errors
    /// The system is out of threads.
    pub fn start(flags: &FlagSet, tablets: &Arc<impl Tablets>) -> io::Result<Self> {
        let mut manager = Self { stop: Vec::new(), threads: Vec::new() };
        if let SyncPolicy::Interval(interval) = durability::log_options(flags).sync {
            let tablets = Arc::clone(tablets);
            manager.spawn("sync-logs", move |stopped| sync_logs(&*tablets, interval, stopped))?;
        }
        let (flags, tablets) = (flags.clone(), Arc::clone(tablets));
        manager.spawn("maintenance", move |stopped| maintain(&flags, &*tablets, stopped))?;
        Ok(manager)
    }

    fn spawn(
        &mut self,
        name: &str,
        run: impl FnOnce(&mpsc::Receiver<()>) + Send + 'static,
    ) -> io::Result<()> {
        let (stop, stopped) = mpsc::channel();
        self.stop.push(stop);
        let thread = std::thread::Builder::new().name(name.to_owned());
        self.threads.push(thread.spawn(move || run(&stopped))?);
        Ok(())
    }

    /// Ends the threads. Blocks until a flush or compaction that runs is done.
    pub fn stop(&mut self) {
        self.stop.clear();
        for thread in self.threads.drain(..) {
            // It only ends early by a panic, which its own message tells of.
            let _ = thread.join();
        }
    }
}

impl Drop for MaintenanceManager {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the thread knows of a tablet besides its figures.
#[derive(Debug, Default)]
struct Noted {
    /// A compaction found nothing to do with so many rowsets, then.
    compacted: Option<(usize, u64)>,
    /// After an error it is left alone until then.
    not_before: Option<Instant>,
}

impl Noted {
    fn load(&self, tablet: &Tablet, now: Instant) -> Load {
        let load = load(tablet);
        match self {
            Self { not_before: Some(then), .. } if now < *then => Load::default(),
            Self { compacted: Some((rowsets, at)), .. } if *rowsets == load.rowsets => {
                Load { compact_at: Some(*at), ..load }
            }
            _ => load,
        }
    }
}

fn maintain(flags: &FlagSet, tablets: &impl Tablets, stopped: &mpsc::Receiver<()>) {
    let mut noted: HashMap<String, Noted> = HashMap::new();
    let mut wait = Duration::ZERO;
    while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        wait = Duration::from_millis(flags.count("maintenance_manager_polling_interval_ms").max(1) as u64);
        if !flags.bool("enable_maintenance_manager") {
            continue;
        }
        let now = Instant::now();
        let running: Vec<_> =
            tablets.running().into_iter().map(|tablet| (tablet.options().id.clone(), tablet)).collect();
        noted.retain(|id, _| running.iter().any(|(running, _)| running == id));
        for (id, tablet) in &running {
            let noted = noted.entry(id.clone()).or_default();
            let may_work = tablet.log_failure().is_some_and(|error| error.is_retriable());
            if may_work && noted.not_before.is_none_or(|then| then <= now) {
                *noted = Noted::default();
                if !tablets.reopen(tablet) {
                    noted.not_before = Some(now + REOPEN_AFTER);
                }
            }
        }
        let load = |(id, tablet): &(String, Arc<Tablet>)| {
            noted.get(id).map_or_else(|| self::load(tablet), |noted| noted.load(tablet, now))
        };
        let loads: Vec<Load> = running.iter().map(load).collect();
        let limits = limits(flags, tablets.memory_bytes());
        let Some(work) = next_work(&limits, physical_micros(), &loads) else { continue };
        let (Work::Flush(index) | Work::Compact(index)) = work;
        let Some((id, tablet)) = running.get(index) else { continue };
        let oldest = tablets.oldest(tablet);
        let done = match work {
            Work::Flush(_) => tablet.flush(oldest).map(|()| true),
            Work::Compact(_) => tablet.compact(oldest),
        };
        tablets.changed();
        let noted = noted.entry(id.clone()).or_default();
        match done {
            Ok(true) => {
                tracing::debug!(tablet = id, ?work, ms = now.elapsed().as_millis() as u64, "done");
                wait = Duration::ZERO;
            }
            Ok(false) => {
                noted.compacted = Some((tablet.load().rowsets, physical_micros()));
                wait = Duration::ZERO;
            }
            Err(MaintenanceError::Rowset(error @ RowsetError::Corrupt { .. })) => tablets.failed(id, &error),
            // It is being deleted.
            Err(MaintenanceError::Log(LogError::Closed)) => {}
            Err(error) => {
                tracing::error!(tablet = id, ?work, %error, "rows stay where they are for now");
                noted.not_before = Some(Instant::now() + AFTER_ERROR);
            }
        }
    }
}

/// A tablet whose log has failed can neither be flushed nor compacted.
fn load(tablet: &Tablet) -> Load {
    if tablet.log_failure().is_some() { Load::default() } else { tablet.load() }
}

fn limits(flags: &FlagSet, memory_bytes: u64) -> Limits {
    let megabytes = |flag| (flags.count(flag) as u64) << 20;
    Limits {
        flush_bytes: megabytes("flush_threshold_mb"),
        flush_after: Duration::from_secs(flags.count("flush_threshold_secs") as u64),
        log_bytes: megabytes("log_target_replay_size_mb"),
        memory_bytes,
        compact_after: COMPACT_AFTER,
    }
}

fn sync_logs(tablets: &impl Tablets, interval: Duration, stopped: &mpsc::Receiver<()>) {
    while stopped.recv_timeout(interval / 2) == Err(RecvTimeoutError::Timeout) {
        for tablet in tablets.running() {
            if let Err(error) = tablet.sync_if_due(Instant::now()) {
                let id = &tablet.options().id;
                tracing::error!(tablet = id, %error, "a log was not synced: its tablet takes no more writes");
            }
        }
    }
}

/// The flags that the threads go by.
pub(crate) const FLAGS: &[(&str, &str)] = &[
    ("flush_threshold_mb", "rows of a tablet go to files when they take so much memory"),
    ("flush_threshold_secs", "rows go to files after this time at the latest"),
    ("log_target_replay_size_mb", "rows go to files when the log that a start would read is as long"),
    ("enable_maintenance_manager", "false: rows stay in memory and files as they are"),
    (
        "maintenance_manager_polling_interval_ms",
        "how often there is a look for what is to be flushed or compacted",
    ),
];

const AFTER_ERROR: Duration = Duration::from_secs(10);
const REOPEN_AFTER: Duration = Duration::from_secs(1);
/// Rows that have ended get old enough to be dropped.
const COMPACT_AFTER: Duration = Duration::from_secs(60);
