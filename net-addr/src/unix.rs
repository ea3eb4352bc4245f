//! Names of unix sockets.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use crate::SockAddr;
use crate::parse::ParseError;

/// The longest file system path of a unix socket in bytes: `sun_path` has 108, one is the closing zero byte.
pub const MAX_PATH_LEN: usize = 107;

/// The longest abstract name in bytes, without the leading zero byte that is printed as `@`.
pub const MAX_ABSTRACT_LEN: usize = 107;

/// The file system path of a unix socket: 1 to [`MAX_PATH_LEN`] bytes, none of them zero.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixPath(Arc<[u8]>);

impl UnixPath {
    pub(crate) fn new(path: &Path) -> Result<Self, ParseError> {
        let bytes = path.as_os_str().as_bytes();
        if bytes.is_empty() {
            return Err(ParseError::EmptyPath);
        }
        if bytes.contains(&0) {
            return Err(ParseError::ZeroByteInPath);
        }
        if bytes.len() > MAX_PATH_LEN {
            return Err(ParseError::UnixNameTooLong { len: bytes.len(), max: MAX_PATH_LEN });
        }
        Ok(Self(bytes.into()))
    }

    /// The path.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn to_socket2(&self) -> io::Result<socket2::SockAddr> {
        socket2::SockAddr::unix(self.as_path())
    }
}

impl fmt::Debug for UnixPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_path().fmt(f)
    }
}

/// A name in Linux's abstract namespace: at most [`MAX_ABSTRACT_LEN`] bytes of any value, printed after an `@`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixAbstract(Arc<[u8]>);

impl UnixAbstract {
    pub(crate) fn new(name: &[u8]) -> Result<Self, ParseError> {
        if name.len() > MAX_ABSTRACT_LEN {
            return Err(ParseError::UnixNameTooLong { len: name.len(), max: MAX_ABSTRACT_LEN });
        }
        Ok(Self(name.into()))
    }

    /// The name without the leading zero byte (`@` in print).
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn to_socket2(&self) -> io::Result<socket2::SockAddr> {
        let mut native = Vec::with_capacity(self.0.len().saturating_add(1));
        native.push(0);
        native.extend_from_slice(&self.0);
        socket2::SockAddr::unix(OsStr::from_bytes(&native))
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) fn to_socket2(&self) -> io::Result<socket2::SockAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl fmt::Debug for UnixAbstract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"@{}\"", self.0.escape_ascii())
    }
}

/// `None` when `native` is not a unix address, or one longer than any that can be bound.
pub(crate) fn from_socket2(native: &socket2::SockAddr) -> Option<SockAddr> {
    if !native.is_unix() {
        return None;
    }
    if let Some(name) = native.as_abstract_namespace() {
        return UnixAbstract::new(name).ok().map(SockAddr::UnixAbstract);
    }
    match native.as_pathname() {
        Some(path) => UnixPath::new(path).ok().map(SockAddr::UnixPath),
        None => Some(SockAddr::UnixUnnamed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_limits_are_those_of_the_kernel() {
        let longest = "x".repeat(107);
        let path = SockAddr::unix_path(&longest).unwrap();
        assert_eq!(path.to_socket2().unwrap().len(), 110);
        assert!(matches!(
            SockAddr::unix_path("x".repeat(108)),
            Err(ParseError::UnixNameTooLong { len: 108, max: 107 })
        ));
        let name = SockAddr::unix_abstract(&longest).unwrap();
        assert_eq!(name.to_socket2().unwrap().len(), 110);
        assert!(SockAddr::unix_abstract("x".repeat(108)).is_err());
        assert!(matches!(SockAddr::unix_path("a\0b"), Err(ParseError::ZeroByteInPath)));
        assert!(matches!(SockAddr::unix_path(""), Err(ParseError::EmptyPath)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn abstract_name_of_a_server_is_bound_with_its_exact_length() {
        let uuid = format!("{:032x}", fastrand::u128(..));
        let name = SockAddr::unix_abstract(format!("kudu-{uuid}")).unwrap();
        let listener = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        listener.bind(&name.to_socket2().unwrap()).unwrap();
        listener.listen(1).unwrap();
        let bound = listener.local_addr().unwrap();
        assert_eq!(bound.len(), 40);
        assert_eq!(SockAddr::try_from(&bound).unwrap(), name);
        let table = std::fs::read_to_string("/proc/net/unix").unwrap();
        assert!(table.lines().any(|line| line.ends_with(&format!(" @kudu-{uuid}"))), "no trailing zero byte");

        let client = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        client.connect(&name.to_socket2().unwrap()).unwrap();
        assert_eq!(SockAddr::try_from(&client.peer_addr().unwrap()).unwrap(), name);
        let (_accepted, peer) = listener.accept().unwrap();
        assert_eq!(SockAddr::try_from(&peer).unwrap(), SockAddr::UnixUnnamed);
    }
}
