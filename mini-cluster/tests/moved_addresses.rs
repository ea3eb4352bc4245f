//! Servers that clients reach by another address than the one they listen at: NAT, containers, proxies, moved names.

mod common;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use client::{Client, FlushMode, Table};
use common::forwarder::Forwarder;
use common::{count, row, run, start, table};
use mini_cluster::MiniCluster;
use net_addr::Resolver;

/// The first RPC address of each tablet server, as the master tells this client.
async fn listed(client: &Client) -> Vec<String> {
    let servers = client.list_tablet_servers().await.unwrap();
    servers.iter().map(|server| server.addresses[0].to_string()).collect()
}

/// Writes and reads 1000 rows of 100 bytes.
async fn use_table(client: &Client, table: &Table) {
    let session = client.session().mode(FlushMode::Manual).build();
    for id in 0..1000 {
        session.apply(row(table, id).with("text", "x".repeat(100)).unwrap()).await.unwrap();
    }
    session.flush().await.unwrap();
    assert_eq!(count(table).await, 1000);
}

#[test]
fn an_advertised_address_is_listed_and_used() {
    let forwarder = Forwarder::start("127.0.0.3:0");
    let outside = forwarder.address().to_string();
    let flag = format!("--rpc_advertised_addresses={outside}");
    let cluster = start(MiniCluster::builder().tserver_flag(flag));
    let inside = cluster.tservers()[0].address.clone();
    assert_ne!(inside, outside);
    forwarder.connect_to(&inside);
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        assert_eq!(listed(&client).await, [outside]);
        use_table(&client, &table(&client, "t", 2).await).await;
        assert_eq!(client.location_stats().unix_chosen, 0, "a server elsewhere has no unix socket for us");
    });
    assert!(forwarder.carried() > 100_000, "{} bytes", forwarder.carried());
}

#[test]
fn clients_behind_a_proxy_see_the_proxy_only_and_the_others_see_none_of_it() {
    // An address of its own, so that nothing else can take the ports between here and the start of the servers.
    let ports = [(), ()].map(|()| std::net::TcpListener::bind("127.0.0.4:0").unwrap());
    let [master_port, server_port] = ports.map(|port| port.local_addr().unwrap().to_string());
    let (to_master, to_server) = (Forwarder::start("127.0.0.3:0"), Forwarder::start("127.0.0.3:0"));
    to_master.connect_to(&master_port);
    to_server.connect_to(&server_port);
    let cluster = start(
        MiniCluster::builder()
            .master_flag(format!("--rpc_proxied_addresses={master_port}"))
            .master_flag(format!("--rpc_proxy_advertised_addresses={}", to_master.address()))
            .tserver_flag(format!("--rpc_proxied_addresses={server_port}"))
            .tserver_flag(format!("--rpc_proxy_advertised_addresses={}", to_server.address())),
    );
    run(async {
        let inside = Client::connect(cluster.master_address()).await.unwrap();
        assert_eq!(listed(&inside).await, [cluster.tservers()[0].address.clone()]);
        use_table(&inside, &table(&inside, "inside", 2).await).await;
        assert_eq!((to_master.accepted(), to_server.accepted()), (0, 0));

        // As from another machine: without unix sockets.
        let outside = Client::builder(to_master.address().to_string()).use_unix_domain_sockets(false);
        let outside = outside.connect().await.unwrap();
        assert_eq!(listed(&outside).await, [to_server.address().to_string()]);
        use_table(&outside, &table(&outside, "outside", 2).await).await;
        assert!(to_server.carried() > 100_000, "{} bytes", to_server.carried());
    });
}

#[test]
fn any_address_of_the_loopback_network_is_this_machine() {
    // The last of the two flags wins, ours.
    let cluster = start(MiniCluster::builder().tserver_flag("--rpc_bind_addresses=127.0.0.2:0"));
    assert!(cluster.tservers()[0].address.starts_with("127.0.0.2:"));
    run(async {
        let local = Client::connect(cluster.master_address()).await.unwrap();
        use_table(&local, &table(&local, "by unix socket", 2).await).await;
        let stats = local.location_stats();
        assert!(stats.unix_chosen > 0 && stats.tcp_chosen == 0, "{stats:?}");
        let told = Client::builder(cluster.master_address()).use_unix_domain_sockets(false);
        let told = told.connect().await.unwrap();
        use_table(&told, &table(&told, "by TCP", 2).await).await;
        let stats = told.location_stats();
        assert!(stats.unix_chosen == 0 && stats.tcp_chosen > 0, "{stats:?}");
    });
}

/// Sends the name `localhost` wherever it is told to.
struct Movable(Arc<AtomicU8>);

impl Resolver for Movable {
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        assert_eq!(host, "localhost", "numbers are not looked up");
        Ok(vec![IpAddr::from([127, 0, 0, self.0.load(Ordering::SeqCst)])])
    }
}

#[test]
fn a_name_that_moved_is_looked_up_again_after_the_first_error() {
    let old = Forwarder::start("127.0.0.1:0");
    let port = old.address().port();
    let flag = format!("--rpc_advertised_addresses=localhost:{port}");
    let cluster = start(MiniCluster::builder().tserver_flag(flag));
    old.connect_to(&cluster.tservers()[0].address);
    run(async {
        let place = Arc::new(AtomicU8::new(1));
        let client = Client::builder(cluster.master_address())
            .resolver(Movable(place.clone()))
            .resolver_ttl(Duration::from_secs(3600))
            .use_unix_domain_sockets(false)
            .connect()
            .await
            .unwrap();
        let table = table(&client, "t", 2).await;
        let session = client.session().build();
        session.apply(row(&table, 1)).await.unwrap();
        drop(old);
        let new = Forwarder::start(&format!("127.0.0.2:{port}"));
        new.connect_to(&cluster.tservers()[0].address);
        place.store(2, Ordering::SeqCst);
        session.apply(row(&table, 2)).await.expect("the open session finds the new address");
        assert_eq!(new.accepted(), 1);
        assert_eq!(count(&table).await, 2);
    });
}
