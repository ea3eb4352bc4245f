//! Tablets on disk are found and opened: at the start by threads of their own, later when the log of one has failed.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;
use schema::{Partition, PartitionSchema, Schema};
use server_base::StartError;
use tablet::{OpenError, Tablet, TabletOptions};

use crate::node::{Node, SharedNode};
use crate::replicas;
use crate::storage::{Found, TabletStore};
use crate::tablets::{Replica, State};

/// The threads that open tablets at the start; they end when it is dropped.
#[derive(Debug)]
pub(crate) struct Bootstrap {
    /// Tablets that are still to be opened.
    waiting: Arc<Mutex<VecDeque<TabletOptions>>>,
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

impl Bootstrap {
    /// Opens tablets, as many at a time as there are processors.
    pub(crate) fn start(node: &SharedNode, to_open: Vec<TabletOptions>) -> io::Result<Self> {
        let waiting = Arc::new(Mutex::new(VecDeque::from(to_open)));
        let mut bootstrap = Self { waiting, threads: Vec::new() };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..processors.min(bootstrap.waiting.lock().len()) {
            let (node, waiting) = (SharedNode::clone(node), Arc::clone(&bootstrap.waiting));
            let run = move || {
                loop {
                    let Some(about) = waiting.lock().pop_front() else { return };
                    open(&node, about);
                }
            };
            bootstrap.threads.push(std::thread::Builder::new().name("open-tablets".to_owned()).spawn(run)?);
        }
        Ok(bootstrap)
    }

    /// Ends the threads; a tablet that is being opened is opened first.
    pub(crate) fn stop(&mut self) {
        self.waiting.lock().clear();
        for thread in self.threads.drain(..) {
            // It only ends early by a panic, which its own message tells of.
            let _ = thread.join();
        }
    }
}

impl Drop for Bootstrap {
    fn drop(&mut self) {
        self.stop();
    }
}

fn open(node: &Node, about: TabletOptions) {
    let Some(store) = &node.store else { return };
    let id = about.id.clone();
    let state = match opened(node, store, about) {
        Ok(tablet) => State::Running(Arc::new(tablet)),
        Err(error) => {
            tracing::error!(tablet = id, %error, "a tablet has failed");
            State::Failed(error.to_string())
        }
    };
    node.tablets.set_state(&id, state);
}

/// Puts the tablet as it is on disk in the place of one whose log has failed. That one is read until then.
pub(crate) fn reopen(node: &Node, failed: &Arc<Tablet>) -> bool {
    let id = failed.options().id.clone();
    let (Some(store), Ok(replica)) = (&node.store, node.tablets.get(id.as_bytes())) else { return false };
    if let Err(error) = store.check_room() {
        tracing::debug!(tablet = id, %error, "still no room");
        return false;
    }
    // What had to be said of the log, it said when it failed.
    let _ = failed.close();
    match opened(node, store, replica.about.clone()) {
        Ok(tablet) => {
            node.tablets.replace(failed, Arc::new(tablet));
            true
        }
        Err(error) => {
            tracing::error!(tablet = id, %error, "the tablet still takes no writes");
            false
        }
    }
}

fn opened(node: &Node, store: &TabletStore, about: TabletOptions) -> Result<Tablet, OpenError> {
    let (id, started) = (about.id.clone(), Instant::now());
    let tablet = store.open(about, node.clock.hybrid())?;
    let rows = tablet.statistics().live_rows;
    tracing::info!(tablet = id, rows, ms = started.elapsed().as_millis() as u64, "tablet opened");
    Ok(tablet)
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
        history_max_age_sec: None,
    }
}
