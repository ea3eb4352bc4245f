//! Raw blocks behind the body, in frames small and big.

use bytes::Bytes;
use net_addr::SockAddr;
use rpc_core::wire::{FrameError, pb, sidecar};

use crate::stream::{Cut, GREETING, WELCOME, ask, serve};

/// One byte says how many offsets follow (u32, little-endian), one how often the rest is repeated; what is left is `main`.
/// Split by the function for it, by a server and by a client: the same pieces, or the same refusal.
pub fn run(bytes: &[u8]) {
    let [count, repeats, rest @ ..] = bytes else { return };
    let (offsets, content) = rest.split_at(rest.len().min(usize::from(*count) * 4));
    let offsets: Vec<u32> =
        offsets.as_chunks::<4>().0.iter().map(|offset| u32::from_le_bytes(*offset) % (1 << 17)).collect();
    // Beyond 64 KiB a frame is taken apart while it arrives.
    let main = Bytes::from(content.repeat(usize::from(*repeats).min((100 << 10) / content.len().max(1))));
    let split = sidecar::split(main.clone(), &offsets);
    if let Ok((body, sidecars)) = &split {
        assert_eq!(sidecars.len(), offsets.len());
        let starts = sidecars.iter().scan(body.len(), |at, sidecar| {
            let start = *at;
            *at += sidecar.len();
            Some(start)
        });
        assert!(starts.eq(offsets.iter().map(|offset| *offset as usize)));
        let joined = sidecars.iter().fold(body.to_vec(), |joined, sidecar| [&joined, &sidecar[..]].concat());
        assert!(joined == main);
    }
    let request = frame(b"\x18\x01\x32\x06\x0a\x01S\x12\x01M", 16, &offsets, &main);
    let response = frame(b"\x08\x01\x10\x00", 3, &offsets, &main);
    // What is big is not moved byte by byte, which would take most of the time.
    let least = if main.len() > 4096 { 997 } else { 1 };
    for cut in [Cut::Whole, Cut::Pieces(least), Cut::Pieces(20_000)] {
        let served = serve(&[GREETING, &request].concat(), cut, &SockAddr::UnixUnnamed);
        let answered = ask(WELCOME, &response, cut);
        match &split {
            Ok((body, sidecars)) => {
                let [request] = &served.requests[..] else { panic!("one request: {:?}", served.closing) };
                assert!(request.body == *body && request.sidecars == *sidecars);
                let [crate::stream::Outcome::Response { tag: 1, body: got, sidecars: blocks }] =
                    &answered.outcomes[..]
                else {
                    panic!("one response: {:?}", answered.fault)
                };
                assert!(*got == body[..] && blocks == sidecars);
            }
            Err(error) => {
                let expected = FrameError::Sidecar(*error);
                assert!(
                    matches!(&served.closing, Some(rpc_core::machine::CloseReason::Frame(error)) if *error == expected)
                );
                assert!(
                    matches!(&answered.fault, Some(rpc_core::machine::ConnectionFault::Frame(error)) if *error == expected)
                );
            }
        }
    }
}

/// A frame with these offsets in the header's field `field`.
fn frame(header: &[u8], field: u32, offsets: &[u32], main: &[u8]) -> Vec<u8> {
    let mut header = header.to_vec();
    offsets.iter().for_each(|offset| pb::put_u32(&mut header, field, *offset));
    let mut frame = vec![0; 4];
    pb::put_varint(&mut frame, header.len() as u64);
    frame.extend_from_slice(&header);
    pb::put_varint(&mut frame, main.len() as u64);
    frame.extend_from_slice(main);
    let len = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&len.to_be_bytes());
    frame
}
