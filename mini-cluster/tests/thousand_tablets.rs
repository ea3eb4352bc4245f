//! A table of a thousand tablets on one server with a folder: made, written, read, started again, dropped and made anew.

mod common;

use std::time::Duration;

use client::schema::PartialRow;
use client::{Client, RangePartition, Table};
use common::{count, eventually, row, run, schema, start};
use mini_cluster::MiniCluster;

/// 10 buckets times 100 ranges of 100 ids each.
async fn create(client: &Client) -> Table {
    let creator =
        client.create_table("thousand", schema()).hash_partition(&["id"], 10).range_columns(&["id"]);
    let at = |id: i64| {
        let mut row = PartialRow::new(&schema());
        row.set("id", id).unwrap();
        row
    };
    let range = |number: i64| RangePartition::between(at(number * 100), at(number * 100 + 100));
    let creator = (0..100).fold(creator, |creator, number| creator.range(range(number)));
    creator.replicas(1).timeout(Duration::from_secs(120)).create().await.unwrap()
}

/// Writes about two rows to each tablet; how many.
async fn fill(client: &Client, table: &Table) -> u64 {
    let session = client.session().build();
    for id in (0..10_000).step_by(5) {
        session.apply(row(table, id)).await.unwrap();
    }
    session.flush().await.unwrap();
    2_000
}

#[test]
fn a_thousand_tablets_are_there_after_a_restart_and_a_table_made_anew_shares_nothing_with_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let builder = MiniCluster::builder().data_dir(folder.path()).tserver_flag("--never_fsync");
    let mut cluster = start(builder.master_flag("--never_fsync"));
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        let table = create(&client).await;
        assert_eq!(fill(&client, &table).await, count(&table).await);
        assert_eq!(table.tablets().await.unwrap().len(), 1000);
    });
    cluster.stop_tserver(0).unwrap();
    cluster.stop_master().unwrap();
    cluster.start_master().unwrap();
    cluster.start_tserver(0).unwrap();
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        let old = client.open_table("thousand").await.unwrap();
        assert_eq!(count(&old).await, 2_000);
        client.delete_table("thousand").await.unwrap();
        let new = common::table(&client, "thousand", 2).await;
        assert_ne!(old.id(), new.id());
        assert_eq!(count(&new).await, 0);
        // What knows only the old one is told that it is gone.
        let stale = old.scan().project(&[]).start().unwrap().count().await;
        assert!(stale.is_err(), "{stale:?}");
        client.session().build().apply(row(&new, 5)).await.unwrap();
        assert_eq!(count(&new).await, 1);
    });
    let tablets = || std::fs::read_dir(folder.path().join("tserver-0/data/tablets")).unwrap().count();
    eventually("the old tablets' folders are gone", || tablets() == 2);
    cluster.shutdown().unwrap();
}
