//! Servers that are stopped and started again while the cluster lives.

mod common;

use std::time::Duration;

use client::Client;
use common::{a_good_client_is_served, run, start};
use mini_cluster::{ClusterError, MiniCluster};

#[test]
fn a_stopped_server_comes_back_at_its_address_and_is_used() {
    let mut cluster = start(MiniCluster::builder().tservers(2).start_timeout(Duration::MAX));
    let before = cluster.tservers();
    cluster.stop_tserver(0).unwrap();
    assert_eq!(cluster.tservers(), before[1..]);
    assert!(std::net::TcpStream::connect(&before[0].address).is_err(), "nobody listens");
    assert!(matches!(cluster.stop_tserver(0), Err(ClusterError::WrongServer { index: 0, .. })));
    assert!(matches!(cluster.start_tserver(1), Err(ClusterError::WrongServer { index: 1, .. })));
    assert!(matches!(cluster.kill_tserver(7), Err(ClusterError::WrongServer { index: 7, .. })));
    cluster.start_tserver(0).unwrap();
    assert_eq!(cluster.tservers()[0].address, before[0].address);
    for _ in 0..4 {
        run(a_good_client_is_served(&cluster));
    }
    cluster.shutdown().unwrap();
}

#[test]
fn a_wrong_flag_and_a_port_in_use_are_named() {
    let wrong = MiniCluster::builder().tserver_flag("--hartbeat_interval_ms=5").start_blocking();
    let wrong = wrong.unwrap_err();
    assert!(!wrong.is_retriable(), "the same flag will be wrong again");
    let text = wrong.to_string();
    assert!(text.contains("tserver-0") && text.contains("heartbeat_interval_ms"), "{text}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = MiniCluster::builder().port(port).start_blocking().unwrap_err();
    assert!(error.is_retriable(), "the port may be free later");
    let text = error.to_string();
    assert!(text.contains(&format!("127.0.0.1:{port}")) && text.contains("in use"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn clusters_run_on_ipv6_and_on_all_interfaces() {
    for (bind, reached) in [("[::1]:0", "[::1]:"), ("0.0.0.0:0", "127.0.0.1:"), ("[::]:0", "[::1]:")] {
        let flag = format!("--rpc_bind_addresses={bind}");
        let cluster = start(MiniCluster::builder().master_flag(&flag).tserver_flag(&flag));
        assert!(cluster.master_address().starts_with(reached), "{bind}: {}", cluster.master_address());
        assert!(cluster.tservers()[0].address.starts_with(reached), "{bind}");
        run(a_good_client_is_served(&cluster));
    }
}

#[test]
fn many_clusters_run_beside_each_other() {
    let clusters = [(); 3].map(|()| start(MiniCluster::builder()));
    for (index, cluster) in clusters.iter().enumerate() {
        run(async {
            let client = Client::connect(cluster.master_address()).await.unwrap();
            common::table(&client, &format!("of cluster {index}"), 2).await;
        });
    }
    for (index, cluster) in clusters.iter().enumerate() {
        run(async {
            let client = Client::connect(cluster.master_address()).await.unwrap();
            let tables = client.list_tables("").await.unwrap();
            assert_eq!(tables.len(), 1);
            assert_eq!(tables[0].name, format!("of cluster {index}"));
        });
    }
}
