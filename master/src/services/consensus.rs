//! The state of the catalog's own tablet, in which a master alone has always been the leader.

use std::sync::Arc;

use bytes::Bytes;
use proto::kudu::consensus::get_consensus_state_response_pb::TabletConsensusInfoPb;
use proto::kudu::consensus::raft_peer_pb::MemberType;
use proto::kudu::consensus::{ConsensusStatePb, GetConsensusStateResponsePb, RaftConfigPb, RaftPeerPb};
use proto::methods::consensus_service::GetConsensusState;
use rpc_server::Call;
use server_base::consensus::{replica_management, wrong_destination};

use super::{Context, host_ports};

pub(super) fn state(context: &Arc<Context>, call: Call<GetConsensusState>) {
    let uuid = context.identity.uuid().as_str();
    let request = call.request();
    if let Some(error) = wrong_destination(request.dest_uuid.as_deref(), uuid) {
        return call.respond(&GetConsensusStateResponsePb { error: Some(error), ..Default::default() });
    }
    let peer = RaftPeerPb {
        permanent_uuid: Some(Bytes::copy_from_slice(uuid.as_bytes())),
        member_type: Some(MemberType::Voter as i32),
        last_known_addr: host_ports(context.addresses(call.connection())).into_iter().next(),
        ..Default::default()
    };
    let committed_config = RaftConfigPb {
        opid_index: Some(-1),
        obsolete_local: Some(true),
        peers: vec![peer],
        ..Default::default()
    };
    let cstate = ConsensusStatePb {
        current_term: 1,
        leader_uuid: Some(uuid.to_owned()),
        committed_config,
        pending_config: None,
    };
    let catalog = TabletConsensusInfoPb { tablet_id: CATALOG.into(), cstate: Some(cstate) };
    let asked = request.tablet_ids.is_empty() || request.tablet_ids.iter().any(|id| id == CATALOG);
    let response = GetConsensusStateResponsePb {
        tablets: Some(catalog).filter(|_| asked).into_iter().collect(),
        replica_management_info: Some(replica_management()),
        error: None,
    };
    call.respond(&response);
}

/// The id of the catalog's tablet in every cluster.
const CATALOG: &str = "00000000000000000000000000000000";
