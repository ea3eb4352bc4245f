//! What a scan tells servers of itself, and what they tell of its cost.

mod common;
mod fake;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::{Client, Layout};
use common::{connect, fill, small_table};
use fake::{FakeMaster, FakeServer, FakeTablet, Reply, World};
use prost::Message;
use proto::kudu::RowwiseRowBlockPb;
use proto::kudu::tserver::{ResourceMetricsPb, ScanRequestPb, ScanResponsePb};

/// A batch of one row of no columns.
fn answer(has_more: bool, metrics: Option<ResourceMetricsPb>) -> Reply {
    Reply::message(&ScanResponsePb {
        scanner_id: has_more.then(|| b"scanner".as_slice().into()),
        has_more_results: Some(has_more),
        data: Some(RowwiseRowBlockPb { num_rows: Some(1), ..Default::default() }),
        resource_metrics: metrics,
        ..Default::default()
    })
}

#[tokio::test]
async fn each_call_carries_the_query_id_and_the_costs_add_up() {
    let requests: Arc<Mutex<Vec<ScanRequestPb>>> = Arc::default();
    let server = {
        let requests = requests.clone();
        FakeServer::start(move |request| {
            let mut requests = requests.lock().unwrap();
            requests.push(ScanRequestPb::decode(request.body().clone()).unwrap());
            let metrics = |bytes_read, nanos| ResourceMetricsPb {
                bytes_read: Some(bytes_read),
                total_duration_nanos: Some(nanos),
                ..Default::default()
            };
            match requests.len() {
                1 => answer(true, Some(metrics(100, 7_000))),
                2 => answer(true, None),
                _ => answer(false, Some(metrics(11, 500))),
            }
        })
    };
    let servers = vec![("127.0.0.1".to_owned(), server.port(), None)];
    let world = World { servers, tablets: vec![FakeTablet::whole("t", 0)], ..World::default() };
    let master = FakeMaster::start(world);
    let table = Client::connect(master.address()).await.unwrap().open_table("fake").await.unwrap();
    let mut scan = table.scan().project(&[]).layout(Layout::RowWise).query_id("of mine").start().unwrap();
    assert_eq!(scan.query_id(), "of mine");
    let mut rows = 0;
    while let Some(batch) = scan.next().await {
        rows += batch.unwrap().rows();
    }
    assert_eq!(rows, 3);
    let metrics = scan.metrics();
    assert_eq!((metrics.bytes_read, metrics.total_duration), (111, Duration::from_nanos(7_500)));
    let ids: Vec<_> = requests.lock().unwrap().iter().map(|request| request.query_id().to_vec()).collect();
    assert_eq!(ids, vec![b"of mine".to_vec(); 3]);
}

#[tokio::test]
async fn a_scan_without_a_query_id_gets_one_of_its_own() {
    let test = small_table("query_ids", 1).await;
    fill(&connect().await.session().build(), &test.table, 1).await;
    let (one, other) = (test.table.scan().start().unwrap(), test.table.scan().start().unwrap());
    assert_ne!(one.query_id(), other.query_id());
    assert!(one.query_id().len() == 32 && one.query_id().bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(one.count().await.unwrap(), 1);
    test.delete().await;
}

#[tokio::test]
async fn servers_tell_what_a_scan_costs_them() {
    let test = small_table("costs", 2).await;
    fill(&connect().await.session().build(), &test.table, 1000).await;
    let mut scan = test.table.scan().batch_bytes(4096).start().unwrap();
    let (mut calls, mut rows) = (0, 0);
    while let Some(batch) = scan.next().await {
        (calls, rows) = (calls + 1, rows + batch.unwrap().rows());
    }
    assert!(calls > 4 && rows == 1000, "{rows} rows in {calls} batches");
    let told = scan.metrics();
    assert!(told.total_duration >= told.queue_duration && !told.total_duration.is_zero(), "{told:?}");
    assert_eq!(told.bytes_read, 0, "rows that were just written are in memory");
    test.delete().await;
}
