//! Text to address.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

use std::borrow::Cow;
use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;

use crate::SockAddr;

/// Why a text is no address. The fault is the text's: parsing it again cannot help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Nothing stands where the host should be.
    #[error("`{text}` has no host: write host or host:port")]
    NoHost {
        /// The whole text.
        text: String,
    },
    /// What follows the colon is no number from 0 to 65535.
    #[error("`{port}` in `{text}` is no port: ports are 0 to 65535")]
    Port {
        /// The part taken for the port.
        port: String,
        /// The whole text.
        text: String,
    },
    /// The host is neither a dotted quad nor an IPv6 address. Names need a resolver: see [`crate::HostPort`].
    #[error("`{text}` is no IP address (names have to be resolved first)")]
    Ip {
        /// The whole text.
        text: String,
    },
    /// A bracket is missing, or brackets stand around something other than an IPv6 address.
    #[error("the brackets in `{text}` do not hold an IPv6 address: write [address]:port")]
    Brackets {
        /// The whole text.
        text: String,
    },
    /// The name of a unix socket does not fit into `sockaddr_un`.
    #[error("the name of a unix socket has at most {max} bytes, this one has {len}")]
    UnixNameTooLong {
        /// Bytes of the given name.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The path of a unix socket contains a zero byte.
    #[error("the path of a unix socket cannot hold a zero byte")]
    ZeroByteInPath,
    /// The path of a unix socket is empty.
    #[error("the path of a unix socket is empty")]
    EmptyPath,
    /// A backslash in `unix:...` is followed by neither a backslash nor `x` and two hex digits.
    #[error("`{text}` holds a backslash that is neither \\\\ nor \\xHH")]
    Escape {
        /// The whole text.
        text: String,
    },
}

impl ParseError {
    /// Always false: the text has to change.
    pub fn is_retriable(&self) -> bool {
        false
    }
}

impl SockAddr {
    /// Reads an address.
    ///
    /// * `A.B.C.D`, `A.B.C.D:port`, `[v6]`, `[v6]:port` or bare `v6` (more than one colon); `port` where none is given.
    ///   White space around host and port is dropped.
    /// * `@name`: abstract; a text with a slash: a path. Both are taken as they stand.
    /// * What [`SockAddr`] prints for unix sockets: `unix:@name`, `unix:path`, `unix:<unnamed>`, with `\\` and `\xHH` escapes.
    ///
    /// Names are not resolved: `localhost` is an error here, see [`crate::HostPort`].
    pub fn parse(text: &str, default_port: u16) -> Result<Self, ParseError> {
        if let Some(printed) = text.strip_prefix("unix:") {
            return parse_printed_unix(printed, text);
        }
        if let Some(name) = text.strip_prefix('@') {
            return Self::unix_abstract(name);
        }
        if text.contains('/') {
            return Self::unix_path(text);
        }
        let (host, port) = split_host_port(text, default_port)?;
        if host.bracketed || host.text.contains(':') {
            return parse_v6(host, port, text);
        }
        match Ipv4Addr::from_str(host.text) {
            Ok(ip) => Ok(Self::V4(SocketAddrV4::new(ip, port))),
            Err(_) => Err(ParseError::Ip { text: text.to_owned() }),
        }
    }
}

impl FromStr for SockAddr {
    type Err = ParseError;

    /// [`SockAddr::parse`] with default port 0.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text, 0)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Host<'a> {
    pub(crate) text: &'a str,
    pub(crate) bracketed: bool,
}

/// Splits `host`, `host:port`, `[v6]`, `[v6]:port` and bare `v6`; the host comes without white space and brackets.
pub(crate) fn split_host_port(text: &str, default_port: u16) -> Result<(Host<'_>, u16), ParseError> {
    let trimmed = text.trim();
    let (host, port, bracketed) = if let Some(rest) = trimmed.strip_prefix('[') {
        let (inside, after) =
            rest.split_once(']').ok_or_else(|| ParseError::Brackets { text: text.to_owned() })?;
        let after = after.trim();
        let port = match after.strip_prefix(':') {
            Some(port) => Some(port),
            None if after.is_empty() => None,
            None => return Err(ParseError::Brackets { text: text.to_owned() }),
        };
        (inside, port, true)
    } else {
        match trimmed.split_once(':') {
            Some((_, after)) if after.contains(':') => (trimmed, None, false),
            Some((host, port)) => (host, Some(port), false),
            None => (trimmed, None, false),
        }
    };
    let host = Host { text: host.trim(), bracketed };
    if host.text.is_empty() {
        return Err(ParseError::NoHost { text: text.to_owned() });
    }
    Ok((host, port.map_or(Ok(default_port), |port| parse_port(port, text))?))
}

fn parse_port(port: &str, text: &str) -> Result<u16, ParseError> {
    let digits = port.trim();
    let wrong = || ParseError::Port { port: digits.to_owned(), text: text.to_owned() };
    // u16's own parser takes a leading plus sign.
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    digits.parse().map_err(|_| wrong())
}

fn parse_v6(host: Host<'_>, port: u16, text: &str) -> Result<SockAddr, ParseError> {
    let wrong = || {
        let text = text.to_owned();
        if host.bracketed { ParseError::Brackets { text } } else { ParseError::Ip { text } }
    };
    let (ip, scope) = parse_scoped_v6(host.text).ok_or_else(wrong)?;
    Ok(SockAddr::V6(SocketAddrV6::new(ip, port, 0, scope)))
}

/// `address` or `address%N` with N the number of an interface.
pub(crate) fn parse_scoped_v6(text: &str) -> Option<(Ipv6Addr, u32)> {
    let (ip, scope) = match text.split_once('%') {
        Some((ip, scope)) if scope.bytes().all(|b| b.is_ascii_digit()) => (ip, scope.parse().ok()?),
        Some(_) => return None,
        None => (text, 0),
    };
    Some((ip.parse().ok()?, scope))
}

fn parse_printed_unix(printed: &str, text: &str) -> Result<SockAddr, ParseError> {
    if printed == crate::format::UNNAMED {
        return Ok(SockAddr::UnixUnnamed);
    }
    let bytes = unescape(printed).ok_or_else(|| ParseError::Escape { text: text.to_owned() })?;
    // Only an @ that stands as itself tells an abstract name: a path that starts with one is printed with \x40.
    match bytes.strip_prefix(b"@") {
        Some(name) if printed.starts_with('@') => SockAddr::unix_abstract(name),
        _ => SockAddr::unix_path(OsStr::from_bytes(&bytes)),
    }
}

fn unescape(text: &str) -> Option<Cow<'_, [u8]>> {
    if !text.contains('\\') {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next()? {
            b'\\' => bytes.push(b'\\'),
            b'x' => {
                let high = char::from(rest.next()?).to_digit(16)?;
                let low = char::from(rest.next()?).to_digit(16)?;
                bytes.push(u8::try_from(high << 4 | low).ok()?);
            }
            _ => return None,
        }
    }
    Some(Cow::Owned(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        SockAddr::parse(text, 7050).map_or_else(|e| format!("error: {e}"), |a| a.to_string())
    }

    #[test]
    fn texts_of_every_kind_are_read() {
        for (text, printed) in [
            ("1.2.3.4", "1.2.3.4:7050"),
            ("1.2.3.4:0", "1.2.3.4:0"),
            (" 1.2.3.4 : 65535 ", "1.2.3.4:65535"),
            ("[::1]", "[::1]:7050"),
            ("[::1]:7", "[::1]:7"),
            ("[ ::1 ]:7", "[::1]:7"),
            ("::1", "[::1]:7050"),
            ("2001:DB8:0::1", "[2001:db8::1]:7050"),
            ("[fe80::1%3]:7", "[fe80::1%3]:7"),
            ("::ffff:127.0.0.1", "[::ffff:127.0.0.1]:7050"),
            ("@kudu-1", "unix:@kudu-1"),
            ("@", "unix:@"),
            ("/tmp/a b", "unix:/tmp/a b"),
            ("unix:@kudu-1", "unix:@kudu-1"),
            ("unix:relative.sock", "unix:relative.sock"),
            ("unix:\\x40odd", "unix:\\x40odd"),
            ("unix:<unnamed>", "unix:<unnamed>"),
        ] {
            assert_eq!(parsed(text), printed, "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_address_are_refused() {
        for text in [
            "",
            " ",
            ":7050",
            "1.2.3",
            "1.2.3.4.5",
            "01.2.3.4",
            "1.2.3.256",
            "1.2.3.4:",
            "1.2.3.4:65536",
            "1.2.3.4:+1",
            "1.2.3.4:-1",
            "1.2.3.4:7050x",
            "localhost",
            "[1.2.3.4]",
            "[1.2.3.4]:5",
            "[::1",
            "[::1]7",
            "[]",
            "[]:7",
            "::1::2",
            "[fe80::1%eth0]",
            "[fe80::1%]",
            "unix:",
            "unix:\\q",
            "unix:\\x4",
            "a\0/b",
        ] {
            assert!(SockAddr::parse(text, 7050).is_err(), "{text:?} gave {}", parsed(text));
        }
    }

    #[test]
    fn a_port_that_is_wrong_is_named() {
        assert_eq!(
            SockAddr::parse("1.2.3.4:99999", 0).unwrap_err().to_string(),
            "`99999` in `1.2.3.4:99999` is no port: ports are 0 to 65535"
        );
    }
}
