//! Connections spread evenly over reactors: for any address set that clients really have, and whatever the hash.
//!
//! Every input is fixed (no clock, no random key), so these tests give the same verdict each time. The bound, p > 1e-6 in
//! a chi-square test, would be missed once in about 170 runs of all 6,000 cases by perfect randomness if they did vary.

use std::net::Ipv4Addr;

use net_addr::SockAddr;
use net_addr::hash::sip::SipKey;
use net_addr::hash::{Form, city, jenkins};

type AddressHash = fn(&SockAddr) -> u64;

const HASHES: &[(&str, AddressHash)] = &[
    ("jenkins", |a| u64::from(jenkins::hash(a))),
    ("city of the short form, as Kudu cuts it", |a| city::hash(a, Form::Short) & 0xffff_ffff),
    ("city of the accepted form, as Kudu cuts it", |a| city::hash(a, Form::Accepted) & 0xffff_ffff),
    ("city, all bits", |a| city::hash(a, Form::Short)),
    ("sip", |a| SipKey::new(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908).hash(a)),
];

const LEAST_P: f64 = 1e-6;

/// What stood before the seed's change: the IP's word xor the port's word times 7919.
fn pre_seed(addr: &SockAddr) -> u64 {
    let SockAddr::V4(a) = addr else { panic!("only IPv4 was known") };
    let port = u32::from(u16::from_le_bytes(a.port().to_be_bytes()));
    u64::from(u32::from_le_bytes(a.ip().octets()) ^ port.wrapping_mul(7919))
}

fn v4(ip: u32, port: u16) -> SockAddr {
    (Ipv4Addr::from(ip), port).into()
}

const LOOPBACK: u32 = 0x7f00_0001;
const LAN: u32 = 0x0a00_0001;

fn consecutive_ports(ip: u32, first: u16, count: u16) -> Vec<SockAddr> {
    (0..count).map(|i| v4(ip, first + i)).collect()
}

fn consecutive_ips(first: u32, port: u16) -> Vec<SockAddr> {
    (0..4096).map(|i| v4(first + i, port)).collect()
}

fn both(first_ip: u32, first_port: u16) -> Vec<SockAddr> {
    (0..4096).map(|i| v4(first_ip + i / 64, first_port + (i % 64) as u16)).collect()
}

fn random(seed: u64) -> Vec<SockAddr> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..4096).map(|_| v4(rng.u32(..), rng.u16(..))).collect()
}

fn sets() -> Vec<(String, Vec<SockAddr>)> {
    let mut sets = Vec::new();
    for (name, ip, port) in
        [("loopback", LOOPBACK, 32768), ("lan", LAN, 7050), ("private", 0xac10_0000, 50000)]
    {
        sets.push((format!("4096 ports from {port}, {name}"), consecutive_ports(ip, port, 4096)));
        sets.push((format!("4096 IPs, {name}, port {port}"), consecutive_ips(ip, port)));
        sets.push((format!("64 IPs by 64 ports, {name}"), both(ip, port)));
    }
    for seed in 0..3 {
        sets.push((format!("random, seed {seed}"), random(seed)));
    }
    sets
}

#[test]
fn every_hash_spreads_every_set_over_2_to_64_reactors() {
    let mut failures = Vec::new();
    for (set, addresses) in sets() {
        for (name, hash) in HASHES {
            let hashes: Vec<u64> = addresses.iter().map(hash).collect();
            for reactors in 2..=64 {
                let p = p_value(&hashes, reactors);
                if p <= LEAST_P {
                    failures.push(format!("{name}, {set}, {reactors} reactors: p = {p:e}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}\n{} failures", failures.join("\n"), failures.len());
}

#[test]
fn the_formula_before_the_seed_fails_where_the_network_has_structure() {
    for reactors in [2, 4, 8, 16, 64] {
        for ip in [LOOPBACK, LAN] {
            let ips: Vec<u64> = consecutive_ips(ip, 7050).iter().map(pre_seed).collect();
            let p = p_value(&ips, reactors);
            assert!(p < LEAST_P, "consecutive IPs over {reactors} reactors: p = {p:e}");
            let ports: Vec<u64> = consecutive_ports(ip, 40000, 64).iter().map(pre_seed).collect();
            let p = p_value(&ports, reactors);
            assert!(p < LEAST_P, "64 consecutive ports over {reactors} reactors: p = {p:e}");
        }
    }
}

#[test]
fn the_formula_before_the_seed_is_the_reference_s() {
    for &(text, expected) in PRE_SEED {
        assert_eq!(pre_seed(&SockAddr::parse(text, 0).unwrap()), expected, "{text}");
    }
}

/// Flipping one bit of the input flips each bit of the output about half of the time. Kudu's hash of its 16 byte form is
/// weaker (0.28 to 0.76 are measured): that is how it is, and one of the reasons why it is not our default.
#[test]
fn every_input_bit_reaches_every_output_bit() {
    for (name, hash) in HASHES {
        let (low, high) = if name.contains("accepted") { (0.25, 0.8) } else { (0.42, 0.58) };
        let mut rng = fastrand::Rng::with_seed(7);
        let samples = 2000;
        let mut flips = vec![[0_u32; 32]; 48];
        for _ in 0..samples {
            let (ip, port) = (rng.u32(..), rng.u16(..));
            let before = hash(&v4(ip, port));
            for (input, counts) in flips.iter_mut().enumerate() {
                let flipped =
                    if input < 32 { v4(ip ^ 1 << input, port) } else { v4(ip, port ^ 1 << (input - 32)) };
                let changed = before ^ hash(&flipped);
                for (output, count) in counts.iter_mut().enumerate() {
                    *count += (changed >> output & 1) as u32;
                }
            }
        }
        for (input, counts) in flips.iter().enumerate() {
            for (output, &count) in counts.iter().enumerate() {
                let share = f64::from(count) / f64::from(samples);
                assert!(
                    (low..=high).contains(&share),
                    "{name}: input bit {input} flips output bit {output} in {share}"
                );
            }
        }
    }
}

#[test]
fn the_chi_square_test_tells_even_from_uneven() {
    let even: Vec<u64> = (0..4096).collect();
    assert!(p_value(&even, 8) > 0.999_999);
    let skewed: Vec<u64> = (0..4096).map(|i| if i % 10 == 0 { 0 } else { i }).collect();
    assert!(p_value(&skewed, 8) < 1e-9);
    // From tables: with 9 degrees of freedom 16.919 is passed with probability 0.05, with 63 it is 103.442 for 0.001.
    assert!((upper_gamma(9.0 / 2.0, 16.919 / 2.0) - 0.05).abs() < 1e-5);
    assert!((upper_gamma(63.0 / 2.0, 103.442 / 2.0) - 0.001).abs() < 1e-5);
}

/// The probability that even chance spreads at least this unevenly over `reactors`.
fn p_value(hashes: &[u64], reactors: u64) -> f64 {
    let mut counts = vec![0_u32; reactors as usize];
    for hash in hashes {
        counts[(hash % reactors) as usize] += 1;
    }
    let expected = hashes.len() as f64 / reactors as f64;
    let chi_square: f64 = counts.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
    upper_gamma((reactors - 1) as f64 / 2.0, chi_square / 2.0)
}

/// The regularised upper incomplete gamma function Q(a, x), for a a multiple of one half: Q grows by a step of a known
/// term from a to a + 1, starting at Q(1, x) = exp(-x) or Q(1/2, x) = erfc(sqrt x).
fn upper_gamma(a: f64, x: f64) -> f64 {
    let whole = a.fract() == 0.0;
    let (mut at, mut q) = if whole { (1.0, (-x).exp()) } else { (0.5, erfc(x.sqrt())) };
    // x^at exp(-x) / gamma(at + 1)
    let mut term =
        if whole { x * (-x).exp() } else { x.sqrt() * (-x).exp() * 2.0 / std::f64::consts::PI.sqrt() };
    while at < a {
        q += term;
        at += 1.0;
        term *= x / at;
    }
    // The sum forgets its smallest addends: an uneven spread beyond the reach of f64 is 0.
    q.clamp(0.0, 1.0)
}

/// erfc for x >= 0: the series of erf where it converges fast, the continued fraction beyond.
fn erfc(x: f64) -> f64 {
    if x < 2.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..80 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return 1.0 - sum * 2.0 / std::f64::consts::PI.sqrt();
    }
    let mut fraction = x;
    for n in (1..80).rev() {
        fraction = x + f64::from(n) / 2.0 / fraction;
    }
    (-x * x).exp() / fraction / std::f64::consts::PI.sqrt()
}

const PRE_SEED: &[(&str, u64)] = &[
    ("127.0.0.1:7050", 0x11b0_194a),
    ("127.0.0.1:7051", 0x11cf_084a),
    ("127.0.0.1:40000", 0x06ce_99db),
    ("0.0.0.0:0", 0),
    ("10.0.0.2:7050", 0x12b0_193f),
    ("192.168.1.10:7051", 0x1ace_a0f5),
    ("255.255.255.255:65535", 0xe111_1eee),
    ("8.8.8.8:53", 0x0e6f_7308),
];
