//! A write tried again over another connection is applied once.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{RawCall, RawClient};
use prost::Message;
use proto::kudu::tserver::WriteResponsePb;
use proto::methods::tablet_server_service::Write;
use rpc_core::RpcErrorCode;
use rpc_server::{Call, Server, Service};

/// Answers each run with its own number as timestamp; tablet `slow` takes 200 ms, tablet `bad` fails.
fn server() -> (Server, Arc<AtomicU64>) {
    let runs = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&runs);
    let service = Service::builder("kudu.tserver.TabletServerService")
        .threads(4)
        .method::<Write>(move |call: Call<Write>| {
            let run = counter.fetch_add(1, Ordering::SeqCst) + 1;
            match &call.request().tablet_id[..] {
                b"bad" => return call.fail_application("IO error: disk is gone"),
                b"slow" => std::thread::sleep(Duration::from_millis(200)),
                _ => {}
            }
            call.respond(&WriteResponsePb { timestamp: Some(run), ..Default::default() });
        })
        .build();
    let server =
        Server::builder().reactors(2).bind("127.0.0.1:0".parse().unwrap()).service(service).start().unwrap();
    (server, runs)
}

fn write<'a>(id: u32, body: &'a [u8], request_id: (&'a str, u64, u64, u64)) -> RawCall<'a> {
    let (service, method) = ("kudu.tserver.TabletServerService", "Write");
    RawCall { id, service, method, request_id: Some(request_id), body, ..RawCall::default() }
}

fn timestamp(answer: &common::RawAnswer) -> u64 {
    let body = answer.result.clone().expect("an answer");
    WriteResponsePb::decode(body).unwrap().timestamp.expect("a timestamp")
}

#[test]
fn a_retry_on_another_connection_gets_the_first_answer() {
    let (server, runs) = server();
    let address = &server.bound_addresses()[0];
    let (mut one, mut two) = (RawClient::open(address), RawClient::open(address));
    let first = timestamp(&one.call(&write(1, b"\x0a\x01t", ("c", 1, 1, 0))));
    assert_eq!(timestamp(&two.call(&write(7, b"\x0a\x01t", ("c", 1, 1, 1)))), first);
    assert_ne!(timestamp(&two.call(&write(8, b"\x0a\x01t", ("c", 2, 1, 0)))), first);
    assert_ne!(timestamp(&two.call(&write(9, b"\x0a\x01t", ("d", 1, 1, 0)))), first, "another client");
    assert_eq!(runs.load(Ordering::SeqCst), 3);
}

#[test]
fn an_attempt_during_the_first_run_waits_for_its_answer() {
    let (server, runs) = server();
    let address = &server.bound_addresses()[0];
    let (mut one, mut two) = (RawClient::open(address), RawClient::open(address));
    one.send(&write(1, b"\x0a\x04slow", ("c", 1, 1, 0)));
    std::thread::sleep(Duration::from_millis(50));
    two.send(&write(2, b"\x0a\x04slow", ("c", 1, 1, 1)));
    assert_eq!(timestamp(&one.receive()), timestamp(&two.receive()));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn a_failed_write_runs_again_and_a_forgotten_one_is_refused() {
    let (server, runs) = server();
    let mut client = RawClient::open(&server.bound_addresses()[0]);
    for id in 0..2 {
        let answer = client.call(&write(id, b"\x0a\x03bad", ("c", 5, 5, u64::from(id))));
        assert_eq!(answer.code(), Some(RpcErrorCode::ERROR_APPLICATION));
        assert_eq!(answer.message(), "IO error: disk is gone");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    timestamp(&client.call(&write(3, b"\x0a\x01t", ("c", 6, 5, 0))));
    timestamp(&client.call(&write(4, b"\x0a\x01t", ("c", 7, 7, 0))));
    let stale = client.call(&write(5, b"\x0a\x01t", ("c", 6, 6, 1)));
    assert_eq!(stale.code(), Some(RpcErrorCode::ERROR_REQUEST_STALE));
    assert_eq!(runs.load(Ordering::SeqCst), 4);
}

#[test]
fn a_client_id_of_absurd_length_is_refused() {
    let (server, runs) = server();
    let mut client = RawClient::open(&server.bound_addresses()[0]);
    let long = "x".repeat(10_000);
    let answer = client.call(&write(1, b"\x0a\x01t", (&long, 1, 1, 0)));
    assert_eq!(answer.code(), Some(RpcErrorCode::ERROR_INVALID_REQUEST));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}
