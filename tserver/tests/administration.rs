//! What masters and tools ask for: tablets made, listed, deleted; wrong requests that must not end the server.

mod common;

use bytes::Bytes;
use common::{Rig, TABLET, create_request, row, scan_request, table};
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::consensus::raft_peer_pb::Role;
use proto::kudu::consensus::{GetConsensusStateRequestPb, RaftConfigPb, RaftPeerPb};
use proto::kudu::tablet::{TabletDataState, TabletStatePb};
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::kudu::tserver::{
    ChecksumRequestPb, ContinueChecksumRequestPb, CreateTabletRequestPb, DeleteTabletRequestPb,
    QuiesceTabletServerRequestPb, TabletServerErrorPb,
};
use proto::methods::consensus_service::GetConsensusState;
use proto::methods::tablet_server_admin_service::{CreateTablet, DeleteTablet, Quiesce};
use proto::methods::tablet_server_service::{Checksum, ListTablets, Scan};

fn codes(error: Option<TabletServerErrorPb>) -> (Code, ErrorCode) {
    let error = error.expect("a refusal");
    (error.code(), error.status.code())
}

fn peer(uuid: &'static str) -> RaftPeerPb {
    RaftPeerPb { permanent_uuid: Some(uuid.into()), ..Default::default() }
}

fn delete(kind: TabletDataState) -> DeleteTabletRequestPb {
    DeleteTabletRequestPb { tablet_id: TABLET.into(), delete_type: Some(kind.into()), ..Default::default() }
}

#[test]
fn wrong_descriptions_of_a_tablet_are_refused_and_the_server_lives_on() {
    let (rig, schema) = (Rig::new(&[]), table());
    type Change = fn(&mut CreateTabletRequestPb);
    let cases: [(Change, Code); 13] = [
        (|r| r.schema.columns.iter_mut().for_each(|c| c.id = None), Code::InvalidSchema),
        (|r| r.schema.columns[0].id = None, Code::InvalidSchema),
        (|r| r.schema.columns.clear(), Code::InvalidSchema),
        (|r| r.schema.columns[0].is_key = Some(false), Code::InvalidSchema),
        (|r| r.schema.columns[0].r#type = 999, Code::InvalidSchema),
        (|r| r.partition = None, Code::InvalidSchema),
        (
            |r| {
                let hash = proto::kudu::partition_schema_pb::HashBucketSchemaPb {
                    num_buckets: 1,
                    ..Default::default()
                };
                r.partition_schema.as_mut().unwrap().hash_schema.push(hash);
            },
            Code::InvalidSchema,
        ),
        (|r| r.tablet_id = Bytes::new(), Code::UnknownError),
        (|r| r.partition.as_mut().unwrap().hash_buckets.push(0), Code::InvalidSchema),
        (
            |r| {
                let partition = r.partition.as_mut().unwrap();
                partition.partition_key_start = Some("b".into());
                partition.partition_key_end = Some("a".into());
            },
            Code::InvalidSchema,
        ),
        (|r| r.config.peers.push(peer("another")), Code::InvalidConfig),
        (|r| r.config.peers.extend([peer("one"), peer("two"), peer("three")]), Code::InvalidConfig),
        (|r| r.dest_uuid = Some("another".into()), Code::WrongServerUuid),
    ];
    for (number, (change, code)) in cases.into_iter().enumerate() {
        let mut request = create_request(&schema);
        change(&mut request);
        match rig.call::<CreateTablet>(&request) {
            Ok(response) => assert_eq!(codes(response.message.error).0, code, "case {number}"),
            // An unknown enum value counts as a missing field.
            Err(error) => {
                assert!(error.remote().is_some_and(|e| e.message.contains("type")), "case {number}: {error}")
            }
        }
        assert_eq!(rig.server.tablets(), 0);
    }
    rig.create(&schema);
    let again = rig.call::<CreateTablet>(&create_request(&schema)).unwrap().message;
    assert_eq!(codes(again.error), (Code::TabletAlreadyExists, ErrorCode::AlreadyPresent));
    assert_eq!(rig.server.tablets(), 1);
}

#[test]
fn a_deleted_tablet_is_gone_and_a_tombstone_keeps_its_name() {
    let (rig, schema) = (Rig::new(&[]), table());
    rig.create(&schema);
    rig.insert(&schema, &(0..300).map(|key| row(&schema, key)).collect::<Vec<_>>());
    let open_scan = rig.open(scan_request(&schema), 1).0.scanner_id.unwrap();

    let mut guarded = delete(TabletDataState::TabletDataTombstoned);
    guarded.cas_config_opid_index_less_or_equal = Some(-2);
    let refused = rig.call::<DeleteTablet>(&guarded).unwrap().message.error;
    assert_eq!(codes(refused), (Code::CasFailed, ErrorCode::IllegalState));
    let wrong = delete(TabletDataState::TabletDataReady);
    assert_eq!(codes(rig.call::<DeleteTablet>(&wrong).unwrap().message.error).1, ErrorCode::InvalidArgument);

    let tombstone = delete(TabletDataState::TabletDataTombstoned);
    assert_eq!(rig.call::<DeleteTablet>(&tombstone).unwrap().message.error, None);
    assert_eq!(rig.server.tablets(), 0);
    let listed = rig.call::<ListTablets>(&Default::default()).unwrap().message.status_and_schema;
    assert_eq!(listed[0].tablet_status.tablet_data_state(), TabletDataState::TabletDataTombstoned);
    let (response, _) = rig.open(scan_request(&schema), 1);
    assert_eq!(codes(response.error), (Code::TabletNotFound, ErrorCode::IllegalState));
    assert_eq!(codes(rig.go_on(&open_scan, 1, 1).0.error).0, Code::TabletNotFound);

    rig.create(&schema);
    assert_eq!(rig.server.tablets(), 1, "a tombstone makes room for a new replica");
    let (response, _) = rig.open(scan_request(&schema), 1 << 20);
    assert_eq!((response.error, response.has_more_results), (None, Some(false)));

    assert_eq!(
        rig.call::<DeleteTablet>(&delete(TabletDataState::TabletDataDeleted)).unwrap().message.error,
        None
    );
    let (response, _) = rig.open(scan_request(&schema), 1);
    assert_eq!(codes(response.error), (Code::TabletNotFound, ErrorCode::NotFound));
    let again = rig.call::<DeleteTablet>(&delete(TabletDataState::TabletDataDeleted)).unwrap().message.error;
    assert_eq!(codes(again), (Code::TabletNotFound, ErrorCode::NotFound));
    rig.create(&schema);
}

#[test]
fn tablets_are_listed_and_led_by_this_server() {
    let (rig, schema) = (Rig::new(&[]), table());
    let mut request = create_request(&schema);
    let uuid = Bytes::from(rig.server.uuid().to_owned());
    let peer = RaftPeerPb { permanent_uuid: Some(uuid), ..Default::default() };
    request.config = RaftConfigPb { peers: vec![peer.clone()], ..Default::default() };
    assert_eq!(rig.call::<CreateTablet>(&request).unwrap().message.error, None);

    let listed = rig.call::<ListTablets>(&Default::default()).unwrap().message.status_and_schema;
    assert_eq!(listed.len(), 1);
    let tablet = &listed[0];
    assert_eq!((&*tablet.tablet_status.tablet_id, &*tablet.tablet_status.table_name), (TABLET, "t"));
    assert_eq!(tablet.tablet_status.state(), TabletStatePb::Running);
    assert_eq!((tablet.role(), tablet.schema_version), (Role::Leader, Some(0)));
    assert_eq!(tablet.schema.as_ref().unwrap(), &(&schema).into());
    assert!(tablet.partition_schema.is_some());

    let all = rig.call::<GetConsensusState>(&GetConsensusStateRequestPb::default()).unwrap().message;
    assert!(all.replica_management_info.is_some());
    let state = all.tablets[0].cstate.as_ref().unwrap();
    assert_eq!(state.leader_uuid(), rig.server.uuid());
    assert_eq!(state.committed_config.peers, [peer]);
    let unknown = GetConsensusStateRequestPb { tablet_ids: vec!["none".into()], ..Default::default() };
    assert_eq!(rig.call::<GetConsensusState>(&unknown).unwrap().message.tablets.len(), 0);
}

#[test]
fn a_quiescing_server_refuses_new_scans_and_still_takes_writes() {
    let (rig, schema) = (Rig::new(&[]), table());
    rig.create(&schema);
    rig.insert(&schema, &(0..300).map(|key| row(&schema, key)).collect::<Vec<_>>());
    let id = rig.open(scan_request(&schema), 1).0.scanner_id.unwrap();
    let quiesce = |quiesce| {
        let request = QuiesceTabletServerRequestPb { quiesce, return_stats: Some(true) };
        rig.runtime.block_on(rig.proxy.call::<Quiesce>(&request).feature(3).send()).unwrap().message
    };
    let status = quiesce(Some(true));
    assert_eq!((status.is_quiescing(), status.num_active_scanners(), status.num_leaders()), (true, 1, 1));
    let (refused, _) = rig.open(scan_request(&schema), 1);
    assert_eq!(codes(refused.error), (Code::TabletNotRunning, ErrorCode::ServiceUnavailable));
    assert!(rig.go_on(&id, 1, 1).0.error.is_none());
    rig.insert(&schema, &[row(&schema, 1000)]);
    assert!(!quiesce(Some(false)).is_quiescing());
    assert!(rig.open(scan_request(&schema), 1).0.error.is_none());
}

#[test]
fn checksums_depend_on_the_rows_and_not_on_their_order_or_the_batches() {
    let schema = table();
    let sum = |keys: &[i32], batch_size: u32| {
        let rig = Rig::new(&[]);
        rig.create(&schema);
        for key in keys {
            rig.insert(&schema, &[row(&schema, *key)]);
        }
        let mut request = ChecksumRequestPb {
            new_request: Some(scan_request(&schema)),
            batch_size_bytes: Some(batch_size),
            ..Default::default()
        };
        let (mut sum, mut rows) = (0, 0);
        for call in 1.. {
            let response = rig.call::<Checksum>(&request).unwrap().message;
            assert_eq!(response.error, None);
            (sum, rows) = (response.checksum(), rows + response.rows_checksummed());
            if !response.has_more_results() {
                break;
            }
            let next = ContinueChecksumRequestPb {
                scanner_id: response.scanner_id.unwrap(),
                previous_checksum: sum,
            };
            request = ChecksumRequestPb {
                continue_request: Some(next),
                call_seq_id: Some(call),
                batch_size_bytes: Some(batch_size),
                ..Default::default()
            };
        }
        assert_eq!(rows, keys.len() as i64);
        sum
    };
    let up: Vec<i32> = (0..200).collect();
    let down: Vec<i32> = (0..200).rev().collect();
    assert_eq!(sum(&up, 1 << 20), sum(&down, 1));
    assert_ne!(sum(&up, 1 << 20), sum(&up[1..], 1 << 20));
}

#[test]
fn features_that_are_not_there_are_named_in_the_refusal() {
    let rig = Rig::new(&[]);
    let call = rig.proxy.call::<Scan>(&Default::default()).feature(4).feature(5).feature(7);
    let error = rig.runtime.block_on(call.send()).unwrap_err();
    assert_eq!(error.remote().unwrap().unsupported_feature_flags, [4, 7]);
}
