//! Scanners from their opening to their end, and the answers to calls that are wrong.

mod common;

use std::time::Duration;

use common::{Rig, row, scan_request, table};
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::kudu::tserver::{ScanRequestPb, ScanResponsePb, ScannerKeepAliveRequestPb};
use proto::kudu::{ColumnSchemaPb, DataType, OrderMode, ReadMode};
use proto::methods::tablet_server_service::{Scan, ScannerKeepAlive};
use rpc_core::RpcErrorCode;
use schema::{OpKind, PartialRow, Schema, key};

fn filled(flags: &[&str], rows: i32) -> (Rig, Schema) {
    let (rig, schema) = (Rig::new(flags), table());
    rig.create(&schema);
    rig.insert(&schema, &(0..rows).map(|key| row(&schema, key)).collect::<Vec<_>>());
    (rig, schema)
}

fn refusal(response: &ScanResponsePb) -> (Code, ErrorCode) {
    let error = response.error.as_ref().expect("a refusal");
    (error.code(), error.status.code())
}

#[test]
fn changes_between_two_snapshots_tell_what_came_and_what_went() {
    let (rig, schema) = (Rig::new(&[]), table());
    rig.create(&schema);
    let start = rig.insert(&schema, &[row(&schema, 1), row(&schema, 2)]);
    let mut gone = PartialRow::new(&schema);
    gone.set_at(0, 1).unwrap();
    let end = rig.write(&schema, &[(OpKind::Delete, gone), (OpKind::Insert, row(&schema, 3))]).timestamp;
    let mut request = scan_request(&schema);
    let mut mark = ColumnSchemaPb { name: "gone".into(), ..request.projected_columns[0].clone() };
    mark.set_type(DataType::IsDeleted);
    request.projected_columns.push(mark);
    request.read_mode = Some(ReadMode::ReadAtSnapshot.into());
    request.snap_start_timestamp = Some(start + 1);
    request.snap_timestamp = end.map(|end| end + 1);
    let (response, _) = rig.open(request.clone(), 1 << 20);
    assert_eq!(refusal(&response), (Code::InvalidScanSpec, ErrorCode::InvalidArgument), "it has no order");
    request.order_mode = Some(OrderMode::Ordered.into());
    let (response, sidecars) = rig.open(request.clone(), 1 << 20);
    assert_eq!((&response.error, rows(&response)), (&None, 2));
    // A key of 4 bytes, a string's place of 16, the mark, and a bitmap of NULLs.
    let told: Vec<(u8, u8)> = sidecars[0].chunks(22).map(|row| (row[0], row[20])).collect();
    assert_eq!(told, [(1, 1), (3, 0)]);
    request.snap_start_timestamp = end.map(|end| end + 2);
    let (response, _) = rig.open(request, 1 << 20);
    assert_eq!(refusal(&response), (Code::InvalidSnapshot, ErrorCode::InvalidArgument));
}

fn rows(response: &ScanResponsePb) -> i32 {
    response.data.as_ref().map_or(0, |data| data.num_rows())
}

#[test]
fn a_batch_size_of_zero_only_opens_and_one_byte_gives_128_rows() {
    let (rig, schema) = filled(&[], 300);
    let (opened, sidecars) = rig.open(scan_request(&schema), 0);
    assert!(opened.has_more_results() && opened.data.is_none() && sidecars.is_empty());
    let id = opened.scanner_id.unwrap();
    assert_eq!(id.len(), 32);
    let mut counts = Vec::new();
    for call in 1..=3 {
        let (batch, _) = rig.go_on(&id, call, 1);
        counts.push((rows(&batch), batch.has_more_results()));
    }
    assert_eq!(counts, [(128, true), (128, true), (44, false)]);
    let (gone, _) = rig.go_on(&id, 4, 1);
    assert_eq!(refusal(&gone), (Code::ScannerExpired, ErrorCode::NotFound));
}

#[test]
fn a_scan_that_fits_into_its_first_answer_leaves_no_scanner() {
    let (rig, schema) = filled(&[], 10);
    let (all, _) = rig.open(scan_request(&schema), 1 << 20);
    assert_eq!((rows(&all), all.has_more_results(), all.scanner_id), (10, false, None));
    let mut limited = scan_request(&schema);
    limited.limit = Some(0);
    let (none, _) = rig.open(limited, 1 << 20);
    assert_eq!((rows(&none), none.has_more_results()), (0, false));
}

#[test]
fn a_wrong_call_sequence_number_destroys_the_scanner() {
    let (rig, schema) = filled(&[], 300);
    for wrong in [1, 3] {
        let id = rig.open(scan_request(&schema), 1).0.scanner_id.unwrap();
        assert!(rig.go_on(&id, 1, 1).0.error.is_none());
        let (repeated, _) = rig.go_on(&id, wrong, 1);
        assert_eq!(refusal(&repeated), (Code::InvalidScanCallSeqId, ErrorCode::InvalidArgument));
        assert_eq!(refusal(&rig.go_on(&id, 2, 1).0), (Code::ScannerExpired, ErrorCode::NotFound));
    }
}

#[test]
fn closing_succeeds_even_for_a_scanner_that_is_not_there() {
    let (rig, schema) = filled(&[], 300);
    let id = rig.open(scan_request(&schema), 1).0.scanner_id.unwrap();
    let close = |id: &[u8]| ScanRequestPb {
        scanner_id: Some(id.to_vec().into()),
        batch_size_bytes: Some(0),
        close_scanner: Some(true),
        ..Default::default()
    };
    for id in [&id[..], &id[..], b"none"] {
        let (closed, _) = rig.scan(&close(id));
        assert_eq!((closed.error, closed.has_more_results), (None, Some(false)));
    }
    assert_eq!(refusal(&rig.go_on(&id, 1, 1).0).0, Code::ScannerExpired);
}

#[test]
fn idle_scanners_expire_and_kept_alive_ones_do_not() {
    let (rig, schema) = filled(&["--scanner_ttl_ms=300", "--scanner_gc_check_interval_us=20000"], 300);
    let idle = rig.open(scan_request(&schema), 1).0.scanner_id.unwrap();
    let kept = rig.open(scan_request(&schema), 1).0.scanner_id.unwrap();
    let keep = ScannerKeepAliveRequestPb { scanner_id: kept.clone() };
    for _ in 0..6 {
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(rig.call::<ScannerKeepAlive>(&keep).unwrap().message.error, None);
    }
    let keep_idle = ScannerKeepAliveRequestPb { scanner_id: idle.clone() };
    let error = rig.call::<ScannerKeepAlive>(&keep_idle).unwrap().message.error.unwrap();
    assert_eq!(error.code(), Code::ScannerExpired);
    assert_eq!(refusal(&rig.go_on(&idle, 1, 1).0).0, Code::ScannerExpired);
    assert_eq!(rows(&rig.go_on(&kept, 1, 1).0), 128);
}

#[test]
fn a_time_to_live_that_is_changed_counts_at_once() {
    let (rig, schema) = filled(&["--scanner_gc_check_interval_us=20000"], 300);
    let idle = rig.open(scan_request(&schema), 1).0.scanner_id.unwrap();
    let set = proto::kudu::server::SetFlagRequestPb {
        flag: "scanner_ttl_ms".to_owned(),
        value: "50".to_owned(),
        ..Default::default()
    };
    let answer = rig.call::<proto::methods::generic_service::SetFlag>(&set).unwrap().message;
    assert_eq!(answer.result(), proto::kudu::server::set_flag_response_pb::Code::Success);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(refusal(&rig.go_on(&idle, 1, 1).0).0, Code::ScannerExpired);
}

#[test]
fn a_call_with_both_or_neither_of_scanner_and_request_fails_as_a_call() {
    let (rig, schema) = filled(&[], 1);
    let neither = ScanRequestPb::default();
    let both = ScanRequestPb {
        scanner_id: Some("x".into()),
        new_scan_request: Some(scan_request(&schema)),
        ..Default::default()
    };
    for request in [neither, both] {
        let error = rig.call::<Scan>(&request).unwrap_err();
        assert_eq!(error.remote().unwrap().code, Some(RpcErrorCode::ERROR_APPLICATION));
    }
}

#[test]
fn scans_that_make_no_sense_are_refused_with_the_code_that_clients_know() {
    let (rig, schema) = filled(&[], 1);
    type Change = fn(&mut proto::kudu::tserver::NewScanRequestPb);
    let cases: [(Change, Code, ErrorCode); 14] = [
        (|r| r.tablet_id = "none".into(), Code::TabletNotFound, ErrorCode::NotFound),
        (|r| r.projected_columns[0].id = Some(10), Code::InvalidSchema, ErrorCode::InvalidArgument),
        (|r| r.projected_columns[1].name = "k".into(), Code::InvalidSchema, ErrorCode::InvalidArgument),
        (|r| r.projected_columns[1].is_key = Some(true), Code::InvalidSchema, ErrorCode::InvalidArgument),
        (|r| r.projected_columns[1].name = "w".into(), Code::MismatchedSchema, ErrorCode::InvalidArgument),
        (|r| r.projected_columns[1].is_nullable = None, Code::MismatchedSchema, ErrorCode::InvalidArgument),
        (|r| r.row_format_flags = Some(3), Code::InvalidScanSpec, ErrorCode::InvalidArgument),
        (|r| r.set_order_mode(OrderMode::Ordered), Code::InvalidScanSpec, ErrorCode::InvalidArgument),
        (
            |r| r.set_order_mode(OrderMode::UnknownOrderMode),
            Code::InvalidScanSpec,
            ErrorCode::InvalidArgument,
        ),
        (|r| r.set_read_mode(ReadMode::UnknownReadMode), Code::InvalidScanSpec, ErrorCode::InvalidArgument),
        (|r| r.column_predicates.push(Default::default()), Code::InvalidScanSpec, ErrorCode::InvalidArgument),
        (
            |r| {
                r.set_read_mode(ReadMode::ReadAtSnapshot);
                r.snap_timestamp = Some(u64::MAX / 2);
            },
            Code::InvalidSnapshot,
            ErrorCode::InvalidArgument,
        ),
        (
            |r| {
                r.set_read_mode(ReadMode::ReadAtSnapshot);
                r.snap_timestamp = Some(1);
            },
            Code::InvalidSnapshot,
            ErrorCode::InvalidArgument,
        ),
        (
            |r| {
                r.set_read_mode(ReadMode::ReadYourWrites);
                r.propagated_timestamp = Some(u64::MAX / 2);
            },
            Code::InvalidSnapshot,
            ErrorCode::InvalidArgument,
        ),
    ];
    for (number, (change, code, status)) in cases.into_iter().enumerate() {
        let mut request = scan_request(&schema);
        change(&mut request);
        assert_eq!(refusal(&rig.open(request, 1000).0), (code, status), "case {number}");
    }
    let mut harmless = scan_request(&schema);
    harmless.propagated_timestamp = Some(u64::MAX / 2);
    harmless.row_format_flags = Some(0x100);
    assert_eq!(rows(&rig.open(harmless, 1000).0), 1, "the newest rows can be read whatever the clocks");
}

#[test]
fn an_ordered_scan_can_be_taken_up_elsewhere_behind_its_last_key() {
    let (rig, schema) = (Rig::new(&[]), table());
    rig.create(&schema);
    let written = rig.insert(&schema, &(0..400).rev().map(|key| row(&schema, key)).collect::<Vec<_>>());
    let mut request = scan_request(&schema);
    request.set_read_mode(ReadMode::ReadAtSnapshot);
    request.set_order_mode(OrderMode::Ordered);
    request.snap_timestamp = Some(written + 1);
    let mut seen = 0;
    loop {
        let (batch, sidecars) = rig.open(request.clone(), 1);
        assert_eq!(batch.snap_timestamp, Some(written + 1));
        for cells in sidecars[0].chunks(4 + 16 + 1).take(rows(&batch) as usize) {
            assert_eq!(i32::from_le_bytes(cells[..4].try_into().unwrap()), seen);
            seen += 1;
        }
        let last = key::encode_key(&schema, &row(&schema, seen - 1).cells()).unwrap();
        assert_eq!(batch.last_primary_key.as_deref(), Some(&last[..]));
        request.last_primary_key = batch.last_primary_key.clone();
        if !batch.has_more_results() {
            break;
        }
    }
    assert_eq!(seen, 400);
    request.last_primary_key = None;
    request.snap_timestamp = Some(written);
    assert_eq!(rows(&rig.open(request, 1 << 20).0), 0, "a snapshot at the write does not show it");
}
