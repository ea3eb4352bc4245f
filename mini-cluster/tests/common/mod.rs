//! What several of the tests need.
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod forwarder;
#[path = "../../../rpc-server/tests/common/mod.rs"]
pub(crate) mod raw;

use std::time::{Duration, Instant};

use client::schema::{Column, DataType, Schema};
use client::{Client, Operation, Table};
use mini_cluster::{MiniCluster, MiniClusterBuilder};
use net_addr::SockAddr;

/// A runtime of one thread for a whole test.
pub(crate) fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

pub(crate) fn start(builder: MiniClusterBuilder) -> MiniCluster {
    builder.start_blocking().expect("a cluster starts in process")
}

/// The master's address.
pub(crate) fn master(cluster: &MiniCluster) -> SockAddr {
    cluster.master_address().parse().unwrap()
}

/// `id` INT64 key, `text` STRING nullable.
pub(crate) fn schema() -> Schema {
    let text = Column::new("text", DataType::String).nullable(true);
    Schema::new(vec![Column::new("id", DataType::Int64), text], 1).unwrap()
}

/// A table of [`schema`] in this many tablets, 2 or more.
pub(crate) async fn table(client: &Client, name: &str, tablets: u32) -> Table {
    let table = client.create_table(name, schema()).hash_partition(&["id"], tablets).replicas(1);
    table.create().await.expect("a plain table can be made")
}

pub(crate) fn row(table: &Table, id: i64) -> Operation {
    table.insert().with("id", id).unwrap()
}

pub(crate) async fn count(table: &Table) -> u64 {
    table.scan().project(&[]).start().unwrap().count().await.unwrap() as u64
}

/// Creates a table, writes a row, reads it back and drops the table.
pub(crate) async fn a_good_client_is_served(cluster: &MiniCluster) {
    let client = Client::connect(cluster.master_address()).await.unwrap();
    let table = table(&client, "good", 2).await;
    client.session().build().apply(row(&table, 1)).await.unwrap();
    assert_eq!(count(&table).await, 1);
    client.delete_table("good").await.unwrap();
}

/// Waits until `done`, for at most two minutes.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(120), "not within two minutes: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Resident bytes of this process, and bytes of memory it has asked for.
pub(crate) fn memory() -> (usize, usize) {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: Vec<usize> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    (pages[1] * 4096, pages[5] * 4096)
}
