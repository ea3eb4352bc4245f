//! Pieces of a tablet, as clients ask for them to share a scan. All refusals here are those of a real tablet server.

mod common;

use bytes::Bytes;
use common::{Rig, TABLET, row, scan_request, table};
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tserver::SplitKeyRangeRequestPb;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::kudu::{ColumnSchemaPb, KeyRangePb};
use proto::methods::tablet_server_service::SplitKeyRange;
use schema::wire::schema_without_ids;

type Request = SplitKeyRangeRequestPb;

fn request(target: u64) -> Request {
    Request { tablet_id: TABLET.into(), target_chunk_size_bytes: Some(target), ..Default::default() }
}

fn split(rig: &Rig, request: &Request) -> Vec<KeyRangePb> {
    let response = rig.call::<SplitKeyRange>(request).unwrap().message;
    assert_eq!(response.error, None);
    response.ranges
}

fn key(key: i32) -> Option<Bytes> {
    Some(((key as u32) ^ 1 << 31).to_be_bytes().to_vec().into())
}

fn column(name: &str) -> ColumnSchemaPb {
    let all = schema_without_ids(&table()).columns;
    let like = all.iter().find(|column| column.name == name).unwrap_or(&all[1]);
    ColumnSchemaPb { name: name.to_owned(), is_key: None, ..like.clone() }
}

#[test]
fn pieces_are_scanned_by_themselves_and_give_every_row_once() {
    let folder = tempfile::tempdir().unwrap();
    let flags = [
        &format!("--fs_wal_dir={}", folder.path().display())[..],
        "--flush_threshold_secs=0",
        "--maintenance_manager_polling_interval_ms=5",
    ];
    let (rig, schema) = (Rig::new(&flags), table());
    rig.create(&schema);
    let empty = split(&rig, &request(1));
    assert_eq!(empty, [KeyRangePb::default()], "an empty tablet is one piece");
    for keys in (0..2000).collect::<Vec<_>>().chunks(500) {
        rig.insert(&schema, &keys.iter().map(|key| row(&schema, *key)).collect::<Vec<_>>());
    }
    // Rows go to files meanwhile; keys and strings with their offsets take some 12 bytes a row.
    for _ in 0..3 {
        let pieces = split(&rig, &request(4000));
        assert!((4..9).contains(&pieces.len()), "{pieces:?}");
        let mut rows = 0;
        for piece in &pieces {
            let mut new = scan_request(&schema);
            new.start_primary_key = piece.start_primary_key.clone();
            new.stop_primary_key = piece.stop_primary_key.clone();
            let (response, _) = rig.open(new, 1 << 20);
            assert_eq!((&response.error, response.has_more_results()), (&None, false));
            rows += response.data.unwrap().num_rows();
            assert!((2000..8000).contains(&piece.size_bytes_estimates), "{pieces:?}");
        }
        assert_eq!(rows, 2000);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let some = Request { columns: vec![column("k")], ..request(1 << 30) };
    assert_eq!(split(&rig, &some)[0].size_bytes_estimates, 8000);
    let (start_primary_key, stop_primary_key) = (key(500), key(1500));
    let part = Request { start_primary_key, stop_primary_key, ..request(4000) };
    let pieces = split(&rig, &part);
    assert_eq!(pieces.first().unwrap().start_primary_key, key(500));
    assert_eq!(pieces.last().unwrap().stop_primary_key, key(1500));
    assert!((2..5).contains(&pieces.len()), "{pieces:?}");
    let none = Request { start_primary_key: key(5), stop_primary_key: key(5), ..request(1) };
    assert_eq!(split(&rig, &none), []);
}

#[test]
fn wrong_requests_are_refused_in_the_words_of_a_real_server() {
    let (rig, schema) = (Rig::new(&[]), table());
    rig.create(&schema);
    let (start, stop) = (|key| Request { start_primary_key: key, ..request(1) }, key(5));
    let with_id = ColumnSchemaPb { id: Some(10), ..column("k") };
    let invalid = ErrorCode::InvalidArgument;
    let cases = [
        (request(0), Code::UnknownError, invalid, "Invalid SplitKeyRange target chunk size"),
        (
            Request { target_chunk_size_bytes: None, ..request(0) },
            Code::UnknownError,
            invalid,
            "Invalid SplitKeyRange target chunk size",
        ),
        (
            Request { stop_primary_key: stop.clone(), ..start(key(6)) },
            Code::UnknownError,
            invalid,
            "Invalid primary key range",
        ),
        (start(Some(Bytes::new())), Code::UnknownError, invalid, "Invalid SplitKeyRange start primary key"),
        (start(Some("xx".into())), Code::UnknownError, invalid, "Invalid SplitKeyRange start primary key"),
        (
            Request { stop_primary_key: Some("xx".into()), ..request(1) },
            Code::UnknownError,
            invalid,
            "Invalid SplitKeyRange stop primary key",
        ),
        (
            Request { columns: vec![with_id], ..request(1) },
            Code::InvalidSchema,
            invalid,
            "User requests should not have Column IDs",
        ),
        (
            Request { columns: vec![column("none")], ..request(1) },
            Code::InvalidSchema,
            invalid,
            "Invalid SplitKeyRange column name: none",
        ),
        (
            Request { tablet_id: "nowhere".into(), ..request(1) },
            Code::TabletNotFound,
            ErrorCode::NotFound,
            "Tablet not found: nowhere",
        ),
    ];
    for (request, code, status, text) in cases {
        let error = rig.call::<SplitKeyRange>(&request).unwrap().message.error.expect(text);
        assert_eq!((error.code(), error.status.code(), error.status.message()), (code, status, text));
    }
    let twice = Request { columns: vec![column("k"), column("k")], ..request(1) };
    let error = rig.call::<SplitKeyRange>(&twice).unwrap().message.error.unwrap();
    assert_eq!((error.code(), error.status.code()), (Code::InvalidSchema, invalid));
}
