//! Who is in the cluster.

use std::sync::Arc;

use bytes::Bytes;
use proto::kudu::NodeInstancePb;
use proto::kudu::consensus::raft_peer_pb::{MemberType, Role};
use proto::kudu::master::list_tablet_servers_response_pb::Entry;
use proto::kudu::master::{
    ConnectToMasterResponsePb, GetMasterRegistrationResponsePb, ListMastersResponsePb,
    ListTabletServersResponsePb, TServerStatePb,
};
use proto::methods::master_service as m;
use rpc_server::Call;

use super::{Context, host_ports, now};

/// A master alone is always the leader.
pub(super) fn connect(context: &Arc<Context>, call: Call<m::ConnectToMaster>) {
    let response = ConnectToMasterResponsePb {
        role: Some(Role::Leader as i32),
        master_addrs: host_ports(context.addresses(call.connection())),
        cluster_id: Some(context.cluster_id.clone()),
        ..Default::default()
    };
    call.respond(&response);
}

pub(super) fn registration(context: &Arc<Context>, call: Call<m::GetMasterRegistration>) {
    let response = GetMasterRegistrationResponsePb {
        instance_id: context.identity.node_instance(),
        registration: Some(context.registration(call.connection())),
        role: Some(Role::Leader as i32),
        cluster_id: Some(context.cluster_id.clone()),
        member_type: Some(MemberType::Voter as i32),
        error: None,
    };
    call.respond(&response);
}

pub(super) fn list_masters(context: &Arc<Context>, call: Call<m::ListMasters>) {
    let registration = context.registration(call.connection());
    let entry = context.identity.entry(registration, Role::Leader, &context.cluster_id);
    call.respond(&ListMastersResponsePb { masters: vec![entry], ..Default::default() });
}

pub(super) fn list_tablet_servers(context: &Arc<Context>, call: Call<m::ListTabletServers>) {
    let now = now();
    let entries = {
        let catalog = context.catalog.lock();
        let entry = |server: &crate::catalog::servers::TabletServer| Entry {
            instance_id: NodeInstancePb {
                permanent_uuid: Bytes::copy_from_slice(server.uuid.as_bytes()),
                instance_seqno: server.seqno,
            },
            registration: context.seen_from(call.connection(), &server.registration),
            millis_since_heartbeat: Some(
                i32::try_from(catalog.servers().silence_of(server, now).as_millis()).unwrap_or(i32::MAX),
            ),
            location: None,
            state: Some(if catalog.in_maintenance(&server.uuid) {
                TServerStatePb::MaintenanceMode as i32
            } else {
                TServerStatePb::None as i32
            }),
        };
        let entries = catalog.servers().iter().map(entry);
        entries.filter(|entry| entry.registration.is_some()).collect()
    };
    call.respond(&ListTabletServersResponsePb { servers: entries, error: None });
}
