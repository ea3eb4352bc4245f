//! The stream of an established connection, as a server reads it.

use std::collections::HashSet;
use std::time::Duration;

use bytes::BytesMut;
use net_addr::SockAddr;
use rpc_core::machine::CloseReason;
use rpc_core::wire::header::RequestHeader;
use rpc_core::wire::{FrameError, frame, sidecar};

use crate::stream::{CUTS, GREETING, LIMIT, Request, serve};

/// The machine, however the stream is cut, against the functions for one frame, header and list of sidecars.
pub fn run(bytes: &[u8]) {
    let (requests, closing) = read(bytes);
    let stream = [GREETING, bytes].concat();
    for cut in CUTS {
        let served = serve(&stream, cut, &SockAddr::UnixUnnamed);
        assert_eq!(served.user.as_deref(), Some("root"));
        assert_eq!(served.requests, requests, "{cut:?}");
        assert_eq!(served.closing, closing, "{cut:?}");
    }
    byte_by_byte(bytes);
}

/// What a server is to make of the frames: the slow way.
fn read(bytes: &[u8]) -> (Vec<Request>, Option<CloseReason>) {
    let mut buffer = BytesMut::from(bytes);
    let (mut requests, mut in_flight) = (Vec::new(), HashSet::new());
    loop {
        match next(&mut buffer) {
            Ok(None) => return (requests, None),
            Ok(Some(request)) if !in_flight.insert(request.call_id) => {
                return (requests, Some(CloseReason::DuplicateCallId(request.call_id)));
            }
            Ok(Some(request)) => requests.push(request),
            Err(error) => return (requests, Some(CloseReason::Frame(error))),
        }
    }
}

fn next(buffer: &mut BytesMut) -> Result<Option<Request>, FrameError> {
    let Some((header, main)) = frame::take(buffer, LIMIT)? else { return Ok(None) };
    let header = RequestHeader::decode(&header)?;
    let (service, method) = header.method.ok_or(FrameError::NoMethod)?;
    let (body, sidecars) = sidecar::split(main, &header.sidecar_offsets)?;
    let text = |raw| String::from_utf8_lossy(raw).into_owned();
    let timeout = header.timeout_millis.filter(|millis| *millis > 0);
    Ok(Some(Request {
        call_id: header.call_id,
        service: text(service),
        method: text(method),
        timeout: timeout.map(|millis| Duration::from_millis(millis.into())),
        body,
        required_features: header.required_feature_flags,
        request_id: header.request_id.map(|id| id.to_owned()),
        sidecars,
    }))
}

/// Frames come out the same, and a frame that is refused is refused as soon as that is certain, or when it is whole.
fn byte_by_byte(bytes: &[u8]) {
    let mut whole = BytesMut::from(bytes);
    let mut slow = BytesMut::new();
    let mut fed = bytes.iter();
    loop {
        let expected = frame::take(&mut whole, LIMIT);
        let mut found = frame::take(&mut slow, LIMIT);
        while found == Ok(None) {
            let Some(byte) = fed.next() else { break };
            slow.extend_from_slice(&[*byte]);
            found = frame::take(&mut slow, LIMIT);
        }
        assert_eq!(found, expected);
        let Ok(Some((header, main))) = found else { return };
        assert!(header.len() + main.len() + 6 <= bytes.len());
    }
}
