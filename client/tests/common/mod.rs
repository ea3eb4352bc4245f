//! The cluster that the tests run on, and what they all need.
#![allow(dead_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use client::schema::{Column, DataType, Schema};
use client::{Client, Session, Table};
use mini_cluster::MiniCluster;

/// Where the master of the cluster under test listens: a running cluster's when `NYALA_TEST_MASTER` names one, else that
/// of a cluster inside of this process, which lives as long as it.
pub(crate) fn master_address() -> String {
    static CLUSTER: OnceLock<MiniCluster> = OnceLock::new();
    std::env::var("NYALA_TEST_MASTER").unwrap_or_else(|_| {
        let cluster = CLUSTER.get_or_init(|| {
            // On a thread of its own: the caller may be inside of a runtime.
            let start = || MiniCluster::builder().tservers(3).start_blocking();
            std::thread::spawn(start).join().expect("no panic").expect("a cluster starts in process")
        });
        cluster.master_address()
    })
}

/// A client of the cluster under test. `NYALA_TEST_UNIX_SOCKETS=false` keeps it to TCP.
pub(crate) async fn connect() -> Client {
    let by_unix_socket = std::env::var("NYALA_TEST_UNIX_SOCKETS").map_or(true, |wanted| wanted != "false");
    let builder = Client::builder(master_address()).use_unix_domain_sockets(by_unix_socket);
    builder.connect().await.expect("the cluster under test is up")
}

/// A table of a test's own, deleted at its end. A test that fails leaves it for inspection.
pub(crate) struct TestTable {
    pub(crate) client: Client,
    pub(crate) table: Table,
}

impl TestTable {
    pub(crate) async fn delete(self) {
        self.client.delete_table(self.table.name()).await.expect("the test's own table can be deleted");
    }
}

/// A name that no other test, and no earlier run, has.
pub(crate) fn unique_name(test: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let (count, process) = (COUNT.fetch_add(1, Ordering::Relaxed), std::process::id());
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_micros();
    format!("client_test_{test}_{process}_{now}_{count}")
}

/// `id` INT64 key, `value` INT32, `text` STRING nullable.
pub(crate) fn small_schema() -> Schema {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("value", DataType::Int32),
        Column::new("text", DataType::String).nullable(true),
    ];
    Schema::new(columns, 1).expect("a good schema")
}

/// A table of [`small_schema`] in this many tablets (1 or more).
pub(crate) async fn small_table(test: &str, tablets: u32) -> TestTable {
    let client = connect().await;
    let mut table = client.create_table(unique_name(test), small_schema()).replicas(1).range_columns(&[]);
    if tablets > 1 {
        table = table.hash_partition(&["id"], tablets);
    }
    let table = table.create().await.expect("a plain table can be made");
    TestTable { client, table }
}

/// Inserts `id` = 0..rows, `value` = id, `text` = "row <id>", NULL for every tenth.
pub(crate) async fn fill(session: &Session, table: &Table, rows: i64) {
    for id in 0..rows {
        let row = table.insert().with("id", id).unwrap().with("value", id as i32).unwrap();
        let row = if id % 10 == 0 { row.with_null("text") } else { row.with("text", format!("row {id}")) };
        session.apply(row.unwrap()).await.expect("room in the buffer");
    }
    session.flush().await.expect("all rows are new");
}
