//! How two peers agree on who they are before the first call: machines that take frames and give frames.
//!
//! ```text
//! client                                server
//! preface, NEGOTIATE            --->
//!                               <---    NEGOTIATE          features, one way to authenticate
//! SASL_INITIATE (PLAIN)         --->
//!                               <---    SASL_SUCCESS
//! connection context, calls     --->                       never answered
//! ```
//!
//! TLS and tokens fit in between (see [`features`] and [`message`], which know them); no machine here offers them, and
//! each answers a peer that insists with the protocol's own refusal.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]

pub mod client;
mod error;
pub mod features;
pub mod message;
pub mod plain;
pub mod server;
pub mod subnet;

pub use error::NegotiationError;
pub use subnet::Subnet;

use crate::call::RemoteError;
use crate::wire::header::{RequestHeader, ResponseHeader};
use crate::wire::limits::NEGOTIATION_CALL_ID;
use crate::wire::pb;

/// Appends a small frame.
pub(crate) fn put_frame(out: &mut Vec<u8>, header: &[u8], body: &[u8]) {
    let varints = pb::varint_len(header.len() as u64).saturating_add(pb::varint_len(body.len() as u64));
    let len = header.len().saturating_add(body.len()).saturating_add(varints);
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
    pb::put_varint(out, header.len() as u64);
    out.extend_from_slice(header);
    pb::put_varint(out, body.len() as u64);
    out.extend_from_slice(body);
}

/// Appends a client's frame that has nothing but a call id in its header.
pub(crate) fn put_request(out: &mut Vec<u8>, call_id: i32, body: &[u8]) {
    let mut header = Vec::with_capacity(11);
    RequestHeader { call_id, ..RequestHeader::default() }.encode(&mut header);
    put_frame(out, &header, body);
}

/// Appends a server's negotiation frame; on success `is_error` stays away, as in Kudu.
pub(crate) fn put_response(out: &mut Vec<u8>, body: &[u8]) {
    let mut header = Vec::with_capacity(11);
    ResponseHeader { call_id: NEGOTIATION_CALL_ID, ..ResponseHeader::default() }.encode(&mut header);
    put_frame(out, &header, body);
}

/// Appends a server's last words.
pub(crate) fn put_error(out: &mut Vec<u8>, error: &RemoteError) {
    let (mut header, mut body) = (Vec::with_capacity(13), Vec::new());
    ResponseHeader { call_id: NEGOTIATION_CALL_ID, is_error: Some(true), sidecar_offsets: Vec::new() }
        .encode(&mut header);
    error.encode(&mut body);
    put_frame(out, &header, &body);
}
