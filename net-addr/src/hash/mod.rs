//! Three ways to hash an address. Our own servers place connections by load, and take [`sip`] among equals.
//!
//! * [`jenkins`]: 32 bits, mixes first the IP and then the port, as the seed of this project introduced it.
//! * [`city`]: what Kudu 1.13 and later use; needed to predict where a real server puts a connection.
//! * [`sip`]: keyed, so that a peer cannot choose ports that all fall on one place. The one to take for placement by hash.
//!
//! All three take equal addresses to equal numbers, whatever padding the kernel's form carries.

pub mod city;
pub mod jenkins;
pub mod sip;

use crate::SockAddr;

/// Which native form of an IPv4 address is hashed; the other kinds have only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Parsed, resolved or built: 8 bytes, without the zero padding of `sockaddr_in`.
    Short,
    /// As accept, getsockname and getpeername give it: 16 bytes, the last 8 zero.
    Accepted,
}

/// An address in the bytes of Linux's `sockaddr` types on a little-endian machine.
pub(crate) struct Native {
    bytes: [u8; MAX_NATIVE_LEN],
    len: usize,
}

const MAX_NATIVE_LEN: usize = 110;
const AF_UNIX: u8 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

impl Native {
    pub(crate) fn new(addr: &SockAddr, form: Form) -> Self {
        let mut native = Self { bytes: [0; MAX_NATIVE_LEN], len: 0 };
        match addr {
            SockAddr::V4(a) => {
                native.push(&[AF_INET, 0]);
                native.push(&a.port().to_be_bytes());
                native.push(&a.ip().octets());
                if form == Form::Accepted {
                    native.push(&[0; 8]);
                }
            }
            SockAddr::V6(a) => {
                native.push(&[AF_INET6, 0]);
                native.push(&a.port().to_be_bytes());
                native.push(&[0; 4]);
                native.push(&a.ip().octets());
                native.push(&a.scope_id().to_le_bytes());
            }
            SockAddr::UnixPath(path) => {
                native.push(&[AF_UNIX, 0]);
                native.push(path.as_bytes());
                native.len = MAX_NATIVE_LEN;
            }
            SockAddr::UnixAbstract(name) => {
                native.push(&[AF_UNIX, 0, 0]);
                native.push(name.as_bytes());
            }
            SockAddr::UnixUnnamed => native.push(&[AF_UNIX, 0]),
        }
        native
    }

    fn push(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        self.bytes[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
