//! What a stranger says before he is known.

use net_addr::SockAddr;
use rpc_core::machine::CloseReason;
use rpc_core::negotiate::message::NegotiateMessage;

use crate::messages::same_message;
use crate::stream::{CUTS, Cut, serve};

/// Whoever the peer is and however his words are cut: the same answers, and nobody gets in who is not trusted.
pub fn run(bytes: &[u8]) {
    same_message(bytes);
    let Ok(stranger) = SockAddr::parse("8.8.8.8:1", 0) else { unreachable!("an address") };
    for peer in [SockAddr::UnixUnnamed, stranger] {
        let whole = serve(bytes, Cut::Whole, &peer);
        for cut in CUTS {
            let mut served = serve(bytes, cut, &peer);
            if let (Some(CloseReason::Preface(_)), Some(CloseReason::Preface(_))) =
                (&served.closing, &whole.closing)
            {
                // Few bytes tell that it is no preface, more tell what it is.
                served.closing.clone_from(&whole.closing);
            }
            assert_eq!(served, whole, "{cut:?} from {peer}");
        }
        if let Some(user) = &whole.user {
            assert!(peer == SockAddr::UnixUnnamed && !user.trim().is_empty());
        } else {
            assert!(whole.requests.is_empty());
        }
        // What we say is said in messages that we would read.
        let mut said = &whole.sent[..];
        while let Some((frame, rest)) = frame(said) {
            let main = bytes::Bytes::copy_from_slice(frame);
            assert!(NegotiateMessage::decode(&main).is_ok() || rpc_core::RemoteError::decode(&main).is_ok());
            said = rest;
        }
        assert!(said.is_empty());
    }
}

/// The main part of the first frame, and what is behind it.
fn frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let total = rpc_core::wire::frame::length(bytes, u32::MAX).ok()??;
    let parts = rpc_core::wire::frame::parts(bytes, total).ok()??;
    Some((bytes.get(parts.main)?, bytes.get(total..)?))
}
