//! Tables and tablets as the store keeps them: in the messages that Kudu's own catalog uses.

use std::collections::HashSet;
use std::time::Instant;

use bytes::Bytes;
use prost::Message as _;
use proto::kudu::consensus::raft_peer_pb::MemberType;
use proto::kudu::consensus::{ConsensusStatePb, RaftConfigPb, RaftPeerPb};
use proto::kudu::master::sys_tables_entry_pb::State;
use proto::kudu::master::sys_tablets_entry_pb::State as TabletState;
use proto::kudu::master::{SysTablesEntryPb, SysTabletsEntryPb};
use proto::kudu::{SchemaPb, TableTypePb};
use schema::Schema;
use schema::wire::partition::partition_schema_from_pb;

use super::copied;
use super::store::{Change, Kind, StoreError};
use super::tables::{Definition, SoftDeleted, Table};
use super::tablets::{Config, Stats, Tablet};

/// A table that was read; its tablets are known later.
pub(super) fn read_table(id: String, entry: &[u8]) -> Result<Table, StoreError> {
    let entry =
        SysTablesEntryPb::decode(entry).map_err(|_| StoreError::Corrupt("a table is not readable"))?;
    let state = entry.state();
    let columns =
        |schema| Schema::try_from(schema).map_err(|_| StoreError::Corrupt("a table has no columns"));
    let schema = columns(&entry.schema)?;
    let altered_from = entry.fully_applied_schema.as_ref().map(columns).transpose()?;
    let partitioning = partition_schema_from_pb(&entry.partition_schema.unwrap_or_default(), &schema)
        .map_err(|_| StoreError::Corrupt("a table has no partitioning"))?;
    let known = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
    let soft_deleted = (state == State::SoftDeleted).then(|| SoftDeleted {
        at: known(entry.delete_timestamp),
        reserve: entry.soft_deleted_reserved_seconds.unwrap_or(0),
    });
    let next_column_id = entry.next_column_id.and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
    let about = Definition {
        name: String::from_utf8(entry.name.to_vec())
            .map_err(|_| StoreError::Corrupt("a table has no name"))?,
        next_column_id: next_column_id.max(schema.next_id().0),
        schema,
        partitioning,
        replicas: entry.num_replicas,
        owner: entry.owner.unwrap_or_default(),
        comment: entry.comment.unwrap_or_default(),
        extra_config: entry.extra_config.unwrap_or_default(),
        disk_size_limit: entry.table_disk_size_limit,
        row_count_limit: entry.table_row_count_limit,
    };
    Ok(Table { id, about, schema_version: entry.version, altered_from, soft_deleted, tablets: Vec::new() })
}

pub(super) fn table(table: &Table) -> Change {
    let about = &table.about;
    let state = match (&table.soft_deleted, &table.altered_from) {
        (Some(_), _) => State::SoftDeleted,
        (None, Some(_)) => State::Altering,
        (None, None) => State::Running,
    };
    let entry = SysTablesEntryPb {
        name: copied(&about.name),
        version: table.schema_version,
        schema: SchemaPb::from(&about.schema),
        fully_applied_schema: table.altered_from.as_ref().map(SchemaPb::from),
        partition_schema: Some(about.partition_schema(&about.schema)),
        next_column_id: i32::try_from(about.next_column_id).ok(),
        num_replicas: about.replicas,
        state: Some(state.into()),
        extra_config: Some(about.extra_config),
        owner: Some(about.owner.clone()),
        comment: Some(about.comment.clone()),
        table_type: Some(TableTypePb::DefaultTable.into()),
        table_disk_size_limit: about.disk_size_limit,
        table_row_count_limit: about.row_count_limit,
        delete_timestamp: table.soft_deleted.and_then(|deleted| i64::try_from(deleted.at).ok()),
        soft_deleted_reserved_seconds: table.soft_deleted.map(|deleted| deleted.reserve),
        ..Default::default()
    };
    (Kind::Table, table.id.clone(), Some(entry.encode_to_vec()))
}

/// A tablet of a table, or one of a deleted table and who may still have a replica of it.
pub(super) enum Stored {
    Live(Box<Tablet>),
    Deleted { holders: HashSet<String> },
}

pub(super) fn read_tablet(id: String, entry: &[u8], now: Instant) -> Result<Stored, StoreError> {
    let entry =
        SysTabletsEntryPb::decode(entry).map_err(|_| StoreError::Corrupt("a tablet is not readable"))?;
    let state = entry.state();
    let config = entry.consensus_state.map(|state| Config::reported(&state)).unwrap_or_default();
    if state == TabletState::Deleted {
        return Ok(Stored::Deleted { holders: config.voters.into_iter().chain(config.others).collect() });
    }
    let tablet = Tablet {
        refused: None,
        id,
        table_id: String::from_utf8_lossy(&entry.table_id).into_owned(),
        partition: entry.partition.unwrap_or_default(),
        dimension_label: entry.dimension_label,
        running: state == TabletState::Running,
        schema_version: 0,
        placed: now,
        config,
        stats: Stats::default(),
    };
    Ok(Stored::Live(Box::new(tablet)))
}

pub(super) fn tablet(tablet: &Tablet) -> Change {
    let config = &tablet.config;
    let voters = config.voters.iter().map(|uuid| peer(uuid, MemberType::Voter));
    let others = config.others.iter().map(|uuid| peer(uuid, MemberType::NonVoter));
    let state = if tablet.running { TabletState::Running } else { TabletState::Creating };
    let entry = SysTabletsEntryPb {
        partition: Some(tablet.partition.clone()),
        consensus_state: Some(consensus_state(config, voters.chain(others).collect())),
        state: Some(state.into()),
        table_id: copied(&tablet.table_id),
        dimension_label: tablet.dimension_label.clone(),
        ..Default::default()
    };
    (Kind::Tablet, tablet.id.clone(), Some(entry.encode_to_vec()))
}

pub(super) fn deleted<'a>(id: &str, holders: impl IntoIterator<Item = &'a String>) -> Change {
    let peers = holders.into_iter().map(|uuid| peer(uuid, MemberType::Voter)).collect();
    let entry = SysTabletsEntryPb {
        consensus_state: Some(consensus_state(&Config::default(), peers)),
        state: Some(TabletState::Deleted.into()),
        table_id: Bytes::new(),
        ..Default::default()
    };
    (Kind::Tablet, id.to_owned(), Some(entry.encode_to_vec()))
}

fn consensus_state(config: &Config, peers: Vec<RaftPeerPb>) -> ConsensusStatePb {
    ConsensusStatePb {
        current_term: config.term,
        leader_uuid: config.leader.clone(),
        committed_config: RaftConfigPb { opid_index: Some(config.index), peers, ..Default::default() },
        pending_config: None,
    }
}

fn peer(uuid: &str, member_type: MemberType) -> RaftPeerPb {
    RaftPeerPb {
        permanent_uuid: Some(copied(uuid)),
        member_type: Some(member_type.into()),
        ..Default::default()
    }
}
