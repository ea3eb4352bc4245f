//! What messages carry beyond protobuf: required fields, schemas, partitions, predicates, steps of negotiation.

use bytes::Bytes;
use prost::Message;
use proto::kudu::{ColumnPredicatePb, PartitionPb, PartitionSchemaPb, SchemaPb};
use proto::methods::{master_service, tablet_server_service};
use proto::{Method, required};
use rpc_core::negotiate::message::NegotiateMessage;
use schema::wire::partition::{Naming, partition_schema_from_pb, partition_schema_to_pb};
use schema::wire::predicate::{predicate_from_pb, predicate_to_pb};
use schema::{Partition, Schema};

use crate::row_operations::every_type;

/// The first byte says what the others are. What is read is written, and what was written is read the same.
pub fn run(bytes: &[u8]) {
    let [kind, bytes @ ..] = bytes else { return };
    match kind % 8 {
        0 => request::<master_service::CreateTable>(bytes),
        1 => request::<master_service::GetTableLocations>(bytes),
        2 => request::<tablet_server_service::Scan>(bytes),
        3 => request::<tablet_server_service::Write>(bytes),
        4 => again::<SchemaPb>(bytes, |pb| Some(SchemaPb::from(&Schema::try_from(pb).ok()?))),
        5 => {
            let table = every_type().with_sequential_ids(10);
            again::<PartitionSchemaPb>(bytes, |pb| {
                let partitions = partition_schema_from_pb(pb, &table).ok()?;
                let [by_id, by_name] = [Naming::ById, Naming::ByName]
                    .map(|naming| partition_schema_to_pb(&partitions, &table, naming).ok());
                assert_eq!(by_id.is_some(), by_name.is_some());
                by_id
            });
        }
        6 => again::<PartitionPb>(bytes, |pb| Some(PartitionPb::from(&Partition::try_from(pb).ok()?))),
        _ => {
            let table = every_type();
            again::<ColumnPredicatePb>(bytes, |pb| {
                let predicate = predicate_from_pb(pb, &table).ok()?;
                predicate_to_pb(&predicate, &table).ok()
            });
        }
    }
}

/// A negotiation message that is read is written and read again.
pub(crate) fn same_message(bytes: &[u8]) {
    if let Ok(message) = NegotiateMessage::decode(&Bytes::copy_from_slice(bytes)) {
        let written = Bytes::from(message.to_vec());
        assert_eq!(NegotiateMessage::decode(&written), Ok(message));
    }
}

/// A request that prost reads lacks required fields or not; written again, it has them all, but for enums of unknown value.
fn request<M: Method>(bytes: &[u8]) {
    let missing = required::check(M::REQUEST, bytes);
    if let Err(missing) = &missing {
        assert!(!missing.paths().is_empty() && missing.paths().iter().all(|path| !path.is_empty()));
    }
    let Ok(message) = M::Request::decode(bytes) else { return };
    let again = message.encode_to_vec();
    if missing.is_ok() {
        assert_eq!(required::check(M::REQUEST, &again), Ok(()));
    }
    assert_eq!(M::Request::decode(&again[..]).map(|message| message.encode_to_vec()), Ok(again));
}

/// `through` leads from a message to what it means and back: what comes out leads to itself.
fn again<M: Message + Default + PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    through: impl Fn(&M) -> Option<M>,
) {
    let Ok(message) = M::decode(bytes) else { return };
    if let Some(once) = through(&message) {
        assert_eq!(through(&once), Some(once));
    }
}
