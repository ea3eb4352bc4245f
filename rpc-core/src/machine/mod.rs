//! Connections without sockets, clocks or threads: bytes and the time go in, events and bytes come out.
//!
//! A driver reads into a [`BytesMut`](bytes::BytesMut) and calls `handle_input`, which takes whole frames off its front;
//! it then asks for `poll_event` and `poll_transmit` until they have nothing more, and calls `handle_timeout` when
//! `poll_timeout` is over.
#![cfg_attr(
    not(feature = "net"),
    allow(dead_code, unused_imports, reason = "some of it only the reactors need")
)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::panic
    )
)]

mod aligned;
mod body;
mod client;
mod deadlines;
mod inbox;
mod method_fields;
mod options;
pub(crate) mod outbox;
#[cfg(test)]
mod pair;
mod server;

pub use body::Body;
pub use client::{ClientConnection, ClientEvent, ConnectionFault, OutboundCall, Unfinished};
pub use options::{ClientOptions, ServerOptions};
pub(crate) use server::Usual;
pub use server::{CallInFlight, CloseReason, ServerConnection, ServerEvent, ServerRequest};
