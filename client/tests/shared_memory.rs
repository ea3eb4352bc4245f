//! Scans by shared memory: the same rows as without, whoever writes, leaves, or comes back meanwhile.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use client::schema::{Column, DataType, Schema};
use client::{Batch, Client, FlushMode, Table};
use mini_cluster::MiniCluster;

const ROWS: i64 = 50_000;

fn start() -> MiniCluster {
    let start = || MiniCluster::builder().start_blocking();
    std::thread::spawn(start).join().expect("no panic").expect("a cluster starts in process")
}

fn cluster() -> &'static MiniCluster {
    static CLUSTER: OnceLock<MiniCluster> = OnceLock::new();
    CLUSTER.get_or_init(start)
}

async fn connect(cluster: &MiniCluster, shares: bool) -> Client {
    Client::builder(cluster.master_address()).share_memory(shares).connect().await.unwrap()
}

/// `id` INT64 = 0..ROWS, `value` INT32 = id, NULL for every tenth, `text` = "row <id>"; one tablet.
async fn table(client: &Client) -> Table {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("value", DataType::Int32).nullable(true),
        Column::new("text", DataType::String),
    ];
    let name = format!("shared-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let creator = client.create_table(name, Schema::new(columns, 1).unwrap()).replicas(1).range_columns(&[]);
    let table = creator.create().await.unwrap();
    write(client, &table, 0..ROWS, 0).await;
    table
}

async fn write(client: &Client, table: &Table, ids: std::ops::Range<i64>, add: i32) {
    let session = client.session().mode(FlushMode::AutoBackground).build();
    for id in ids {
        let row = table.upsert().with("id", id).unwrap().with("text", format!("row {id}")).unwrap();
        let row = match id % 10 {
            0 => row.with_null("value"),
            _ => row.with("value", id as i32 + add),
        };
        session.apply(row.unwrap()).await.unwrap();
    }
    session.flush().await.unwrap();
}

/// Does this address lie in a memory that a tablet server has made?
fn is_shared(bytes: &[u8]) -> bool {
    let address = bytes.as_ptr().addr();
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().any(|line| {
        let (range, _) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let at = |text| usize::from_str_radix(text, 16).unwrap();
        line.contains("memfd:nyala-column") && (at(start)..at(end)).contains(&address)
    })
}

#[derive(Debug, Default, PartialEq)]
struct Seen {
    rows: i64,
    ids: i64,
    values: i64,
    nulls: i64,
    /// Blocks of ids in shared memory.
    shared: usize,
}

impl Seen {
    fn add(&mut self, batch: &Batch) {
        let (ids, values) = (batch.fixed::<i64>("id").unwrap(), batch.fixed::<i32>("value").unwrap());
        let texts = batch.varlen("text").unwrap();
        for row in 0..batch.rows() {
            let id = ids.get(row).unwrap();
            assert_eq!(texts.text(row).unwrap(), format!("row {id}"));
            self.ids += id;
            self.values += i64::from(values.get(row).unwrap_or_default());
            self.nulls += i64::from(values.get(row).is_none());
        }
        self.rows += batch.rows() as i64;
        self.shared += usize::from(is_shared(&batch.block().columns[0].data));
    }

    /// The rows of [`table`], `add` to each value of the first `changed`.
    fn expected(rows: i64, changed: i64, add: i64) -> Seen {
        let values = (0..rows).filter(|id| id % 10 != 0);
        let values = values.map(|id| id + if id < changed { add } else { 0 }).sum();
        Seen { rows, ids: rows * (rows - 1) / 2, values, nulls: (rows + 9) / 10, shared: 0 }
    }

    fn without_way(self) -> Seen {
        Seen { shared: 0, ..self }
    }
}

async fn read(table: &Table) -> Seen {
    let mut scan = table.scan().start().unwrap();
    let mut seen = Seen::default();
    while let Some(batch) = scan.next().await {
        seen.add(&batch.unwrap());
    }
    seen
}

#[tokio::test]
async fn the_same_rows_come_with_and_without_shared_memory() {
    let (sharing, sent) = (connect(cluster(), true).await, connect(cluster(), false).await);
    let table = table(&sharing).await;
    let sent = sent.open_table(table.name()).await.unwrap();
    // Whoever connects first is told what the connection can do, and shares from the next call on.
    for round in 0..3 {
        let seen = read(&table).await;
        assert!(round == 0 || seen.shared > 0, "{seen:?}");
        assert_eq!(seen.without_way(), Seen::expected(ROWS, 0, 0));
        assert_eq!(read(&sent).await, Seen::expected(ROWS, 0, 0), "a client without the feature");
    }
    let over_tcp = Client::builder(cluster().master_address()).use_unix_domain_sockets(false);
    let over_tcp = over_tcp.connect().await.unwrap().open_table(table.name()).await.unwrap();
    assert_eq!(read(&over_tcp).await, Seen::expected(ROWS, 0, 0), "over TCP nothing is shared");
    // A size of the client's own, which cuts blocks anywhere, and filters and limits, which copy.
    for bytes in [5_000, 100_000, 1_000_000] {
        let mut scan = table.scan().batch_bytes(bytes).start().unwrap();
        let mut seen = Seen::default();
        while let Some(batch) = scan.next().await {
            seen.add(&batch.unwrap());
        }
        assert_eq!(seen.without_way(), Seen::expected(ROWS, 0, 0), "{bytes}");
    }
    assert_eq!(table.scan().limit(33_333).start().unwrap().count().await.unwrap(), 33_333);
    let few = table.scan().filter(client::column("value").less_than(1000)).start().unwrap();
    assert_eq!(few.count().await.unwrap(), 900);
}

#[tokio::test]
async fn a_scan_shows_what_it_began_with_while_a_writer_goes_on() {
    let client = connect(cluster(), true).await;
    let table = table(&client).await;
    let before = read(&table).await;
    let mut scan = table.scan().start().unwrap();
    let mut seen = Seen::default();
    let first = scan.next().await.unwrap().unwrap();
    write(&client, &table, 0..5_000, 7).await;
    let session = client.session().mode(FlushMode::AutoBackground).build();
    for id in ROWS - 10..ROWS {
        session.apply(table.delete().with("id", id).unwrap()).await.unwrap();
    }
    session.flush().await.unwrap();
    seen.add(&first);
    while let Some(batch) = scan.next().await {
        seen.add(&batch.unwrap());
    }
    assert_eq!(seen.without_way(), before.without_way());
    let after = read(&table).await;
    assert_eq!(after.without_way(), Seen::expected(ROWS - 10, 5_000, 7));
    // What was shown once stays as it was.
    seen = Seen::default();
    seen.add(&first);
    assert!(seen.rows > 0);
}

#[tokio::test]
async fn clients_that_leave_in_the_middle_do_not_hurt_those_that_stay() {
    let stays = connect(cluster(), true).await;
    let table = table(&stays).await;
    assert_eq!(read(&table).await.without_way(), Seen::expected(ROWS, 0, 0));
    for _ in 0..5 {
        let name = table.name().to_owned();
        // A runtime of its own, which is dropped with all connections while a scan is under way.
        let leave = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let batch = runtime.block_on(async {
                let client = connect(cluster(), true).await;
                let table = client.open_table(&name).await.unwrap();
                let _ = read(&table).await;
                let mut scan = table.scan().start().unwrap();
                scan.next().await.unwrap().unwrap()
            });
            drop(runtime);
            batch
        };
        let batch = std::thread::spawn(leave).join().unwrap();
        // What it was given it can still read.
        let mut seen = Seen::default();
        seen.add(&batch);
        assert!(seen.rows > 0);
    }
    let seen = read(&table).await;
    assert!(seen.shared > 0, "{seen:?}");
    assert_eq!(seen.without_way(), Seen::expected(ROWS, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_scans_at_once_over_one_connection_all_find_their_memory() {
    let client = connect(cluster(), true).await;
    let table = table(&client).await;
    let mut scans = Vec::new();
    for _ in 0..12 {
        let table = table.clone();
        scans.push(tokio::spawn(async move { read(&table).await.without_way() }));
    }
    for scan in scans {
        assert_eq!(scan.await.unwrap(), Seen::expected(ROWS, 0, 0));
    }
}

#[tokio::test]
async fn after_a_restart_of_the_server_memory_is_shared_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let start = move || MiniCluster::builder().data_dir(path).start_blocking();
    let mut cluster = std::thread::spawn(start).join().unwrap().unwrap();
    let client = connect(&cluster, true).await;
    let table = table(&client).await;
    let old = {
        let _ = read(&table).await;
        let mut scan = table.scan().start().unwrap();
        scan.next().await.unwrap().unwrap()
    };
    let cluster = std::thread::spawn(move || {
        cluster.stop_tserver(0).unwrap();
        cluster.start_tserver(0).unwrap();
        cluster
    });
    let cluster = cluster.join().unwrap();
    let _ = read(&table).await;
    let seen = read(&table).await;
    assert!(seen.shared > 0, "{seen:?}");
    assert_eq!(seen.without_way(), Seen::expected(ROWS, 0, 0));
    let mut before = Seen::default();
    before.add(&old);
    assert!(before.rows > 0, "what the old server shared is still there");
    std::thread::spawn(move || cluster.shutdown()).join().unwrap().unwrap();
}
