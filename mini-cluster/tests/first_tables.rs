//! Tables right after the start of a cluster, and right after one another.

mod common;

use std::time::{Duration, Instant};

use client::Client;
use common::{count, row, run, schema, start, table};
use mini_cluster::MiniCluster;
use net_addr::SystemResolver;
use tserver::{TabletServer, TserverOptions};

/// A tablet server that reports to these masters, every 20 ms.
fn tablet_server(masters: &str) -> TabletServer {
    let flags = TserverOptions::flags();
    let masters = format!("--tserver_master_addrs={masters}");
    flags
        .parse([
            "--rpc_bind_addresses=127.0.0.1:0",
            "--rpc_server_allow_ephemeral_ports",
            "--heartbeat_interval_ms=20",
            &masters,
        ])
        .unwrap();
    TabletServer::start(TserverOptions::from_flags(&flags, &SystemResolver).unwrap()).unwrap()
}

#[test]
fn a_table_can_be_made_as_soon_as_the_cluster_says_that_it_is_up() {
    for _ in 0..5 {
        let cluster = start(MiniCluster::builder());
        run(async {
            let client = Client::connect(cluster.master_address()).await.unwrap();
            table(&client, "first", 2).await;
            let three = client.create_table("three", schema()).hash_partition(&["id"], 2).replicas(3);
            // Not a timeout: nobody waits for servers to come.
            let refused = three.create().await.unwrap_err().to_string();
            assert!(refused.contains("replication factor 3"), "{refused}");
            assert!(refused.contains("1 tablet servers are alive"), "{refused}");
        });
    }
}

#[test]
fn a_table_that_is_asked_for_before_there_is_a_tablet_server_is_made_when_there_is() {
    let cluster = start(MiniCluster::builder().tservers(0));
    let masters = cluster.master_address();
    run(async {
        let client = Client::connect(masters.clone()).await.unwrap();
        let asking = tokio::spawn({
            let client = client.clone();
            async move { table(&client, "early", 2).await }
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        let _server = tablet_server(&masters);
        let table = asking.await.unwrap();
        client.session().build().apply(row(&table, 1)).await.unwrap();
        assert_eq!(count(&table).await, 1);
    });
}

#[test]
fn none_of_many_tables_made_and_dropped_by_two_clients_in_turn_is_missed() {
    let cluster = start(MiniCluster::builder());
    run(async {
        let address = cluster.master_address();
        let clients = [Client::connect(&address).await.unwrap(), Client::connect(&address).await.unwrap()];
        let started = Instant::now();
        // A few seconds' worth on a busy machine, all 500 of the report on an idle one.
        for round in 0..500 {
            if round >= 50 && started.elapsed() > Duration::from_secs(5) {
                break;
            }
            let (maker, user) = (&clients[round % 2], &clients[(round + 1) % 2]);
            let name = format!("t{}", round % 3);
            let made = table(maker, &name, 2).await;
            let table = user.open_table(&name).await.expect("a table just made can be opened");
            assert_eq!(table.id(), made.id(), "round {round}");
            user.session().build().apply(row(&table, 1)).await.expect("and written");
            user.delete_table(&name).await.expect("and dropped");
            assert!(!maker.table_exists(&name).await.unwrap(), "round {round}");
        }
    });
}

#[test]
fn a_master_that_is_named_three_times_has_the_server_once_and_serves_the_client() {
    let cluster = start(MiniCluster::builder().tservers(0));
    let address = cluster.master_address();
    let port = address.rsplit_once(':').unwrap().1;
    let masters = format!("{address},{address},localhost:{port}");
    let server = tablet_server(&masters);
    run(async {
        let client = Client::connect(&masters).await.unwrap();
        let table = table(&client, "t", 4).await;
        client.session().build().apply(row(&table, 1)).await.unwrap();
        // Some heartbeats later nothing was registered or reported twice.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let servers = client.list_tablet_servers().await.unwrap();
        assert_eq!(servers.iter().map(|server| server.uuid.as_str()).collect::<Vec<_>>(), [server.uuid()]);
        assert_eq!(client.list_tables("").await.unwrap().len(), 1);
        for tablet in table.tablets().await.unwrap() {
            assert_eq!(tablet.replicas.len(), 1, "{tablet:?}");
        }
        assert_eq!(server.tablets(), 4);
    });
}
