//! Calls that real servers refuse: the captured sessions with 1.18.1 must come out byte for byte, addresses apart.

mod common;

use std::io::Write;
use std::sync::Arc;

use common::{RawCall, RawClient, capture, decode};
use proto::kudu::AppStatusPb;
use proto::kudu::tserver::{TabletServerErrorPb, WriteResponsePb};
use proto::methods::{generic_service, master_service, tablet_server_service};
use rpc_core::RpcErrorCode;
use rpc_server::{Call, Server, Service};

fn server() -> Server {
    let generic = Service::builder("kudu.server.GenericService")
        .cheap::<generic_service::GetStatus>(|call| call.respond(&Default::default()))
        .method::<generic_service::SetFlag>(|call| call.respond(&Default::default()))
        .build();
    let master = Service::builder("kudu.master.MasterService")
        .features(&[1, 3, 7])
        .method::<master_service::Ping>(|call| call.respond(&Default::default()))
        .method::<master_service::GetTableLocations>(|call| call.respond(&Default::default()))
        .build();
    // One thread: of two calls sent at once the first is to be answered first, as in the captures.
    let tserver = Service::builder("kudu.tserver.TabletServerService")
        .threads(1)
        .method::<tablet_server_service::Write>(|call: Call<tablet_server_service::Write>| {
            let id = String::from_utf8_lossy(&call.request().tablet_id).into_owned();
            let status = AppStatusPb {
                code: 1,
                message: Some(format!("Tablet not found: {id}")),
                ..Default::default()
            };
            let error = TabletServerErrorPb { code: 6, status };
            call.respond_uncached(&WriteResponsePb { error: Some(error), ..Default::default() });
        })
        .build();
    let server = Server::builder()
        .name("Master")
        .reactors(1)
        .bind("127.0.0.1:0".parse().unwrap())
        .authorizer(Arc::new(|access| access.connection.user != "bob" || access.method != "SetFlag"))
        .service(generic)
        .service(master)
        .service(tserver)
        .start()
        .unwrap();
    server.ready();
    server
}

/// Plays the client's side of a captured session and returns the frames after negotiation, ours and theirs.
fn replay(name: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let server = server();
    let mut client = RawClient { stream: common::connect(&server.bound_addresses()[0]) };
    let theirs = capture(&format!("{name}.s2c"));
    client.stream.write_all(&capture(&format!("{name}.c2s")).concat()).unwrap();
    let pairs = theirs.into_iter().map(|theirs| (client.frame(), theirs[4..].to_vec()));
    pairs.skip(2).collect()
}

#[test]
fn captured_refusals_come_out_the_same() {
    for name in [
        "err-no-such-service",
        "err-unsupported-feature",
        "err-invalid-request",
        "err-not-authorized",
        "err-request-stale",
    ] {
        for (ours, theirs) in replay(name) {
            assert_eq!(ours, theirs, "{name}: {:?} and {:?}", decode(&ours), decode(&theirs));
        }
    }
}

#[test]
fn an_unknown_method_is_refused_in_kudus_words() {
    let [(ours, theirs)] = replay("err-no-such-method").try_into().unwrap();
    let (ours, theirs) = (decode(&ours), decode(&theirs));
    assert_eq!(ours.code(), theirs.code());
    let blank = |text: &str| {
        let words = text.split(' ');
        words
            .map(|word| if word.starts_with("127.0.0.1:") { "ADDRESS" } else { word })
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(blank(ours.message()), blank(theirs.message()));
}

#[test]
fn missing_names_fields_and_features_have_their_codes_and_the_connection_lives_on() {
    let server = server();
    let mut client = RawClient::open(&server.bound_addresses()[0]);
    let long = "x".repeat(70_000);
    let master = "kudu.master.MasterService";
    let base = RawCall { timeout_ms: Some(5000), ..RawCall::default() };
    let wrong = [
        (RawCall { service: "NoSuchService", method: "Ping", ..base }, RpcErrorCode::ERROR_NO_SUCH_SERVICE),
        (RawCall { service: master, method: "NoSuchMethod", ..base }, RpcErrorCode::ERROR_NO_SUCH_METHOD),
        (RawCall { service: master, method: "", ..base }, RpcErrorCode::ERROR_NO_SUCH_METHOD),
        (RawCall { service: master, method: &long, ..base }, RpcErrorCode::ERROR_NO_SUCH_METHOD),
        (
            RawCall { service: master, method: "GetTableLocations", ..base },
            RpcErrorCode::ERROR_INVALID_REQUEST,
        ),
        (
            RawCall { service: master, method: "Ping", features: &[9999, 3, 4242], ..base },
            RpcErrorCode::ERROR_INVALID_REQUEST,
        ),
        (
            RawCall { service: master, method: "NoSuchMethod", features: &[9999], ..base },
            RpcErrorCode::ERROR_INVALID_REQUEST,
        ),
        (
            RawCall { service: "kudu.server.GenericService", method: "SetFlag", body: b"\x0a\x05a", ..base },
            RpcErrorCode::ERROR_INVALID_REQUEST,
        ),
        (
            RawCall {
                service: "kudu.server.GenericService",
                method: "SetFlag",
                body: b"\x0a\x01\xff\x12\x01a",
                ..base
            },
            RpcErrorCode::ERROR_INVALID_REQUEST,
        ),
    ];
    for (id, (call, code)) in (1..).zip(wrong) {
        let answer = client.call(&RawCall { id, ..call.clone() });
        assert_eq!(answer.code(), Some(code), "call {id}: {answer:?}");
        if call.features.len() == 3 {
            assert_eq!(answer.result.unwrap_err().unsupported_feature_flags, [9999, 4242]);
        }
        let ping =
            client.call(&RawCall { id: 1000 + id, service: master, method: "Ping", features: &[7], ..base });
        assert!(ping.result.is_ok(), "after call {id}: {ping:?}");
    }
}

#[test]
fn before_it_is_ready_a_server_asks_to_try_again() {
    let server = Server::builder().reactors(1).bind("127.0.0.1:0".parse().unwrap()).start().unwrap();
    let mut client = RawClient::open(&server.bound_addresses()[0]);
    let ping = RawCall { service: "kudu.master.MasterService", method: "Ping", ..RawCall::default() };
    assert_eq!(client.call(&ping).code(), Some(RpcErrorCode::ERROR_UNAVAILABLE));
    let master = Service::builder("kudu.master.MasterService")
        .cheap::<master_service::Ping>(|call| call.respond(&Default::default()))
        .build();
    server.register(master).unwrap();
    assert!(client.call(&ping).result.is_ok(), "a registered service serves at once");
    server.ready();
    let other = RawCall { service: "kudu.Other", ..ping };
    assert_eq!(client.call(&other).code(), Some(RpcErrorCode::ERROR_NO_SUCH_SERVICE));
}
