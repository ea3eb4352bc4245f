//! Writes: rows that fail, requests that fail, requests that come twice, and more of them than threads.

mod common;

use std::time::{Duration, Instant};

use common::{Rig, row, scan_request, table, write_request};
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::kudu::tserver::{WriteRequestPb, WriteResponsePb};
use proto::methods::tablet_server_service::{Scan, Write};
use rpc_core::{RequestId, RpcErrorCode};
use schema::{OpKind, PartialRow};

fn refusal(response: &WriteResponsePb) -> (Code, ErrorCode) {
    let error = response.error.as_ref().expect("a refusal");
    (error.code(), error.status.code())
}

#[test]
fn rows_fail_alone_and_the_answer_still_has_a_timestamp_and_counts() {
    let (rig, schema) = (Rig::new(&[]), table());
    rig.create(&schema);
    let mut key_only = PartialRow::new(&schema);
    key_only.set_at(0, 9).unwrap();
    let rows = [
        (OpKind::Insert, row(&schema, 1)),
        (OpKind::Insert, row(&schema, 1)),
        (OpKind::Delete, key_only.clone()),
        (OpKind::Update, key_only),
        (OpKind::InsertIgnore, row(&schema, 1)),
        (OpKind::Upsert, row(&schema, 2)),
    ];
    let response = rig.write(&schema, &rows);
    assert!(response.error.is_none() && response.timestamp.is_some());
    let failed: Vec<_> = response
        .per_row_errors
        .iter()
        .map(|e| (e.row_index, e.error.code(), e.error.message().to_owned()))
        .collect();
    let expected = [
        (1, ErrorCode::AlreadyPresent, "key already present".to_owned()),
        (2, ErrorCode::NotFound, "key not found".to_owned()),
    ];
    assert_eq!(failed[..2], expected);
    assert_eq!((failed[2].0, failed[2].1), (3, ErrorCode::InvalidArgument));
    let metrics = response.resource_metrics.unwrap();
    let counts = (metrics.successful_inserts(), metrics.insert_ignore_errors(), metrics.successful_upserts());
    assert_eq!(counts, (1, 1, 1));
}

#[test]
fn requests_that_fail_as_a_whole_write_nothing() {
    let (rig, schema) = (Rig::new(&[]), table());
    rig.create(&schema);
    type Change = fn(&mut WriteRequestPb);
    let cases: [(Change, Code, ErrorCode); 8] = [
        (|r| r.tablet_id = "none".into(), Code::TabletNotFound, ErrorCode::NotFound),
        (
            |r| r.schema.as_mut().unwrap().columns[0].name = "x".into(),
            Code::MismatchedSchema,
            ErrorCode::InvalidArgument,
        ),
        (
            |r| r.schema.as_mut().unwrap().columns[1].is_nullable = None,
            Code::MismatchedSchema,
            ErrorCode::InvalidArgument,
        ),
        (
            |r| {
                let operations = r.row_operations.as_mut().unwrap();
                operations.rows = Some(operations.rows().iter().copied().take(9).collect::<Vec<_>>().into());
            },
            Code::MismatchedSchema,
            ErrorCode::Corruption,
        ),
        (
            |r| {
                let operations = r.row_operations.as_mut().unwrap();
                operations.rows = Some([&[99], &operations.rows()[1..]].concat().into());
            },
            Code::MismatchedSchema,
            ErrorCode::NotSupported,
        ),
        (
            |r| r.schema.as_mut().unwrap().columns[0].id = Some(10),
            Code::InvalidSchema,
            ErrorCode::InvalidArgument,
        ),
        (|r| r.propagated_timestamp = Some(u64::MAX / 2), Code::UnknownError, ErrorCode::InvalidArgument),
        (|r| r.txn_id = Some(1), Code::UnknownError, ErrorCode::NotSupported),
    ];
    for (number, (change, code, status)) in cases.into_iter().enumerate() {
        let mut request = write_request(&schema, &[(OpKind::Insert, row(&schema, 1))]);
        change(&mut request);
        let response = rig.call::<Write>(&request).unwrap().message;
        assert_eq!(refusal(&response), (code, status), "case {number}");
    }
    let (rows, _) = rig.open(scan_request(&schema), 1000);
    assert_eq!(rows.data.map_or(0, |data| data.num_rows()), 0);
    let none = rig.write(&schema, &[]);
    assert!(none.error.is_none() && none.timestamp.is_some(), "a write of nothing is legal");
}

#[test]
fn the_same_request_again_gets_the_same_answer_and_writes_once() {
    let (rig, schema) = (Rig::new(&[]), table());
    rig.create(&schema);
    let request = write_request(&schema, &[(OpKind::Insert, row(&schema, 1))]);
    let id = |attempt_no| RequestId {
        client_id: "client".to_owned(),
        seq_no: 7,
        first_incomplete_seq_no: 7,
        attempt_no,
    };
    let first = rig.attempt(&request, id(0)).unwrap();
    assert_eq!(first.per_row_errors.len(), 0);
    assert_eq!(rig.attempt(&request, id(1)).unwrap(), first);
    let other = RequestId { seq_no: 8, first_incomplete_seq_no: 8, ..id(0) };
    assert_eq!(rig.attempt(&request, other).unwrap().per_row_errors.len(), 1);
    let stale = rig.attempt(&request, RequestId { seq_no: 7, ..id(2) }).unwrap_err();
    assert_eq!(stale.remote().unwrap().code, Some(RpcErrorCode::ERROR_REQUEST_STALE));
}

#[test]
fn a_refused_write_is_not_remembered() {
    let (rig, schema) = (Rig::new(&[]), table());
    let request = write_request(&schema, &[(OpKind::Insert, row(&schema, 1))]);
    let id =
        RequestId { client_id: "client".to_owned(), seq_no: 1, first_incomplete_seq_no: 1, attempt_no: 0 };
    assert_eq!(refusal(&rig.attempt(&request, id.clone()).unwrap()).0, Code::TabletNotFound);
    rig.create(&schema);
    let second = rig.attempt(&request, RequestId { attempt_no: 1, ..id }).unwrap();
    assert_eq!((second.error, second.per_row_errors.len()), (None, 0));
}

#[test]
fn writes_are_refused_for_a_while_when_rows_take_too_much_memory() {
    let (rig, schema) = (Rig::new(&["--memory_limit_hard_bytes=100000"]), table());
    rig.create(&schema);
    rig.insert(&schema, &(0..5_000).map(|key| row(&schema, key)).collect::<Vec<_>>());
    let request = write_request(&schema, &[(OpKind::Insert, row(&schema, 10_000))]);
    let give_up = Instant::now() + Duration::from_secs(10);
    let refused = loop {
        match rig.call::<Write>(&request) {
            Err(error) => break error,
            Ok(_) => assert!(Instant::now() < give_up, "never refused"),
        }
    };
    assert_eq!(refused.remote().unwrap().code, Some(RpcErrorCode::ERROR_SERVER_TOO_BUSY));
    assert!(refused.is_retriable() && refused.to_string().contains("memory limit"), "{refused}");
    let (rows, _) = rig.open(scan_request(&schema), 1 << 20);
    assert!(rows.data.unwrap().num_rows() >= 5_000, "reads go on");
}

#[test]
fn writes_that_wait_for_the_clock_occupy_no_thread() {
    let (rig, schema) = (Rig::new(&["--rpc_num_service_threads=1"]), table());
    rig.create(&schema);
    let ahead = rig.write(&schema, &[]).timestamp.unwrap() + (2_000_000 << 12);
    let mut slow = write_request(&schema, &[]);
    slow.propagated_timestamp = Some(ahead);
    slow.set_external_consistency_mode(proto::kudu::ExternalConsistencyMode::CommitWait);
    rig.runtime.block_on(async {
        let (limit, started) = (Duration::from_secs(120), Instant::now());
        let slow: Vec<_> =
            (0..10).map(|_| tokio::spawn(rig.proxy.call::<Write>(&slow).timeout(limit).send())).collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let quick = rig.proxy.call::<Write>(&write_request(&schema, &[])).timeout(limit);
        quick.send().await.expect("the only thread is free");
        assert!(slow.iter().all(|slow| !slow.is_finished()), "it was not behind them");
        let mut waited = Duration::ZERO;
        for slow in slow {
            let metrics = slow.await.unwrap().unwrap().message.resource_metrics.unwrap();
            assert!(metrics.commit_wait_duration_usec() > 1_000_000, "{metrics:?}");
            waited += Duration::from_micros(metrics.commit_wait_duration_usec() as u64);
            assert!(started.elapsed() > Duration::from_millis(1500), "answered before its time");
        }
        assert!(waited > started.elapsed(), "they wait side by side");
    });
}

#[test]
fn more_calls_than_the_queue_holds_are_refused_at_once_and_pings_are_not() {
    let flags = ["--rpc_num_service_threads=1", "--rpc_service_queue_length=1"];
    let (rig, schema) = (Rig::new(&flags), table());
    rig.create(&schema);
    // Two that wait for a second, as the clock is pushed ahead: more than the queue holds occupy the server's only thread.
    let ahead = rig.write(&schema, &[]).timestamp.unwrap() + (1_000_000 << 12);
    let mut slow = write_request(&schema, &[]);
    slow.propagated_timestamp = Some(ahead);
    slow.set_external_consistency_mode(proto::kudu::ExternalConsistencyMode::CommitWait);
    let scan = proto::kudu::tserver::ScanRequestPb {
        new_scan_request: Some(scan_request(&schema)),
        ..Default::default()
    };
    rig.runtime.block_on(async {
        let limit = Duration::from_secs(20);
        let mut waiting = Vec::new();
        for _ in 0..2 {
            waiting.push(tokio::spawn(rig.proxy.call::<Write>(&slow).timeout(limit).send()));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let calls: Vec<_> =
            (0..50).map(|_| tokio::spawn(rig.proxy.call::<Scan>(&scan).timeout(limit).send())).collect();
        let ping = rig.proxy.call::<proto::methods::tablet_server_service::Ping>(&Default::default());
        ping.timeout(Duration::from_millis(500)).send().await.unwrap();
        let (mut served, mut refused) = (0, 0);
        for call in calls {
            match call.await.unwrap() {
                Ok(_) => served += 1,
                Err(error) => {
                    assert_eq!(error.remote().unwrap().code, Some(RpcErrorCode::ERROR_SERVER_TOO_BUSY));
                    assert!(error.is_retriable());
                    refused += 1;
                }
            }
        }
        for slow in waiting {
            assert!(slow.await.unwrap().is_ok());
        }
        assert!(served >= 1 && refused >= 40, "{served} served, {refused} refused");
    });
}
