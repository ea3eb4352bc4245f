//! More calls than a server can run: some are answered, the others are refused at once, and none is run too late.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{RawCall, RawClient};
use proto::methods::master_service::Ping;
use rpc_core::RpcErrorCode;
use rpc_server::{Call, Server, Service};

fn slow_server(queue_length: usize, run: Duration) -> (Server, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let service = Service::builder("kudu.master.MasterService")
        .threads(1)
        .queue_length(queue_length)
        .method::<Ping>(move |call: Call<Ping>| {
            counted.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(run);
            call.respond(&Default::default());
        })
        .build();
    let server =
        Server::builder().reactors(1).bind("127.0.0.1:0".parse().unwrap()).service(service).start().unwrap();
    server.ready();
    (server, runs)
}

fn ping(id: u32) -> RawCall<'static> {
    RawCall { id, service: "kudu.master.MasterService", method: "Ping", ..RawCall::default() }
}

#[test]
fn a_full_queue_refuses_at_once_and_serves_the_rest() {
    let (server, runs) = slow_server(1, Duration::from_millis(600));
    let mut client = RawClient::open(&server.bound_addresses()[0]);
    (0..50).for_each(|id| client.send(&ping(id)));
    let mut answered = Vec::new();
    for _ in 0..50 {
        let answer = client.receive();
        match &answer.result {
            Ok(_) => answered.push(answer.id),
            Err(error) => {
                assert_eq!(error.code, Some(RpcErrorCode::ERROR_SERVER_TOO_BUSY));
                assert!(answered.is_empty(), "refusals do not wait for the worker");
                let text = "Service unavailable: Ping request on kudu.master.MasterService from 127.0.0.1:";
                assert!(error.message.starts_with(text), "{error}");
                let end = " dropped due to backpressure: service queue is full with 1 items";
                assert!(error.message.ends_with(end), "{error}");
            }
        }
    }
    // A first call before the worker was idle takes the queue's place; then one more is refused.
    assert!((1..=2).contains(&answered.len()), "{answered:?}");
    assert_eq!(runs.load(Ordering::SeqCst), answered.len());
    assert_eq!(server.metrics().queue_overflow() as usize, 50 - answered.len());
    assert!(client.call(&ping(99)).result.is_ok());
}

#[test]
fn a_call_that_waited_past_its_deadline_is_not_run() {
    let (server, runs) = slow_server(10, Duration::from_millis(200));
    let mut client = RawClient::open(&server.bound_addresses()[0]);
    client.send(&ping(0));
    std::thread::sleep(Duration::from_millis(20));
    client.send(&RawCall { timeout_ms: Some(50), ..ping(1) });
    client.send(&RawCall { timeout_ms: Some(0), ..ping(2) });
    let answers: Vec<_> = (0..3).map(|_| client.receive()).collect();
    let late = answers.iter().find(|answer| answer.id == 1).unwrap();
    assert_eq!(late.code(), Some(RpcErrorCode::ERROR_SERVER_TOO_BUSY));
    assert_eq!(late.message(), "Timed out: Call waited in the queue past client deadline");
    assert_eq!(answers.iter().filter(|answer| answer.result.is_ok()).count(), 2, "a timeout of 0 is none");
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(server.metrics().timed_out_in_queue(), 1);
}

#[test]
fn a_call_that_would_end_too_late_gives_way_to_one_that_waits() {
    let (server, runs) = slow_server(10, Duration::from_millis(200));
    let mut client = RawClient::open(&server.bound_addresses()[0]);
    assert!(client.call(&ping(0)).result.is_ok(), "now it is known how long such a call runs");
    client.send(&ping(1));
    std::thread::sleep(Duration::from_millis(20));
    // When the worker is free, about half of what a run takes is left to the first of these.
    client.send(&RawCall { timeout_ms: Some(300), ..ping(2) });
    client.send(&ping(3));
    let answers: Vec<_> = (0..3).map(|_| client.receive()).collect();
    for answer in answers {
        let expected = (answer.id == 2).then_some(RpcErrorCode::ERROR_SERVER_TOO_BUSY);
        assert_eq!(answer.code(), expected, "{answer:?}");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    let metrics = server.method_metrics("kudu.master.MasterService", "Ping").unwrap();
    assert_eq!((metrics.timed_out_in_queue(), server.metrics().timed_out_in_queue()), (1, 1));
}

#[test]
fn queued_calls_are_told_that_the_server_stops() {
    let (server, runs) = slow_server(10, Duration::from_millis(200));
    let mut client = RawClient::open(&server.bound_addresses()[0]);
    (0..3).for_each(|id| client.send(&ping(id)));
    std::thread::sleep(Duration::from_millis(50));
    let stopping = std::thread::spawn(move || server.shutdown());
    let mut answers: Vec<_> = (0..3).map(|_| client.receive()).collect();
    stopping.join().unwrap();
    answers.sort_by_key(|answer| answer.id);
    assert!(answers[0].result.is_ok(), "the running call ends");
    for answer in &answers[1..] {
        assert_eq!(answer.code(), Some(RpcErrorCode::FATAL_SERVER_SHUTTING_DOWN));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn a_handler_that_panics_fails_its_own_call_only() {
    let service = Service::builder("kudu.master.MasterService")
        .threads(1)
        .method::<Ping>(|call: Call<Ping>| {
            assert!(
                call.time_left(Instant::now()).is_none(),
                "calls with a deadline make this handler panic"
            );
            call.respond(&Default::default());
        })
        .build();
    let server =
        Server::builder().reactors(1).bind("127.0.0.1:0".parse().unwrap()).service(service).start().unwrap();
    let mut client = RawClient::open(&server.bound_addresses()[0]);
    for id in 0..3 {
        let failed = client.call(&RawCall { timeout_ms: Some(60_000), ..ping(id) });
        assert_eq!(failed.code(), Some(RpcErrorCode::ERROR_APPLICATION));
        assert!(failed.message().starts_with("Runtime error: "), "{failed:?}");
        assert!(client.call(&ping(100 + id)).result.is_ok(), "the one worker is still there");
    }
    let metrics = server.method_metrics("kudu.master.MasterService", "Ping").unwrap();
    assert_eq!((metrics.answered(), metrics.failed()), (6, 3));
}
