//! Threads of a server whose tablets are on disk: those that open them at the start, one that syncs their logs, and the one
//! of maintenance.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rpc_server::Answers;
use rpc_server::results::CallKey;
use schema::{Partition, PartitionSchema, Schema};
use server_base::{StartError, physical_micros};
use tablet::{RequestKey, SyncPolicy, TabletOptions, WriteOutcome};

use crate::maintenance;
use crate::node::SharedNode;
use crate::replicas;
use crate::storage::{Found, TabletStore};
use crate::tablets::{Replica, State};
use crate::write_path;

/// The threads; they end when it is dropped.
#[derive(Debug)]
pub(crate) struct Upkeep {
    /// Tablets that are still to be opened.
    waiting: Arc<Mutex<VecDeque<TabletOptions>>>,
    /// Closed to end those that wait.
    stop: Vec<mpsc::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

/// Adds the replicas on disk, none of them open yet. Returns those that are to be opened.
pub(crate) fn find(node: &SharedNode, store: &TabletStore) -> Result<Vec<TabletOptions>, StartError> {
    let mut to_open = Vec::new();
    for Found { id, about } in store.find()? {
        let described = about.map_err(|error| error.to_string()).and_then(|(request, tombstone)| {
            let described = replicas::describe(&request).map_err(|fault| fault.message)?;
            Ok((described, tombstone))
        });
        let replica = match described {
            Ok(((about, config), false)) => {
                to_open.push(about.clone());
                Replica { about, config, state: State::Opening }
            }
            Ok(((about, config), true)) => {
                // The end of the last process may have come before this.
                store.clear_rows(&about.id)?;
                Replica { about, config, state: State::Tombstone }
            }
            Err(problem) => {
                tracing::error!(tablet = id, problem, "a tablet has failed");
                Replica { about: unknown(id), config: Default::default(), state: State::Failed(problem) }
            }
        };
        // Folders have different names, so no tablet is there twice.
        let _ = node.tablets.add(replica);
    }
    Ok(to_open)
}

impl Upkeep {
    /// Opens tablets, as many at a time as there are processors, maintains them, and syncs logs if that is to be done at
    /// intervals.
    pub(crate) fn start(
        node: &SharedNode,
        to_open: Vec<TabletOptions>,
        answers: &Answers,
    ) -> io::Result<Self> {
        let waiting = Arc::new(Mutex::new(VecDeque::from(to_open)));
        let mut upkeep = Self { waiting, stop: Vec::new(), threads: Vec::new() };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..processors.min(upkeep.waiting.lock().len()) {
            let (node, waiting) = (SharedNode::clone(node), Arc::clone(&upkeep.waiting));
            let answers = answers.clone();
            let run = move || {
                loop {
                    let Some(about) = waiting.lock().pop_front() else { return };
                    open(&node, about, &answers);
                }
            };
            upkeep.threads.push(std::thread::Builder::new().name("open-tablets".to_owned()).spawn(run)?);
        }
        if let Some(SyncPolicy::Interval(interval)) = node.store.as_ref().map(TabletStore::sync_policy) {
            let stopped = upkeep.stop_signal();
            let node = SharedNode::clone(node);
            let run = move || sync_logs(&node, interval, &stopped);
            upkeep.threads.push(std::thread::Builder::new().name("sync-logs".to_owned()).spawn(run)?);
        }
        if node.store.is_some() {
            let stopped = upkeep.stop_signal();
            upkeep.threads.push(maintenance::start(node, stopped)?);
        }
        Ok(upkeep)
    }

    fn stop_signal(&mut self) -> mpsc::Receiver<()> {
        let (stop, stopped) = mpsc::channel();
        self.stop.push(stop);
        stopped
    }

    /// Ends the threads; a tablet that is being opened is opened first.
    pub(crate) fn stop(&mut self) {
        self.waiting.lock().clear();
        self.stop.clear();
        for thread in self.threads.drain(..) {
            // It only ends early by a panic, which its own message tells of.
            let _ = thread.join();
        }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Clients that come again with a call get the answer it had.
fn open(node: &SharedNode, about: TabletOptions, answers: &Answers) {
    let Some(store) = &node.store else { return };
    let (id, started) = (about.id.clone(), Instant::now());
    let oldest = physical_micros().saturating_sub(REMEMBERED.as_micros() as u64);
    let mut seen = |request: RequestKey<'_>, outcome: WriteOutcome| {
        if outcome.timestamp.physical_micros() >= oldest {
            let RequestKey { client_id, seq_no, first_incomplete_seq_no } = request;
            let key = CallKey { client_id, seq_no, first_incomplete_seq_no };
            answers.restore(key, &write_path::answer(&outcome));
        }
    };
    let state = match store.open(about, node.clock.hybrid(), &mut seen) {
        Ok(tablet) => {
            let rows = tablet.statistics().live_rows;
            tracing::info!(tablet = id, rows, ms = started.elapsed().as_millis() as u64, "tablet opened");
            State::Running(Box::new(tablet))
        }
        Err(error) => {
            tracing::error!(tablet = id, %error, "a tablet has failed");
            State::Failed(error.to_string())
        }
    };
    node.tablets.set_state(&id, state);
}

fn sync_logs(node: &SharedNode, interval: Duration, stopped: &mpsc::Receiver<()>) {
    while stopped.recv_timeout(interval / 2) == Err(RecvTimeoutError::Timeout) {
        for replica in node.tablets.all() {
            if let Some(Err(error)) = replica.running().map(|tablet| tablet.sync_if_due(Instant::now())) {
                tracing::error!(tablet = replica.id(), %error, "a log was not synced: its tablet takes no more writes");
            }
        }
    }
}

/// All that is known of a tablet whose file cannot be read.
fn unknown(id: String) -> TabletOptions {
    let schema =
        Schema::new(Vec::new(), 0).unwrap_or_else(|_| unreachable!("no columns are no wrong columns"));
    TabletOptions {
        id,
        table_id: String::new(),
        table_name: String::new(),
        schema,
        partition_schema: PartitionSchema::default(),
        partition: Partition::default(),
        schema_version: 0,
    }
}

/// Answers that were given this long before a start are not asked for any more: Kudu's limit.
const REMEMBERED: Duration = Duration::from_secs(600);
