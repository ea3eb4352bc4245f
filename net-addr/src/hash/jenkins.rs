//! Bob Jenkins's 32-bit mix, applied first to the IP and then to the port.

use crate::SockAddr;
use crate::hash::{Form, Native};

/// The hash of an address: for IPv4 `mix(port, mix(ip, 0))`, both as the little-endian words of their network bytes.
///
/// IPv6 and unix addresses, which the original did not know, continue the chain: the four words of the IP (and the scope,
/// if any) before the port; the words of the name, then its length.
pub fn hash(addr: &SockAddr) -> u32 {
    match addr {
        SockAddr::V4(a) => mix(port_word(a.port()), mix(u32::from_le_bytes(a.ip().octets()), 0)),
        SockAddr::V6(a) => {
            let ip = mix_bytes(&a.ip().octets(), a.scope_id());
            mix(port_word(a.port()), ip)
        }
        _ => {
            let native = Native::new(addr, Form::Short);
            let bytes = native.as_bytes();
            mix(bytes.len() as u32, mix_bytes(bytes, 0))
        }
    }
}

fn port_word(port: u16) -> u32 {
    u32::from(u16::from_le_bytes(port.to_be_bytes()))
}

fn mix_bytes(bytes: &[u8], seed: u32) -> u32 {
    bytes.chunks(4).fold(seed, |seed, chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(u32::from_le_bytes(word), seed)
    })
}

/// Nine rounds over the value, a constant and the seed; gives the seed's register.
pub fn mix(value: u32, seed: u32) -> u32 {
    let (mut a, mut b, mut c) = (value, 0x9e37_79b9_u32, seed);
    a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 13);
    b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 8);
    c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 13);
    a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 12);
    b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 16);
    c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 5);
    a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 3);
    b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 10);
    c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_agrees_with_the_vectors() {
        for (value, seed, expected) in [
            (0, 0, 0x0a94_d6d4),
            (1, 0, 0x5a8a_daf6),
            (0, 1, 0x440f_a98d),
            (0xffff_ffff, 0xffff_ffff, 0xe64b_7e99),
            (0x0100_007f, 0, 0x10be_32f8),
            (0x1eef, 0x9e37_79b9, 0x77d1_371d),
        ] {
            assert_eq!(mix(value, seed), expected, "mix({value:x}, {seed:x})");
        }
    }

    #[test]
    fn kinds_that_the_original_did_not_know_are_told_apart() {
        let texts = [
            "[::1]:7050",
            "[::2]:7050",
            "[::1]:7051",
            "[fe80::1%1]:1",
            "[fe80::1%2]:1",
            "@",
            "@a",
            "@b",
            "/a",
        ];
        let mut hashes: Vec<u32> = texts.iter().map(|t| hash(&SockAddr::parse(t, 0).unwrap())).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), texts.len());
    }
}
