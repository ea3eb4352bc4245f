//! A thread that flushes and compacts the tablets of a server, one at a time.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use schema::Timestamp;
use server_base::physical_micros;
use tablet::maintenance::{Limits, Load, Work, next_work};
use tablet::{LogError, MaintenanceError, RowsetError, Tablet};

use crate::node::{Node, SharedNode};
use crate::tablets::State;

/// Starts the thread; it ends when `stopped` is closed, after what it does just then.
pub(crate) fn start(node: &SharedNode, stopped: mpsc::Receiver<()>) -> io::Result<JoinHandle<()>> {
    let node = SharedNode::clone(node);
    std::thread::Builder::new().name("maintenance".to_owned()).spawn(move || run(&node, &stopped))
}

/// What the thread knows of a tablet besides its figures.
#[derive(Debug, Default)]
struct Noted {
    /// A compaction found nothing to do with so many rowsets, then.
    compacted: Option<(usize, u64)>,
    /// After an error it is left alone until then.
    not_before: Option<Instant>,
}

fn run(node: &Node, stopped: &mpsc::Receiver<()>) {
    let mut noted: HashMap<String, Noted> = HashMap::new();
    let mut wait = Duration::ZERO;
    while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        wait =
            Duration::from_millis(node.flags.count("maintenance_manager_polling_interval_ms").max(1) as u64);
        if !node.flags.bool("enable_maintenance_manager") {
            continue;
        }
        let now = Instant::now();
        let replicas: Vec<_> =
            node.tablets.all().into_iter().filter(|replica| replica.running().is_some()).collect();
        noted.retain(|id, _| replicas.iter().any(|replica| replica.id() == id));
        let load = |tablet: &Tablet, id: &str| {
            let load = tablet.load();
            match noted.get(id) {
                Some(Noted { not_before: Some(then), .. }) if now < *then => Load::default(),
                Some(Noted { compacted: Some((rowsets, at)), .. }) if *rowsets == load.rowsets => {
                    Load { compact_at: Some(*at), ..load }
                }
                _ => load,
            }
        };
        let loads: Vec<Load> = replicas
            .iter()
            .map(|replica| replica.running().map(|tablet| load(tablet, replica.id())).unwrap_or_default())
            .collect();
        let Some(work) = next_work(&limits(node), physical_micros(), &loads) else { continue };
        let (Work::Flush(index) | Work::Compact(index)) = work;
        let Some((replica, tablet)) = replicas.get(index).and_then(|r| Some((r, r.running()?))) else {
            continue;
        };
        let oldest = oldest(node);
        let done = match work {
            Work::Flush(_) => tablet.flush(oldest).map(|()| true),
            Work::Compact(_) => tablet.compact(oldest),
        };
        node.memory.update(node.tablets.all().iter().map(|replica| replica.bytes()).sum());
        let noted = noted.entry(replica.id().to_owned()).or_default();
        match done {
            Ok(true) => {
                tracing::debug!(tablet = replica.id(), ?work, ms = now.elapsed().as_millis() as u64, "done");
                wait = Duration::ZERO;
            }
            Ok(false) => {
                noted.compacted = Some((tablet.load().rowsets, physical_micros()));
                wait = Duration::ZERO;
            }
            Err(MaintenanceError::Rowset(error @ RowsetError::Corrupt { .. })) => {
                fail(node, replica.id(), &error);
            }
            // It is being deleted.
            Err(MaintenanceError::Log(LogError::Closed)) => {}
            Err(error) => {
                tracing::error!(tablet = replica.id(), ?work, %error, "rows stay where they are for now");
                noted.not_before = Some(Instant::now() + AFTER_ERROR);
            }
        }
    }
}

/// Files of the tablet are damaged: it serves nothing any more, others go on.
pub(crate) fn fail(node: &Node, tablet: &str, error: &RowsetError) {
    tracing::error!(tablet, %error, "a tablet has failed");
    node.tablets.set_state(tablet, State::Failed(error.to_string()));
}

/// Snapshots before this time are refused.
fn oldest(node: &Node) -> Timestamp {
    let history = Duration::from_secs(node.flags.count("tablet_history_max_age_sec") as u64);
    Timestamp::new(physical_micros().saturating_sub(history.as_micros() as u64), 0)
}

fn limits(node: &Node) -> Limits {
    let megabytes = |flag| (node.flags.count(flag) as u64) << 20;
    Limits {
        flush_bytes: megabytes("flush_threshold_mb"),
        flush_after: Duration::from_secs(node.flags.count("flush_threshold_secs") as u64),
        log_bytes: megabytes("log_target_replay_size_mb"),
        memory_bytes: node.memory.pressure_bytes(node.flags.count("memory_pressure_percentage") as u64),
        compact_after: COMPACT_AFTER,
    }
}

const AFTER_ERROR: Duration = Duration::from_secs(10);
/// Rows that have ended get old enough to be dropped.
const COMPACT_AFTER: Duration = Duration::from_secs(60);
