//! Descriptors that come with answers: none is lost or too late, and nobody gets any who did not ask.

mod rig;

use std::time::Duration;

use bytes::Bytes;
use rig::*;
use rpc_core::{Messenger, ServerOptions};

const LONG: Duration = Duration::from_secs(120);

#[tokio::test]
async fn descriptors_are_there_with_the_answer_among_big_and_small_ones() {
    let rig = Rig::start(1, ServerOptions::default());
    let [_, unix] = rig.proxies(&Messenger::builder().user("alice").build());
    assert!(unix.descriptors().is_none(), "there is no connection yet");
    let mut calls = Vec::new();
    for number in 0..80u8 {
        let proxy = unix.clone();
        calls.push(tokio::spawn(async move {
            let body = Bytes::from(vec![number % 4, number]);
            let size = [10, 5_000, 200_000][usize::from(number) % 3];
            let sidecars = vec![Bytes::from(vec![number; size])];
            let call = proxy.call::<Attach>(&body).sidecars(sidecars.clone()).timeout(LONG);
            let response = call.send().await.unwrap();
            assert_eq!(response.sidecars[1..], sidecars);
            assert_eq!(response.sidecars[0][..], [1]);
            // Those of other calls may have come, too, and any of them may have been taken by others.
            response.descriptors.map_or(0, |descriptors| descriptors.take().len())
        }));
    }
    let mut received = 0;
    for call in calls {
        received += call.await.unwrap();
    }
    assert_eq!(received, 20 * (1 + 2 + 3));
    assert!(unix.descriptors().is_some());
    assert_eq!(rig.accepted(), 1, "all on one connection");
}

#[tokio::test]
async fn one_call_at_a_time_has_exactly_its_own() {
    let rig = Rig::start(1, ServerOptions::default());
    let [_, unix] = rig.proxies(&Messenger::builder().user("alice").build());
    for count in [0, 1, 3, 100, 0, 2] {
        let response = unix.call::<Attach>(&Bytes::from(vec![count])).timeout(LONG).send().await.unwrap();
        let received = response.descriptors.map_or(0, |descriptors| descriptors.take().len());
        assert_eq!(received, usize::from(count));
    }
}

#[tokio::test]
async fn nobody_gets_any_over_tcp_or_without_saying_so() {
    let rig = Rig::start(1, ServerOptions::default());
    let silent = Messenger::builder().user("alice").descriptors(false).build();
    let [tcp, _] = rig.proxies(&Messenger::builder().user("alice").build());
    let [_, unix] = rig.proxies(&silent);
    for proxy in [tcp, unix] {
        let response = proxy.call::<Attach>(&Bytes::from(vec![3])).timeout(LONG).send().await.unwrap();
        assert_eq!(response.sidecars, [Bytes::from_static(&[0])]);
        assert!(response.descriptors.is_none() && proxy.descriptors().is_none());
    }
}

#[tokio::test]
async fn the_system_tells_who_is_at_the_other_end_of_a_unix_socket() {
    let rig = Rig::start(1, ServerOptions::default());
    let [tcp, unix] = rig.proxies(&Messenger::builder().user("alice").build());
    let who = async |proxy: rpc_core::Proxy| {
        proxy.call::<WhatUid>(&Bytes::new()).timeout(LONG).send().await.unwrap().sidecars
    };
    assert!(who(tcp).await.is_empty());
    let uid = rustix::process::getuid().as_raw().to_string();
    assert_eq!(who(unix).await, [uid]);
}
