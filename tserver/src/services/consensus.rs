//! `kudu.consensus.ConsensusService`: who leads, for tools, and what a server without replication says to the rest.

use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::consensus::get_consensus_state_response_pb::TabletConsensusInfoPb;
use proto::kudu::consensus::{
    ChangeConfigResponsePb, GetConsensusStateRequestPb, GetConsensusStateResponsePb,
    GetNodeInstanceResponsePb, HealthReportPb, IncludeHealthReport, LeaderStepDownResponsePb,
    StartTabletCopyRequestPb, StartTabletCopyResponsePb, UnsafeChangeConfigRequestPb,
    UnsafeChangeConfigResponsePb, health_report_pb,
};
use proto::kudu::tserver::TabletServerErrorPb;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::methods::consensus_service::{
    BulkChangeConfig, ChangeConfig, GetConsensusState, GetNodeInstance, LeaderStepDown, SERVICE,
    StartTabletCopy, UnsafeChangeConfig,
};
use rpc_server::Service;
use server_base::consensus::{replica_management, wrong_destination};

use super::members;
use crate::fault::Fault;
use crate::node::{Node, SharedNode};
use crate::tablets::TERM;

/// The service, on a thread of its own: an answer may be of thousands of replicas.
pub(crate) fn service(node: &SharedNode, queue_length: usize) -> Service {
    let (states, instance) = (SharedNode::clone(node), SharedNode::clone(node));
    let (changes, copies) = (SharedNode::clone(node), SharedNode::clone(node));
    let (step_downs, members_one, members_many) =
        (SharedNode::clone(node), SharedNode::clone(node), SharedNode::clone(node));
    Service::builder(SERVICE)
        .threads(1)
        .queue_length(queue_length)
        .method::<GetConsensusState>(move |call| {
            let response = consensus_state(&states, call.request());
            call.respond(&response);
        })
        .method::<UnsafeChangeConfig>(move |call| {
            let error = change_config(&changes, call.request()).err();
            call.respond(&UnsafeChangeConfigResponsePb { error });
        })
        .method::<StartTabletCopy>(move |call| {
            let error = Some(refuse_copy(&copies, call.request()));
            call.respond(&StartTabletCopyResponsePb { error });
        })
        .method::<LeaderStepDown>(move |call| {
            let error = members::step_down(&step_downs, call.request()).err();
            call.respond(&LeaderStepDownResponsePb { error });
        })
        .method::<ChangeConfig>(move |call| {
            let error = members::change(&members_one, call.request()).err();
            call.respond(&ChangeConfigResponsePb { error, ..Default::default() });
        })
        .method::<BulkChangeConfig>(move |call| {
            let error = members::change_many(&members_many, call.request()).err();
            call.respond(&ChangeConfigResponsePb { error, ..Default::default() });
        })
        .cheap::<GetNodeInstance>(move |call| {
            call.respond(&GetNodeInstanceResponsePb { node_instance: instance.identity.node_instance() });
        })
        .build()
}

/// A configuration of this server alone is what every replica has already.
fn change_config(node: &Node, request: &UnsafeChangeConfigRequestPb) -> Result<(), TabletServerErrorPb> {
    if let Some(error) = wrong_destination(request.dest_uuid.as_deref(), node.uuid()) {
        return Err(error);
    }
    let replica = node.tablets.get(&request.tablet_id)?;
    let mut peers = request.new_config.peers.iter().map(|peer| peer.permanent_uuid());
    if peers.by_ref().all(|peer| peer == node.uuid().as_bytes()) && !request.new_config.peers.is_empty() {
        return Ok(());
    }
    let text =
        format!("tablet {} has one replica, on {}: replication is not supported", replica.id(), node.uuid());
    Err(Fault::new(Code::InvalidConfig, ErrorCode::NotSupported, text).into())
}

/// A replica that runs is newer than what a tool would copy over it; others cannot be had, since there is no copying.
fn refuse_copy(node: &Node, request: &StartTabletCopyRequestPb) -> TabletServerErrorPb {
    if let Some(error) = wrong_destination(request.dest_uuid.as_deref(), node.uuid()) {
        return error;
    }
    let id = String::from_utf8_lossy(&request.tablet_id);
    match node.tablets.get(&request.tablet_id) {
        Ok(replica) if replica.running().is_some() && request.caller_term() < TERM => Fault::invalid(
            Code::InvalidConfig,
            format!(
                "Leader has replica of tablet {id} with term {}, which is lower than last-logged term {TERM} on local \
                 replica. Rejecting tablet copy request",
                request.caller_term(),
            ),
        ),
        _ => Fault::new(
            Code::UnknownError,
            ErrorCode::NotSupported,
            format!("tablet {id}: copying replicas between servers is not supported"),
        ),
    }
    .into()
}

/// All replicas, or those asked for; unknown ones are left out.
fn consensus_state(node: &Node, request: &GetConsensusStateRequestPb) -> GetConsensusStateResponsePb {
    if let Some(error) = wrong_destination(request.dest_uuid.as_deref(), node.uuid()) {
        return GetConsensusStateResponsePb { error: Some(error), ..Default::default() };
    }
    let replicas = if request.tablet_ids.is_empty() {
        node.tablets.all()
    } else {
        request.tablet_ids.iter().filter_map(|id| node.tablets.get(id).ok()).collect()
    };
    let with_health = request.report_health() == IncludeHealthReport::IncludeHealthReport;
    let one = |replica: std::sync::Arc<crate::tablets::Replica>| {
        let mut cstate = replica.consensus_state(node.uuid());
        if with_health {
            for peer in &mut cstate.committed_config.peers {
                let overall_health = Some(health_report_pb::HealthStatus::Healthy.into());
                peer.health_report = Some(HealthReportPb { overall_health });
            }
        }
        TabletConsensusInfoPb { tablet_id: replica.id().to_owned().into(), cstate: Some(cstate) }
    };
    GetConsensusStateResponsePb {
        tablets: replicas.into_iter().map(one).collect(),
        replica_management_info: Some(replica_management()),
        error: None,
    }
}
