//! Calls from threads that wait, on sockets that they drive themselves.

mod rig;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use net_addr::SockAddr;
use rig::*;
use rpc_core::blocking::Proxy;
use rpc_core::machine::ClientOptions;
use rpc_core::{CallError, ReactorPool, ServerOptions};

const LONG: Duration = Duration::from_secs(120);
const SHORT: Duration = Duration::from_millis(60);

fn proxies(rig: &Rig) -> [Proxy; 2] {
    [&rig.tcp, &rig.unix].map(|remote| Proxy::new(remote.clone(), "alice"))
}

fn echo(proxy: &Proxy, len: usize) {
    let (body, sidecar) = (Bytes::from(vec![7; len]), Bytes::from(vec![9; len / 2]));
    let call = proxy.call::<Echo>(&body).sidecars(vec![sidecar.clone()]).timeout(LONG);
    let response = call.send().unwrap();
    assert_eq!((response.message, response.sidecars), (body, vec![sidecar]));
}

#[test]
fn answers_of_all_sizes_come_back_over_one_connection() {
    let rig = Rig::start(1, ServerOptions::default());
    for (number, proxy) in proxies(&rig).into_iter().enumerate() {
        for len in [0, 1, 100, 5000, 70_000, 3 << 20, 1] {
            echo(&proxy, len);
        }
        assert_eq!(rig.accepted(), number as u64 + 1);
        let user = proxy.call::<WhoAmI>(&Bytes::new()).send().unwrap();
        assert_eq!(user.sidecars, [&b"alice"[..]]);
        let failed = proxy.call::<Fail>(&Bytes::new()).timeout(LONG).send().unwrap_err();
        assert!(matches!(failed, CallError::Remote { .. }), "{failed}");
    }
}

#[test]
fn a_call_that_is_not_answered_in_time_fails_and_its_late_answer_is_not_taken_for_the_next_ones() {
    let rig = Rig::start(1, ServerOptions::default());
    for proxy in proxies(&rig) {
        echo(&proxy, 10);
        let before = rig.accepted();
        let failed = proxy.call::<Hold>(&Bytes::new()).timeout(SHORT).send().unwrap_err();
        assert!(matches!(failed, CallError::TimedOut { timeout: SHORT, .. }), "{failed}");
        rig.held.recv_timeout(LONG).unwrap().respond(Bytes::from_static(b"late"), Vec::new());
        for len in [3, 4, 5] {
            echo(&proxy, len);
        }
        assert_eq!(rig.accepted(), before, "the connection was of use still");
    }
}

#[test]
fn clones_take_turns_and_do_not_wait_for_longer_than_they_have() {
    let rig = Rig::start(1, ServerOptions::default());
    let [proxy, _] = proxies(&rig);
    let other = proxy.clone();
    let held = std::thread::spawn(move || other.call::<Hold>(&Bytes::new()).timeout(LONG).send());
    let responder = rig.held.recv_timeout(LONG).unwrap();
    let failed = proxy.call::<Echo>(&Bytes::new()).timeout(SHORT).send().unwrap_err();
    assert!(matches!(failed, CallError::TimedOut { .. }), "{failed}");
    let third = proxy.clone();
    let waits = std::thread::spawn(move || echo(&third, 10));
    responder.respond(Bytes::new(), Vec::new());
    held.join().unwrap().unwrap();
    waits.join().unwrap();
}

#[test]
fn the_user_does_not_see_that_an_idle_connection_was_closed() {
    let options = ServerOptions { keepalive: Some(Duration::from_millis(600)), ..Default::default() };
    let rig = Rig::start(1, options);
    for proxy in proxies(&rig) {
        let before = rig.accepted();
        echo(&proxy, 10);
        eventually("the server closes", || rig.connections() == 0);
        echo(&proxy, 10);
        assert_eq!(rig.accepted(), before + 2);
    }
}

#[test]
fn a_server_that_is_not_there_is_told_as_such() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone: [SockAddr; 2] = [free.into(), "@nyala-test-nobody".parse().unwrap()];
    for remote in gone {
        let failed =
            Proxy::new(remote, "alice").call::<Echo>(&Bytes::new()).timeout(LONG).send().unwrap_err();
        assert!(matches!(failed, CallError::Network { sent: false, .. }), "{failed}");
    }
}

#[test]
fn a_server_that_never_negotiates_holds_nobody_up_for_longer_than_the_call_has() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::new(listener.local_addr().unwrap().into(), "alice");
    let failed = proxy.call::<Echo>(&Bytes::new()).timeout(SHORT).send().unwrap_err();
    assert!(matches!(failed, CallError::TimedOut { .. }), "{failed}");
    let options = ClientOptions { negotiation_timeout: SHORT, ..Default::default() };
    let proxy = Proxy::with_options(proxy.remote().clone(), "alice", options, Duration::ZERO);
    let failed = proxy.call::<Echo>(&Bytes::new()).send().unwrap_err();
    assert!(matches!(failed, CallError::Negotiation { .. }), "{failed}");
}

#[test]
fn a_connection_that_breaks_fails_its_call_and_the_next_one_makes_another() {
    let rig = Rig::start(1, ServerOptions { drain_timeout: SHORT, ..Default::default() });
    let [proxy, _] = proxies(&rig);
    let other = proxy.clone();
    let held = std::thread::spawn(move || other.call::<Hold>(&Bytes::new()).timeout(LONG).send());
    let _unanswered = rig.held.recv_timeout(LONG).unwrap();
    rig.pool.shutdown();
    let failed = held.join().unwrap().unwrap_err();
    assert!(matches!(failed, CallError::Network { sent: true, .. }), "{failed}");
    let failed = proxy.call::<Echo>(&Bytes::new()).timeout(LONG).send().unwrap_err();
    assert!(matches!(failed, CallError::Network { .. } | CallError::Negotiation { .. }), "{failed}");
}

#[test]
fn both_sides_answer_as_well_when_they_poll() {
    let pool = Arc::new(ReactorPool::start_polling("poll", 2, Duration::from_micros(50)).unwrap());
    let rig = Rig::on(pool, ServerOptions::default());
    for remote in [&rig.tcp, &rig.unix] {
        let options = ClientOptions::default();
        let proxy = Proxy::with_options(remote.clone(), "alice", options, Duration::from_micros(50));
        (0..500).for_each(|len| echo(&proxy, len));
        let failed = proxy.call::<Hold>(&Bytes::new()).timeout(SHORT).send().unwrap_err();
        assert!(matches!(failed, CallError::TimedOut { .. }), "{failed}");
        echo(&proxy, 100_000);
    }
    rig.pool.shutdown();
}
