//! Which addresses a server tells the master and its clients.

use std::net::IpAddr;

use net_addr::{HostPort, LocalAddresses, Resolver, SockAddr};

/// The addresses to advertise: `advertised` (the flag `--rpc_advertised_addresses`) if any are given, else those that were bound,
/// in their order. Unix sockets are left out.
///
/// A wildcard is not an address that a client could use: in its place stands this machine's name if `resolver` finds an
/// own address of the wildcard's kind for it, else the addresses of the own interfaces (of the wildcard's kind, not loopback), else loopback.
pub fn rpc_addresses(
    bound: &[SockAddr],
    advertised: &[HostPort],
    local: &LocalAddresses,
    resolver: &dyn Resolver,
) -> Vec<HostPort> {
    if !advertised.is_empty() {
        return advertised.to_vec();
    }
    let mut addresses = Vec::new();
    for addr in bound {
        if !addr.is_wildcard() {
            addresses.extend(HostPort::try_from(addr).ok());
        } else if let (Some(ip), Some(port)) = (addr.ip(), addr.port()) {
            addresses.extend(
                in_place_of_wildcard(ip, local, resolver).into_iter().map(|host| HostPort::new(host, port)),
            );
        }
    }
    addresses
}

fn in_place_of_wildcard(wildcard: IpAddr, local: &LocalAddresses, resolver: &dyn Resolver) -> Vec<String> {
    if let Some(name) = net_addr::host_name() {
        let ips = resolver.resolve(&name).unwrap_or_default();
        // Who listens on IPv6 is not reached by a name that leads to IPv4 only.
        let fits = ips.iter().any(|ip| ip.is_ipv4() == wildcard.is_ipv4());
        if fits && ips.iter().all(|ip| local.is_local_ip(*ip)) {
            return vec![name];
        }
    }
    let mut own: Vec<IpAddr> = local.ips();
    own.retain(|ip| !ip.is_loopback() && ip.is_ipv4() == wildcard.is_ipv4() && !is_link_local(*ip));
    own.sort_unstable();
    if own.is_empty() {
        let loopback = if wildcard.is_ipv4() {
            IpAddr::from([127, 0, 0, 1])
        } else {
            std::net::Ipv6Addr::LOCALHOST.into()
        };
        own.push(loopback);
    }
    own.iter().map(ToString::to_string).collect()
}

/// Useless to others without the number of an interface.
fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    struct Answer(Vec<IpAddr>);
    impl Resolver for Answer {
        fn resolve(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
            Ok(self.0.clone())
        }
    }

    fn addresses(bound: &[&str], advertised: &str, own: &[&str], resolved: &[&str]) -> Vec<String> {
        let bound: Vec<SockAddr> = bound.iter().map(|text| text.parse().unwrap()).collect();
        let ips = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        let local = LocalAddresses::fixed(ips(own), []);
        let advertised = HostPort::parse_list(advertised, 7050).unwrap();
        let found = rpc_addresses(&bound, &advertised, &local, &Answer(ips(resolved)));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_bound_is_advertised_unless_told_otherwise() {
        let bound = ["127.0.0.1:7050", "[::1]:7050", "@kudu-x"];
        assert_eq!(addresses(&bound, "", &[], &[]), ["127.0.0.1:7050", "[::1]:7050"]);
        assert_eq!(addresses(&bound, "out.example:9,b", &[], &[]), ["out.example:9", "b:7050"]);
    }

    #[test]
    fn a_wildcard_is_replaced_by_something_that_others_can_reach() {
        let own = ["127.0.0.1", "192.168.1.10", "10.0.0.1", "169.254.3.3", "2001:db8::5", "fe80::1"];
        let name = net_addr::host_name().unwrap();
        assert_eq!(addresses(&["0.0.0.0:5"], "", &own, &["192.168.1.10"]), [format!("{name}:5")]);
        assert_eq!(addresses(&["0.0.0.0:5"], "", &own, &["9.9.9.9"]), ["10.0.0.1:5", "192.168.1.10:5"]);
        assert_eq!(addresses(&["[::]:5"], "", &own, &[]), ["[2001:db8::5]:5"]);
        assert_eq!(addresses(&["[::]:5"], "", &own, &["192.168.1.10"]), ["[2001:db8::5]:5"]);
        assert_eq!(addresses(&["[::]:5"], "", &own, &["2001:db8::5"]), [format!("{name}:5")]);
        assert_eq!(addresses(&["0.0.0.0:5", "[::]:6"], "", &[], &[]), ["127.0.0.1:5", "[::1]:6"]);
    }
}
