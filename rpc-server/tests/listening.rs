//! Where servers listen: several addresses at once, ports free after a stop, clear words when an address is taken.

mod common;

use std::net::TcpListener;
use std::time::Duration;

use common::{RawCall, RawClient};
use net_addr::SockAddr;
use proto::methods::master_service::Ping;
use rpc_server::{BindError, Server, ServerBuilder, Service};

const PING: RawCall<'static> = RawCall {
    id: 0,
    service: "kudu.master.MasterService",
    method: "Ping",
    timeout_ms: None,
    features: &[],
    request_id: None,
    body: b"",
};

fn builder() -> ServerBuilder {
    let service = Service::builder("kudu.master.MasterService")
        .cheap::<Ping>(|call| call.respond(&Default::default()))
        .build();
    Server::builder().reactors(4).service(service)
}

fn tcp(text: &str) -> SockAddr {
    text.parse().unwrap()
}

#[test]
fn one_server_listens_on_tcp_and_unix_sockets_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kudu.sock");
    let name = format!("@kudu-test-{}", std::process::id());
    let server = builder()
        .bind(tcp("127.0.0.1:0"))
        .bind(tcp("127.0.0.2:0"))
        .bind_unix(&name)
        .bind_unix(path.to_str().unwrap())
        .start()
        .unwrap();
    let addresses = server.bound_addresses().to_vec();
    assert_eq!(addresses.len(), 4);
    assert!(addresses[..2].iter().all(|address| address.port() != Some(0)));
    assert_eq!(addresses[2].to_string(), format!("unix:{name}"));
    for address in &addresses {
        assert!(RawClient::open(address).call(&PING).result.is_ok(), "{address}");
    }
    assert_eq!((server.metrics().accepted_tcp(), server.metrics().accepted_unix()), (2, 2));
    server.shutdown();
    assert!(!path.exists(), "the socket file goes with the server");
}

#[test]
fn nothing_is_added_to_a_server_that_was_shut_down() {
    let server = Server::builder().bind(tcp("127.0.0.1:0")).start().unwrap();
    server.shutdown();
    let service = || Service::builder(PING.service).method::<Ping>(|call| call.respond(&Default::default()));
    server.register(service().build()).unwrap();
    assert!(server.method_metrics(PING.service, PING.method).is_none(), "its threads would never end");
}

#[test]
fn a_restart_takes_the_same_addresses_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kudu.sock");
    let mut port = 0;
    for _ in 0..5 {
        let server = builder()
            .bind(tcp("127.0.0.1:0").with_port(port))
            .bind_unix(path.to_str().unwrap())
            .start()
            .unwrap();
        port = server.bound_addresses()[0].port().unwrap();
        let mut client = RawClient::open(&server.bound_addresses()[0]);
        assert!(client.call(&PING).result.is_ok());
        server.shutdown();
    }
}

#[test]
fn an_address_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = SockAddr::from(taken.local_addr().unwrap());
    let error = builder().bind(tcp("127.0.0.1:0")).bind(address.clone()).start().unwrap_err();
    assert!(matches!(&error, BindError::InUse { address: named, .. } if *named == address), "{error:?}");
    assert_eq!(error.to_string(), format!("cannot listen on {address}: port in use"));
    let error = builder().bind(tcp("203.0.113.1:0")).start().unwrap_err();
    assert!(error.to_string().starts_with("cannot listen on 203.0.113.1:0: "), "{error}");
}

#[test]
fn the_socket_file_of_a_dead_server_is_replaced_but_not_that_of_a_living_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kudu.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "the file outlives its listener");
    let server = builder().bind_unix(path.to_str().unwrap()).start().unwrap();
    let second = builder().bind_unix(path.to_str().unwrap()).start();
    assert!(matches!(second, Err(BindError::InUse { .. })));
    assert!(RawClient::open(&server.bound_addresses()[0]).call(&PING).result.is_ok());
    let file = folder.path().join("precious");
    std::fs::write(&file, "data").unwrap();
    assert!(builder().bind_unix(file.to_str().unwrap()).start().is_err());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "data", "a file that is no socket is left alone");
}

#[test]
fn connections_spread_evenly_over_reactors_however_they_come() {
    let name = format!("@kudu-spread-{}", std::process::id());
    let server = builder().bind(tcp("0.0.0.0:0")).bind_unix(&name).start().unwrap();
    let port = server.bound_addresses()[0].port().unwrap();
    let ways: [Box<dyn Fn(u8) -> SockAddr>; 3] = [
        Box::new(|_| tcp("127.0.0.1:0").with_port(port)),
        Box::new(|i| tcp(&format!("127.0.0.{}:{port}", i + 1))),
        Box::new(|_| server.bound_addresses()[1].clone()),
    ];
    for way in &ways {
        let mut clients: Vec<_> = (0..64).map(|i| RawClient::open(&way(i))).collect();
        clients.iter_mut().for_each(|client| assert!(client.call(&PING).result.is_ok()));
        let loads: Vec<_> =
            server.reactors().stats().reactors.iter().map(|reactor| reactor.connections).collect();
        assert!(loads.iter().all(|load| *load <= 20), "{loads:?}: at most 1.25 times the mean of 16");
        drop(clients);
        let gone = |server: &Server| {
            server.reactors().stats().reactors.iter().all(|reactor| reactor.connections == 0)
        };
        (0..500).take_while(|_| !gone(&server)).for_each(|_| std::thread::sleep(Duration::from_millis(10)));
        assert!(gone(&server), "closed connections are forgotten");
    }
}
