//! Scans whose servers are busy, lose the scanner, or fail half-way: all rows, or an error, never fewer rows.

mod fake;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use client::{Client, ScanBuilder, ScanError, Table};
use fake::{FakeMaster, FakeServer, FakeTablet, Reply, World};
use prost::Message;
use proto::kudu::columnar_row_block_pb::Column;
use proto::kudu::tserver::{ScanRequestPb, ScanResponsePb, TabletServerErrorPb};
use proto::kudu::{AppStatusPb, ColumnarRowBlockPb};

const SCANNER_EXPIRED: i32 = 7;
const NOT_FOUND: i32 = 1;

type Calls = Arc<Mutex<Vec<(String, Option<ScanRequestPb>)>>>;

/// Answers with these ids; the scanner is called `scanner-1`.
fn rows(ids: impl IntoIterator<Item = i64>, has_more: bool) -> Reply {
    let cells: Vec<u8> = ids.into_iter().flat_map(i64::to_le_bytes).collect();
    let block = ColumnarRowBlockPb {
        columns: vec![Column { data_sidecar: Some(0), ..Default::default() }],
        num_rows: Some(cells.len() as i64 / 8),
    };
    let answer = ScanResponsePb {
        scanner_id: has_more.then(|| Bytes::from_static(b"scanner-1")),
        has_more_results: Some(has_more),
        columnar_data: Some(block),
        snap_timestamp: Some(1 << 30),
        last_primary_key: Some(Bytes::from_static(b"last")),
        ..Default::default()
    };
    Reply::WithSidecars(answer.encode_to_vec(), vec![cells.into()])
}

fn expired() -> Reply {
    let status = AppStatusPb { code: NOT_FOUND, message: Some("scanner not found".into()), posix_code: None };
    let error = Some(TabletServerErrorPb { code: SCANNER_EXPIRED, status });
    Reply::message(&ScanResponsePb { error, ..Default::default() })
}

/// A server that answers scans by a script, given how many calls came before, and keeps the requests.
fn scripted(script: impl Fn(usize) -> Reply + Send + Sync + 'static) -> (FakeServer, Calls) {
    let calls: Calls = Arc::default();
    let server = {
        let calls = calls.clone();
        FakeServer::start(move |request| {
            let is_scan = request.method() == "Scan";
            let scan = is_scan.then(|| ScanRequestPb::decode(request.body().clone()).unwrap());
            let is_close = scan.as_ref().is_some_and(|scan| scan.close_scanner());
            let earlier = {
                let mut calls = calls.lock().unwrap();
                let earlier = calls.iter().filter(|(method, _)| method == "Scan").count();
                calls.push((request.method().to_owned(), scan));
                earlier
            };
            if is_scan && !is_close { script(earlier) } else { Reply::Message(Vec::new()) }
        })
    };
    (server, calls)
}

async fn open(servers: &[&FakeServer]) -> (FakeMaster, Table) {
    let tablet = FakeTablet { servers: (0..servers.len()).collect(), ..FakeTablet::whole("t", 0) };
    let servers = servers.iter().map(|server| ("127.0.0.1".to_owned(), server.port(), None)).collect();
    let master = FakeMaster::start(World { servers, tablets: vec![tablet], ..World::default() });
    let client = Client::connect(master.address()).await.unwrap();
    let table = client.open_table("fake").await.unwrap();
    (master, table)
}

async fn read(scan: ScanBuilder) -> (Vec<i64>, Option<ScanError>) {
    let mut scan = scan.project(&["id"]).start().unwrap();
    let mut ids = Vec::new();
    while let Some(batch) = scan.next().await {
        match batch {
            Ok(batch) => ids.extend(batch.fixed::<i64>(0).unwrap().values()),
            Err(error) => {
                assert!(scan.next().await.is_none(), "nothing follows an error");
                return (ids, Some(error));
            }
        }
    }
    (ids, None)
}

fn call_ids(calls: &Calls) -> Vec<u32> {
    calls.lock().unwrap().iter().filter_map(|(_, scan)| Some(scan.as_ref()?.call_seq_id())).collect()
}

#[tokio::test]
async fn a_busy_server_is_asked_for_the_same_batch_again() {
    let (server, calls) = scripted(|earlier| match earlier {
        0 | 1 | 3 | 4 => Reply::busy(),
        2 => rows(0..3, true),
        5 => rows(3..5, true),
        _ => rows([], false),
    });
    let (_master, table) = open(&[&server]).await;
    let (ids, error) = read(table.scan()).await;
    assert_eq!((ids, error.is_none()), (vec![0, 1, 2, 3, 4], true));
    assert_eq!(call_ids(&calls), [0, 0, 0, 1, 1, 1, 2]);
}

#[tokio::test]
async fn a_scanner_lost_half_way_is_an_error_and_not_the_end() {
    let (server, _) = scripted(|earlier| if earlier == 0 { rows(0..3, true) } else { expired() });
    let (_master, table) = open(&[&server]).await;
    let (ids, error) = read(table.scan()).await;
    let error = error.expect("rows are missing");
    assert_eq!(ids, [0, 1, 2]);
    let text = error.to_string();
    assert!(
        text.contains("SCANNER_EXPIRED") && text.contains("fake") && text.contains("127.0.0.1"),
        "{text}"
    );
}

#[tokio::test]
async fn a_scanner_lost_before_its_first_row_is_opened_again() {
    let (server, calls) = scripted(|earlier| match earlier {
        0 => rows([], true),
        1 => expired(),
        _ => rows(0..3, false),
    });
    let (_master, table) = open(&[&server]).await;
    let (ids, error) = read(table.scan()).await;
    assert_eq!((ids, error.is_none()), (vec![0, 1, 2], true));
    assert_eq!(call_ids(&calls), [0, 1, 0]);
}

#[tokio::test]
async fn a_fault_tolerant_scan_goes_on_behind_its_last_row_at_another_replica() {
    let (first, _) = scripted(|earlier| match earlier {
        0 => rows(0..3, true),
        _ => Reply::Error(rpc_core::RpcErrorCode::FATAL_SERVER_SHUTTING_DOWN),
    });
    let (second, calls) = scripted(|_| rows(3..6, false));
    let (_master, table) = open(&[&first, &second]).await;
    let scan = table.scan().fault_tolerant(true).selection(client::ReplicaSelection::First);
    let (ids, error) = read(scan).await;
    assert_eq!((ids, error.is_none()), (vec![0, 1, 2, 3, 4, 5], true));
    let calls = calls.lock().unwrap();
    let new = calls[0].1.as_ref().unwrap().new_scan_request.as_ref().unwrap();
    assert_eq!((new.last_primary_key.as_deref(), new.snap_timestamp), (Some(&b"last"[..]), Some(1 << 30)));
}

#[tokio::test]
async fn a_slow_reader_keeps_its_scanner_alive_and_a_dropped_scan_closes_it() {
    let (server, calls) = scripted(|earlier| rows([earlier as i64], true));
    let (_master, table) = open(&[&server]).await;
    let scan = table.scan().project(&["id"]).keep_alive(Duration::from_millis(30));
    let mut scan = scan.start().unwrap();
    assert!(scan.next().await.unwrap().is_ok());
    tokio::time::sleep(Duration::from_millis(300)).await;
    let kept = calls.lock().unwrap().iter().filter(|(method, _)| method == "ScannerKeepAlive").count();
    assert!(kept >= 3, "{kept} keep-alives");
    drop(scan);
    let closed = async {
        let is_close = |(_, scan): &(String, Option<ScanRequestPb>)| {
            scan.as_ref().is_some_and(|scan| scan.close_scanner() && scan.scanner_id() == b"scanner-1")
        };
        while !calls.lock().unwrap().iter().any(is_close) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), closed).await.expect("the scanner is closed");
}

#[tokio::test]
async fn a_batch_that_cannot_be_read_is_the_servers_fault_and_no_panic() {
    let (server, _) = scripted(|_| {
        let block = ColumnarRowBlockPb {
            columns: vec![Column { data_sidecar: Some(0), ..Default::default() }],
            num_rows: Some(1 << 40),
        };
        let answer = ScanResponsePb { columnar_data: Some(block), ..Default::default() };
        Reply::WithSidecars(answer.encode_to_vec(), vec![Bytes::from_static(b"short")])
    });
    let (_master, table) = open(&[&server]).await;
    let (ids, error) = read(table.scan()).await;
    assert!(ids.is_empty());
    assert!(matches!(error, Some(ScanError::BadRows { .. })), "{error:?}");
}

#[tokio::test]
async fn a_silent_server_ends_the_scan_at_its_deadline() {
    let (server, _) = scripted(|_| Reply::Silence);
    let (_master, table) = open(&[&server]).await;
    let (_, error) = read(table.scan().timeout(Duration::from_millis(300))).await;
    let error = error.expect("no answer is no end");
    assert!(error.is_timeout() && error.is_retriable(), "{error}");
}
