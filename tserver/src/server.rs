//! The tablet server: services, acceptors and heartbeats put together.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use net_addr::{SockAddr, SystemResolver};
use parking_lot::Mutex;
use rpc_server::Server;
use server_base::data_folder::DataFolder;
use server_base::maintenance::MaintenanceManager;
use server_base::{Listening, ServerClock, ServerIdentity, StartError, durability, info_file};

use crate::TserverOptions;
use crate::bootstrap::{self, Bootstrap};
use crate::commit_wait::CommitWaits;
use crate::heartbeat::Heartbeats;
use crate::memory::MemoryLimit;
use crate::node::Node;
use crate::numbering::Numbering;
use crate::scanner::registry::Scanners;
use crate::scanner::shared::SharedBlocks;
use crate::services;
use crate::storage::{TABLETS, TabletStore};
use crate::tablets::Tablets;

/// A running tablet server. It stops when it is dropped; without `--fs_wal_dir` its rows are gone then.
#[derive(Debug)]
pub struct TabletServer {
    node: Arc<Node>,
    server: Server,
    bound: Vec<SockAddr>,
    unix: Option<SockAddr>,
    heartbeats: Mutex<Heartbeats>,
    bootstrap: Mutex<Bootstrap>,
    /// `None` if tablets live in memory.
    maintenance: Mutex<Option<MaintenanceManager>>,
}

impl TabletServer {
    /// Listens, then reports to the masters, whether they are there yet or not. Tablets on disk are opened meanwhile: calls
    /// for them are told to come again.
    ///
    /// # Errors
    /// [`StartError`]: an address in use, a data folder that cannot be used, or a system out of threads.
    pub fn start(mut options: TserverOptions) -> Result<Self, StartError> {
        // First, since another process that has the folder is the same server.
        let folder = DataFolder::from_flags(&options.flags, TABLETS)?;
        if let Some(folder) = &folder {
            options.identity = ServerIdentity::started(folder.uuid().clone());
        }
        let rpc = &options.rpc;
        let listening =
            Listening::start("TabletServer", rpc, &options.identity, &options.flags, &SystemResolver)?;
        let registration = listening.registration(&options.identity, rpc);
        let clock = ServerClock::new();
        let (threads, queue) = (rpc.service_threads, rpc.queue_length);

        let node = Arc::new(Node {
            identity: options.identity.clone(),
            clock: clock.clone(),
            tablets: Tablets::new(),
            store: folder.map(|folder| {
                let cache_bytes = options.flags.count("block_cache_capacity_mb") << 20;
                TabletStore::new(folder, durability::log_options(&options.flags), cache_bytes)
            }),
            scanners: Scanners::new(),
            numbering: Numbering::default(),
            shared: SharedBlocks::new((options.flags.count("block_cache_capacity_mb") as u64) << 20),
            memory: MemoryLimit::from_flags(&options.flags),
            commit_waits: CommitWaits::start(queue)?,
            quiescing: AtomicBool::new(false),
            flags: options.flags.clone(),
        });
        let used = Arc::downgrade(&node);
        let memory = move || used.upgrade().map(|node| crate::memory::trackers(&node)).unwrap_or_default();
        let generic = listening.generic_service(&options.identity, &options.flags, &clock, Arc::new(memory));
        let Listening { server, bound, unix, .. } = listening;
        // Before anybody can make a tablet: one that a master tells of again would be in the way of what is here of it.
        let to_open = match &node.store {
            Some(store) => bootstrap::find(&node, store)?,
            None => Vec::new(),
        };
        server.register(services::tablet::service(&node, threads, queue))?;
        server.register(services::local_scan::service(&node, LOCAL_THREADS.min(threads), queue))?;
        server.register(services::admin::service(&node, ADMIN_THREADS.min(threads), queue))?;
        server.register(services::consensus::service(&node, queue))?;
        server.register(generic)?;
        let bootstrap = Mutex::new(Bootstrap::start(&node, to_open)?);
        let maintain = |_| MaintenanceManager::start(&node.flags, &node);
        let maintenance = Mutex::new(node.store.as_ref().map(maintain).transpose()?);
        if node.store.is_none() {
            tracing::warn!("no --fs_wal_dir: rows live in memory, they are gone when this server stops");
        }
        server.ready();
        info_file::write(&options.flags, &options.identity.status(&bound))?;
        let heartbeats = Mutex::new(Heartbeats::start(&node, registration, &options)?);
        tracing::info!(uuid = node.uuid(), ?bound, ?unix, "tablet server is up");
        Ok(Self { node, server, bound, unix, heartbeats, bootstrap, maintenance })
    }

    /// 32 hex digits.
    pub fn uuid(&self) -> &str {
        self.node.uuid()
    }

    /// The TCP addresses it listens on, ports filled in, in the order of `--rpc_bind_addresses`.
    pub fn bound_addresses(&self) -> &[SockAddr] {
        &self.bound
    }

    /// The RPC server, for what goes on in it: connections, calls in flight, methods with their histograms, load of reactors.
    pub fn rpc(&self) -> &Server {
        &self.server
    }

    /// The unix socket it listens on, as clients are told: `@kudu-<uuid>`.
    pub fn unix_path(&self) -> Option<String> {
        self.unix.as_ref().and_then(SockAddr::advertised_unix_path)
    }

    /// How many replicas it has whose rows can be read.
    pub fn tablets(&self) -> usize {
        self.node.tablets.count_running()
    }

    /// Stops reporting, listening and serving; calls that run are answered. Blocks for as long as they take. May be called more
    /// than once.
    pub fn shutdown(&self) {
        self.heartbeats.lock().stop();
        self.server.shutdown();
        self.bootstrap.lock().stop();
        *self.maintenance.lock() = None;
        for replica in self.node.tablets.all() {
            if let Some(Err(error)) = replica.running().map(tablet::Tablet::close) {
                tracing::error!(tablet = replica.id(), %error, "a log was not synced at the end");
            }
        }
    }
}

/// Scans that copy next to nothing.
const LOCAL_THREADS: usize = 4;
/// Creating and deleting is quick.
const ADMIN_THREADS: usize = 2;
