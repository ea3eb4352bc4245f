//! A server without free file descriptors waits for some, and does not burn the processor meanwhile. Alone in its process, since
//! it uses up what all tests of a process share.

mod common;

use std::fs::File;
use std::time::Duration;

use common::{RawCall, RawClient};
use proto::methods::master_service::Ping;
use rpc_server::{Server, Service};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};

#[test]
fn accepting_goes_on_when_descriptors_are_free_again() {
    let service = Service::builder("kudu.master.MasterService")
        .cheap::<Ping>(|call| call.respond(&Default::default()))
        .build();
    let server =
        Server::builder().reactors(1).bind("127.0.0.1:0".parse().unwrap()).service(service).start().unwrap();
    let address = &server.bound_addresses()[0];
    let waiting = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), ..limit }).unwrap();
    let all: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    waiting.connect(&address.to_socket2().unwrap()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let errors = server.metrics().accept_errors();
    assert!((1..=8).contains(&errors), "{errors} attempts in 300 ms");
    drop(all);
    waiting.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut client = RawClient::negotiate(Box::new(waiting));
    let ping = RawCall { service: "kudu.master.MasterService", method: "Ping", ..RawCall::default() };
    assert!(client.call(&ping).result.is_ok());
    assert!(RawClient::open(address).call(&ping).result.is_ok());
}
