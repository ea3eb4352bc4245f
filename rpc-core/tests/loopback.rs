//! Calls from end to end, over TCP and unix sockets.

mod rig;

use std::time::{Duration, Instant};

use bytes::Bytes;
use rig::*;
use rpc_core::{CallError, Messenger, Proxy, Responder, RpcErrorCode, ServerOptions};

fn messenger() -> Messenger {
    Messenger::builder().user("alice").build()
}

/// The next call of `Hold`, while the runtime goes on.
async fn held(rig: &Rig) -> Responder {
    loop {
        match rig.held.try_recv() {
            Ok(responder) => return responder,
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn bodies_and_sidecars_go_both_ways() {
    let rig = Rig::start(2, ServerOptions::default());
    let messenger = messenger();
    for proxy in rig.proxies(&messenger) {
        for sizes in [vec![], vec![0, 5, 0], vec![5000, 1, 70_000], vec![3_000_000, 0, 9, 6_000_000, 100_000]]
        {
            for body in [0usize, 10, 100_000] {
                let body = Bytes::from(vec![7; body]);
                let sidecars: Vec<Bytes> =
                    sizes.iter().map(|size| (0..*size).map(|i| (i % 251) as u8).collect()).collect();
                let call = proxy.call::<Echo>(&body).sidecars(sidecars.clone()).timeout(LONG);
                let response = call.send().await.unwrap();
                assert!(response.message == body && response.sidecars == sidecars, "{sizes:?}");
                if sizes.iter().sum::<usize>() > 1 << 20 {
                    let big = response.sidecars.iter().filter(|sidecar| !sidecar.is_empty());
                    big.for_each(|sidecar| assert_eq!(sidecar.as_ptr() as usize % 64, 0));
                }
            }
        }
    }
    assert_eq!(rig.accepted(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_share_one_connection() {
    let rig = Rig::start(2, ServerOptions::default());
    let messenger = messenger();
    for proxy in rig.proxies(&messenger) {
        let tasks: Vec<_> = (0..64u8)
            .map(|i| {
                // A proxy of its own each: what they share is the connection's id.
                let proxy = Proxy::new(&messenger, proxy.remote().clone(), "h");
                tokio::spawn(async move {
                    for round in 0..20u8 {
                        let body = Bytes::from(vec![i, round]);
                        let reply = match round % 2 {
                            0 => proxy.call::<Echo>(&body).timeout(LONG).send().await,
                            _ => proxy.call::<Later>(&body).timeout(LONG).send().await,
                        };
                        assert_eq!(reply.unwrap().message, body);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    }
    assert_eq!((rig.accepted(), rig.calls(), messenger.connections()), (2, 2 * 64 * 20, 2));
}

#[tokio::test]
async fn planes_and_users_have_connections_of_their_own() {
    let rig = Rig::start(1, ServerOptions::default());
    let (alice, bob) = (messenger(), Messenger::builder().user("bob").build());
    for (messenger, plane) in [(&alice, ""), (&alice, "bulk"), (&bob, ""), (&alice, "")] {
        let proxy = Proxy::with_plane(messenger, rig.unix.clone(), "h", plane);
        let who = proxy.call::<WhoAmI>(&Bytes::new()).send().await.unwrap();
        assert_eq!(who.sidecars, [messenger.user()]);
    }
    let stats = rig.pool.stats();
    let users: Vec<_> = stats.connections.iter().map(|c| c.info.as_ref().unwrap().user.clone()).collect();
    assert_eq!(users, ["alice", "alice", "bob"]);
    assert!(stats.connections.iter().all(|c| c.info.as_ref().unwrap().confidential));
}

#[tokio::test]
async fn errors_come_back_and_the_connection_stays() {
    let rig = Rig::start(1, ServerOptions::default());
    for proxy in rig.proxies(&messenger()) {
        let error = proxy.call::<Fail>(&Bytes::new()).send().await.unwrap_err();
        let remote = error.remote().expect("an error of the server");
        assert_eq!(remote.code, Some(RpcErrorCode::ERROR_SERVER_TOO_BUSY));
        assert!(error.is_retriable() && !error.is_timeout());
        assert!(error.to_string().contains("Service unavailable: no"), "{error}");
        let error = proxy.call::<Drop>(&Bytes::new()).send().await.unwrap_err();
        assert!(error.remote().is_some_and(|e| e.message.starts_with("Aborted: ")), "{error}");
        proxy.call::<Echo>(&Bytes::new()).send().await.unwrap();
    }
    assert_eq!(rig.accepted(), 2);
}

#[tokio::test]
async fn a_handler_that_panics_costs_its_connection_only() {
    let rig = Rig::start(1, ServerOptions::default());
    let [one, other] = rig.proxies(&messenger());
    other.call::<Echo>(&Bytes::new()).send().await.unwrap();
    let error = one.call::<Panic>(&Bytes::new()).timeout(LONG).send().await.unwrap_err();
    assert!(matches!(error, CallError::Network { sent: true, .. }), "{error}");
    other.call::<Echo>(&Bytes::new()).send().await.unwrap();
    one.call::<Echo>(&Bytes::new()).send().await.unwrap();
    assert_eq!((rig.accepted(), rig.connections()), (3, 2));
}

#[tokio::test]
async fn a_late_answer_is_dropped_and_the_connection_stays() {
    let rig = Rig::start(1, ServerOptions::default());
    let proxy = &rig.proxies(&messenger())[0];
    proxy.call::<Echo>(&Bytes::new()).send().await.unwrap();
    let error =
        proxy.call::<Hold>(&Bytes::new()).timeout(Duration::from_millis(30)).send().await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    let big = vec![Bytes::from(vec![1; 1 << 20])];
    rig.held.recv_timeout(LONG).unwrap().respond(Bytes::new(), big);
    let body = Bytes::from_static(b"next");
    assert_eq!(proxy.call::<Echo>(&body).timeout(LONG).send().await.unwrap().message, body);
    assert_eq!(rig.accepted(), 1);
}

#[tokio::test]
async fn a_closed_port_and_a_missing_socket_are_network_errors() {
    let rig = Rig::start(1, ServerOptions::default());
    let messenger = messenger();
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for remote in [unused.into(), "@nyala-test-nobody".parse().unwrap()] {
        let proxy = Proxy::new(&messenger, remote, "h");
        let error = proxy.call::<Echo>(&Bytes::new()).timeout(LONG).send().await.unwrap_err();
        assert!(matches!(error, CallError::Network { sent: false, .. }) && error.is_retriable(), "{error}");
    }
    assert_eq!(messenger.connections(), 0);
    drop(rig);
}

#[tokio::test]
async fn a_refusal_in_negotiation_fails_all_queued_calls() {
    let rig = Rig::start(1, ServerOptions { trusted_subnets: [].into(), ..Default::default() });
    let messenger = messenger();
    let [tcp, unix] = rig.proxies(&messenger);
    let body = Bytes::new();
    let (one, two) = tokio::join!(tcp.call::<Echo>(&body).send(), tcp.call::<Echo>(&body).send());
    for error in [one.unwrap_err(), two.unwrap_err()] {
        assert!(matches!(error, CallError::Negotiation { .. }) && !error.is_retriable(), "{error}");
        assert_eq!(error.remote().and_then(|e| e.code), Some(RpcErrorCode::FATAL_UNAUTHORIZED));
    }
    unix.call::<Echo>(&body).send().await.unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_negotiate_fails_the_call_in_time() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let messenger = Messenger::builder().negotiation_timeout(Duration::from_millis(50)).build();
    let proxy = Proxy::new(&messenger, listener.local_addr().unwrap().into(), "h");
    let error = proxy.call::<Echo>(&Bytes::new()).timeout(LONG).send().await.unwrap_err();
    assert!(matches!(error, CallError::Negotiation { .. }) && error.is_retriable(), "{error}");
    let error = proxy.call::<Echo>(&Bytes::new()).timeout(Duration::from_millis(5)).send().await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
}

#[tokio::test]
async fn a_connection_that_breaks_fails_the_calls_that_were_sent() {
    let rig = Rig::start(1, ServerOptions { drain_timeout: Duration::from_millis(20), ..Default::default() });
    let proxy = rig.proxies(&messenger())[1].clone();
    let call = tokio::spawn(async move { proxy.call::<Hold>(&Bytes::new()).send().await });
    let held = held(&rig).await;
    rig.pool.shutdown();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Network { sent: true, .. }), "{error}");
    drop(held);
}

#[tokio::test]
async fn shutdown_lets_calls_in_progress_be_answered() {
    // However long it would wait, it ends when all are answered.
    let rig = Rig::start(2, ServerOptions { drain_timeout: Duration::MAX, ..Default::default() });
    let messenger = messenger();
    let calls: Vec<_> = rig
        .proxies(&messenger)
        .into_iter()
        .map(|proxy| tokio::spawn(async move { proxy.call::<Hold>(&Bytes::new()).send().await }))
        .collect();
    let held = [held(&rig).await, held(&rig).await];
    let pool = rig.pool.clone();
    let stopping = std::thread::spawn(move || pool.shutdown());
    tokio::time::sleep(Duration::from_millis(20)).await;
    held.into_iter().for_each(|responder| responder.respond(Bytes::new(), vec![Bytes::from_static(b"bye")]));
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().sidecars, ["bye"]);
    }
    stopping.join().unwrap();
    assert_eq!(rig.connections(), 0);
}

#[tokio::test]
async fn a_messenger_that_is_shut_down_makes_no_calls() {
    let rig = Rig::start(1, ServerOptions::default());
    let messenger = messenger();
    let proxy = rig.proxies(&messenger)[0].clone();
    let call = {
        let proxy = proxy.clone();
        tokio::spawn(async move { proxy.call::<Hold>(&Bytes::new()).send().await })
    };
    let _held = held(&rig).await;
    messenger.shutdown();
    assert!(matches!(call.await.unwrap(), Err(CallError::ShutDown { .. })));
    assert!(matches!(proxy.call::<Echo>(&Bytes::new()).send().await, Err(CallError::ShutDown { .. })));
}

#[test]
fn a_call_off_any_runtime_fails_and_does_not_panic() {
    let proxy = Proxy::new(&messenger(), "127.0.0.1:1".parse().unwrap(), "h");
    let mut future = std::pin::pin!(proxy.call::<Echo>(&Bytes::new()).send());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(outcome) = future.as_mut().poll(&mut cx) else { panic!("it waits") };
    assert!(matches!(outcome, Err(CallError::Network { sent: false, .. })));
}

#[test]
fn a_dropped_runtime_fails_its_calls_and_the_next_one_connects_anew() {
    let rig = Rig::start(1, ServerOptions::default());
    let messenger = messenger();
    let proxy = rig.proxies(&messenger)[0].clone();
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first = runtime();
    let (send, outcome) = std::sync::mpsc::channel();
    // The caller lives elsewhere than the connection: on a thread that is only entered into the runtime.
    let caller = {
        let (proxy, handle) = (proxy.clone(), first.handle().clone());
        std::thread::spawn(move || {
            let _entered = handle.enter();
            let call = proxy.call::<Hold>(&Bytes::new()).send();
            send.send(futures_block_on(call)).unwrap();
        })
    };
    let held = rig.held.recv_timeout(LONG).unwrap();
    first.shutdown_background();
    let error = outcome.recv_timeout(LONG).expect("the call ends").unwrap_err();
    assert!(matches!(error, CallError::Network { sent: true, .. }), "{error}");
    caller.join().unwrap();
    runtime().block_on(proxy.call::<Echo>(&Bytes::new()).send()).unwrap();
    assert_eq!(rig.accepted(), 2);
    drop(held);
}

/// Polls on this thread, parked in between.
fn futures_block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut cx = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    let start = Instant::now();
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        assert!(start.elapsed() < LONG);
        std::thread::park_timeout(Duration::from_millis(100));
    }
}
