//! The bytes: preface, frames, headers, sidecars, sizes. No clock, no socket, and nothing here panics on bad input.
//!
//! ```text
//! preface := "hrpc" 09 00 00                                          (client, once)
//! frame   := len:u32be  varint(Hlen) header[Hlen]  varint(Mlen) main[Mlen]
//! main    := body sidecar*
//! ```
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic
)]

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
pub(crate) mod damage;
pub mod frame;
pub mod header;
pub mod limits;
pub mod pb;
pub mod preface;
pub mod sidecar;

pub use frame::{FrameError, Parts};
pub use pb::WireError;
