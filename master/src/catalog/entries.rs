//! Tables and tablets as the store keeps them: in the messages that Kudu's own catalog uses.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use bytes::Bytes;
use prost::Message as _;
use proto::kudu::TableTypePb;
use proto::kudu::consensus::raft_peer_pb::MemberType;
use proto::kudu::consensus::{ConsensusStatePb, RaftConfigPb, RaftPeerPb};
use proto::kudu::master::{
    SysTablesEntryPb, SysTabletsEntryPb, sys_tables_entry_pb, sys_tablets_entry_pb::State,
};

use super::store::{Change, Kind, StoreError};
use super::tables::{Table, TablePlan};
use super::tablets::{Config, Stats, Tablet};
use super::{DISABLE_COMPACTION, HISTORY_MAX_AGE_SEC, MAINTENANCE_PRIORITY, copied, extra_config};

/// A table that was read; its tablets are known later.
pub(super) fn read_table(id: String, entry: &[u8]) -> Result<Table, StoreError> {
    let entry =
        SysTablesEntryPb::decode(entry).map_err(|_| StoreError::Corrupt("a table is not readable"))?;
    let config = entry.extra_config.unwrap_or_default();
    let property = |name: &str, value: Option<String>| Some((name.to_owned(), value?));
    let properties = [
        property(HISTORY_MAX_AGE_SEC, config.history_max_age_sec.map(|value| value.to_string())),
        property(MAINTENANCE_PRIORITY, config.maintenance_priority.map(|value| value.to_string())),
        property(DISABLE_COMPACTION, config.disable_compaction.map(|value| value.to_string())),
    ];
    let plan = TablePlan {
        name: String::from_utf8(entry.name.to_vec())
            .map_err(|_| StoreError::Corrupt("a table has no name"))?,
        schema: entry.schema,
        partition_schema: entry.partition_schema.unwrap_or_default(),
        partitions: Vec::new(),
        replicas: entry.num_replicas,
        owner: entry.owner.unwrap_or_default(),
        comment: entry.comment.unwrap_or_default(),
        extra_configs: properties.into_iter().flatten().collect::<BTreeMap<_, _>>(),
        dimension_label: None,
    };
    Ok(Table { id, plan, schema_version: entry.version, tablets: Vec::new() })
}

pub(super) fn table(table: &Table) -> Change {
    let plan = &table.plan;
    let entry = SysTablesEntryPb {
        name: copied(&plan.name),
        version: table.schema_version,
        schema: plan.schema.clone(),
        partition_schema: Some(plan.partition_schema.clone()),
        num_replicas: plan.replicas,
        state: Some(sys_tables_entry_pb::State::Running.into()),
        extra_config: Some(extra_config(plan)),
        owner: Some(plan.owner.clone()),
        comment: Some(plan.comment.clone()),
        table_type: Some(TableTypePb::DefaultTable.into()),
        ..Default::default()
    };
    (Kind::Table, table.id.clone(), Some(entry.encode_to_vec()))
}

/// A tablet of a table, or one of a deleted table and who may still have a replica of it.
pub(super) enum Stored {
    Live { tablet: Box<Tablet>, dimension_label: Option<String> },
    Deleted { holders: HashSet<String> },
}

pub(super) fn read_tablet(id: String, entry: &[u8], now: Instant) -> Result<Stored, StoreError> {
    let entry =
        SysTabletsEntryPb::decode(entry).map_err(|_| StoreError::Corrupt("a tablet is not readable"))?;
    let state = entry.state();
    let config = entry.consensus_state.map(|state| Config::reported(&state)).unwrap_or_default();
    if state == State::Deleted {
        return Ok(Stored::Deleted { holders: config.voters.into_iter().chain(config.others).collect() });
    }
    let tablet = Tablet {
        refused: None,
        id,
        table_id: String::from_utf8_lossy(&entry.table_id).into_owned(),
        partition: entry.partition.unwrap_or_default(),
        running: state == State::Running,
        placed: now,
        config,
        stats: Stats::default(),
    };
    Ok(Stored::Live { tablet: Box::new(tablet), dimension_label: entry.dimension_label })
}

pub(super) fn tablet(tablet: &Tablet, dimension_label: Option<&String>) -> Change {
    let config = &tablet.config;
    let voters = config.voters.iter().map(|uuid| peer(uuid, MemberType::Voter));
    let others = config.others.iter().map(|uuid| peer(uuid, MemberType::NonVoter));
    let state = if tablet.running { State::Running } else { State::Creating };
    let entry = SysTabletsEntryPb {
        partition: Some(tablet.partition.clone()),
        consensus_state: Some(consensus_state(config, voters.chain(others).collect())),
        state: Some(state.into()),
        table_id: copied(&tablet.table_id),
        dimension_label: dimension_label.cloned(),
        ..Default::default()
    };
    (Kind::Tablet, tablet.id.clone(), Some(entry.encode_to_vec()))
}

pub(super) fn deleted<'a>(id: &str, holders: impl IntoIterator<Item = &'a String>) -> Change {
    let peers = holders.into_iter().map(|uuid| peer(uuid, MemberType::Voter)).collect();
    let entry = SysTabletsEntryPb {
        consensus_state: Some(consensus_state(&Config::default(), peers)),
        state: Some(State::Deleted.into()),
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
