//! Connections without calls take little memory. Alone in its process, whose memory is measured.

mod common;

use common::{RawCall, RawClient};
use proto::methods::master_service::Ping;
use rpc_server::{Server, Service};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Anonymous memory in use, in bytes.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

#[test]
fn an_idle_connection_takes_less_than_a_read_buffer() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    // Both ends are in this process.
    let limit = getrlimit(Resource::Nofile).current.map_or(4000, |limit| usize::try_from(limit).unwrap());
    let count = 1500.min(limit.saturating_sub(100) / 2);
    let service = Service::builder("kudu.master.MasterService")
        .cheap::<Ping>(|call| call.respond(&Default::default()))
        .build();
    let name = format!("@kudu-idle-{}", std::process::id());
    let server = Server::builder().reactors(2).bind_unix(&name).service(service).start().unwrap();
    let ping = RawCall { service: "kudu.master.MasterService", method: "Ping", ..RawCall::default() };
    let open = || {
        let mut client = RawClient::open(&server.bound_addresses()[0]);
        assert!(client.call(&ping).result.is_ok());
        client
    };
    let mut clients = Vec::with_capacity(count + 100);
    clients.extend((0..100).map(|_| open()));
    let before = memory();
    clients.extend((0..count).map(|_| open()));
    let each = memory().saturating_sub(before) / count;
    println!("{each} bytes for each of {count} connections");
    // 3 KiB in a release build; allocators and unoptimised builds differ.
    assert!(each < 4096, "{each} bytes for each of {count} connections");
    assert_eq!(server.reactors().stats().connections.len(), clients.len());
}
