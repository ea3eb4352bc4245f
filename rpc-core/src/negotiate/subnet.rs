//! Networks whose members may connect without encryption (`--trusted_subnets`).

use std::net::IpAddr;
use std::str::FromStr;

use net_addr::SockAddr;
use thiserror::Error;

/// An address range like `10.0.0.0/8` or `fd00::/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    network: IpAddr,
    prefix: u32,
}

/// Text that is no subnet.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a subnet: write ADDRESS/BITS, e.g. 10.0.0.0/8")]
pub struct SubnetError(String);

impl Subnet {
    /// Does the range hold `ip`? A v4-mapped IPv6 address counts as the IPv4 address in it.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.network, ip.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => {
                let mask = u32::MAX.checked_shl(32u32.saturating_sub(self.prefix)).unwrap_or(0);
                network.to_bits() & mask == ip.to_bits() & mask
            }
            (IpAddr::V6(network), IpAddr::V6(ip)) => {
                let mask = u128::MAX.checked_shl(128u32.saturating_sub(self.prefix)).unwrap_or(0);
                network.to_bits() & mask == ip.to_bits() & mask
            }
            _ => false,
        }
    }

    /// Private, link-local and loopback networks: what Kudu trusts unless told otherwise.
    pub fn defaults() -> Vec<Self> {
        DEFAULTS.iter().filter_map(|text| text.parse().ok()).collect()
    }
}

impl FromStr for Subnet {
    type Err = SubnetError;

    fn from_str(text: &str) -> Result<Self, SubnetError> {
        let parsed = || {
            let (network, prefix) = text.trim().split_once('/')?;
            let (network, prefix): (IpAddr, u32) = (network.parse().ok()?, prefix.parse().ok()?);
            let bits = if network.is_ipv4() { 32 } else { 128 };
            (prefix <= bits).then_some(Self { network, prefix })
        };
        parsed().ok_or_else(|| SubnetError(text.to_owned()))
    }
}

/// May `peer` connect in clear? Unix sockets always may.
pub fn trusts(subnets: &[Subnet], peer: &SockAddr) -> bool {
    peer.ip().is_none_or(|ip| subnets.iter().any(|subnet| subnet.contains(ip)))
}

const DEFAULTS: [&str; 8] = [
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "::1/128",
    "fe80::/10",
    "fd00::/8",
];

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_private_networks() {
        let subnets = Subnet::defaults();
        assert_eq!(subnets.len(), DEFAULTS.len());
        for inside in
            ["127.9.9.9", "10.255.0.1", "172.31.0.1", "192.168.7.7", "::1", "fd12::1", "::ffff:10.0.0.1"]
        {
            assert!(trusts(&subnets, &SockAddr::from((inside.parse::<IpAddr>().unwrap(), 1))), "{inside}");
        }
        for outside in ["8.8.8.8", "172.32.0.1", "11.0.0.1", "2001:db8::1"] {
            assert!(!trusts(&subnets, &SockAddr::from((outside.parse::<IpAddr>().unwrap(), 1))), "{outside}");
        }
        assert!(trusts(&[], &SockAddr::UnixUnnamed));
    }

    #[test]
    fn zero_bits_hold_all_and_bad_text_is_refused() {
        assert!("0.0.0.0/0".parse::<Subnet>().unwrap().contains("8.8.8.8".parse().unwrap()));
        for bad in ["", "10.0.0.0", "10.0.0.0/33", "x/8", "::1/129", "10.0.0.0/-1"] {
            assert!(bad.parse::<Subnet>().is_err(), "{bad}");
        }
    }
}
