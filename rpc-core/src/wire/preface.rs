//! The seven bytes with which a client opens a connection.

use thiserror::Error;

/// What our client sends. A server answers nothing to it.
pub const PREFACE: [u8; 7] = *b"hrpc\x09\0\0";

/// Not the preface of a Kudu client: the server closes at once and sends nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PrefaceError {
    /// An HTTP client or monitor on the wrong port.
    #[error("it looks like an HTTP client on the RPC port")]
    Http,
    /// A TLS client; Kudu's TLS begins inside negotiation.
    #[error("it looks like a TLS client on the RPC port")]
    Tls,
    /// Some other protocol.
    #[error("its first bytes are not `hrpc`")]
    Magic,
    /// A Kudu peer of another age.
    #[error("it speaks protocol version {0}, we speak 9")]
    Version(u8),
}

/// Checks as much of the preface as has arrived: `Ok(true)` = complete and right, `Ok(false)` = right so far.
/// Bytes 5 and 6 (service class, authentication protocol) are not looked at, as in Kudu.
///
/// # Errors
/// [`PrefaceError`] at the first byte that is wrong, however few have come.
pub fn check(bytes: &[u8]) -> Result<bool, PrefaceError> {
    let wrong = bytes.iter().zip(PREFACE).take(5).position(|(have, want)| *have != want);
    match wrong {
        Some(4) => Err(PrefaceError::Version(bytes.get(4).copied().unwrap_or(0))),
        Some(_) if looks_like_http(bytes) => Err(PrefaceError::Http),
        Some(_) if bytes.starts_with(&[0x16, 0x03]) => Err(PrefaceError::Tls),
        Some(_) => Err(PrefaceError::Magic),
        None => Ok(bytes.len() >= PREFACE.len()),
    }
}

/// True if the bytes begin with an HTTP verb.
pub fn looks_like_http(bytes: &[u8]) -> bool {
    const VERBS: [&[u8]; 9] =
        [b"GET", b"HEAD", b"OPTIONS", b"POST", b"CONNECT", b"DELETE", b"PUT", b"PATCH", b"TRACE"];
    VERBS.iter().any(|verb| bytes.starts_with(verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_preface_passes_at_every_length() {
        for len in 0..=7 {
            assert_eq!(check(PREFACE.get(..len).unwrap_or_default()), Ok(len == 7));
        }
    }

    #[test]
    fn the_last_two_bytes_are_not_checked() {
        assert_eq!(check(b"hrpc\x09\x07\x05rest"), Ok(true));
    }

    #[test]
    fn other_protocols_are_told_apart() {
        assert_eq!(check(b"GET / HTTP/1.1\r\n"), Err(PrefaceError::Http));
        assert_eq!(check(b"\x16\x03\x01\x02\x00"), Err(PrefaceError::Tls));
        assert_eq!(check(b"HRPC\x09\0\0"), Err(PrefaceError::Magic));
        assert_eq!(check(&[0; 7]), Err(PrefaceError::Magic));
        assert_eq!(check(b"hrpc\x08\0\0"), Err(PrefaceError::Version(8)));
        assert_eq!(check(b"hrpc\x0a\0\0"), Err(PrefaceError::Version(10)));
    }
}
