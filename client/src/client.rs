//! The client: what all its tables, sessions and scans share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use meta_cache::{MetaCache, StatsSnapshot};
use net_addr::HostPort;
use proto::kudu::master::{
    DeleteTableRequestPb, GetTableStatisticsRequestPb, ListTablesRequestPb, ListTabletServersRequestPb,
    RecallDeletedTableRequestPb, TableIdentifierPb,
};
use proto::methods::master_service::{
    DeleteTable, GetTableStatistics, ListTables, ListTabletServers, RecallDeletedTable,
};
use rpc_core::{Messenger, Method};
use schema::Timestamp;

use crate::alter::TableAlterer;
use crate::builder::{ClientBuilder, Options};
use crate::connect::Masters;
use crate::create::TableCreator;
use crate::error::{ConnectError, MasterError, OpenTableError};
use crate::names::Names;
use crate::requests::Requests;
use crate::retry::Deadline;
use crate::scan::memory::Memories;
use crate::session::SessionBuilder;
use crate::table::Table;

/// A connection to a cluster. Cheap to clone; all clones share connections, the cache of locations and the clock.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Client")
            .field("masters", &self.shared.masters.to_string())
            .finish_non_exhaustive()
    }
}

pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) messenger: Messenger,
    pub(crate) names: Names,
    pub(crate) masters: Masters,
    pub(crate) cache: MetaCache,
    pub(crate) requests: Arc<Requests>,
    observed: AtomicU64,
    pub(crate) memories: Memories,
}

/// One row of [`Client::list_tables`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableInfo {
    /// The table's id, 32 hex digits. Survives a rename.
    pub id: String,
    /// Its name.
    pub name: String,
    /// How many rows it holds, when the master knows.
    pub live_row_count: Option<u64>,
    /// How many tablets it has.
    pub tablets: u32,
    /// How many replicas each tablet has.
    pub replicas: u32,
}

/// One row of [`Client::list_tablet_servers`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TabletServerInfo {
    /// The server's id, 32 hex digits.
    pub uuid: String,
    /// Its RPC addresses.
    pub addresses: Vec<HostPort>,
    /// The unix socket it advertises.
    pub unix_path: Option<String>,
    /// For how long the master has not heard of it.
    pub since_heartbeat: Duration,
    /// Where it stands, empty when the cluster assigns no locations.
    pub location: String,
}

/// How big a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStatistics {
    /// Bytes on disk over all replicas, when the master knows.
    pub on_disk_size: Option<u64>,
    /// Rows, as the leaders last reported, when the master knows; lags behind writes by some seconds.
    pub live_row_count: Option<u64>,
    /// Bytes on disk that it is to have at most.
    pub disk_size_limit: Option<u64>,
    /// Rows that it is to have at most.
    pub row_count_limit: Option<u64>,
}

impl Client {
    /// Connects to a cluster: `host:port` of its masters, separated by commas; the port may be left out (7051).
    ///
    /// # Errors
    /// See [`ClientBuilder::connect`]. **Cancel safe.**
    pub async fn connect(masters: impl Into<String>) -> Result<Client, ConnectError> {
        Client::builder(masters).connect().await
    }

    /// As [`connect`](Self::connect), with options.
    pub fn builder(masters: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(masters.into())
    }

    pub(crate) async fn connect_to(
        masters: Vec<HostPort>,
        mut options: Options,
    ) -> Result<Client, ConnectError> {
        let mut messenger = Messenger::builder().negotiation_timeout(options.negotiation_timeout);
        if let Some(user) = &options.user {
            messenger = messenger.user(user.clone());
        }
        messenger = messenger.descriptors(options.shared_memory);
        if let Some(size) = options.max_message_size {
            messenger = messenger.max_message_size(size);
        }
        let messenger = messenger.build();
        let names = Names::new(options.resolver.clone(), options.resolver_ttl);
        let masters = Masters::new(masters);
        let deadline = Deadline::after(options.admin_timeout);
        let location = masters.connect(&messenger, &names, &options, &deadline).await?;
        if options.location.is_empty() {
            options.location = location;
        }
        let mut cache_options = meta_cache::Options::default();
        cache_options.use_unix_domain_sockets = options.use_unix_domain_sockets;
        cache_options.unix_retry_after = options.unix_retry_after;
        cache_options.location = options.location.clone();
        let observed = AtomicU64::new(options.propagated_timestamp.0);
        let cache = MetaCache::new(cache_options);
        let shared = Shared {
            options,
            messenger,
            names,
            masters,
            cache,
            requests: Requests::new(),
            observed,
            memories: Memories::default(),
        };
        Ok(Client { shared: Arc::new(shared) })
    }

    /// The tables whose names contain `filter`; all with an empty one. In the master's order.
    ///
    /// # Errors
    /// [`MasterError`]. **Cancel safe.**
    pub async fn list_tables(&self, filter: &str) -> Result<Vec<TableInfo>, MasterError> {
        self.list(filtered(filter)).await
    }

    async fn list(&self, request: ListTablesRequestPb) -> Result<Vec<TableInfo>, MasterError> {
        let answer = self.ask_master::<ListTables>(&request, "").await?;
        let info = |table: proto::kudu::master::list_tables_response_pb::TableInfo| TableInfo {
            id: text(&table.id),
            live_row_count: table.live_row_count,
            tablets: count(table.num_tablets()),
            replicas: count(table.num_replicas()),
            name: table.name,
        };
        Ok(answer.tables.into_iter().map(info).collect())
    }

    /// The tablet servers that the leading master knows.
    ///
    /// # Errors
    /// [`MasterError`]. **Cancel safe.**
    pub async fn list_tablet_servers(&self) -> Result<Vec<TabletServerInfo>, MasterError> {
        let answer = self.ask_master::<ListTabletServers>(&ListTabletServersRequestPb::default(), "").await?;
        let info = |server: proto::kudu::master::list_tablet_servers_response_pb::Entry| {
            let registration = server.registration.clone().unwrap_or_default();
            TabletServerInfo {
                uuid: text(&server.instance_id.permanent_uuid),
                addresses: registration.rpc_addresses.iter().map(host_port).collect(),
                unix_path: registration.unix_domain_socket_path.clone(),
                since_heartbeat: Duration::from_millis(count(server.millis_since_heartbeat()).into()),
                location: server.location().to_owned(),
            }
        };
        Ok(answer.servers.into_iter().map(info).collect())
    }

    /// Starts the definition of a new table.
    pub fn create_table(&self, name: impl Into<String>, schema: schema::Schema) -> TableCreator {
        TableCreator::new(self.clone(), name.into(), schema)
    }

    /// Starts changes to a table.
    pub fn alter_table(&self, name: impl Into<String>) -> TableAlterer {
        let name = name.into();
        TableAlterer::new(self.clone(), by_name(&name), name)
    }

    /// As [`alter_table`](Self::alter_table), by the table's id.
    pub fn alter_table_by_id(&self, id: impl Into<String>) -> TableAlterer {
        let id = id.into();
        TableAlterer::new(self.clone(), by_id(&id), id)
    }

    /// Opens a table. The handle stays with this very table (by its id), whatever happens to the name.
    ///
    /// # Errors
    /// [`OpenTableError`]. **Cancel safe.**
    pub async fn open_table(&self, name: &str) -> Result<Table, OpenTableError> {
        let deadline = Deadline::after(self.shared.options.admin_timeout);
        Table::open(self, by_name(name), name, &deadline).await
    }

    /// Opens a table by its id.
    ///
    /// # Errors
    /// [`OpenTableError`]. **Cancel safe.**
    pub async fn open_table_by_id(&self, id: &str) -> Result<Table, OpenTableError> {
        let deadline = Deadline::after(self.shared.options.admin_timeout);
        Table::open(self, by_id(id), id, &deadline).await
    }

    /// Whether a table of this name exists.
    ///
    /// # Errors
    /// [`MasterError`], but not for a table that does not exist. **Cancel safe.**
    pub async fn table_exists(&self, name: &str) -> Result<bool, MasterError> {
        let deadline = Deadline::after(self.shared.options.admin_timeout);
        match Table::describe(self, by_name(name), name, &deadline).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_table_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes a table. When this returns no look-up finds it any more.
    ///
    /// # Errors
    /// [`MasterError`]. Cancelled, the table may or may not be deleted.
    pub async fn delete_table(&self, name: &str) -> Result<(), MasterError> {
        let request = DeleteTableRequestPb { table: by_name(name), ..Default::default() };
        self.ask_master::<DeleteTable>(&request, name).await.map(drop)
    }

    /// Deletes a table, but keeps it for `reserve`, in which it can be [recalled](Self::recall_table). It is not listed any
    /// more, its name stays taken, and who knows it can still use it.
    ///
    /// # Errors
    /// [`MasterError`]. Cancelled, the table may or may not be deleted.
    pub async fn soft_delete_table(&self, name: &str, reserve: Duration) -> Result<(), MasterError> {
        // Less than a second would be forever gone at once.
        let seconds = u32::try_from(reserve.as_secs()).unwrap_or(u32::MAX).max(1);
        let request = DeleteTableRequestPb {
            table: by_name(name),
            reserve_seconds: Some(seconds),
            ..Default::default()
        };
        self.ask_master::<DeleteTable>(&request, name).await.map(drop)
    }

    /// The tables that can be recalled and whose names contain `filter`.
    ///
    /// # Errors
    /// [`MasterError`]. **Cancel safe.**
    pub async fn list_soft_deleted_tables(&self, filter: &str) -> Result<Vec<TableInfo>, MasterError> {
        self.list(ListTablesRequestPb { show_soft_deleted: Some(true), ..filtered(filter) }).await
    }

    /// Brings back a table that was [deleted softly](Self::soft_delete_table), by its id, under another name if wanted.
    ///
    /// # Errors
    /// [`MasterError`]. Cancelled, the table may or may not be back.
    pub async fn recall_table(&self, id: &str, new_name: Option<&str>) -> Result<(), MasterError> {
        let new_table_name = new_name.map(str::to_owned);
        let request = RecallDeletedTableRequestPb { table: by_id(id), new_table_name };
        self.ask_master::<RecallDeletedTable>(&request, id).await.map(drop)
    }

    /// How big a table is.
    ///
    /// # Errors
    /// [`MasterError`]. **Cancel safe.**
    pub async fn table_statistics(&self, name: &str) -> Result<TableStatistics, MasterError> {
        let request = GetTableStatisticsRequestPb { table: by_name(name) };
        let answer = self.ask_master::<GetTableStatistics>(&request, name).await?;
        // The master says -1 for what it does not know.
        let known = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        Ok(TableStatistics {
            on_disk_size: known(answer.on_disk_size),
            live_row_count: known(answer.live_row_count),
            disk_size_limit: known(answer.disk_size_limit),
            row_count_limit: known(answer.row_count_limit),
        })
    }

    /// A session for writes.
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder::new(self.clone())
    }

    /// The newest timestamp that this client has seen. Hand it to another client's
    /// [`propagated_timestamp`](ClientBuilder::propagated_timestamp) or [`observe`](Self::observe).
    pub fn latest_observed_timestamp(&self) -> Timestamp {
        Timestamp(self.shared.observed.load(Ordering::Acquire))
    }

    /// Takes note of a timestamp that another client has seen.
    pub fn observe(&self, timestamp: Timestamp) {
        self.shared.observe(Some(timestamp.0));
    }

    /// The id under which the cluster knows this client's writes: 32 hex digits.
    pub fn client_id(&self) -> &str {
        self.shared.requests.client_id()
    }

    /// The cluster's id, when its master tells it.
    pub fn cluster_id(&self) -> Option<String> {
        self.shared.masters.cluster_id()
    }

    /// What the cache of locations did, and how often unix sockets and TCP were chosen.
    pub fn location_stats(&self) -> StatsSnapshot {
        self.shared.cache.stats().snapshot()
    }

    async fn ask_master<M>(&self, request: &M::Request, about: &str) -> Result<M::Response, MasterError>
    where
        M: Method,
        M::Response: crate::connect::MasterAnswer,
    {
        let deadline = Deadline::after(self.shared.options.admin_timeout);
        self.shared.ask_master::<M>(request, &[], about, &deadline).await
    }
}

fn filtered(filter: &str) -> ListTablesRequestPb {
    let name_filter = (!filter.is_empty()).then(|| filter.to_owned());
    ListTablesRequestPb { name_filter, ..Default::default() }
}

impl Shared {
    pub(crate) fn observe(&self, timestamp: Option<u64>) {
        if let Some(timestamp) = timestamp {
            self.observed.fetch_max(timestamp, Ordering::AcqRel);
        }
    }

    /// What to send as `propagated_timestamp`.
    pub(crate) fn observed(&self) -> Option<u64> {
        Some(self.observed.load(Ordering::Acquire)).filter(|timestamp| *timestamp > 0)
    }
}

pub(crate) fn by_name(name: &str) -> TableIdentifierPb {
    TableIdentifierPb { table_name: Some(name.to_owned()), ..Default::default() }
}

pub(crate) fn by_id(id: &str) -> TableIdentifierPb {
    TableIdentifierPb { table_id: Some(id.as_bytes().to_vec().into()), ..Default::default() }
}

/// Numbers of things are never negative; from a broken server they count as none.
pub(crate) fn count(number: i32) -> u32 {
    number.try_into().unwrap_or(0)
}

/// Ids are ASCII; whatever else a server sends is shown as well as can be.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn host_port(message: &proto::kudu::HostPortPb) -> HostPort {
    HostPort { host: message.host.clone(), port: u16::try_from(message.port).unwrap_or(0) }
}
