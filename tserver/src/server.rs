//! The tablet server: services, acceptors and heartbeats put together.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use net_addr::{HostPort, LocalAddresses, SockAddr, SystemResolver};
use parking_lot::Mutex;
use rpc_server::Server;
use server_base::acl::AccessRules;
use server_base::data_folder::DataFolder;
use server_base::{
    GenericService, ServerClock, ServerIdentity, advertise, durability, host_port_pb, info_file,
};

use crate::heartbeat::Heartbeats;
use crate::memory::MemoryLimit;
use crate::node::Node;
use crate::scanner::registry::Scanners;
use crate::services;
use crate::storage::{TABLETS, TabletStore};
use crate::tablets::Tablets;
use crate::upkeep::{self, Upkeep};
use crate::{StartError, TserverOptions};

/// A running tablet server. It stops when it is dropped; without `--fs_wal_dir` its rows are gone then.
#[derive(Debug)]
pub struct TabletServer {
    node: Arc<Node>,
    server: Server,
    bound: Vec<SockAddr>,
    unix: Option<SockAddr>,
    heartbeats: Mutex<Heartbeats>,
    upkeep: Mutex<Upkeep>,
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
        let mut builder = Server::builder()
            .name("TabletServer")
            .reactors(rpc.reactors)
            .options(rpc.connection_options())
            .authorizer(AccessRules::from_flags(&options.flags).authorizer());
        for address in rpc.bind.iter().chain(&options.proxied) {
            builder = builder.bind(address.clone());
        }
        if rpc.unix_socket {
            builder = builder.bind_unix(&options.identity.unix_socket());
        }
        let server = builder.start()?;

        let (own, others) = server.bound_addresses().split_at(rpc.bind.len());
        let (proxied, unix) = others.split_at(options.proxied.len());
        let (bound, unix) = (own.to_vec(), unix.first().cloned());
        let advertised = |bound: &[SockAddr], given: &[HostPort]| {
            advertise::rpc_addresses(bound, given, LocalAddresses::system(), &SystemResolver)
        };
        // Who names addresses to advertise names all of them.
        let unix_to_tell = unix.as_ref().filter(|_| rpc.advertised.is_empty());
        let mut registration =
            options.identity.registration(&advertised(&bound, &rpc.advertised), unix_to_tell);
        registration.rpc_proxy_addresses =
            advertised(proxied, &options.proxy_advertised).into_iter().map(host_port_pb).collect();
        if proxied.is_empty() {
            registration.rpc_proxy_addresses.clear();
        }

        let node = Arc::new(Node {
            identity: options.identity.clone(),
            clock: ServerClock::new(),
            tablets: Tablets::new(),
            store: folder.map(|folder| TabletStore::new(folder, durability::log_options(&options.flags))),
            scanners: Scanners::new(options.scanner_ttl),
            memory: MemoryLimit::from_flags(&options.flags),
            quiescing: AtomicBool::new(false),
            flags: options.flags.clone(),
        });
        let generic = GenericService {
            identity: options.identity.clone(),
            flags: options.flags.clone(),
            clock: node.clock.clone(),
            bound: bound.clone(),
        };
        let (threads, queue) = (rpc.service_threads, rpc.queue_length);
        server.register(services::tablet::service(&node, threads, queue))?;
        server.register(services::admin::service(&node, ADMIN_THREADS.min(threads), queue))?;
        server.register(services::consensus::service(&node))?;
        server.register(generic.into_service())?;
        let to_open = match &node.store {
            Some(store) => upkeep::find(&node, store)?,
            None => Vec::new(),
        };
        let upkeep = Mutex::new(Upkeep::start(&node, to_open, &server.answers())?);
        server.ready();
        info_file::write(&options.flags, &options.identity.status(&bound))?;
        let heartbeats = Mutex::new(Heartbeats::start(&node, registration, &options)?);
        tracing::info!(uuid = node.uuid(), ?bound, ?unix, "tablet server is up");
        Ok(Self { node, server, bound, unix, heartbeats, upkeep })
    }

    /// 32 hex digits.
    pub fn uuid(&self) -> &str {
        self.node.uuid()
    }

    /// The TCP addresses it listens on, ports filled in, in the order of `--rpc_bind_addresses`.
    pub fn bound_addresses(&self) -> &[SockAddr] {
        &self.bound
    }

    /// The unix socket it listens on, as clients are told: `@kudu-<uuid>`.
    pub fn unix_path(&self) -> Option<String> {
        self.unix.as_ref().and_then(SockAddr::advertised_unix_path)
    }

    /// How many replicas it has whose rows can be read.
    pub fn tablets(&self) -> usize {
        self.node.tablets.all().iter().filter(|replica| replica.running().is_some()).count()
    }

    /// Stops reporting, listening and serving; calls that run are answered. Blocks for as long as they take. May be called more
    /// than once.
    pub fn shutdown(&self) {
        self.heartbeats.lock().stop();
        self.server.shutdown();
        self.upkeep.lock().stop();
        for replica in self.node.tablets.all() {
            if let Some(Err(error)) = replica.running().map(tablet::Tablet::close) {
                tracing::error!(tablet = replica.id(), %error, "a log was not synced at the end");
            }
        }
    }
}

/// Creating and deleting is quick.
const ADMIN_THREADS: usize = 2;
