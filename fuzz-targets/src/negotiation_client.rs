//! What a server says to a client of ours before the first call.

use bytes::Bytes;
use rpc_core::RemoteError;

use crate::messages::same_message;
use crate::stream::{CUTS, Cut, ask};

/// However the server's words are cut: the same answers, and calls are only sent to a server that has let us in.
pub fn run(bytes: &[u8]) {
    same_message(bytes);
    same_error(bytes);
    let whole = ask(&[], bytes, Cut::Whole);
    for cut in CUTS {
        assert_eq!(ask(&[], bytes, cut), whole, "{cut:?}");
    }
    let called = whole.sent.windows(6).any(|window| window == b"kudu.S");
    assert_eq!(called, whole.established && whole.fault.is_none());
    assert!(whole.established || whole.outcomes.is_empty());
}

/// An error that is read is written and read again.
fn same_error(bytes: &[u8]) {
    if let Ok(error) = RemoteError::decode(&Bytes::copy_from_slice(bytes)) {
        let mut written = Vec::new();
        error.encode(&mut written);
        assert_eq!(RemoteError::decode(&Bytes::from(written)), Ok(error));
    }
}
