//! From a token to the scan that it is a part of.

use std::time::{Duration, Instant};

use meta_cache::{Answer, ReplicaAnswer, ServerAnswer, TabletAnswer};
use proto::kudu::client::{ScanTokenPb, TabletMetadataPb};
use proto::kudu::{
    ColumnPredicatePb, ColumnSchemaPb, ReadMode as WireReadMode, ReplicaSelection as WireSelection,
};
use schema::partition::KeyRange;
use schema::wire::data_type_from_number;
use schema::wire::predicate::predicate_from_pb;
use schema::{ColumnId, DataType, Predicate, PredicateError, Timestamp};

use super::{ScanToken, ScanTokenError};
use crate::client::{Client, host_port, text};
use crate::locate::read_role;
use crate::scan::plan::Part;
use crate::scan::{ReadMode, ReplicaSelection, ScanBuilder};
use crate::table::Table;

impl Client {
    /// Opens a token: the scan of its part of the table, ready to [`start`](ScanBuilder::start). Goes to a master only if the
    /// token does not tell what is needed.
    ///
    /// More conditions can be added; bounds that are set narrow the part further, but never widen it.
    ///
    /// # Errors
    /// [`ScanTokenError`]: the table cannot be opened, or the token does not fit it. **Cancel safe.**
    pub async fn open_token(&self, token: &ScanToken) -> Result<ScanBuilder, ScanTokenError> {
        let message = &token.message;
        let table = self.table_of(token).await?;
        if let Some(tablet) = &message.tablet_metadata {
            // A hint that makes no sense costs a question to the master, no more.
            if let Err(error) = self.shared.cache.insert_hint(table.id(), read_tablet(tablet), Instant::now())
            {
                tracing::debug!(%error, "the tablet of a scan token");
            }
        }
        self.shared.observe(message.propagated_timestamp);
        let scan = table
            .scan()
            .with_columns(columns(message, &table)?)
            .with_predicates(predicates(message, &table)?);
        options(message, scan.within(part(message)))
    }

    async fn table_of(&self, token: &ScanToken) -> Result<Table, ScanTokenError> {
        let message = &token.message;
        if let Some(metadata) = &message.table_metadata {
            let table = metadata.table_name().to_owned();
            return Table::from_metadata(self, metadata, message.authz_token.clone())
                .map_err(|source| ScanTokenError::Metadata { table, source });
        }
        let opened = match (token.table_id(), token.table_name()) {
            (Some(id), _) => self.open_table_by_id(id).await,
            (None, Some(name)) => self.open_table(name).await,
            (None, None) => return Err(ScanTokenError::NoTable),
        };
        opened.map_err(|source| ScanTokenError::Table { source: Box::new(source) })
    }
}

fn columns(message: &ScanTokenPb, table: &Table) -> Result<Vec<usize>, ScanTokenError> {
    if message.projected_column_idx.is_empty() {
        // Of a scan of changes the virtual column comes by itself.
        let wanted =
            |column: &&ColumnSchemaPb| data_type_from_number(column.r#type) != Some(DataType::IsDeleted);
        return message.projected_columns.iter().filter(wanted).map(|column| find(column, table)).collect();
    }
    let index = |index: &i32| {
        let found = usize::try_from(*index).ok().filter(|index| *index < table.schema().len());
        found.ok_or_else(|| no_such_column(table, format!("number {index}")))
    };
    message.projected_column_idx.iter().map(index).collect()
}

fn find(wanted: &ColumnSchemaPb, table: &Table) -> Result<usize, ScanTokenError> {
    let schema = table.schema();
    let found = match wanted.id {
        Some(id) if schema.ids().is_some() => schema.index_of_id(ColumnId(id)),
        _ => schema.index_of(&wanted.name),
    };
    let missing = || no_such_column(table, format!("'{}'", wanted.name));
    let index = found.ok_or_else(missing)?;
    let column = schema.columns().get(index).ok_or_else(missing)?;
    let given = data_type_from_number(wanted.r#type).ok_or_else(missing)?;
    if (given, wanted.is_nullable()) != (column.data_type, column.nullable) {
        return Err(ScanTokenError::ColumnType {
            table: table.name().to_owned(),
            column: column.name.clone(),
            expected: column.data_type,
            expected_nullable: column.nullable,
            given,
            given_nullable: wanted.is_nullable(),
        });
    }
    Ok(index)
}

fn no_such_column(table: &Table, column: String) -> ScanTokenError {
    ScanTokenError::NoSuchColumn { table: table.name().to_owned(), column }
}

fn predicates(message: &ScanTokenPb, table: &Table) -> Result<Vec<Predicate>, ScanTokenError> {
    let one = |pb: &ColumnPredicatePb| -> Result<Predicate, PredicateError> {
        let predicate = predicate_from_pb(pb, table.schema())?;
        // Whether its values fit; the scan may be pruned by them before a server sees them.
        predicate.prepare(table.schema())?;
        Ok(predicate)
    };
    let all = message.column_predicates.iter().map(one).collect::<Result<_, _>>();
    all.map_err(|source| ScanTokenError::Predicate { table: table.name().to_owned(), source })
}

fn part(message: &ScanTokenPb) -> Part {
    Part {
        partitions: KeyRange {
            start: message.lower_bound_partition_key().to_vec(),
            end: message.upper_bound_partition_key().to_vec(),
        },
        lower_key: message.lower_bound_primary_key().to_vec(),
        upper_key: message.upper_bound_primary_key().to_vec(),
    }
}

fn options(message: &ScanTokenPb, scan: ScanBuilder) -> Result<ScanBuilder, ScanTokenError> {
    let table = scan.table().name().to_owned();
    let unknown = |field| ScanTokenError::Field { table: table.clone(), field };
    let read_mode = message.read_mode.map_or(Ok(WireReadMode::ReadLatest), WireReadMode::try_from);
    let mut diff = None;
    let mode = match read_mode.map_err(|_| unknown("read_mode"))? {
        WireReadMode::UnknownReadMode => return Err(unknown("read_mode")),
        WireReadMode::ReadLatest => ReadMode::Latest,
        WireReadMode::ReadYourWrites => ReadMode::ReadYourWrites,
        WireReadMode::ReadAtSnapshot => {
            let snapshot = message.snap_timestamp.map(Timestamp);
            if let Some(start) = message.snap_start_timestamp {
                diff = Some((Timestamp(start), snapshot.ok_or_else(|| unknown("snap_timestamp"))?));
            }
            snapshot.map_or(ReadMode::SnapshotNow, ReadMode::Snapshot)
        }
    };
    let selection = message.replica_selection.map_or(Ok(WireSelection::LeaderOnly), WireSelection::try_from);
    let selection = match selection.map_err(|_| unknown("replica_selection"))? {
        WireSelection::UnknownReplicaSelection => return Err(unknown("replica_selection")),
        WireSelection::LeaderOnly => ReplicaSelection::LeaderOnly,
        WireSelection::ClosestReplica => ReplicaSelection::Closest,
        WireSelection::FirstReplica => ReplicaSelection::First,
    };
    let mut scan = scan
        .read_mode(mode)
        .selection(selection)
        .cache_blocks(message.cache_blocks())
        .fault_tolerant(message.fault_tolerant())
        .query_id(message.query_id());
    if let Some((start, end)) = diff {
        scan = scan.diff_scan(start, end);
    }
    if let Some(limit) = message.limit {
        scan = scan.limit(limit);
    }
    if let Some(bytes) = message.batch_size_bytes {
        scan = scan.batch_bytes(bytes);
    }
    // What is not more than 0 means nothing.
    let time = |millis: Option<i64>| {
        millis
            .and_then(|millis| u64::try_from(millis).ok())
            .filter(|millis| *millis > 0)
            .map(Duration::from_millis)
    };
    if let Some(timeout) = time(message.scan_request_timeout_ms) {
        scan = scan.timeout(timeout);
    }
    if let Some(interval) = time(message.keep_alive_period_ms) {
        scan = scan.keep_alive(interval);
    }
    Ok(scan)
}

fn read_tablet(tablet: &TabletMetadataPb) -> Answer {
    let partition = tablet.partition.clone().unwrap_or_default();
    let server = |server: &proto::kudu::client::ServerMetadataPb| ServerAnswer {
        uuid: text(server.uuid()),
        addresses: server.rpc_addresses.iter().map(host_port).collect(),
        unix_path: None,
        location: server.location().to_owned(),
    };
    let replica = |replica: &proto::kudu::client::tablet_metadata_pb::ReplicaMetadataPb| ReplicaAnswer {
        server: usize::try_from(replica.ts_idx).unwrap_or(usize::MAX),
        role: read_role(replica.role()),
    };
    let tablet_answer = TabletAnswer {
        id: tablet.tablet_id().to_owned(),
        start: partition.partition_key_start().to_vec(),
        end: partition.partition_key_end().to_vec(),
        replicas: tablet.replicas.iter().map(replica).collect(),
    };
    Answer {
        ttl: Duration::from_millis(tablet.ttl_millis()),
        servers: tablet.tablet_servers.iter().map(server).collect(),
        tablets: vec![tablet_answer],
    }
}
