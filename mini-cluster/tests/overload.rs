//! A tablet server that can run and keep one call at a time, and more clients than that.

mod common;

use client::{Client, FlushMode};
use common::{count, row, run, start, table};
use mini_cluster::MiniCluster;

#[test]
fn fifty_writers_at_a_queue_of_one_all_get_through() {
    let cluster = start(
        MiniCluster::builder()
            .tserver_flag("--rpc_num_service_threads=1")
            .tserver_flag("--rpc_service_queue_length=1"),
    );
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        let table = table(&client, "t", 4).await;
        let writers: Vec<_> = (0..50i64)
            .map(|writer| {
                let (client, table) = (client.clone(), table.clone());
                tokio::spawn(async move {
                    let session = client.session().mode(FlushMode::Manual).build();
                    for id in 0..200 {
                        session.apply(row(&table, writer * 200 + id)).await.unwrap();
                    }
                    session.flush().await.expect("backing off helps");
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        assert_eq!(count(&table).await, 10_000, "each row once");
    });
}
