//! Who leads a tablet of one replica, and who belongs to it.

mod common;

use bytes::Bytes;
use common::{Rig, TABLET, create_request, row, table};
use proto::kudu::HostPortPb;
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::consensus::ChangeConfigType::{self, AddPeer, ModifyPeer, RemovePeer};
use proto::kudu::consensus::raft_peer_pb::MemberType;
use proto::kudu::consensus::{
    BulkChangeConfigRequestPb, ChangeConfigRequestPb, LeaderStepDownRequestPb, RaftConfigPb, RaftPeerPb,
};
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::methods::consensus_service::{BulkChangeConfig, ChangeConfig, LeaderStepDown};
use proto::methods::tablet_server_admin_service::CreateTablet;

#[test]
fn the_only_replica_leads_on_and_its_configuration_stays() {
    let (rig, schema) = (Rig::new(&[]), table());
    let mut request = create_request(&schema);
    let own = Bytes::from(rig.server.uuid().to_owned());
    let peer = |uuid: &Bytes, kind: MemberType| RaftPeerPb {
        permanent_uuid: Some(uuid.clone()),
        member_type: Some(kind.into()),
        last_known_addr: Some(HostPortPb { host: "127.0.0.1".into(), port: 7050 }),
        ..Default::default()
    };
    request.config = RaftConfigPb {
        opid_index: Some(-1),
        obsolete_local: Some(true),
        peers: vec![peer(&own, MemberType::Voter)],
        ..Default::default()
    };
    assert_eq!(rig.call::<CreateTablet>(&request).unwrap().message.error, None);
    let step_down = |new_leader: Option<&str>| {
        let new_leader_uuid = new_leader.map(|uuid| Bytes::from(uuid.to_owned()));
        let request =
            LeaderStepDownRequestPb { tablet_id: TABLET.into(), new_leader_uuid, ..Default::default() };
        rig.call::<LeaderStepDown>(&request).unwrap().message.error.map(|error| error.status.message.unwrap())
    };
    assert_eq!((step_down(None), step_down(Some(rig.server.uuid()))), (None, None));
    assert_eq!(step_down(Some("x")).unwrap(), "tablet server x is not a voter in the active config");
    let change = |kind: ChangeConfigType, server: RaftPeerPb| {
        let request = ChangeConfigRequestPb {
            tablet_id: TABLET.into(),
            r#type: Some(kind.into()),
            server: Some(server),
            ..Default::default()
        };
        rig.call::<ChangeConfig>(&request).unwrap().message.error.unwrap()
    };
    let (voter, other) = (peer(&own, MemberType::Voter), peer(&"other".into(), MemberType::Voter));
    let config = format!(
        "opid_index: -1 OBSOLETE_local: true peers {{ permanent_uuid: \"{0}\" member_type: VOTER last_known_addr {{ \
         host: \"127.0.0.1\" port: 7050 }} }}",
        rig.server.uuid()
    );
    let state =
        format!("current_term: 1 leader_uuid: \"{}\" committed_config {{ {config} }}", rig.server.uuid());
    for (kind, server, said) in [
        (AddPeer, voter.clone(), format!("already a member of the config. RaftConfig: {config}")),
        (AddPeer, other.clone(), "replication is not supported".to_owned()),
        (RemovePeer, voter.clone(), format!("remove this peer. Consensus state: {state}")),
        (RemovePeer, other.clone(), format!("not a member of the config. RaftConfig: {config}")),
        (ModifyPeer, voter, "must modify a field when calling MODIFY_PEER".to_owned()),
        (ModifyPeer, peer(&own, MemberType::NonVoter), format!("modify this peer. Consensus state: {state}")),
        (ModifyPeer, other, "Peer with uuid other not found in consensus config".to_owned()),
        (AddPeer, RaftPeerPb::default(), "server must have permanent_uuid specified".to_owned()),
    ] {
        let error = change(kind, server);
        assert!(error.status.message().ends_with(&said), "{kind:?}: {error:?}");
    }
    let mut none = BulkChangeConfigRequestPb { tablet_id: TABLET.into(), ..Default::default() };
    assert!(rig.call::<BulkChangeConfig>(&none).unwrap().message.error.is_some());
    none.cas_config_opid_index = Some(7);
    let error = rig.call::<BulkChangeConfig>(&none).unwrap().message.error.unwrap();
    assert_eq!((error.code(), error.status.code()), (Code::CasFailed, ErrorCode::IllegalState));
    assert!(rig.insert(&schema, &[row(&schema, 1)]) > 0, "it still leads");
}
