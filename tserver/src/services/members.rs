//! Who belongs to a tablet's configuration and who leads it: with one replica there is nothing to change, in Kudu's words.

use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::consensus::raft_peer_pb::MemberType;
use proto::kudu::consensus::{
    BulkChangeConfigRequestPb, ChangeConfigRequestPb, ChangeConfigType, ConsensusStatePb,
    LeaderStepDownRequestPb, RaftConfigPb, RaftPeerPb,
};
use proto::kudu::tserver::TabletServerErrorPb;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use server_base::consensus::wrong_destination;

use crate::fault::Fault;
use crate::node::Node;
use crate::tablets::Replica;

/// The only replica leads again as soon as it has stepped down.
pub(super) fn step_down(node: &Node, request: &LeaderStepDownRequestPb) -> Result<(), TabletServerErrorPb> {
    if let Some(error) = wrong_destination(request.dest_uuid.as_deref(), node.uuid()) {
        return Err(error);
    }
    let replica = node.tablets.get(&request.tablet_id)?;
    replica.tablet()?;
    match &request.new_leader_uuid {
        Some(wanted) if wanted != node.uuid().as_bytes() => {
            let text = format!("tablet server {} is not a voter in the active config", wanted.escape_ascii());
            Err(Fault::invalid(Code::InvalidConfig, text).into())
        }
        _ => Ok(()),
    }
}

pub(super) fn change(node: &Node, request: &ChangeConfigRequestPb) -> Result<(), TabletServerErrorPb> {
    if let Some(error) = wrong_destination(request.dest_uuid.as_deref(), node.uuid()) {
        return Err(error);
    }
    let replica = node.tablets.get(&request.tablet_id)?;
    let one = [(request.r#type(), request.server.as_ref())];
    Err(refusal(node, &replica, request.cas_config_opid_index, &one)?.into())
}

pub(super) fn change_many(
    node: &Node,
    request: &BulkChangeConfigRequestPb,
) -> Result<(), TabletServerErrorPb> {
    if let Some(error) = wrong_destination(request.dest_uuid.as_deref(), node.uuid()) {
        return Err(error);
    }
    let replica = node.tablets.get(&request.tablet_id)?;
    let changes: Vec<_> =
        request.config_changes.iter().map(|item| (item.r#type(), item.peer.as_ref())).collect();
    Err(refusal(node, &replica, request.cas_config_opid_index, &changes)?.into())
}

/// Why these changes cannot be; or why nobody can say.
fn refusal(
    node: &Node,
    replica: &Replica,
    expected: Option<i64>,
    changes: &[(ChangeConfigType, Option<&RaftPeerPb>)],
) -> Result<Fault, Fault> {
    replica.tablet()?;
    let config = &replica.config;
    if let Some(expected) = expected.filter(|expected| config.opid_index != Some(*expected)) {
        let text = format!(
            "Request specified cas_config_opid_index of {expected} but the committed config has opid_index of {}",
            config.opid_index.unwrap_or_default(),
        );
        return Ok(Fault::new(Code::CasFailed, ErrorCode::IllegalState, text));
    }
    if changes.is_empty() {
        return Ok(Fault::invalid(
            Code::InvalidConfig,
            "requested configuration change does not contain any item",
        ));
    }
    let fault = changes.iter().find_map(|(kind, peer)| impossible(node, replica, *kind, *peer));
    Ok(fault.unwrap_or_else(|| {
        let text = format!(
            "tablet {} has one replica, on {}: replication is not supported",
            replica.id(),
            node.uuid()
        );
        Fault::new(Code::InvalidConfig, ErrorCode::NotSupported, text)
    }))
}

/// What Kudu would not do either.
fn impossible(
    node: &Node,
    replica: &Replica,
    kind: ChangeConfigType,
    peer: Option<&RaftPeerPb>,
) -> Option<Fault> {
    let invalid = |text: String| Some(Fault::invalid(Code::InvalidConfig, text));
    let not_found = |text: String| Some(Fault::new(Code::InvalidConfig, ErrorCode::NotFound, text));
    let Some(peer) = peer.filter(|peer| peer.permanent_uuid.is_some()) else {
        return invalid("server must have permanent_uuid specified".to_owned());
    };
    let uuid = peer.permanent_uuid().escape_ascii().to_string();
    let is_member = peer.permanent_uuid() == node.uuid().as_bytes();
    let state = || state_text(&replica.consensus_state(node.uuid()));
    let config = || config_text(&replica.config);
    match (kind, is_member) {
        (ChangeConfigType::UnknownChange, _) => {
            invalid("requested configuration change type is unknown".to_owned())
        }
        (ChangeConfigType::AddPeer, true) => invalid(format!(
            "Server with UUID {uuid} is already a member of the config. RaftConfig: {}",
            config()
        )),
        (ChangeConfigType::AddPeer, false) => None,
        (ChangeConfigType::RemovePeer, true) => invalid(format!(
            "Cannot remove peer {uuid} from the config because it is the leader. Force another leader to be elected to \
             remove this peer. Consensus state: {}",
            state()
        )),
        (ChangeConfigType::RemovePeer, false) => {
            not_found(format!("Server with UUID {uuid} not a member of the config. RaftConfig: {}", config()))
        }
        (ChangeConfigType::ModifyPeer, true) if peer.member_type() == MemberType::Voter => {
            invalid("must modify a field when calling MODIFY_PEER".to_owned())
        }
        (ChangeConfigType::ModifyPeer, true) => invalid(format!(
            "Cannot modify member type of peer {uuid} because it is the leader. Cause another leader to be elected to \
             modify this peer. Consensus state: {}",
            state()
        )),
        (ChangeConfigType::ModifyPeer, false) => {
            not_found(format!("Peer with uuid {uuid} not found in consensus config"))
        }
    }
}

/// Messages on one line, as tools of Kudu print them.
fn state_text(state: &ConsensusStatePb) -> String {
    let leader = state.leader_uuid.as_ref().map(|leader| format!("leader_uuid: \"{leader}\" "));
    format!(
        "current_term: {} {}committed_config {{ {} }}",
        state.current_term,
        leader.unwrap_or_default(),
        config_text(&state.committed_config),
    )
}

fn config_text(config: &RaftConfigPb) -> String {
    let mut parts = Vec::new();
    parts.extend(config.opid_index.map(|index| format!("opid_index: {index}")));
    parts.extend(config.obsolete_local.map(|local| format!("OBSOLETE_local: {local}")));
    for peer in &config.peers {
        let mut fields = vec![format!("permanent_uuid: \"{}\"", peer.permanent_uuid().escape_ascii())];
        fields.push(format!("member_type: {}", peer.member_type().as_str_name()));
        fields.extend(peer.last_known_addr.as_ref().map(|address| {
            format!("last_known_addr {{ host: \"{}\" port: {} }}", address.host, address.port)
        }));
        parts.push(format!("peers {{ {} }}", fields.join(" ")));
    }
    parts.join(" ")
}
