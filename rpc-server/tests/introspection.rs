//! What goes on in a server can be read while it goes on.

mod common;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::{RawCall, RawClient};
use parking_lot::Mutex;
use proto::methods::master_service::{GetTabletLocations, Ping};
use rpc_server::metrics::MethodMetrics;
use rpc_server::{Call, Server, Service};

const SERVICE: &str = "kudu.master.MasterService";
const LONG: Duration = Duration::from_secs(60);

fn call(id: u32, method: &'static str) -> RawCall<'static> {
    RawCall { id, service: SERVICE, method, timeout_ms: Some(60_000), ..RawCall::default() }
}

/// One worker that stands still in `Ping` until it is told to go on.
fn server() -> (Server, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (running, runs) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    let gone = Mutex::new(gone);
    let service = Service::builder(SERVICE)
        .threads(1)
        .queue_length(2)
        .method::<Ping>(move |call: Call<Ping>| {
            running.send(()).unwrap();
            let _ = gone.lock().recv_timeout(LONG);
            call.respond(&Default::default());
        })
        .cheap::<GetTabletLocations>(|call: Call<GetTabletLocations>| call.respond(&Default::default()))
        .build();
    let server =
        Server::builder().reactors(2).bind("127.0.0.1:0".parse().unwrap()).service(service).start().unwrap();
    server.ready();
    (server, runs, go)
}

#[test]
fn calls_in_flight_and_queues_are_seen_while_a_handler_runs() {
    let (server, runs, go) = server();
    let before = Instant::now();
    let mut client = RawClient::open(&server.bound_addresses()[0]);
    client.send(&call(7, "Ping"));
    runs.recv_timeout(LONG).unwrap();
    client.send(&call(8, "Ping"));
    // The answer of a cheap call tells that the one before it was taken over, too.
    client.call(&call(9, "GetTabletLocations"));

    let found = server.calls_in_flight(LONG);
    assert_eq!(found.silent, 0);
    let ids: Vec<_> = found.calls.iter().map(|(_, call)| call.call_id).collect();
    assert_eq!(ids, [7, 8]);
    for (connection, call) in &found.calls {
        assert_eq!((call.destination.service(), call.destination.method()), (SERVICE, "Ping"));
        assert_eq!(call.destination.connection().id, *connection);
        assert_eq!(call.timeout, Some(LONG));
        assert!(call.received >= before && call.received <= Instant::now());
    }
    let [service] = &server.services()[..] else { panic!("one service") };
    assert_eq!((service.name, service.threads, service.queue_length, service.queued), (SERVICE, 1, 2, 1));
    // A connection's figures are those of its last turn that is over: the answer may be here before.
    let connections = loop {
        let connections = server.reactors().stats().connections;
        let [one] = &connections[..] else { panic!("one connection: {connections:?}") };
        if (one.calls_in_flight, one.calls) == (2, 3) {
            break connections;
        }
        assert!(before.elapsed() < LONG, "{one:?}");
        std::thread::yield_now();
    };
    assert_eq!(connections[0].info.as_ref().unwrap().user, "root");

    (0..2).for_each(|_| go.send(()).unwrap());
    (0..2).for_each(|_| assert!(client.receive().result.is_ok()));
    assert!(server.calls_in_flight(LONG).calls.is_empty());
}

#[test]
fn a_reactor_that_is_held_up_is_named_and_not_waited_for() {
    let (holding, held) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    let service = Service::builder(SERVICE)
        .threads(1)
        .method::<Ping>(|call: Call<Ping>| std::mem::forget(call))
        .cheap::<GetTabletLocations>(move |call: Call<GetTabletLocations>| {
            holding.send(()).unwrap();
            let _ = gone.lock().recv_timeout(LONG);
            call.respond(&Default::default());
        })
        .build();
    let server =
        Server::builder().reactors(1).bind("127.0.0.1:0".parse().unwrap()).service(service).start().unwrap();
    server.ready();
    let mut client = RawClient::open(&server.bound_addresses()[0]);
    client.send(&call(1, "Ping"));
    let until = Instant::now() + LONG;
    while server.calls_in_flight(LONG).calls.is_empty() {
        assert!(Instant::now() < until, "the call never came");
    }
    client.send(&call(2, "GetTabletLocations"));
    held.recv_timeout(LONG).unwrap();
    let found = server.calls_in_flight(Duration::from_millis(50));
    assert_eq!((found.calls.len(), found.silent), (0, 1));
    go.send(()).unwrap();
    assert_eq!(client.receive().id, 2);
    assert_eq!(server.calls_in_flight(LONG).calls.len(), 1);
}

fn wait(metrics: &MethodMetrics, answered: u64) {
    let until = Instant::now() + LONG;
    while metrics.answered() < answered {
        assert!(Instant::now() < until, "{metrics:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn each_method_has_its_histograms_counters_and_samples() {
    let (server, runs, go) = server();
    let mut client = RawClient::open(&server.bound_addresses()[0]);
    client.send(&call(0, "Ping"));
    runs.recv_timeout(LONG).unwrap();
    (1..4).for_each(|id| client.send(&call(id, "Ping")));
    assert!(client.receive().result.is_err(), "the queue holds two");
    std::thread::sleep(Duration::from_millis(20));
    (0..3).for_each(|_| go.send(()).unwrap());
    (0..3).for_each(|_| assert!(client.receive().result.is_ok()));
    (10..138).for_each(|id| assert!(client.call(&call(id, "GetTabletLocations")).result.is_ok()));

    let methods = server.methods();
    let names: Vec<_> = methods.iter().map(|method| (method.service, method.method, method.cheap)).collect();
    assert_eq!(names, [(SERVICE, "GetTabletLocations", true), (SERVICE, "Ping", false)]);
    let (cheap, queued) = (&methods[0].metrics, &methods[1].metrics);
    wait(queued, 3);
    wait(cheap, 128);
    assert_eq!(
        (queued.answered(), queued.failed(), queued.rejected(), queued.timed_out_in_queue()),
        (3, 0, 1, 0)
    );
    let (ran, waited) = (queued.latencies(), queued.queue_times());
    assert_eq!((ran.len(), waited.len()), (3, 3), "each queued call has its time taken");
    assert!(ran.max() >= 20_000_000 && waited.max() >= 20_000_000, "{} {}", ran.max(), waited.max());
    assert!(
        (2..=8).contains(&cheap.latencies().len()),
        "some of the cheap ones: {}",
        cheap.latencies().len()
    );
    let samples = queued.samples();
    assert!((1..=3).contains(&samples.len()), "{samples:?}");
    let slow = samples.last().unwrap();
    assert!(slow.waited + slow.ran >= Duration::from_millis(20), "{slow:?}");
    assert_eq!((slow.user.as_str(), slow.timeout, slow.failed), ("root", Some(LONG), false));
    assert!(slow.to_string().starts_with("call of root from 127.0.0.1:"), "{slow}");
    assert!(server.method_metrics(SERVICE, "Nothing").is_none());
}

#[test]
fn the_load_of_reactors_is_measured() {
    let (server, ..) = server();
    let mut client = RawClient::open(&server.bound_addresses()[0]);
    (0..200).for_each(|id| assert!(client.call(&call(id, "GetTabletLocations")).result.is_ok()));
    std::thread::sleep(Duration::from_millis(150));
    let load = server.reactors().load();
    assert_eq!(load.len(), 2);
    let wakeups: u64 = load.iter().map(|load| load.active_latency_us.len()).sum();
    assert!(wakeups >= 150 / 8, "a wake-up for nearly each call, one of 8 measured: {wakeups}");
    assert!(load.iter().all(|load| !load.load_percent.is_empty() && load.load_percent.max() <= 100));
}
