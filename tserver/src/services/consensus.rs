//! `kudu.consensus.ConsensusService`: who leads, for tools.

use proto::kudu::consensus::get_consensus_state_response_pb::TabletConsensusInfoPb;
use proto::kudu::consensus::{
    GetConsensusStateRequestPb, GetConsensusStateResponsePb, GetNodeInstanceResponsePb, HealthReportPb,
    IncludeHealthReport, health_report_pb,
};
use proto::methods::consensus_service::{GetConsensusState, GetNodeInstance, SERVICE};
use rpc_server::Service;
use server_base::consensus::{replica_management, wrong_destination};

use crate::node::{Node, SharedNode};

/// The service, on a thread of its own: an answer may be of thousands of replicas.
pub(crate) fn service(node: &SharedNode, queue_length: usize) -> Service {
    let (states, instance) = (SharedNode::clone(node), SharedNode::clone(node));
    Service::builder(SERVICE)
        .threads(1)
        .queue_length(queue_length)
        .method::<GetConsensusState>(move |call| {
            let response = consensus_state(&states, call.request());
            call.respond(&response);
        })
        .cheap::<GetNodeInstance>(move |call| {
            call.respond(&GetNodeInstanceResponsePb { node_instance: instance.identity.node_instance() });
        })
        .build()
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
