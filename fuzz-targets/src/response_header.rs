//! The header of a response, against prost, and the stream of responses of an established connection.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use prost::Message;
use proto::kudu::rpc as pb;
use rpc_core::RemoteError;
use rpc_core::machine::ConnectionFault;
use rpc_core::wire::header::ResponseHeader;
use rpc_core::wire::{FrameError, frame, sidecar};

use crate::request_header::is_stricter;
use crate::stream::{CALLS, CUTS, LIMIT, Outcome, WELCOME, ask, is_cancelled};

/// Both read the same header; a client, however the stream is cut, makes of it what the functions for one frame do.
pub fn run(bytes: &[u8]) {
    header(bytes);
    let (outcomes, fault) = read(bytes);
    for cut in CUTS {
        let answered = ask(WELCOME, bytes, cut);
        assert!(answered.established);
        assert_eq!(answered.outcomes, outcomes, "{cut:?}");
        assert_eq!(answered.fault, fault, "{cut:?}");
    }
}

fn header(bytes: &[u8]) {
    let theirs = pb::ResponseHeader::decode(bytes);
    let ours = match ResponseHeader::decode(bytes) {
        Ok(ours) => ours,
        Err(error) => {
            assert!(theirs.is_err() || is_stricter(&error), "{error}, and prost reads {theirs:?}");
            return;
        }
    };
    let mut written = Vec::new();
    ours.encode(&mut written);
    assert_eq!(ResponseHeader::decode(&written), Ok(ours.clone()));
    let ResponseHeader { call_id, is_error, sidecar_offsets } = ours;
    let same = pb::ResponseHeader { call_id, is_error, sidecar_offsets };
    assert_eq!(same.encode_to_vec(), written);
    if let Ok(theirs) = theirs {
        assert_eq!(theirs, same);
    }
}

/// What a client is to make of the frames: the slow way.
fn read(bytes: &[u8]) -> (Vec<Outcome>, Option<ConnectionFault>) {
    let mut buffer = BytesMut::from(bytes);
    let mut outcomes = Vec::new();
    // Whether anybody waits for the answer.
    let mut calls: HashMap<i32, bool> =
        (0..CALLS).map(|call| (i32::try_from(call).unwrap_or(-1), !is_cancelled(call))).collect();
    loop {
        match next(&mut buffer, &mut calls) {
            Ok(None) => return (outcomes, None),
            Ok(Some(outcome)) => outcomes.extend(outcome),
            Err(error) => return (outcomes, Some(ConnectionFault::Frame(error))),
        }
    }
}

fn next(
    buffer: &mut BytesMut,
    calls: &mut HashMap<i32, bool>,
) -> Result<Option<Option<Outcome>>, FrameError> {
    let Some((header, main)) = frame::take(buffer, LIMIT)? else { return Ok(None) };
    let header = ResponseHeader::decode(&header)?;
    // Nobody looks into an answer to no call.
    let Some(wanted) = calls.get(&header.call_id).copied() else { return Ok(Some(None)) };
    let (body, sidecars): (Bytes, Vec<Bytes>) = sidecar::split(main, &header.sidecar_offsets)?;
    calls.remove(&header.call_id);
    let tag = u64::try_from(header.call_id).unwrap_or(u64::MAX);
    Ok(Some(wanted.then(|| match header.is_error {
        Some(true) => Outcome::Failed { tag, error: RemoteError::decode(&body).ok() },
        _ => Outcome::Response { tag, body: body.to_vec(), sidecars },
    })))
}
