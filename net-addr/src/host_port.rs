//! Host and port before the host is resolved.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use crate::parse::{ParseError, parse_scoped_v6, split_host_port};
use crate::{ResolveError, Resolver, SockAddr};

/// A host (a name, an IPv4 address or an IPv6 address without brackets) and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// Name or IP address; never empty when parsed, IPv6 without brackets.
    pub host: String,
    /// 0 to 65535.
    pub port: u16,
}

impl HostPort {
    /// A host and a port as they stand.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Reads `host`, `host:port`, `[v6]`, `[v6]:port` or bare `v6`; white space around host and port is dropped.
    ///
    /// # Errors
    /// [`ParseError`], which quotes the text.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, ParseError> {
        let (host, port) = split_host_port(text, default_port)?;
        let is_v6 = host.text.contains(':');
        if is_v6 && parse_scoped_v6(host.text).is_none() {
            return Err(ParseError::Ip { text: text.to_owned() });
        }
        if host.bracketed && !is_v6 {
            return Err(ParseError::Brackets { text: text.to_owned() });
        }
        Ok(Self::new(host.text, port))
    }

    /// Reads a list separated by commas. Empty entries are left out, repeated ones (same host and port) are kept once, in
    /// the order of their first place; the result is empty for an empty text.
    ///
    /// # Errors
    /// [`ParseError`] of the first entry that is none.
    pub fn parse_list(text: &str, default_port: u16) -> Result<Vec<Self>, ParseError> {
        let mut seen = HashSet::new();
        let mut list = Vec::new();
        for entry in text.split(',').filter(|entry| !entry.trim().is_empty()) {
            let entry = Self::parse(entry, default_port)?;
            if seen.insert(entry.clone()) {
                list.push(entry);
            }
        }
        Ok(list)
    }

    /// The address, if the host is an IP address and no name.
    pub fn as_ip(&self) -> Option<SockAddr> {
        if let Ok(v4) = self.host.parse::<Ipv4Addr>() {
            return Some((v4, self.port).into());
        }
        let (ip, scope) = parse_scoped_v6(&self.host)?;
        Some(SockAddr::V6(std::net::SocketAddrV6::new(ip, self.port, 0, scope)))
    }

    /// The addresses of the host, at least one, each with this port: IPv4 first, since Kudu 1.18 knows nothing else, and else in
    /// the resolver's order. An IP address never reaches the resolver.
    ///
    /// Blocks the thread as long as the resolver does. Fails as the resolver does, and with [`ResolveError::NoAddress`]
    /// inside an error of kind `NotFound` when the resolver knows no address.
    pub fn resolve(&self, resolver: &dyn Resolver) -> io::Result<Vec<SockAddr>> {
        if let Some(addr) = self.as_ip() {
            return Ok(vec![addr]);
        }
        let mut ips = resolver.resolve(&self.host)?;
        ips.sort_by_key(IpAddr::is_ipv6);
        if ips.is_empty() {
            return Err(ResolveError::NoAddress { host: self.host.clone() }.into());
        }
        Ok(ips.into_iter().map(|ip| (ip, self.port).into()).collect())
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for HostPort {
    type Err = ParseError;

    /// [`HostPort::parse`] with default port 0.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text, 0)
    }
}

impl TryFrom<&SockAddr> for HostPort {
    type Error = NotInet;

    fn try_from(addr: &SockAddr) -> Result<Self, NotInet> {
        match (addr, addr.ip(), addr.port()) {
            (SockAddr::V6(a), ..) if a.scope_id() != 0 => {
                Ok(Self::new(format!("{}%{}", a.ip(), a.scope_id()), a.port()))
            }
            (_, Some(ip), Some(port)) => Ok(Self::new(ip.to_string(), port)),
            _ => Err(NotInet { addr: addr.clone() }),
        }
    }
}

/// A unix socket has no host and no port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{addr} has no host and port")]
#[non_exhaustive]
pub struct NotInet {
    /// The address that was asked.
    pub addr: SockAddr,
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Vec<IpAddr>);
    impl Resolver for Fixed {
        fn resolve(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
            Ok(self.0.clone())
        }
    }

    #[test]
    fn lists_take_default_ports_and_drop_repeats_and_blanks() {
        let list = HostPort::parse_list(" a , b:1,, [::1] ,[::2]:3,a:7051,", 7051).unwrap();
        let texts: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["a:7051", "b:1", "[::1]:7051", "[::2]:3"]);
        assert_eq!(HostPort::parse_list("", 1).unwrap(), []);
        assert!(HostPort::parse_list("a,b:x", 1).is_err());
    }

    #[test]
    fn ipv4_goes_first_however_the_resolver_orders() {
        let ips = ["::1", "127.0.0.2", "2001:db8::1", "127.0.0.1"].map(|ip| ip.parse().unwrap());
        let found = HostPort::new("localhost", 7050).resolve(&Fixed(ips.to_vec())).unwrap();
        let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["127.0.0.2:7050", "127.0.0.1:7050", "[::1]:7050", "[2001:db8::1]:7050"]);
    }

    #[test]
    fn hosts_without_sense_are_refused() {
        for text in ["", ":1", "[a]:1", "[::1", "::1:x", "a:70000", "[1.2.3.4]:1"] {
            assert!(HostPort::parse(text, 1).is_err(), "{text}");
        }
    }

    #[test]
    fn an_ip_address_never_reaches_the_resolver() {
        let elsewhere = Fixed(vec![IpAddr::V4(Ipv4Addr::new(9, 9, 9, 9))]);
        for text in ["127.0.0.2:5", "[::1]:5", "[fe80::1%2]:5"] {
            let host_port: HostPort = text.parse().unwrap();
            assert_eq!(host_port.resolve(&elsewhere).unwrap(), [text.parse().unwrap()]);
            assert_eq!(HostPort::try_from(&text.parse::<SockAddr>().unwrap()).unwrap(), host_port);
        }
        assert_eq!(HostPort::new("ts", 5).resolve(&elsewhere).unwrap(), ["9.9.9.9:5".parse().unwrap()]);
    }

    #[test]
    fn a_name_without_addresses_is_an_error_that_names_it() {
        let error = HostPort::new("ts", 5).resolve(&Fixed(Vec::new())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("`ts`"), "{error}");
        assert!(HostPort::try_from(&SockAddr::UnixUnnamed).is_err());
    }
}
