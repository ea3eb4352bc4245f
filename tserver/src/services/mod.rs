//! The RPC services: each method translates a message, asks the layer below, and translates the answer.

pub(crate) mod admin;
pub(crate) mod consensus;
pub(crate) mod tablet;

use proto::kudu::consensus::ReplicaManagementInfoPb;
use proto::kudu::consensus::replica_management_info_pb::ReplacementScheme;

/// How replicas are replaced: the only scheme that masters of 1.18 take by default.
pub(crate) fn replica_management() -> ReplicaManagementInfoPb {
    ReplicaManagementInfoPb {
        replacement_scheme: Some(ReplacementScheme::PrepareReplacementBeforeEviction.into()),
    }
}
