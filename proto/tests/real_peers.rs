//! Fear: a message of ours differs from Kudu's. The captured sessions of real 1.18.1 peers must decode, count as
//! complete, and encode to the same bytes again.

use proto::kudu::rpc::{
    ConnectionContextPb, ErrorStatusPb, NegotiatePb, RequestHeader, ResponseHeader, required_tables as tables,
};
use proto::methods::{generic_service, master_service, tablet_server_service};
use proto::required::{self, MessageTable};
use proto::{Method, methods};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

#[test]
fn messages_of_real_peers_come_out_as_they_went_in() {
    let mut calls = 0;
    for capture in captures() {
        let methods = methods_by_name();
        let mut called: HashMap<i32, String> = HashMap::new();
        for frame in &frames(&capture, "c2s") {
            let (header, body) = request(frame);
            same::<RequestHeader>(&tables::REQUEST_HEADER, &split_header(frame).0);
            match (header.call_id, header.remote_method) {
                (-33, _) => same::<NegotiatePb>(&tables::NEGOTIATE_PB, body),
                (-3, _) => same::<ConnectionContextPb>(&tables::CONNECTION_CONTEXT_PB, body),
                (call, Some(method)) => {
                    let name = format!("{}.{}", method.service_name, method.method_name);
                    if let Some(method) = methods.get(name.as_str()) {
                        (method.request)(body);
                        calls += 1;
                    } else {
                        assert!(
                            capture.ends_with("err-no-such-method")
                                || capture.ends_with("err-no-such-service")
                        );
                    }
                    called.insert(call, name);
                }
                (call, None) => panic!("{}: call {call} without a method", capture.display()),
            }
        }
        for frame in &frames(&capture, "s2c") {
            let (header, body) = split_header(frame);
            same::<ResponseHeader>(&tables::RESPONSE_HEADER, &header);
            let header: ResponseHeader = decode(&header);
            let body =
                body.get(..header.sidecar_offsets.first().map_or(body.len(), |&at| at as usize)).unwrap();
            if header.is_error() {
                let error: ErrorStatusPb = decode(body);
                // The extension is not among prost's fields.
                if error.code.is_some() {
                    same::<ErrorStatusPb>(&tables::ERROR_STATUS_PB, body);
                }
            } else if header.call_id == -33 {
                same::<NegotiatePb>(&tables::NEGOTIATE_PB, body);
            } else {
                (methods[called[&header.call_id].as_str()].response)(body);
            }
        }
    }
    assert!(calls >= 12, "only {calls} calls were looked at");
}

#[test]
fn a_request_without_its_fields_gets_the_words_of_a_real_server() {
    let capture = folder().join("err-invalid-request");
    let answer = frames(&capture, "s2c").pop().unwrap();
    let error: ErrorStatusPb = decode(split_header(&answer).1);
    let wording = error.message.split("missing fields: ").nth(1).unwrap().to_owned();

    let call = frames(&capture, "c2s").pop().unwrap();
    let missing = required::check(generic_service::SetFlag::REQUEST, split_header(&call).1).unwrap_err();
    assert_eq!(missing.to_string(), wording);
}

/// What to do with the bodies of a method.
struct Bodies {
    request: fn(&[u8]),
    response: fn(&[u8]),
}

fn methods_by_name() -> HashMap<&'static str, Bodies> {
    fn entry<M: Method>(complete: bool) -> (&'static str, Bodies) {
        let name = Box::leak(format!("{}.{}", M::SERVICE, M::NAME).into_boxed_str());
        let request: fn(&[u8]) = if complete {
            |body| same::<M::Request>(M::REQUEST, body)
        } else {
            |body| drop(decode::<M::Request>(body))
        };
        (name, Bodies { request, response: |body| same::<M::Response>(M::RESPONSE, body) })
    }
    HashMap::from([
        entry::<master_service::ConnectToMaster>(true),
        entry::<master_service::GetTableSchema>(true),
        entry::<master_service::ListMasters>(true),
        entry::<master_service::ListTables>(true),
        entry::<master_service::ListTabletServers>(true),
        entry::<master_service::Ping>(true),
        entry::<master_service::TSHeartbeat>(true),
        entry::<generic_service::GetStatus>(true),
        entry::<generic_service::GetFlags>(true),
        // Captured without its fields.
        entry::<generic_service::SetFlag>(false),
        entry::<tablet_server_service::Ping>(true),
        entry::<tablet_server_service::Scan>(true),
        entry::<tablet_server_service::Write>(true),
        entry::<methods::tablet_copy_service::FetchData>(true),
        entry::<methods::tablet_copy_service::CheckSessionActive>(true),
        entry::<methods::consensus_service::GetNodeInstance>(true),
    ])
}

fn decode<M: prost::Message + Default>(bytes: &[u8]) -> M {
    M::decode(bytes).expect("a message of a real peer")
}

#[track_caller]
fn same<M: prost::Message + Default>(table: &MessageTable, bytes: &[u8]) {
    assert_eq!(required::check(table, bytes), Ok(()));
    assert_eq!(decode::<M>(bytes).encode_to_vec(), bytes);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/captures")
}

/// All captures but those whose traffic is inside TLS, or wrong on purpose before the first call; as paths without
/// `.c2s.hex`.
fn captures() -> Vec<PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".c2s.hex")
                .filter(|name| !name.contains("tls-wrapped") && !name.starts_with("neg-err"))
                .map(|name| folder().join(name))
        })
        .collect();
    found.sort();
    assert!(found.len() > 10);
    found
}

/// The payloads of the frames of one direction. A capture that was cut ends with its last whole frame.
fn frames(capture: &Path, direction: &str) -> Vec<Vec<u8>> {
    let path = format!("{}.{direction}.hex", capture.display());
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let bytes: Vec<u8> = lines.flat_map(from_hex).collect();
    let mut rest = bytes.strip_prefix(b"hrpc\x09\x00\x00").unwrap_or(&bytes);
    let mut found = Vec::new();
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let Some((payload, tail)) = tail.split_at_checked(u32::from_be_bytes(*length) as usize) else {
            break;
        };
        found.push(payload.to_vec());
        rest = tail;
    }
    found
}

fn from_hex(line: &str) -> Vec<u8> {
    line.as_bytes()
        .chunks(2)
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
        .collect()
}

/// Header, and what follows it (the body, then sidecars).
fn split_header(mut frame: &[u8]) -> (Vec<u8>, &[u8]) {
    let length = prost::encoding::decode_varint(&mut frame).unwrap();
    let (header, mut rest) = frame.split_at(length as usize);
    let length = prost::encoding::decode_varint(&mut rest).unwrap();
    assert_eq!(rest.len() as u64, length);
    (header.to_vec(), rest)
}

fn request(frame: &[u8]) -> (RequestHeader, &[u8]) {
    let (header, body) = split_header(frame);
    (decode(&header), body)
}
