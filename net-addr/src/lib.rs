//! Socket addresses that are IPv4, IPv6 or unix: parse, print, order, hash, and tell whether they are this machine.
//!
//! ```
//! use net_addr::{HostPort, SockAddr};
//!
//! let tcp = SockAddr::parse("127.0.0.1", 7051)?;
//! assert_eq!(tcp.to_string(), "127.0.0.1:7051");
//! assert!(tcp.is_loopback());
//!
//! let unix: SockAddr = "@kudu-0123456789abcdef0123456789abcdef".parse()?;
//! assert_eq!(unix.to_string(), "unix:@kudu-0123456789abcdef0123456789abcdef");
//!
//! let masters = HostPort::parse_list("m1.example,m2.example:7151,[::1]", 7051)?;
//! assert_eq!(masters[2].to_string(), "[::1]:7051");
//! # Ok::<(), net_addr::ParseError>(())
//! ```
//!
//! What it is not: it opens no socket and starts no thread. Name resolution blocks the calling thread (see [`Resolver`]).

#![forbid(unsafe_code)]

mod format;
pub mod hash;
mod host_port;
mod local;
mod parse;
mod resolve;
mod unix;
mod user;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

pub use host_port::{HostPort, NotInet};
pub use local::{LocalAddresses, host_name};
pub use parse::ParseError;
pub use resolve::{CachingResolver, ResolveError, Resolver, SystemResolver};
pub use unix::{MAX_ABSTRACT_LEN, MAX_PATH_LEN, UnixAbstract, UnixPath};
pub use user::{process_user, user_name};

/// The address of a socket: where to connect, where to listen, who has connected.
///
/// Equality, order and hash go by meaning: an address that was parsed equals the one the kernel reports for the same
/// peer, whatever padding the native form carries. A v4-mapped IPv6 address is not the same as the IPv4 address in it.
///
/// Text form, both ways: `1.2.3.4:7050`, `[::1]:7050`, `unix:@name`, `unix:/path`, `unix:<unnamed>`;
/// `parse(print(x)) == x` for every address. Cloning never copies a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SockAddr {
    /// An IPv4 address and a port.
    V4(SocketAddrV4),
    /// An IPv6 address and a port. The flow label plays no part in an address's identity, so keep it 0 (all conversions do).
    V6(SocketAddrV6),
    /// A unix socket with a name in the file system.
    UnixPath(UnixPath),
    /// A unix socket with a name in Linux's abstract namespace, which belongs to the network namespace.
    UnixAbstract(UnixAbstract),
    /// A unix socket without a name: what a server sees of every client that did not bind.
    UnixUnnamed,
}

impl SockAddr {
    /// A unix socket at `path`, 1 to [`MAX_PATH_LEN`] bytes without a zero byte.
    ///
    /// # Errors
    /// [`ParseError`]: empty, too long, or with a zero byte.
    pub fn unix_path(path: impl AsRef<std::path::Path>) -> Result<Self, ParseError> {
        UnixPath::new(path.as_ref()).map(Self::UnixPath)
    }

    /// A unix socket with an abstract name of at most [`MAX_ABSTRACT_LEN`] bytes, given without the leading `@`.
    ///
    /// # Errors
    /// [`ParseError`]: too long.
    pub fn unix_abstract(name: impl AsRef<[u8]>) -> Result<Self, ParseError> {
        UnixAbstract::new(name.as_ref()).map(Self::UnixAbstract)
    }

    /// The IP address; `None` for a unix socket.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::V4(a) => Some(IpAddr::V4(*a.ip())),
            Self::V6(a) => Some(IpAddr::V6(*a.ip())),
            _ => None,
        }
    }

    /// The port; `None` for a unix socket.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::V4(a) => Some(a.port()),
            Self::V6(a) => Some(a.port()),
            _ => None,
        }
    }

    /// The std form; `None` for a unix socket.
    pub fn as_inet(&self) -> Option<SocketAddr> {
        match self {
            Self::V4(a) => Some(SocketAddr::V4(*a)),
            Self::V6(a) => Some(SocketAddr::V6(*a)),
            _ => None,
        }
    }

    /// The same address with another port; a unix socket stays as it is.
    pub fn with_port(&self, port: u16) -> Self {
        let mut changed = self.clone();
        match &mut changed {
            Self::V4(a) => a.set_port(port),
            Self::V6(a) => a.set_port(port),
            _ => {}
        }
        changed
    }

    /// Is this a unix socket of any kind?
    pub fn is_unix(&self) -> bool {
        matches!(self, Self::UnixPath(_) | Self::UnixAbstract(_) | Self::UnixUnnamed)
    }

    /// Can bytes sent here never leave the machine? True for unix sockets, 127.0.0.0/8, `::1` and v4-mapped 127.0.0.0/8.
    /// An own address of an interface is not loopback: ask [`LocalAddresses`] for that.
    pub fn is_loopback(&self) -> bool {
        self.ip().is_none_or(is_loopback_ip)
    }

    /// Is this the wildcard, `0.0.0.0` or `::`, that a server binds to listen on all interfaces?
    pub fn is_wildcard(&self) -> bool {
        self.ip().is_some_and(|ip| ip.is_unspecified())
    }

    /// The form for `bind`, `connect` and the like. An abstract name takes exactly its own length, with no trailing zero
    /// byte: `@kudu-<32 hex digits>` is 40 bytes.
    ///
    /// Fails where the platform has no such address (abstract names outside Linux) and for [`SockAddr::UnixUnnamed`]
    /// (`InvalidInput`: nothing can connect to a socket without a name).
    pub fn to_socket2(&self) -> io::Result<socket2::SockAddr> {
        match self {
            Self::V4(a) => Ok((*a).into()),
            Self::V6(a) => Ok((*a).into()),
            Self::UnixPath(path) => path.to_socket2(),
            Self::UnixAbstract(name) => name.to_socket2(),
            Self::UnixUnnamed => Err(io::Error::new(io::ErrorKind::InvalidInput, UnnamedError)),
        }
    }
}

/// Is `ip` in 127.0.0.0/8, `::1`, or a v4-mapped address of 127.0.0.0/8?
pub fn is_loopback_ip(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

#[derive(Debug, thiserror::Error)]
#[error("a unix socket without a name cannot be bound or connected to")]
struct UnnamedError;

/// The kernel gave an address of a family that is neither IP nor unix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a socket address of family {family} is neither IPv4, IPv6 nor unix")]
#[non_exhaustive]
pub struct UnknownFamily {
    /// The `sa_family` number as the kernel gave it.
    pub family: u32,
}

impl TryFrom<&socket2::SockAddr> for SockAddr {
    type Error = UnknownFamily;

    fn try_from(native: &socket2::SockAddr) -> Result<Self, Self::Error> {
        if let Some(inet) = native.as_socket() {
            return Ok(inet.into());
        }
        unix::from_socket2(native).ok_or(UnknownFamily { family: u32::from(native.family()) })
    }
}

impl From<SocketAddr> for SockAddr {
    fn from(addr: SocketAddr) -> Self {
        match addr {
            SocketAddr::V4(a) => a.into(),
            SocketAddr::V6(a) => a.into(),
        }
    }
}

impl From<SocketAddrV4> for SockAddr {
    fn from(addr: SocketAddrV4) -> Self {
        Self::V4(addr)
    }
}

impl From<SocketAddrV6> for SockAddr {
    fn from(addr: SocketAddrV6) -> Self {
        Self::V6(SocketAddrV6::new(*addr.ip(), addr.port(), 0, addr.scope_id()))
    }
}

impl From<(IpAddr, u16)> for SockAddr {
    fn from((ip, port): (IpAddr, u16)) -> Self {
        SocketAddr::new(ip, port).into()
    }
}

impl From<(Ipv4Addr, u16)> for SockAddr {
    fn from((ip, port): (Ipv4Addr, u16)) -> Self {
        Self::V4(SocketAddrV4::new(ip, port))
    }
}

impl From<(Ipv6Addr, u16)> for SockAddr {
    fn from((ip, port): (Ipv6Addr, u16)) -> Self {
        Self::V6(SocketAddrV6::new(ip, port, 0, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> SockAddr {
        SockAddr::parse(text, 7050).unwrap()
    }

    #[test]
    fn loopback_is_told_from_everything_else() {
        for (text, loopback) in [
            ("127.0.0.1", true),
            ("127.255.255.254", true),
            ("[::1]", true),
            ("[::ffff:127.0.0.1]", true),
            ("[::ffff:128.0.0.1]", false),
            ("128.0.0.1", false),
            ("126.255.255.255", false),
            ("0.0.0.0", false),
            ("[::]", false),
            ("/tmp/kudu.sock", true),
            ("@kudu-1", true),
            ("unix:<unnamed>", true),
            ("192.168.1.10", false),
        ] {
            assert_eq!(addr(text).is_loopback(), loopback, "{text}");
        }
    }

    #[test]
    fn wildcard_is_no_unix_socket_and_no_loopback() {
        assert!(addr("0.0.0.0").is_wildcard() && addr("::").is_wildcard());
        assert!(!addr("127.0.0.1").is_wildcard() && !addr("@a").is_wildcard());
    }

    #[test]
    fn flow_label_is_not_part_of_an_address() {
        let labelled = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 7050, 0xffff, 0);
        assert_eq!(SockAddr::from(labelled), addr("[::1]:7050"));
        let native = socket2::SockAddr::from(labelled);
        assert_eq!(SockAddr::try_from(&native).unwrap(), addr("[::1]:7050"));
    }

    #[test]
    fn other_port_keeps_the_host() {
        assert_eq!(addr("127.0.0.1:1").with_port(2), addr("127.0.0.1:2"));
        assert_eq!(addr("@a").with_port(2), addr("@a"));
    }

    #[test]
    fn every_named_address_survives_the_native_form() {
        for text in ["1.2.3.4:5", "[2001:db8::1]:65535", "[fe80::1%3]:1", "@kudu-00", "@", "/tmp/kudu.sock"] {
            let native = addr(text).to_socket2().unwrap();
            assert_eq!(SockAddr::try_from(&native).unwrap(), addr(text), "{text}");
        }
        assert_eq!(SockAddr::UnixUnnamed.to_socket2().unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
