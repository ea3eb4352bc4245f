//! Sessions of real 1.18.1 peers (testdata/captures) against our codecs and machines, byte for byte.

use std::collections::HashMap;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use net_addr::SockAddr;
use rpc_core::machine::{
    ClientConnection, ClientEvent, ClientOptions, CloseReason, OutboundCall, ServerConnection, ServerEvent,
};
use rpc_core::negotiate::message::{self, NegotiateMessage};
use rpc_core::wire::header::{RequestHeader, ResponseHeader};
use rpc_core::wire::limits::{CONNECTION_CONTEXT_CALL_ID, DEFAULT_MAX_MESSAGE_SIZE, NEGOTIATION_CALL_ID};
use rpc_core::wire::{frame, pb, sidecar};
use rpc_core::{Answer, Extras, RemoteError, RpcErrorCode, ServerOptions};

const PREFACE: &str = "68727063090000";

/// Captures whose server did not offer TLS, or whose client did not: all in clear to the end.
const CLEAR: [&str; 15] = [
    "cpp-master-status-plain",
    "cpp-table-list-plain",
    "java-list-plain",
    "err-no-such-service",
    "err-no-such-method",
    "err-unsupported-feature",
    "err-invalid-request",
    "err-not-authorized",
    "err-app-extension-102",
    "err-request-stale",
    "neg-err-call-id",
    "neg-err-step",
    "neg-err-no-step",
    "neg-err-no-authn-type",
    "neg-err-mechanism",
];

const TLS: [&str; 4] = [
    "cpp-master-status-tls-authonly",
    "cpp-master-status-tls-wrapped",
    "java-list-tls-authonly",
    "cpp-scan-uds-token",
];

/// The lines of one direction: preface and frames.
fn lines(name: &str, direction: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/captures");
    let text = std::fs::read_to_string(path.join(format!("{name}.{direction}.hex"))).unwrap();
    let visible = text.lines().take_while(|line| !line.starts_with("# raw TLS records"));
    let hex = visible.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    hex.map(|line| {
        (0..line.len()).step_by(2).map(|i| u8::from_str_radix(&line[i..i + 2], 16).unwrap()).collect()
    })
    .collect()
}

fn parts(line: &[u8]) -> (Bytes, Bytes) {
    let mut buffer = BytesMut::from(line);
    let (header, main) = frame::take(&mut buffer, DEFAULT_MAX_MESSAGE_SIZE).unwrap().expect("a whole frame");
    assert!(buffer.is_empty());
    (header, main)
}

fn join(header: &[u8], main: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    pb::put_varint(&mut payload, header.len() as u64);
    payload.extend_from_slice(header);
    pb::put_varint(&mut payload, main.len() as u64);
    payload.extend_from_slice(main);
    [&(payload.len() as u32).to_be_bytes()[..], &payload].concat()
}

#[test]
fn every_frame_decodes_and_encodes_to_the_same_bytes() {
    let mut count = 0;
    for name in CLEAR.iter().chain(&TLS) {
        for line in lines(name, "c2s").iter().filter(|line| line[..] != *b"hrpc\x09\0\0") {
            let (header, main) = parts(line);
            let decoded = RequestHeader::decode(&header).unwrap();
            let mut again = Vec::new();
            decoded.encode(&mut again);
            let body = match decoded.call_id {
                NEGOTIATION_CALL_ID if *name != "neg-err-no-step" => {
                    NegotiateMessage::decode(&main).unwrap().to_vec()
                }
                CONNECTION_CONTEXT_CALL_ID if *name != "neg-err-call-id" && !name.starts_with("java") => {
                    message::check_context(&main).unwrap();
                    let mut context = Vec::new();
                    let user = if *name == "err-not-authorized" { "bob" } else { "root" };
                    message::encode_context(user, &mut context);
                    context
                }
                _ => main.to_vec(),
            };
            assert_eq!(&join(&again, &body), line, "{name}");
            count += 1;
        }
        for line in lines(name, "s2c") {
            let (header, main) = parts(&line);
            let decoded = ResponseHeader::decode(&header).unwrap();
            let mut again = Vec::new();
            decoded.encode(&mut again);
            let mut body = Vec::new();
            match (decoded.call_id, decoded.is_error) {
                (_, Some(true)) => RemoteError::decode(&main).unwrap().encode(&mut body),
                (NEGOTIATION_CALL_ID, _) => NegotiateMessage::decode(&main).unwrap().encode(&mut body),
                _ => body.extend_from_slice(&main),
            }
            assert_eq!(join(&again, &body), line, "{name}");
            count += 1;
        }
    }
    assert!(count > 120, "only {count} frames");
}

/// What the real server answered, by call id.
fn answers(name: &str) -> HashMap<i32, Answer> {
    let frames = lines(name, "s2c").into_iter().map(|line| parts(&line));
    let answers = frames.filter_map(|(header, main)| {
        let header = ResponseHeader::decode(&header).unwrap();
        let answer = match header.is_error {
            Some(true) => Answer::Error(RemoteError::decode(&main).unwrap()),
            _ => {
                let (body, sidecars) = sidecar::split(main, &header.sidecar_offsets).unwrap();
                Answer::Success { body, sidecars }
            }
        };
        (header.call_id >= 0).then_some((header.call_id, answer))
    });
    answers.collect()
}

fn drain(server: &mut ServerConnection, out: &mut Vec<u8>, now: Instant) {
    loop {
        let mut slices = [IoSlice::new(&[]); 8];
        let count = server.poll_transmit(&mut slices);
        let before = out.len();
        slices[..count].iter().for_each(|slice| out.extend_from_slice(slice));
        if out.len() == before {
            return;
        }
        let sent = out.len() - before;
        server.transmitted(sent, now);
    }
}

#[test]
fn our_server_answers_real_clients_as_the_real_server_did() {
    let mut calls = 0;
    for name in CLEAR {
        for cut in [1, 7, usize::MAX] {
            let now = Instant::now();
            let peer = SockAddr::parse("127.0.0.1:40000", 0).unwrap();
            let mut server = ServerConnection::new(Arc::new(ServerOptions::default()), peer, now);
            let mut answers = answers(name);
            let (mut buffer, mut out) = (BytesMut::new(), Vec::new());
            for piece in lines(name, "c2s").concat().chunks(cut.min(1 << 20)) {
                buffer.extend_from_slice(piece);
                server.handle_input(&mut buffer, now);
                while let Some(event) = server.poll_event() {
                    if let ServerEvent::Request(request) = event {
                        calls += 1;
                        server.respond(request.call_id, &answers.remove(&request.call_id).unwrap());
                    }
                }
                drain(&mut server, &mut out, now);
            }
            assert_eq!(out, lines(name, "s2c").concat(), "{name} cut at {cut}");
            let refused = matches!(server.closing(), Some(CloseReason::Negotiation(_)));
            assert_eq!(refused, name.starts_with("neg-err"), "{name}: {:?}", server.closing());
            assert!(answers.is_empty(), "{name}");
        }
    }
    assert_eq!(calls, 3 * 14);
}

#[test]
fn our_errors_read_as_those_of_the_real_server() {
    let error = |name: &str, id: i32| match answers(name).remove(&id) {
        Some(Answer::Error(error)) => error,
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(error("err-unsupported-feature", 0), RemoteError::unsupported_features(vec![77, 3]));
    let text = "Not authorized: unauthorized access to method: SetFlag";
    assert_eq!(error("err-not-authorized", 0), RemoteError::new(RpcErrorCode::ERROR_APPLICATION, text));
    assert_eq!(error("err-request-stale", 1).code, Some(RpcErrorCode::ERROR_REQUEST_STALE));
    let copy = error("err-app-extension-102", 0);
    let details = copy.extension_field(102).unwrap();
    assert_eq!(copy, RemoteError::with_extension("No such session", 102, &details));
    assert_eq!((copy.code, copy.code_or_default()), (None, RpcErrorCode::FATAL_UNKNOWN));
}

fn leak(bytes: &[u8]) -> &'static str {
    Box::leak(String::from_utf8(bytes.to_vec()).unwrap().into_boxed_str())
}

/// The client's NEGOTIATE as ours would be: only feature 1.
fn without_tls(line: &[u8]) -> Vec<u8> {
    if line == b"hrpc\x09\0\0" {
        return line.to_vec();
    }
    let (header, main) = parts(line);
    match NegotiateMessage::decode(&main) {
        Ok(mut message) if RequestHeader::decode(&header).unwrap().call_id == NEGOTIATION_CALL_ID => {
            message.supported_features.truncate(1);
            join(&header, &message.to_vec())
        }
        _ => line.to_vec(),
    }
}

#[test]
fn our_client_sends_what_real_clients_sent() {
    assert_eq!(PREFACE, lines(CLEAR[0], "c2s")[0].iter().map(|b| format!("{b:02x}")).collect::<String>());
    // Java names the user twice in its context; neg-err-* are what no client of ours sends.
    for name in CLEAR.iter().filter(|name| !name.starts_with("java") && !name.starts_with("neg-err")) {
        for cut in [1, 7, 1 << 20] {
            let now = Instant::now();
            let user = if *name == "err-not-authorized" { "bob" } else { "root" };
            let mut client = ClientConnection::new(&ClientOptions::default(), user.to_owned(), now);
            let sent = lines(name, "c2s");
            for line in &sent[4..] {
                let (header, main) = parts(line);
                let header = RequestHeader::decode(&header).unwrap();
                let (service, method) = header.method.unwrap();
                let (body, sidecars) = sidecar::split(main, &header.sidecar_offsets).unwrap();
                let call = OutboundCall {
                    service: leak(service),
                    method: leak(method),
                    body: body.into(),
                    extras: Extras {
                        required_features: header.required_feature_flags,
                        request_id: header.request_id.map(|id| id.to_owned()),
                        sidecars,
                    }
                    .boxed(),
                    deadline: header.timeout_millis.map(|ms| now + Duration::from_millis(ms.into())),
                };
                client.start_call(header.call_id as u64, call, header.call_id);
            }
            let (mut buffer, mut out) = (BytesMut::new(), Vec::new());
            let received = lines(name, "s2c");
            for (index, line) in received.iter().enumerate() {
                for piece in line.chunks(cut) {
                    let mut slices = [IoSlice::new(&[]); 8];
                    let count = client.poll_transmit(now, &mut slices);
                    let before = out.len();
                    slices[..count].iter().for_each(|slice| out.extend_from_slice(slice));
                    let sent = out.len() - before;
                    client.transmitted(sent, now);
                    buffer.extend_from_slice(piece);
                    client.handle_input(&mut buffer, now);
                }
                assert_eq!(client.is_established(), index >= 1, "{name}");
            }
            let expected: Vec<u8> = sent.iter().flat_map(|line| without_tls(line)).collect();
            assert_eq!(out, expected, "{name}");
            for (id, answer) in {
                let mut answers: Vec<_> = answers(name).into_iter().collect();
                answers.sort_by_key(|(id, _)| *id);
                answers
            } {
                match (client.poll_event(), answer) {
                    (
                        Some(ClientEvent::Response { tag, body, .. }),
                        Answer::Success { body: expected, .. },
                    ) => {
                        assert_eq!((tag, body.to_bytes()), (id, expected));
                    }
                    (Some(ClientEvent::Failed { tag, error, .. }), Answer::Error(expected)) => {
                        assert_eq!((tag, error), (id, Ok(expected)));
                    }
                    (got, expected) => panic!("{name}: {got:?} in place of {expected:?}"),
                }
            }
        }
    }
}

#[test]
fn our_client_tells_what_a_real_server_refused() {
    for (name, code) in [
        ("neg-err-call-id", RpcErrorCode::FATAL_INVALID_RPC_HEADER),
        ("neg-err-no-step", RpcErrorCode::FATAL_DESERIALIZING_REQUEST),
        ("neg-err-step", RpcErrorCode::FATAL_UNAUTHORIZED),
        ("neg-err-no-authn-type", RpcErrorCode::FATAL_UNAUTHORIZED),
    ] {
        let now = Instant::now();
        let mut client: ClientConnection<()> =
            ClientConnection::new(&ClientOptions::default(), "root".into(), now);
        client.handle_input(&mut BytesMut::from(&lines(name, "s2c").concat()[..]), now);
        let Some(rpc_core::machine::ConnectionFault::Negotiation(error)) = client.fault() else {
            panic!("{name}")
        };
        assert_eq!(error.remote().and_then(|error| error.code), Some(code), "{name}");
        assert_eq!(error.is_not_authorized(), code == RpcErrorCode::FATAL_UNAUTHORIZED, "{name}");
    }
}

#[test]
fn a_server_that_offers_tls_is_content_with_a_client_that_does_not() {
    for name in ["cpp-master-status-tls-authonly", "java-list-tls-authonly"] {
        let now = Instant::now();
        let mut client: ClientConnection<()> =
            ClientConnection::new(&ClientOptions::default(), "root".into(), now);
        client.handle_input(&mut BytesMut::from(&lines(name, "s2c")[0][..]), now);
        assert!(client.fault().is_none() && !client.is_established(), "{name}");
    }
}
