//! Peers that speak another protocol are dropped at once, and nobody else notices.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use common::{RawCall, RawClient};
use proto::methods::master_service::Ping;
use rpc_server::{Server, ServerOptions, Service};

#[test]
fn strangers_are_dropped_at_once_and_the_next_client_is_served() {
    let service = Service::builder("kudu.master.MasterService")
        .cheap::<Ping>(|call| call.respond(&Default::default()))
        .build();
    // Who is dropped was not waited for.
    let options = ServerOptions { negotiation_timeout: Duration::from_secs(3600), ..Default::default() };
    let server =
        Server::builder().reactors(1).options(options).bind("127.0.0.1:0".parse().unwrap()).service(service);
    let server = server.start().unwrap();
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
        stream.write_all(bytes).unwrap();
        let mut rest = Vec::new();
        // A reset is as good as an end; the read would time out.
        let end = stream.read_to_end(&mut rest).err().map(|error| error.kind());
        assert!(matches!(end, None | Some(ErrorKind::ConnectionReset)), "{bytes:?} was kept: {end:?}");
        assert!(rest.is_empty(), "{bytes:?} was answered with {rest:?}");
        let ping = RawCall { service: "kudu.master.MasterService", method: "Ping", ..RawCall::default() };
        assert!(RawClient::open(address).call(&ping).result.is_ok());
    }
}
