//! Making and dropping replicas, in memory and on disk.

use std::sync::Arc;

use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::consensus::RaftConfigPb;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::kudu::tserver::{AlterSchemaRequestPb, CreateTabletRequestPb};
use schema::{Partition, PartitionSchema, Schema, wire};
use tablet::{AlterError, Alteration, Tablet, TabletOptions};

use crate::fault::Fault;
use crate::node::Node;
use crate::storage::StoreError;
use crate::tablets::{Replica, State};

/// What a request to make a tablet says of it.
pub(crate) fn describe(request: &CreateTabletRequestPb) -> Result<(TabletOptions, RaftConfigPb), Fault> {
    let id = text(&request.tablet_id, "tablet_id")?;
    let table_id = text(&request.table_id, "table_id")?;
    let bad = |error: &dyn std::fmt::Display| Fault::invalid(Code::InvalidSchema, error.to_string());
    let schema = Schema::try_from(&request.schema).map_err(|error| bad(&error))?;
    // Without ids or partition Kudu 1.18.1 ends its process here.
    let partition = request.partition.as_ref().ok_or_else(|| bad(&"a tablet needs a partition"))?;
    let partition = Partition::try_from(partition).map_err(|error| bad(&error))?;
    let partition_schema = request.partition_schema.clone().unwrap_or_default();
    let partition_schema =
        wire::partition::partition_schema_from_pb(&partition_schema, &schema).map_err(|error| bad(&error))?;
    let about = TabletOptions {
        id,
        table_id,
        table_name: request.table_name.clone(),
        schema,
        partition_schema,
        partition,
        schema_version: 0,
        history_max_age_sec: request.extra_config.as_ref().and_then(|config| config.history_max_age_sec),
    };
    let mut config = request.config.clone();
    config.opid_index.get_or_insert(NO_CONFIG_INDEX);
    Ok((about, config))
}

/// Makes the replica that the request describes, unless its tablet is here already. A tombstone makes room.
pub(crate) fn create(node: &Node, request: &CreateTabletRequestPb) -> Result<(), Fault> {
    let (about, config) = describe(request)?;
    check_partition(&about.partition_schema, &about.partition)?;
    check_peers(&config, node.uuid())?;
    let id = about.id.clone();
    let clock = Arc::clone(node.clock.hybrid());
    let bad = |error: &dyn std::fmt::Display| Fault::invalid(Code::InvalidSchema, error.to_string());
    // Also finds what is wrong with the description before there are files.
    let in_memory = Tablet::open(about.clone(), Arc::clone(&clock)).map_err(|error| bad(&error))?;
    let Some(store) = &node.store else {
        return node.tablets.add(Replica { about, config, state: State::Running(Arc::new(in_memory)) });
    };
    // It will be the name of a folder.
    if id.len() > LONGEST_ID
        || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    {
        return Err(Fault::invalid(
            Code::UnknownError,
            "tablet_id has characters that are no letters or digits",
        ));
    }
    let is_tombstone = |replica: Arc<Replica>| matches!(replica.state, State::Tombstone);
    let replaces = node.tablets.get(id.as_bytes()).is_ok_and(is_tombstone);
    node.tablets.add(Replica { about: about.clone(), config, state: State::Opening })?;
    let made = if replaces { store.delete(&id) } else { Ok(()) };
    let made = made.and_then(|()| store.create(&id, request)).map_err(unwritten);
    let made = made.and_then(|()| {
        store
            .open(about, &clock)
            .map_err(|error| Fault::new(Code::UnknownError, ErrorCode::IoError, error.to_string()))
    });
    match made {
        Ok(tablet) => node.tablets.set_state(&id, State::Running(Arc::new(tablet))),
        Err(fault) => {
            node.tablets.remove(&id, false);
            return Err(fault);
        }
    }
    Ok(())
}

/// Tells a replica how its table has changed; that it knows already is a success.
pub(crate) fn alter(node: &Node, request: &AlterSchemaRequestPb) -> Result<(), Fault> {
    let replica = node.tablets.get(&request.tablet_id)?;
    let tablet = replica.tablet()?;
    let bad = |error: &dyn std::fmt::Display| Fault::invalid(Code::InvalidSchema, error.to_string());
    let schema = Schema::try_from(&request.schema).map_err(|error| bad(&error))?;
    let about = tablet.options();
    let (here, asked) = (about.schema_version, request.schema_version);
    if here > asked {
        let text = format!("Tablet has a newer schema: version {here}, the request is about {asked}");
        return Err(Fault::invalid(Code::TabletHasANewerSchema, text));
    }
    if here == asked {
        if about.schema == schema {
            return Ok(());
        }
        let text = format!("the tablet has another schema of version {here}");
        return Err(Fault::new(Code::MismatchedSchema, ErrorCode::Corruption, text));
    }
    let table_name = request.new_table_name.clone().unwrap_or_else(|| about.table_name.clone());
    let config = request.new_extra_config.as_ref();
    let history_max_age_sec = config.map_or(about.history_max_age_sec, |config| config.history_max_age_sec);
    let to = Alteration { schema, schema_version: asked, table_name, history_max_age_sec };
    tablet.alter(to).map_err(|error| match error {
        AlterError::Log(_) => Fault::new(Code::UnknownError, ErrorCode::IoError, error.to_string()),
        _ => bad(&error),
    })?;
    node.tablets.touch(replica.id());
    tracing::info!(tablet = replica.id(), version = asked, "tablet altered");
    Ok(())
}

/// Rows would be hashed to other buckets than the tablet's, or be of no tablet at all.
fn check_partition(partitioning: &PartitionSchema, partition: &Partition) -> Result<(), Fault> {
    let own = partitioning.custom_ranges.iter().find(|range| range.lower == partition.range_start());
    let dimensions = own.map_or(&partitioning.hash_dimensions, |range| &range.hash_dimensions);
    let buckets = &partition.hash_buckets;
    let fits = buckets.len() == dimensions.len()
        && buckets.iter().zip(dimensions).all(|(bucket, dimension)| *bucket < dimension.buckets)
        && (partition.end.is_empty() || partition.start < partition.end);
    if fits { Ok(()) } else { Err(Fault::invalid(Code::InvalidSchema, "the partition is none of its table")) }
}

/// There is no replication yet: with others about, each would lead. No peers at all is this server alone.
fn check_peers(config: &RaftConfigPb, own: &str) -> Result<(), Fault> {
    match &config.peers[..] {
        [] => Ok(()),
        [peer] if peer.permanent_uuid() == own.as_bytes() => Ok(()),
        [_] => Err(Fault::invalid(Code::InvalidConfig, "the configuration does not name this server")),
        _ => Err(Fault::new(Code::InvalidConfig, ErrorCode::NotSupported, "replication is not there yet")),
    }
}

/// Drops a replica's rows; with `keep_tombstone` its name and configuration stay.
pub(crate) fn remove(node: &Node, replica: &Replica, keep_tombstone: bool) -> Result<(), Fault> {
    let id = replica.id();
    if let State::Opening = replica.state {
        let text = format!("Tablet {id} is still being opened");
        return Err(Fault::new(Code::TabletNotRunning, ErrorCode::ServiceUnavailable, text));
    }
    if let Some(tablet) = replica.running()
        && let Err(error) = tablet.close()
    {
        tracing::warn!(tablet = id, %error, "the log of a tablet that is deleted");
    }
    if let Some(store) = &node.store {
        if keep_tombstone { store.tombstone(id) } else { store.delete(id) }.map_err(unwritten)?;
    }
    node.tablets.remove(id, keep_tombstone);
    node.numbering.forget(id);
    Ok(())
}

fn unwritten(error: StoreError) -> Fault {
    Fault::new(Code::UnknownError, ErrorCode::IoError, error.to_string())
}

fn text(bytes: &[u8], field: &str) -> Result<String, Fault> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty());
    let wrong = || Fault::invalid(Code::UnknownError, format!("{field} is empty or not UTF-8"));
    text.map(str::to_owned).ok_or_else(wrong)
}

/// The index of a configuration that came with the tablet and was never changed.
pub(crate) const NO_CONFIG_INDEX: i64 = -1;
/// Kudu's ids have 32 characters.
const LONGEST_ID: usize = 100;
