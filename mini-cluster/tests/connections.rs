//! How many connections there are, how long they live, and what a peer that stands still costs.

mod common;

use std::time::{Duration, Instant};

use client::{Client, FlushMode};
use common::forwarder::Forwarder;
use common::{count, memory, row, run, start, table};
use mini_cluster::{MiniCluster, MiniClusterBuilder};

/// A cluster of one tablet server whose clients come through the forwarder.
fn behind_a_forwarder(builder: MiniClusterBuilder) -> (MiniCluster, Forwarder) {
    let forwarder = Forwarder::start("127.0.0.3:0");
    let flag = format!("--rpc_advertised_addresses={}", forwarder.address());
    let cluster = start(builder.tserver_flag(flag));
    forwarder.connect_to(&cluster.tservers()[0].address);
    (cluster, forwarder)
}

#[test]
fn a_thousand_calls_of_one_client_take_one_connection() {
    let (cluster, forwarder) = behind_a_forwarder(MiniCluster::builder());
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        let table = table(&client, "t", 4).await;
        let before = forwarder.accepted();
        let writes: Vec<_> = (0..1000)
            .map(|id| {
                let (session, row) = (client.session().build(), row(&table, id));
                tokio::spawn(async move { session.apply(row).await })
            })
            .collect();
        for write in writes {
            write.await.unwrap().unwrap();
        }
        assert_eq!(count(&table).await, 1000);
        // The master has one of its own.
        assert_eq!(forwarder.accepted(), before + 1);
    });
}

#[test]
fn an_idle_connection_is_closed_and_the_user_does_not_see_it() {
    let (cluster, forwarder) =
        behind_a_forwarder(MiniCluster::builder().tserver_flag("--rpc_default_keepalive_time_ms=300"));
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        let table = table(&client, "t", 2).await;
        let session = client.session().build();
        for id in 0..10 {
            session.apply(row(&table, id)).await.unwrap();
        }
        let (before, asks) = (forwarder.accepted(), client.location_stats().asks);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        session.apply(row(&table, 11)).await.expect("as if nothing had happened");
        assert_eq!(forwarder.accepted(), before + 1, "the server had closed the first");
        assert_eq!(client.location_stats().asks, asks, "and nothing was taken for failed");
    });
}

#[test]
fn a_connection_that_is_only_quiet_is_kept() {
    let (cluster, forwarder) = behind_a_forwarder(MiniCluster::builder());
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        let table = table(&client, "t", 2).await;
        let session = client.session().build();
        session.apply(row(&table, 1)).await.unwrap();
        let before = forwarder.accepted();
        forwarder.pause();
        let call = tokio::spawn({
            let (session, row) = (client.session().build(), row(&table, 2));
            async move { session.apply(row).await }
        });
        // Longer than a negotiation may take, shorter than one try of a call.
        tokio::time::sleep(Duration::from_millis(3500)).await;
        forwarder.resume();
        call.await.unwrap().expect("the call waits for its answer");
        session.apply(row(&table, 3)).await.unwrap();
        assert_eq!(forwarder.accepted(), before);
    });
}

#[test]
fn calls_to_a_server_that_stands_still_end_in_time_and_give_back_their_memory() {
    const ROUNDS: usize = 12;
    let (cluster, forwarder) = behind_a_forwarder(MiniCluster::builder());
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        let table = table(&client, "t", 2).await;
        client.session().build().apply(row(&table, -1)).await.unwrap();
        client.session().build().apply(row(&table, -2)).await.unwrap();
        let before = forwarder.accepted();
        forwarder.pause();
        let text = "x".repeat(60 << 10);
        let mut resident = Vec::new();
        for round in 0..ROUNDS {
            let mut flushes = Vec::new();
            for batch in 0..100 {
                let session =
                    client.session().mode(FlushMode::Manual).timeout(Duration::from_millis(1)).build();
                // 1 MiB.
                for id in 0..17 {
                    let row = row(&table, id + 17 * batch).with("text", text.clone()).unwrap();
                    session.apply(row).await.unwrap();
                }
                flushes.push(tokio::spawn(async move {
                    let begun = Instant::now();
                    session.flush().await.unwrap_err();
                    let errors = session.take_errors().errors;
                    (begun.elapsed(), errors.len(), errors.iter().all(|failure| failure.error().is_timeout()))
                }));
            }
            for flush in flushes {
                let (took, errors, are_timeouts) = flush.await.unwrap();
                assert!(took < Duration::from_secs(3), "round {round}: {took:?}");
                assert_eq!((errors, are_timeouts), (17, true));
            }
            resident.push(memory().0);
        }
        // Each round has sent 100 MiB; what the first six left behind is the allocator's. The whole process is counted, other
        // tests too, so the bound is half of what six rounds would leave behind.
        let settled = resident[..6].iter().max().copied().unwrap_or_default();
        let grown = memory().0.saturating_sub(settled);
        assert!(grown < 300 << 20, "{} MiB more after six more rounds", grown >> 20);
        forwarder.resume();
        client.session().build().apply(row(&table, -3)).await.expect("the connection is still good");
        assert_eq!(forwarder.accepted(), before, "and is the same one");
    });
}
