//! Peers that speak another protocol are dropped at once, and nobody else notices.

mod common;

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use common::{RawCall, RawClient};
use proto::methods::master_service::Ping;
use rpc_server::{Server, Service};

#[test]
fn strangers_are_dropped_at_once_and_the_next_client_is_served() {
    let service = Service::builder("kudu.master.MasterService")
        .cheap::<Ping>(|call| call.respond(&Default::default()))
        .build();
    let server =
        Server::builder().reactors(1).bind("127.0.0.1:0".parse().unwrap()).service(service).start().unwrap();
    let address = &server.bound_addresses()[0];
    let strangers: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hrpc\x08\x00\x00",
        b"hrpc\x0a\x00\x00",
        b"HRPC\x09\x00\x00",
        &[0; 7],
    ];
    for bytes in strangers {
        let mut stream = common::connect(address);
        let start = Instant::now();
        stream.write_all(bytes).unwrap();
        let mut rest = Vec::new();
        // A reset is as good as an end.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{bytes:?} was answered with {rest:?}");
        assert!(start.elapsed() < Duration::from_secs(1), "{bytes:?} was kept for {:?}", start.elapsed());
        let ping = RawCall { service: "kudu.master.MasterService", method: "Ping", ..RawCall::default() };
        assert!(RawClient::open(address).call(&ping).result.is_ok());
    }
}
