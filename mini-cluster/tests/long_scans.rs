//! Scanners that nobody reads, and readers that take their time.

mod common;

use std::time::Duration;

use client::{Client, FlushMode, Table};
use common::{memory, row, run, start, table};
use mini_cluster::MiniCluster;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

async fn filled(client: &Client, rows: i64) -> Table {
    let table = table(client, "long", 2).await;
    let session = client.session().mode(FlushMode::Manual).build();
    for id in 0..rows {
        session.apply(row(&table, id)).await.unwrap();
    }
    session.flush().await.unwrap();
    table
}

/// Opens scanners and drops them; every tenth one after its first batch, so that the server holds a part of its rows.
async fn open_and_drop(table: &Table, scanners: usize) {
    for number in 0..scanners {
        let mut scan = table.scan().batch_bytes(1).start().unwrap();
        if number % 10 == 0 {
            scan.next().await.unwrap().unwrap();
        }
    }
}

#[test]
fn ten_thousand_scanners_that_nobody_reads_leave_no_thread_and_no_memory() {
    let cluster = start(MiniCluster::builder());
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        let table = filled(&client, 2000).await;
        open_and_drop(&table, 2000).await;
        let (threads_before, (resident_before, _)) = (threads(), memory());
        open_and_drop(&table, 8000).await;
        let (threads_after, (resident_after, _)) = (threads(), memory());
        assert!(threads_after <= threads_before, "{threads_before} threads became {threads_after}");
        let grown = resident_after.saturating_sub(resident_before);
        assert!(grown < 16 << 20, "{grown} bytes more for 8,000 scanners");
        assert_eq!(table.scan().start().unwrap().count().await.unwrap(), 2000);
    });
}

#[test]
fn a_reader_that_is_slower_than_scanners_live_gets_all_rows_if_it_keeps_them_alive() {
    let builder = MiniCluster::builder().tserver_flag("--scanner_ttl_ms=400");
    let cluster = start(builder.tserver_flag("--scanner_gc_check_interval_us=50000"));
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        let table = filled(&client, 5000).await;
        for (keep_alive, all) in [(Duration::from_millis(50), true), (Duration::from_secs(3600), false)] {
            let mut scan = table.scan().batch_bytes(1).keep_alive(keep_alive).start().unwrap();
            let (mut rows, mut error, mut batches) = (0, None, 0);
            while let Some(batch) = scan.next().await {
                match batch {
                    Ok(batch) => rows += batch.rows(),
                    Err(ended) => error = Some(ended.to_string()),
                }
                batches += 1;
                if batches % 15 == 0 {
                    tokio::time::sleep(Duration::from_millis(1500)).await;
                }
            }
            match all {
                true => assert_eq!((rows, error), (5000, None)),
                // Fewer rows without a word would be the worst.
                false => {
                    let error = error.expect("nobody kept the scanner alive");
                    assert!(rows < 5000 && error.contains("SCANNER_EXPIRED"), "{rows} rows, {error}");
                }
            }
        }
    });
}
