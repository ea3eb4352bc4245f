//! The thread that reports to all masters, drops idle scanners, and counts the memory of the rows.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use proto::kudu::ServerRegistrationPb;
use rpc_core::Messenger;
use server_base::acl;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::reporter::{Common, Reporter};
use crate::TserverOptions;
use crate::node::SharedNode;

/// Reports for as long as it lives.
#[derive(Debug)]
pub(crate) struct Heartbeats {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeats {
    /// Starts to report `registration` and the replicas of `node`.
    pub(crate) fn start(
        node: &SharedNode,
        registration: ServerRegistrationPb,
        options: &TserverOptions,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let common = Common {
            node: SharedNode::clone(node),
            registration: Arc::new(registration),
            messenger: Messenger::builder().user(acl::process_user()).build(),
            interval: options.heartbeat_interval,
            timeout: options.heartbeat_timeout,
            taken: Arc::new(Mutex::new(HashSet::new())),
        };
        let masters = options.masters.clone();
        let check_interval = options.scanner_check_interval;
        let run = async move {
            let mut tasks = JoinSet::new();
            let node = SharedNode::clone(&common.node);
            tasks.spawn(async move {
                loop {
                    tokio::time::sleep(check_interval).await;
                    let ttl = node.flags.millis("scanner_ttl_ms").unwrap_or(Duration::MAX);
                    node.scanners.expire(Instant::now(), ttl);
                    node.shared.sweep();
                }
            });
            let node = SharedNode::clone(&common.node);
            tasks.spawn(async move {
                loop {
                    node.memory.update(node.tablets.all().iter().map(|replica| replica.bytes()).sum());
                    tokio::time::sleep(MEMORY_CHECK_INTERVAL).await;
                }
            });
            let mut seen = HashSet::new();
            for master in masters.into_iter().filter(|master| seen.insert(master.to_string())) {
                tasks.spawn(Reporter::new(common.clone(), master).run());
            }
            // An error means that the sender is gone, which asks for the same.
            let _ = stopped.await;
            common.messenger.shutdown();
        };
        let thread = std::thread::Builder::new().name("heartbeat".to_owned()).spawn(move || {
            runtime.block_on(run);
            // A name look-up may still hang in a thread of its own.
            runtime.shutdown_background();
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Ends the reports. Blocks for a moment.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It only ends early by a panic, which its own message tells of.
            let _ = thread.join();
        }
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Long enough to cost nothing, short enough that little is written meanwhile.
const MEMORY_CHECK_INTERVAL: Duration = Duration::from_millis(250);
