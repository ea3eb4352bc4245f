//! SipHash-1-3 under a secret key.

use std::hash::{BuildHasher, Hasher, RandomState};

use siphasher::sip::SipHasher13;

use crate::SockAddr;
use crate::hash::{Form, Native};

/// A key to hash addresses with. Someone who does not know it cannot tell which addresses fall together.
#[derive(Clone, Copy)]
pub struct SipKey(u64, u64);

impl SipKey {
    /// A key that differs from process to process and from call to call, from the operating system's random source.
    pub fn random() -> Self {
        let word = || RandomState::new().build_hasher().finish();
        Self(word(), word())
    }

    /// A chosen key: for tests and for placements that must repeat.
    pub const fn new(k0: u64, k1: u64) -> Self {
        Self(k0, k1)
    }

    /// The hash of an address under this key.
    pub fn hash(&self, addr: &SockAddr) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        hasher.write(Native::new(addr, Form::Short).as_bytes());
        hasher.finish()
    }
}

impl std::fmt::Debug for SipKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SipKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_key_gives_another_hash() {
        let addr = SockAddr::parse("127.0.0.1:7050", 0).unwrap();
        assert_eq!(SipKey::new(1, 2).hash(&addr), SipKey::new(1, 2).hash(&addr));
        assert_ne!(SipKey::new(1, 2).hash(&addr), SipKey::new(1, 3).hash(&addr));
        assert_ne!(SipKey::random().hash(&addr), SipKey::random().hash(&addr));
        assert_eq!(format!("{:?}", SipKey::new(1, 2)), "SipKey(..)");
    }
}
