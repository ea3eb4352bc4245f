//! Clients behind a proxy are told the proxy's addresses, by the port at which they ask.

mod common;

use common::{Client, Tserver, hashed, run, start, table};
use proto::kudu::HostPortPb;
use proto::kudu::master::{
    ConnectToMasterRequestPb, GetTableLocationsRequestPb, ListMastersRequestPb, ListTabletServersRequestPb,
};
use proto::methods::master_service as m;

/// What a client on `client`'s port sees: addresses of the master (twice) and of tablet servers (listed, and in locations).
async fn seen(client: &Client) -> Vec<String> {
    let text = |address: &HostPortPb| format!("{}:{}", address.host, address.port);
    let connect = client.call::<m::ConnectToMaster>(&ConnectToMasterRequestPb::default()).await;
    let masters = client.call::<m::ListMasters>(&ListMastersRequestPb::default()).await;
    let servers = client.call::<m::ListTabletServers>(&ListTabletServersRequestPb::default()).await;
    let request = GetTableLocationsRequestPb { table: table("t"), ..Default::default() };
    let located = client.call::<m::GetTableLocations>(&request).await;
    vec![
        text(&connect.master_addrs[0]),
        text(&masters.masters[0].registration.as_ref().unwrap().rpc_addresses[0]),
        text(&servers.servers[0].registration.as_ref().unwrap().rpc_addresses[0]),
        text(&located.tablet_locations[0].deprecated_replicas[0].ts_info.rpc_addresses[0]),
    ]
}

#[test]
fn addresses_follow_the_port_that_was_asked() {
    run(async {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let proxied = free.local_addr().unwrap();
        drop(free);
        let master = start(&[
            &format!("--rpc_proxied_addresses={proxied}"),
            "--rpc_proxy_advertised_addresses=outside.example:7051",
            "--rpc_advertised_addresses=127.0.0.3:5555",
        ]);
        let inside = Client::to(&master.bound_addresses()[0]);
        let outside = Client::to(&proxied.into());
        let mut server = Tserver::start("ts");
        server.proxy_address = Some(HostPortPb { host: "outside.example".into(), port: 7050 });
        server.register(&inside).await;
        inside.create(hashed("t", 1)).await;
        let here = format!("127.0.0.1:{}", server.port());
        assert_eq!(seen(&inside).await, ["127.0.0.3:5555", "127.0.0.3:5555", &here, &here]);
        let (master, server) = ("outside.example:7051", "outside.example:7050");
        assert_eq!(seen(&outside).await, [master, master, server, server]);
    });
}
