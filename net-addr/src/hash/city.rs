//! The 64-bit CityHash variant inside Kudu 1.13 and later: the 2011 algorithm with other constants than the published one.

use crate::SockAddr;
use crate::hash::{Form, Native};

/// The hash of an address as Kudu computes it from the given form. Kudu 1.18 places a connection by the low 32 bits.
pub fn hash(addr: &SockAddr, form: Form) -> u64 {
    hash_bytes(Native::new(addr, form).as_bytes())
}

/// The hash of any bytes.
pub fn hash_bytes(s: &[u8]) -> u64 {
    let n = s.len();
    match n {
        0 => K2,
        1..=3 => {
            let y = u64::from(s[0]) + 256 * u64::from(s[n / 2]);
            let z = n as u64 + 4 * u64::from(s[n - 1]);
            shift_mix(mul(y, K2) ^ mul(z, K3)).wrapping_mul(K2)
        }
        4..=8 => fold(n as u64 + 8 * w4(s, 0), w4(s, n - 4)),
        9..=16 => {
            let b = w8(s, n - 8);
            fold(w8(s, 0), b.wrapping_add(n as u64).rotate_right(n as u32)) ^ b
        }
        17..=32 => up_to_32(s),
        33..=64 => up_to_64(s),
        _ => longer(s),
    }
}

fn up_to_32(s: &[u8]) -> u64 {
    let n = s.len();
    let a = mul(w8(s, 0), K1);
    let b = w8(s, 8);
    let c = mul(w8(s, n - 8), K2);
    let d = mul(w8(s, n - 16), K0);
    fold(
        a.wrapping_sub(b).rotate_right(43).wrapping_add(c.rotate_right(30)).wrapping_add(d),
        a.wrapping_add((b ^ K3).rotate_right(20)).wrapping_sub(c).wrapping_add(n as u64),
    )
}

fn up_to_64(s: &[u8]) -> u64 {
    let n = s.len();
    let mut z = w8(s, 24);
    let a = w8(s, 0).wrapping_add(mul(w8(s, n - 16).wrapping_add(n as u64), K0));
    let (vf, vs) = half(a, z, w8(s, 8), w8(s, 16));
    z = z.wrapping_add(w8(s, n - 8));
    let a = w8(s, 16).wrapping_add(w8(s, n - 32));
    let (wf, ws) = half(a, z, w8(s, n - 24), w8(s, n - 16));
    let r = shift_mix(mul(vf.wrapping_add(ws), K2).wrapping_add(mul(wf.wrapping_add(vs), K0)));
    shift_mix(mul(r, K0).wrapping_add(vs)).wrapping_mul(K2)
}

fn half(mut a: u64, z: u64, second: u64, third: u64) -> (u64, u64) {
    let b = a.wrapping_add(z).rotate_right(52);
    let mut c = a.rotate_right(37);
    a = a.wrapping_add(second);
    c = c.wrapping_add(a.rotate_right(7));
    a = a.wrapping_add(third);
    (a.wrapping_add(z), b.wrapping_add(a.rotate_right(31)).wrapping_add(c))
}

fn longer(s: &[u8]) -> u64 {
    let n = s.len();
    let mut x = w8(s, n - 40);
    let mut y = w8(s, n - 16).wrapping_add(w8(s, n - 56));
    let mut z = fold(w8(s, n - 48).wrapping_add(n as u64), w8(s, n - 24));
    let mut v = quad(s, n - 64, n as u64, z);
    let mut w = quad(s, n - 32, y.wrapping_add(K1), x);
    x = mul(x, K1).wrapping_add(w8(s, 0));
    for o in (0..(n - 1) / 64 * 64).step_by(64) {
        x = mul(x.wrapping_add(y).wrapping_add(v.0).wrapping_add(w8(s, o + 8)).rotate_right(37), K1);
        y = mul(y.wrapping_add(v.1).wrapping_add(w8(s, o + 48)).rotate_right(42), K1);
        x ^= w.1;
        y = y.wrapping_add(v.0).wrapping_add(w8(s, o + 40));
        z = mul(z.wrapping_add(w.0).rotate_right(33), K1);
        v = quad(s, o, mul(v.1, K1), x.wrapping_add(w.0));
        w = quad(s, o + 32, z.wrapping_add(w.1), y.wrapping_add(w8(s, o + 16)));
        std::mem::swap(&mut x, &mut z);
    }
    fold(fold(v.0, w.0).wrapping_add(mul(shift_mix(y), K1)).wrapping_add(z), fold(v.1, w.1).wrapping_add(x))
}

fn quad(s: &[u8], o: usize, a: u64, b: u64) -> (u64, u64) {
    let a = a.wrapping_add(w8(s, o));
    let b = b.wrapping_add(a).wrapping_add(w8(s, o + 24)).rotate_right(51);
    let c = a;
    let a = a.wrapping_add(w8(s, o + 8)).wrapping_add(w8(s, o + 16));
    let b = b.wrapping_add(a.rotate_right(23));
    (a.wrapping_add(w8(s, o + 24)), b.wrapping_add(c))
}

fn fold(u: u64, v: u64) -> u64 {
    let a = shift_mix(mul(u ^ v, M));
    // The published algorithm takes v here.
    let b = shift_mix(mul(u ^ a, M));
    mul(b, M)
}

fn shift_mix(v: u64) -> u64 {
    v ^ (v >> 47)
}

fn mul(a: u64, b: u64) -> u64 {
    a.wrapping_mul(b)
}

fn w8(s: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&s[at..at + 8]);
    u64::from_le_bytes(word)
}

fn w4(s: &[u8], at: usize) -> u64 {
    let mut word = [0; 4];
    word.copy_from_slice(&s[at..at + 4]);
    u64::from(u32::from_le_bytes(word))
}

const K0: u64 = 0xa5b8_5c5e_198e_d849;
const K1: u64 = 0x8d58_ac26_afe1_2e47;
const K2: u64 = 0xc47b_6e9e_3a97_0ed3;
const K3: u64 = 0xc70f_6907_e782_aa0b;
const M: u64 = 0xc6a4_a793_5bd1_e995;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_length_reads_past_its_end() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut hashes: Vec<u64> = (0..=256).map(|n| hash_bytes(&bytes[..n])).collect();
        assert_eq!(hashes[0], K2);
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 257);
    }
}
