//! What a token says about its scan and its tablet.

use std::time::Instant;

use meta_cache::{Role, Tablet};
use proto::kudu::client::tablet_metadata_pb::ReplicaMetadataPb;
use proto::kudu::client::{ScanTokenPb, ServerMetadataPb, TabletMetadataPb};
use proto::kudu::consensus::raft_peer_pb::Role as WireRole;
use proto::kudu::{
    ColumnSchemaPb, HostPortPb, PartitionPb, ReadMode as WireReadMode, ReplicaSelection as WireSelection,
};
use schema::{Partition, PartitionSchema};

use crate::scan::plan::Plan;
use crate::scan::{ReadMode, ReplicaSelection, ScanError};

/// All but the tablet and its keys.
pub(super) fn of_scan(plan: &Plan, with_table: bool) -> Result<ScanTokenPb, ScanError> {
    let table = &plan.table;
    let (read_mode, snapshot) = match plan.read_mode {
        ReadMode::Latest => (WireReadMode::ReadLatest, None),
        ReadMode::Snapshot(at) => (WireReadMode::ReadAtSnapshot, Some(at)),
        ReadMode::SnapshotNow => (WireReadMode::ReadAtSnapshot, None),
        ReadMode::ReadYourWrites => (WireReadMode::ReadYourWrites, None),
    };
    let selection = match plan.selection {
        ReplicaSelection::LeaderOnly => WireSelection::LeaderOnly,
        ReplicaSelection::Closest => WireSelection::ClosestReplica,
        ReplicaSelection::First => WireSelection::FirstReplica,
    };
    let bound = |key: &Vec<u8>| (!key.is_empty()).then(|| key.clone().into());
    let millis = |time: std::time::Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let mut message = ScanTokenPb {
        column_predicates: plan.predicates.clone(),
        lower_bound_primary_key: bound(&plan.lower_key),
        upper_bound_primary_key: bound(&plan.upper_key),
        limit: plan.limit,
        read_mode: Some(read_mode.into()),
        snap_timestamp: snapshot.map(|at| at.0),
        snap_start_timestamp: plan.since.map(|at| at.0),
        propagated_timestamp: table.shared().observed(),
        cache_blocks: Some(plan.cache_blocks),
        fault_tolerant: Some(plan.is_fault_tolerant),
        batch_size_bytes: plan.batch_bytes,
        replica_selection: Some(selection.into()),
        scan_request_timeout_ms: Some(millis(plan.timeout)),
        keep_alive_period_ms: Some(millis(plan.keep_alive)),
        query_id: Some(plan.query_id.clone()),
        ..Default::default()
    };
    if with_table {
        let metadata =
            table.metadata().map_err(|source| ScanError::Table { table: table.name().to_owned(), source })?;
        message.table_metadata = Some(metadata);
        message.authz_token = table.authz_token();
        let index = |index: &usize| i32::try_from(*index).unwrap_or(i32::MAX);
        message.projected_column_idx = plan.columns.iter().map(index).collect();
    } else {
        message.table_id = Some(table.id().to_owned());
        message.table_name = Some(table.name().to_owned());
        message.projected_columns = plan.columns.iter().filter_map(|index| of_column(plan, *index)).collect();
    }
    Ok(message)
}

fn of_column(plan: &Plan, index: usize) -> Option<ColumnSchemaPb> {
    let schema = plan.table.schema();
    let column = ColumnSchemaPb::from(schema.columns().get(index)?);
    let id = schema.ids().and_then(|ids| ids.get(index)).map(|id| id.0);
    Some(ColumnSchemaPb { id, is_key: Some(index < schema.key_columns()), ..column })
}

pub(super) fn of_tablet(tablet: &Tablet, partitioning: &PartitionSchema) -> TabletMetadataPb {
    let (start, end) = (tablet.start().to_vec(), tablet.end().to_vec());
    let hash_buckets = partitioning.hash_buckets(&start);
    let replica = |(index, replica): (usize, &meta_cache::Replica)| {
        let role = match replica.role() {
            Role::Leader => WireRole::Leader,
            Role::Follower => WireRole::Follower,
            Role::Other => WireRole::UnknownRole,
        };
        let ts_idx = u32::try_from(index).unwrap_or(u32::MAX);
        ReplicaMetadataPb { ts_idx, role: role.into(), dimension_label: None }
    };
    let server = |replica: &meta_cache::Replica| {
        let server = replica.server();
        let address = server.host_port();
        ServerMetadataPb {
            uuid: Some(server.uuid().as_bytes().to_vec().into()),
            rpc_addresses: vec![HostPortPb { host: address.host, port: address.port.into() }],
            location: Some(server.location()).filter(|location| !location.is_empty()),
        }
    };
    let left = tablet.time_left(Instant::now()).as_millis();
    TabletMetadataPb {
        tablet_id: Some(tablet.id().to_owned()),
        partition: Some(PartitionPb::from(&Partition { hash_buckets, start, end })),
        tablet_servers: tablet.replicas().iter().map(server).collect(),
        replicas: tablet.replicas().iter().enumerate().map(replica).collect(),
        ttl_millis: Some(u64::try_from(left).unwrap_or(u64::MAX)),
    }
}
