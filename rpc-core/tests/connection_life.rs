//! Connections that are idle, break, or are not needed any more; memory that must not outlive its call.

mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rig::*;
use rpc_core::{Messenger, Proxy, ServerOptions};

const LONG: Duration = Duration::from_secs(120);

fn messenger() -> Messenger {
    Messenger::builder().user("alice").build()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn echo(runtime: &tokio::runtime::Runtime, proxy: &Proxy) {
    runtime.block_on(proxy.call::<Echo>(&Bytes::new()).timeout(LONG).send()).unwrap();
}

#[test]
fn the_user_does_not_see_that_an_idle_connection_was_closed() {
    let options = ServerOptions { keepalive: Some(Duration::from_millis(600)), ..Default::default() };
    let rig = Rig::start(1, options);
    let runtime = runtime();
    let messenger = messenger();
    for proxy in rig.proxies(&messenger) {
        let before = rig.accepted();
        echo(&runtime, &proxy);
        // This runtime stands still, so that its connection cannot see the end before the next call.
        eventually("the server closes", || rig.connections() == 0);
        echo(&runtime, &proxy);
        assert_eq!(rig.accepted(), before + 2);
        // This one runs on, and sees it.
        runtime.block_on(async {
            while rig.connections() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        echo(&runtime, &proxy);
        assert_eq!(rig.accepted(), before + 3);
        eventually("the server closes", || rig.connections() == 0);
    }
}

#[test]
fn a_call_in_progress_keeps_its_connection() {
    let options = ServerOptions { keepalive: Some(Duration::from_millis(50)), ..Default::default() };
    let rig = Rig::start(1, options);
    let proxy = rig.proxies(&messenger())[0].clone();
    let caller = std::thread::spawn(move || runtime().block_on(proxy.call::<Hold>(&Bytes::new()).send()));
    let held = rig.held.recv_timeout(LONG).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    held.respond(Bytes::new(), vec![Bytes::from_static(b"done")]);
    assert_eq!(caller.join().unwrap().unwrap().sidecars, ["done"]);
}

/// A payload that tells when it is freed.
struct Payload(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl std::ops::Drop for Payload {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

fn payload(alive: &Arc<AtomicUsize>) -> Vec<Bytes> {
    alive.fetch_add(1, Ordering::SeqCst);
    vec![Bytes::from_owner(Payload(vec![1; 1 << 20], alive.clone()))]
}

#[tokio::test]
async fn payloads_of_calls_that_time_out_are_freed_before_the_server_wakes() {
    let mut rig = Rig::start(1, ServerOptions::default());
    let messenger = messenger();
    let proxy = rig.proxies(&messenger)[0].clone();
    proxy.call::<Echo>(&Bytes::new()).send().await.unwrap();
    let blocked = tokio::spawn({
        let proxy = proxy.clone();
        async move { proxy.call::<Block>(&Bytes::new()).send().await }
    });
    while rig.calls() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let alive = Arc::new(AtomicUsize::new(0));
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let call = proxy.call::<Echo>(&Bytes::new()).sidecars(payload(&alive));
            tokio::spawn(call.timeout(Duration::from_millis(1)).send())
        })
        .collect();
    for call in calls {
        // Some of the first may have timed out while they were being sent.
        assert!(call.await.unwrap().unwrap_err().is_timeout());
    }
    // What is just being sent has to be finished for the sake of the stream: one call, and what waits with it.
    assert!(alive.load(Ordering::SeqCst) <= 2, "{} MiB are held", alive.load(Ordering::SeqCst));
    rig.release.take();
    blocked.await.unwrap().unwrap();
    let body = Bytes::from_static(b"the connection stays");
    assert_eq!(proxy.call::<Echo>(&body).timeout(LONG).send().await.unwrap().message, body);
    assert_eq!((rig.accepted(), alive.load(Ordering::SeqCst)), (1, 0));
}

#[tokio::test]
async fn dropping_a_call_frees_its_payload_wherever_it_is() {
    let mut rig = Rig::start(1, ServerOptions::default());
    let proxy = rig.proxies(&messenger())[1].clone();
    let alive = Arc::new(AtomicUsize::new(0));
    // Never polled.
    drop(proxy.call::<Echo>(&Bytes::new()).sidecars(payload(&alive)).send());
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    // Polled once: left for the connection's task, which did not run since.
    {
        let mut call = std::pin::pin!(proxy.call::<Echo>(&Bytes::new()).sidecars(payload(&alive)).send());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(call.as_mut().poll(&mut cx).is_pending());
    }
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    // In the queue of a connection whose server does not read.
    let block = tokio::spawn({
        let proxy = proxy.clone();
        async move { proxy.call::<Block>(&Bytes::new()).send().await }
    });
    while rig.calls() < 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let calls: Vec<_> = (0..50)
        .map(|_| tokio::spawn(proxy.call::<Echo>(&Bytes::new()).sidecars(payload(&alive)).send()))
        .collect();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(alive.load(Ordering::SeqCst) > 40);
    for call in calls {
        call.abort();
        let _ = call.await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(alive.load(Ordering::SeqCst) <= 2, "{} MiB are held", alive.load(Ordering::SeqCst));
    rig.release.take();
    block.await.unwrap().unwrap();
    proxy.call::<Echo>(&Bytes::new()).timeout(LONG).send().await.unwrap();
    assert_eq!((rig.accepted(), alive.load(Ordering::SeqCst)), (1, 0));
}

#[test]
fn connections_spread_over_reactors_whatever_their_addresses() {
    use socket2::{Domain, Socket, Type};
    let rig = Rig::start(4, ServerOptions::default());
    let connect = |from: Option<net_addr::SockAddr>, to: &net_addr::SockAddr| {
        let domain = if to.is_unix() { Domain::UNIX } else { Domain::IPV4 };
        let socket = Socket::new(domain, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        if let Some(from) = from {
            socket.bind(&from.to_socket2().unwrap()).unwrap();
        }
        socket.connect(&to.to_socket2().unwrap()).unwrap();
        socket
    };
    let host = |i: u16| net_addr::SockAddr::parse(&format!("127.0.0.{}", i + 1), 0).unwrap();
    let sources: [Box<dyn Fn(u16) -> Option<net_addr::SockAddr>>; 2] =
        [Box::new(|_| None), Box::new(move |i| Some(host(i)))];
    let tcp = sources.iter().map(|from| (from, &rig.tcp));
    let unix = [(&sources[0], &rig.unix)];
    for (from, to) in tcp.chain(unix) {
        let before = rig.accepted();
        let peers: Vec<_> = (0..64).map(|i| connect(from(i), to)).collect();
        eventually("all are taken over", || rig.accepted() == before + 64);
        let stats = rig.pool.stats();
        let largest = stats.reactors.iter().map(|reactor| reactor.connections).max().unwrap();
        assert!(largest <= 20, "{largest} of 64 on one of 4 reactors");
        drop(peers);
        eventually("all are gone", || rig.connections() == 0);
    }
}

#[tokio::test]
async fn a_full_accept_queue_delays_a_call_and_does_not_fail_it() {
    use socket2::{Domain, Socket, Type};
    let address: net_addr::SockAddr = format!("@nyala-test-full-{}", std::process::id()).parse().unwrap();
    let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    listener.bind(&address.to_socket2().unwrap()).unwrap();
    listener.listen(0).unwrap();
    // Fill the queue: a unix socket that does not block is refused then, and must come again by itself.
    let mut waiting = Vec::new();
    loop {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        match socket.connect(&address.to_socket2().unwrap()) {
            Ok(()) => waiting.push(socket),
            Err(error) => break assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    let pool = rpc_core::ReactorPool::start("test", 1).unwrap();
    let handler: Arc<dyn rpc_core::InboundHandler> =
        Arc::new(|call: rpc_core::InboundCall| call.split().1.respond(Bytes::new(), Vec::new()));
    let acceptor = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        for _ in 0..=waiting.len() {
            let (socket, _) = listener.accept().unwrap();
            pool.adopt(socket, handler.clone(), Arc::default()).unwrap();
        }
        pool
    });
    let proxy = Proxy::new(&messenger(), address, "h");
    proxy.call::<Echo>(&Bytes::new()).timeout(LONG).send().await.unwrap();
    drop(acceptor.join().unwrap());
}

#[tokio::test]
async fn both_ends_tell_which_calls_are_in_flight() {
    let rig = Rig::start(1, ServerOptions::default());
    let messenger = messenger();
    let proxy = rig.proxies(&messenger)[0].clone();
    let calls: Vec<_> =
        (0..3).map(|_| tokio::spawn(proxy.call::<Hold>(&Bytes::new()).timeout(LONG).send())).collect();
    while rig.calls() < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let [out] = &messenger.stats()[..] else { panic!("one connection") };
    assert_eq!((&out.id.remote, out.calls_in_flight), (&rig.tcp, 3));
    // The reactor may have to come to rest first.
    while rig.pool.calls_in_flight(LONG).calls.len() < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for (_, call) in rig.pool.calls_in_flight(LONG).calls {
        assert_eq!(
            (call.destination.method(), call.destination.connection().user.as_str()),
            ("Hold", "alice")
        );
        rig.held.recv_timeout(LONG).unwrap().respond(Bytes::new(), Vec::new());
    }
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(messenger.stats()[0].calls_in_flight, 0);
    assert!(rig.pool.calls_in_flight(LONG).calls.is_empty());
}

#[tokio::test]
async fn a_reactor_tells_how_busy_it_is() {
    let rig = Rig::start(1, ServerOptions::default());
    let proxy = rig.proxies(&messenger())[0].clone();
    proxy.call::<Echo>(&Bytes::new()).timeout(LONG).send().await.unwrap();
    let before = rig.pool.stats().reactors[0];
    let start = Instant::now();
    for _ in 0..200 {
        proxy.call::<Echo>(&Bytes::new()).timeout(LONG).send().await.unwrap();
    }
    let after = rig.pool.stats().reactors[0];
    assert_eq!(after.calls - before.calls, 200);
    assert!(after.rests - before.rests >= 150, "it rests after nearly each call: {before:?}, {after:?}");
    let busy = after.busy - before.busy;
    assert!(!busy.is_zero() && busy <= start.elapsed() + Duration::from_millis(50), "{busy:?}");
}
