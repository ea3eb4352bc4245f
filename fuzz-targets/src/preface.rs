//! The first seven bytes of a connection.

use rpc_core::wire::preface::{self, PREFACE};

/// What more bytes can change.
pub fn run(bytes: &[u8]) {
    let whole = preface::check(bytes);
    let right = bytes.len() >= PREFACE.len() && bytes.starts_with(&PREFACE[..5]);
    assert_eq!(whole == Ok(true), right);
    for length in 0..bytes.len().min(PREFACE.len() * 2) {
        match preface::check(&bytes[..length]) {
            Ok(true) => assert_eq!(whole, Ok(true)),
            Ok(false) => assert!(length < PREFACE.len()),
            // Once wrong, always wrong; more bytes may tell better what it is.
            Err(_) => assert!(whole.is_err()),
        }
    }
}
