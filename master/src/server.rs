//! A running master.

use std::sync::Arc;

use net_addr::{CachingResolver, LocalAddresses, Resolver, SockAddr, SystemResolver};
use parking_lot::Mutex;
use rpc_server::{BindError, Server};
use server_base::acl::{AccessRules, process_user};
use server_base::info_file::{self, InfoFileError};
use server_base::{GenericService, ServerClock, ServerIdentity, ServerUuid, advertise};
use thiserror::Error;
use tokio::sync::watch;

use crate::catalog::Catalog;
use crate::driver::{Driver, Running};
use crate::options::MasterOptions;
use crate::services::{self, Context};

/// A master that serves until [`shutdown`](Self::shutdown), or until it is dropped.
#[derive(Debug)]
pub struct Master {
    identity: ServerIdentity,
    server: Server,
    driver: Mutex<Running>,
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
    /// The system gives no threads or descriptors.
    #[error("cannot start the master's threads: {0}")]
    Threads(#[from] std::io::Error),
}

impl StartError {
    /// True if the same start may work later.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Bind(error) => error.is_retriable(),
            Self::InfoFile(_) => false,
            Self::Threads(_) => true,
        }
    }
}

impl Master {
    /// Listens and serves. Returns when the first call would be answered. Blocks while it looks up its own name, which it
    /// does only when it is to listen on all interfaces.
    pub fn start(options: MasterOptions) -> Result<Master, StartError> {
        let uuid = options.uuid.clone().unwrap_or_else(ServerUuid::random);
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
            cluster_id: ServerUuid::random().to_string(),
            advertised,
            unix: bound.iter().find(|address| address.is_unix()).cloned(),
            catalog: Mutex::new(Catalog::new(options.limits.clone(), fastrand::Rng::new())),
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
        Ok(Master { identity, server, driver: Mutex::new(driver) })
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
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        self.shutdown();
    }
}

const NAMES_TTL: std::time::Duration = std::time::Duration::from_secs(15);
