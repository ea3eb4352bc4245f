//! The RPC services of the master: each handler reads the catalog, answers, and leaves the rest to the driver.

mod alter;
mod cluster;
mod consensus;
mod heartbeat;
mod locations;
mod operators;
mod tables;

use std::sync::Arc;
use std::time::Instant;

use net_addr::{HostPort, SockAddr};
use parking_lot::Mutex;
use proto::kudu::{HostPortPb, ServerRegistrationPb};
use proto::methods::{consensus_service as c, master_service as m};
use rpc_core::ConnectionInfo;
use rpc_server::Service;
use server_base::ServerIdentity;
use tokio::sync::{Semaphore, watch};

use crate::catalog::Catalog;
use crate::driver::DriverHandle;
use crate::options::MasterOptions;

/// What all handlers share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) identity: ServerIdentity,
    pub(crate) cluster_id: String,
    pub(crate) options: MasterOptions,
    /// What clients are told that come by the bound addresses.
    pub(crate) advertised: Vec<HostPort>,
    /// Where clients arrive that come through a proxy.
    pub(crate) proxied: Vec<SockAddr>,
    /// The unix socket among the bound addresses.
    pub(crate) unix: Option<SockAddr>,
    pub(crate) catalog: Mutex<Catalog>,
    pub(crate) driver: DriverHandle,
    /// A permit for each CreateTable that may wait for the first tablet server.
    pub(crate) waiting_creates: Arc<Semaphore>,
    /// How many tablet servers have registered.
    pub(crate) registered: watch::Sender<usize>,
}

impl Context {
    /// Whether the client has come through a proxy and so needs other addresses than the rest.
    fn by_proxy(&self, connection: &ConnectionInfo) -> bool {
        let here = &connection.local;
        let is =
            |proxied: &SockAddr| proxied == here || proxied.is_wildcard() && proxied.port() == here.port();
        self.proxied.iter().any(is)
    }

    fn addresses(&self, connection: &ConnectionInfo) -> Vec<HostPort> {
        if self.by_proxy(connection) {
            self.options.rpc.proxy_advertised.clone()
        } else {
            self.advertised.clone()
        }
    }

    fn registration(&self, connection: &ConnectionInfo) -> ServerRegistrationPb {
        self.identity.registration(&self.addresses(connection), self.unix.as_ref())
    }

    /// A tablet server as a client on `connection` is to see it; `None` if that client cannot reach it.
    fn seen_from(
        &self,
        connection: &ConnectionInfo,
        server: &ServerRegistrationPb,
    ) -> Option<ServerRegistrationPb> {
        let mut seen = server.clone();
        if self.by_proxy(connection) {
            if seen.rpc_proxy_addresses.is_empty() {
                return None;
            }
            seen.rpc_addresses = std::mem::take(&mut seen.rpc_proxy_addresses);
            seen.http_addresses = std::mem::take(&mut seen.http_proxy_addresses);
            // It is of no use on the other side of a proxy.
            seen.unix_domain_socket_path = None;
        }
        Some(seen)
    }
}

fn host_ports(addresses: Vec<HostPort>) -> Vec<HostPortPb> {
    addresses.into_iter().map(server_base::host_port_pb).collect()
}

/// `kudu.master.MasterService`.
pub(crate) fn master_service(context: &Arc<Context>) -> Service {
    let options = &context.options;
    let mut features: Vec<u32> = (1..=11).collect();
    features.retain(|feature| !options.withheld_features.contains(feature));
    macro_rules! handler {
        ($handle:expr) => {{
            let context = Arc::clone(context);
            move |call| $handle(&context, call)
        }};
    }
    Service::builder(m::SERVICE)
        .features(&features)
        .threads(options.rpc.service_threads)
        .queue_length(options.rpc.queue_length)
        .function::<m::Ping>(|_| Default::default())
        .cheap::<m::ConnectToMaster>(handler!(cluster::connect))
        .cheap::<m::GetMasterRegistration>(handler!(cluster::registration))
        .cheap::<m::ListMasters>(handler!(cluster::list_masters))
        .method::<m::ListTabletServers>(handler!(cluster::list_tablet_servers))
        .method::<m::TSHeartbeat>(handler!(heartbeat::receive))
        .method::<m::CreateTable>(handler!(tables::create))
        .method::<m::IsCreateTableDone>(handler!(tables::is_create_done))
        .method::<m::DeleteTable>(handler!(tables::delete))
        .method::<m::RecallDeletedTable>(handler!(tables::recall))
        .method::<m::ListInFlightTables>(handler!(tables::list_in_flight))
        .method::<m::ListTables>(handler!(tables::list))
        .method::<m::GetTableSchema>(handler!(tables::schema))
        .method::<m::AlterTable>(handler!(alter::alter))
        .method::<m::IsAlterTableDone>(handler!(alter::is_done))
        .method::<m::GetTableStatistics>(handler!(tables::statistics))
        .method::<m::ChangeTServerState>(handler!(operators::change_state))
        .method::<m::UnregisterTServer>(handler!(operators::unregister))
        .method::<m::ReplaceTablet>(handler!(operators::replace_tablet))
        .cheap::<m::RefreshAuthzCache>(handler!(operators::refresh_authz_cache))
        .cheap::<m::AddMaster>(handler!(operators::add_master))
        .cheap::<m::RemoveMaster>(handler!(operators::remove_master))
        .method::<m::GetTableLocations>(handler!(locations::of_table))
        .method::<m::GetTabletLocations>(handler!(locations::of_tablets))
        .build()
}

/// `kudu.consensus.ConsensusService`: as much of it as tools ask of a master.
pub(crate) fn consensus_service(context: &Arc<Context>) -> Service {
    let context = Arc::clone(context);
    Service::builder(c::SERVICE)
        .cheap::<c::GetConsensusState>(move |call| consensus::state(&context, call))
        .build()
}

fn now() -> Instant {
    Instant::now()
}

/// Seconds since the Unix epoch.
fn seconds() -> u64 {
    server_base::physical_micros() / 1_000_000
}
