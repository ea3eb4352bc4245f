//! A running master.

use std::sync::Arc;
use std::time::Instant;

use net_addr::{CachingResolver, LocalAddresses, Resolver, SockAddr, SystemResolver};
use parking_lot::Mutex;
use rpc_server::{BindError, Server};
use server_base::acl::{AccessRules, process_user};
use server_base::data_folder::{DataFolder, DataFolderError};
use server_base::info_file::{self, InfoFileError};
use server_base::{GenericService, ServerClock, ServerIdentity, ServerUuid, advertise, durability};
use tablet::Storage;
use thiserror::Error;
use tokio::sync::watch;

use crate::catalog::Catalog;
use crate::catalog::store::{Store, StoreError};
use crate::driver::{Driver, Running};
use crate::options::MasterOptions;
use crate::services::{self, Context};

/// A master that serves until [`shutdown`](Self::shutdown), or until it is dropped.
#[derive(Debug)]
pub struct Master {
    identity: ServerIdentity,
    server: Server,
    driver: Mutex<Running>,
    context: Arc<Context>,
    /// Locked as long as the master is there.
    _folder: Option<DataFolder>,
}

/// Why a master does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// It cannot listen where it should.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The file that is to tell where the master listens.
    #[error(transparent)]
    InfoFile(#[from] InfoFileError),
    /// The folder of what has to last cannot be used.
    #[error("--fs_wal_dir: {0}")]
    DataFolder(#[from] DataFolderError),
    /// The tables in it cannot be read.
    #[error("--fs_wal_dir: {0}")]
    Catalog(#[from] StoreError),
    /// The system gives no threads or descriptors.
    #[error("cannot start the master's threads: {0}")]
    Threads(#[from] std::io::Error),
}

impl StartError {
    /// True if the same start may work later.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Bind(error) => error.is_retriable(),
            Self::DataFolder(error) => error.is_retriable(),
            Self::Catalog(error) => error.is_retriable(),
            Self::InfoFile(_) => false,
            Self::Threads(_) => true,
        }
    }
}

impl Master {
    /// Listens and serves. Returns when the first call would be answered. Blocks while it looks up its own name, which it
    /// does only when it is to listen on all interfaces.
    pub fn start(options: MasterOptions) -> Result<Master, StartError> {
        // First, since another process that has the folder is the same server.
        let folder = DataFolder::from_flags(&options.flags, CATALOG)?;
        let uuid = folder.as_ref().map(|folder| folder.uuid().clone()).or_else(|| options.uuid.clone());
        let uuid = uuid.unwrap_or_else(ServerUuid::random);
        let (catalog, cluster_id) = open_catalog(folder.as_ref(), &options)?;
        let identity = ServerIdentity::started(uuid);
        let rpc = &options.rpc;
        let mut builder = Server::builder()
            .name("Master")
            .reactors(rpc.reactors)
            .options(rpc.connection_options())
            .authorizer(AccessRules::from_flags(&options.flags).authorizer());
        for address in &rpc.bind {
            builder = builder.bind(address.clone());
        }
        let (direct, extra) =
            (rpc.bind.len(), options.proxied.iter().filter(|address| !rpc.bind.contains(address)));
        for address in extra {
            builder = builder.bind(address.clone());
        }
        if rpc.unix_socket {
            builder = builder.bind_unix(&identity.unix_socket());
        }
        let server = builder.start()?;
        let bound = server.bound_addresses().to_vec();
        let resolver: Arc<dyn Resolver> = Arc::new(CachingResolver::new(SystemResolver, NAMES_TTL));
        // Addresses for proxies are told to those who come by them, not to everybody.
        let own = bound.get(..direct).unwrap_or(&bound);
        let advertised = advertise::rpc_addresses(own, &rpc.advertised, LocalAddresses::system(), &*resolver);
        let driver = Driver::new()?;
        let context = Arc::new(Context {
            identity: identity.clone(),
            cluster_id,
            advertised,
            unix: bound.iter().find(|address| address.is_unix()).cloned(),
            catalog: Mutex::new(catalog),
            driver: driver.handle(),
            registered: watch::channel(0).0,
            options,
        });
        let flags = context.options.flags.clone();
        let generic = GenericService {
            identity: identity.clone(),
            flags,
            clock: ServerClock::new(),
            bound: bound.clone(),
        };
        server.register(generic.into_service())?;
        server.register(services::master_service(&context))?;
        server.register(services::consensus_service(&context))?;
        let driver = driver.start(Arc::clone(&context), process_user(), resolver)?;
        server.ready();
        info_file::write(&context.options.flags, &identity.status(&bound))?;
        tracing::info!(uuid = %identity.uuid(), ?bound, "the master serves");
        Ok(Master { identity, server, driver: Mutex::new(driver), context, _folder: folder })
    }

    /// Its id.
    pub fn uuid(&self) -> &str {
        self.identity.uuid().as_str()
    }

    /// Where it listens: bound addresses first, then those for proxies, then the unix socket.
    pub fn bound_addresses(&self) -> &[SockAddr] {
        self.server.bound_addresses()
    }

    /// The RPC server, for its counters.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Stops listening, ends running calls, closes connections. Its addresses are free afterwards. May be called twice.
    pub fn shutdown(&self) {
        self.driver.lock().stop();
        self.server.shutdown();
        self.context.catalog.lock().close();
    }
}

/// The catalog in `folder`, or an empty one that is forgotten, and the id of the cluster.
fn open_catalog(
    folder: Option<&DataFolder>,
    options: &MasterOptions,
) -> Result<(Catalog, String), StoreError> {
    let fresh_id = ServerUuid::random().to_string();
    let (limits, random) = (options.limits.clone(), fastrand::Rng::new());
    let Some(folder) = folder else { return Ok((Catalog::new(limits, random), fresh_id)) };
    let log = durability::log_options(&options.flags);
    let storage = Storage { backend: Arc::clone(folder.backend()), folder: CATALOG.into(), log };
    Catalog::restore(limits, random, Store::open(storage)?, &fresh_id, Instant::now())
}

impl Drop for Master {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// The folder of the catalog's log in a data folder.
const CATALOG: &str = "catalog";
const NAMES_TTL: std::time::Duration = std::time::Duration::from_secs(15);
