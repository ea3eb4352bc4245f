//! A running master.

use std::sync::Arc;
use std::time::Instant;

use net_addr::{SockAddr, SystemResolver};
use parking_lot::Mutex;
use rpc_server::Server;
use server_base::acl::process_user;
use server_base::data_folder::DataFolder;
use server_base::maintenance::MaintenanceManager;
use server_base::{Listening, ServerClock, ServerIdentity, ServerUuid, StartError, durability, info_file};
use tablet::{BlockCache, Storage};
use tokio::sync::{Semaphore, watch};

use crate::catalog::Catalog;
use crate::catalog::store::{Store, StoreError};
use crate::driver::{Driver, Names, Running};
use crate::maintenance::CatalogTablet;
use crate::options::MasterOptions;
use crate::services::{self, Context};

/// A master that serves until [`shutdown`](Self::shutdown), or until it is dropped.
#[derive(Debug)]
pub struct Master {
    server: Server,
    bound: Vec<SockAddr>,
    driver: Mutex<Running>,
    /// `None` if the catalog is nowhere.
    maintenance: Mutex<Option<MaintenanceManager>>,
    context: Arc<Context>,
    /// Locked as long as the master is there.
    _folder: Option<DataFolder>,
}

impl Master {
    /// Listens and serves. Returns when the first call would be answered. Blocks while it looks up its own name, which it
    /// does only when it is to listen on all interfaces.
    ///
    /// # Errors
    /// [`StartError`]: an address in use, a data folder that cannot be used, or a system out of threads.
    pub fn start(mut options: MasterOptions) -> Result<Master, StartError> {
        // First, since another process that has the folder is the same server.
        let folder = DataFolder::from_flags(&options.flags, CATALOG)?;
        if let Some(folder) = &folder {
            options.identity = ServerIdentity::started(folder.uuid().clone());
        }
        let clock = ServerClock::new();
        let (catalog, cluster_id) = open_catalog(folder.as_ref(), &options, &clock)?;
        let (identity, flags) = (options.identity.clone(), options.flags.clone());
        let resolver = Arc::new(Names::new(SystemResolver, NAMES_TTL));
        let listening = Listening::start("Master", &options.rpc, &identity, &flags, &*resolver)?;
        let (proxied, unix, advertised) =
            (listening.proxied.clone(), listening.unix.clone(), listening.advertised.clone());
        let driver = Driver::new()?;
        let context = Arc::new(Context {
            identity: identity.clone(),
            cluster_id,
            // Addresses for proxies are told to those who come by them, not to everybody.
            advertised,
            proxied,
            unix: unix.clone(),
            catalog: Mutex::new(catalog),
            driver: driver.handle(),
            waiting_creates: Arc::new(Semaphore::new(options.rpc.queue_length)),
            registered: watch::channel(0).0,
            options,
        });
        let used = Arc::downgrade(&context);
        let memory =
            move || used.upgrade().map(|context| context.catalog.lock().trackers()).unwrap_or_default();
        let generic = listening.generic_service(&identity, &flags, &clock, Arc::new(memory));
        let Listening { server, bound, .. } = listening;
        server.register(generic)?;
        server.register(services::master_service(&context))?;
        server.register(services::consensus_service(&context))?;
        let maintain =
            || MaintenanceManager::start(&flags, &Arc::new(CatalogTablet::new(Arc::clone(&context))));
        let maintenance = Mutex::new(folder.is_some().then(maintain).transpose()?);
        let driver = driver.start(Arc::clone(&context), process_user(), resolver)?;
        if folder.is_none() {
            tracing::warn!("no --fs_wal_dir: tables live in memory, they are gone when this server stops");
        }
        server.ready();
        info_file::write(&flags, &context.identity.status(&bound))?;
        tracing::info!(uuid = %context.identity.uuid(), ?bound, ?unix, "the master serves");
        Ok(Master { server, bound, driver: Mutex::new(driver), maintenance, context, _folder: folder })
    }

    /// 32 hex digits.
    pub fn uuid(&self) -> &str {
        self.context.identity.uuid().as_str()
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
        self.context.unix.as_ref().and_then(SockAddr::advertised_unix_path)
    }

    /// Stops listening, ends running calls, closes connections. Its addresses are free afterwards. May be called twice.
    pub fn shutdown(&self) {
        self.driver.lock().stop();
        self.server.shutdown();
        *self.maintenance.lock() = None;
        self.context.catalog.lock().close();
    }
}

/// The catalog in `folder`, or an empty one that is forgotten, and the id of the cluster.
fn open_catalog(
    folder: Option<&DataFolder>,
    options: &MasterOptions,
    clock: &ServerClock,
) -> Result<(Catalog, String), StoreError> {
    let fresh_id = ServerUuid::random().to_string();
    let (limits, random) = (options.limits.clone(), fastrand::Rng::new());
    let Some(folder) = folder else { return Ok((Catalog::new(limits, random), fresh_id)) };
    let log = durability::log_options(&options.flags);
    let cache = Arc::new(BlockCache::new(0));
    let storage = Storage { backend: Arc::clone(folder.backend()), folder: CATALOG.into(), log, cache };
    Catalog::restore(
        limits,
        random,
        Store::open(storage, Arc::clone(clock.hybrid()))?,
        &fresh_id,
        Instant::now(),
    )
}

impl Drop for Master {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// The folder of the catalog's log in a data folder.
const CATALOG: &str = "catalog";
const NAMES_TTL: std::time::Duration = std::time::Duration::from_secs(15);
