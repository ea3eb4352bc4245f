//! Every place where bytes of strangers are read, as a function that panics where it must not be trusted.
//!
//! ```
//! let target = fuzz_targets::TARGETS.iter().find(|target| target.name == "preface").expect("it is in the list");
//! (target.run)(b"hrpc\x09\0\0");
//! ```
//!
//! `fuzz/` calls these functions from libFuzzer; `tests/corpus.rs` calls them with the corpus in `fuzz/corpus` and with
//! changes of it. Each compares what it can: our codec with prost's, a stream as a whole with the same stream byte by
//! byte, a machine with the few functions it is made of, a decoder with the encoder.
//!
//! What it is not: a test of connections, which are in `rpc-core/tests/hostile_peers.rs`.
#![forbid(unsafe_code)]

pub mod frames;
pub mod log;
pub mod messages;
pub mod negotiation_client;
pub mod negotiation_server;
pub mod preface;
pub mod request_header;
pub mod response_header;
pub mod result_blocks;
pub mod row_operations;
mod rowset_sums;
pub mod scan_token;
pub mod sealed_file;
pub mod seeds;
pub mod sidecars;
mod stream;
pub mod tablet_description;
pub mod tablet_files;

/// One of the functions.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// That of its program in `fuzz/fuzz_targets` and of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Panics if the bytes are read wrongly.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "preface", run: preface::run },
    Target { name: "frames", run: frames::run },
    Target { name: "request_header", run: request_header::run },
    Target { name: "response_header", run: response_header::run },
    Target { name: "negotiation_client", run: negotiation_client::run },
    Target { name: "negotiation_server", run: negotiation_server::run },
    Target { name: "sidecars", run: sidecars::run },
    Target { name: "row_operations", run: row_operations::run },
    Target { name: "result_blocks", run: result_blocks::run },
    Target { name: "messages", run: messages::run },
    Target { name: "log", run: log::run },
    Target { name: "sealed_file", run: sealed_file::run },
    Target { name: "tablet_files", run: tablet_files::run },
    Target { name: "tablet_description", run: tablet_description::run },
    Target { name: "scan_token", run: scan_token::run },
];
