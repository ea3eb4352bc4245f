//! Which addresses and names are this machine.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use crate::{SockAddr, is_loopback_ip};

/// The addresses and names of this machine, read again by whoever asks when they are older than 30 s, and by
/// [`refresh`](Self::refresh).
///
/// Local are: unix sockets; 127.0.0.0/8, `::1`, v4-mapped loopback; the addresses of the own interfaces; `localhost` and
/// `*.localhost`; the own host name; names that the hosts file gives to one of these addresses. The wildcard is not an
/// address of this machine. Asking never blocks on a look-up; reading interfaces and the hosts file takes some 100 us.
#[derive(Debug)]
pub struct LocalAddresses {
    known: RwLock<Arc<Known>>,
    /// When they were read, or when somebody last tried.
    read: Mutex<Instant>,
    source: Source,
}

#[derive(Debug, Default)]
struct Known {
    ips: HashSet<IpAddr>,
    names: HashSet<String>,
}

#[derive(Debug)]
enum Source {
    System,
    Fixed,
}

impl LocalAddresses {
    /// This machine's, read at the first call and shared by the whole process.
    ///
    /// When interfaces cannot be listed the cause is logged, and loopback and the host name still count.
    pub fn system() -> &'static Self {
        static SYSTEM: OnceLock<LocalAddresses> = OnceLock::new();
        SYSTEM.get_or_init(|| {
            let local =
                Self { known: RwLock::default(), read: Mutex::new(Instant::now()), source: Source::System };
            if let Err(error) = local.refresh() {
                tracing::warn!(%error, "cannot list the network interfaces: only loopback counts as this machine");
            }
            local
        })
    }

    /// A chosen set, for tests. Loopback counts as local in any case.
    pub fn fixed(ips: impl IntoIterator<Item = IpAddr>, names: impl IntoIterator<Item = String>) -> Self {
        let ips = ips.into_iter().map(|ip| ip.to_canonical()).collect();
        let names = names.into_iter().map(|name| normal_name(&name)).collect();
        let known = RwLock::new(Arc::new(Known { ips, names }));
        Self { known, read: Mutex::new(Instant::now()), source: Source::Fixed }
    }

    /// Reads interfaces and names again: after an interface came up, or an address changed. A fixed set stays as it is.
    ///
    /// Fails when the interfaces cannot be listed; the names are renewed all the same.
    pub fn refresh(&self) -> io::Result<()> {
        match self.source {
            Source::Fixed => Ok(()),
            Source::System => {
                let interfaces = if_addrs::get_if_addrs();
                let ips: HashSet<IpAddr> = match &interfaces {
                    Ok(list) => list.iter().map(|interface| interface.ip().to_canonical()).collect(),
                    Err(_) => self.known.read().ips.clone(),
                };
                let names = own_names(&ips);
                *self.known.write() = Arc::new(Known { ips, names });
                interfaces.map(drop)
            }
        }
    }

    /// Is `ip` loopback or an address of one of the own interfaces?
    pub fn is_local_ip(&self, ip: IpAddr) -> bool {
        is_loopback_ip(ip) || self.known(Instant::now()).ips.contains(&ip.to_canonical())
    }

    /// Is `host`, a name or an IP address in text, this machine? Case and one closing dot do not matter.
    ///
    /// Nothing is resolved: a name that only DNS knows is not local here, its resolved addresses may be.
    pub fn is_local_host(&self, host: &str) -> bool {
        if let Ok(ip) = host.trim_start_matches('[').trim_end_matches(']').parse() {
            return self.is_local_ip(ip);
        }
        let name = normal_name(host);
        is_localhost(&name) || self.known(Instant::now()).names.contains(&name)
    }

    /// Does `addr` lead to this machine? True for every unix socket.
    pub fn is_local(&self, addr: &SockAddr) -> bool {
        addr.ip().is_none_or(|ip| self.is_local_ip(ip))
    }

    /// The addresses of the own interfaces, loopback included, in no order.
    pub fn ips(&self) -> Vec<IpAddr> {
        self.known(Instant::now()).ips.iter().copied().collect()
    }

    /// What is known at `now`, not older than [`FRESH`] unless it cannot be read.
    fn known(&self, now: Instant) -> Arc<Known> {
        if let Source::System = self.source {
            // Others who ask meanwhile go on with what there is.
            let stale = self.read.try_lock().is_some_and(|mut read| {
                let stale = now.saturating_duration_since(*read) > FRESH;
                if stale {
                    *read = now;
                }
                stale
            });
            if stale && let Err(error) = self.refresh() {
                tracing::debug!(%error, "cannot list the network interfaces; going on with those of before");
            }
        }
        Arc::clone(&self.known.read())
    }
}

/// An interface that comes up is this machine's after at most so long.
const FRESH: Duration = Duration::from_secs(30);

fn is_localhost(normal: &str) -> bool {
    normal == "localhost" || normal == "localhost.localdomain" || normal.ends_with(".localhost")
}

fn normal_name(name: &str) -> String {
    let name = name.trim();
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// The own host name, its short form, and what the hosts file calls this machine.
fn own_names(ips: &HashSet<IpAddr>) -> HashSet<String> {
    let mut names = HashSet::new();
    if let Some(name) = host_name() {
        if let Some((short, _)) = name.split_once('.') {
            names.insert(short.to_owned());
        }
        names.insert(name);
    }
    if let Ok(hosts) = std::fs::read_to_string("/etc/hosts") {
        names.extend(names_in_hosts(&hosts, ips));
    }
    names.remove("");
    names
}

/// A debian-like hosts file gives the full name to 127.0.1.1; whatever it maps to us, a connection to it ends here.
fn names_in_hosts(hosts: &str, ips: &HashSet<IpAddr>) -> HashSet<String> {
    let mut names = HashSet::new();
    for line in hosts.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(Ok(ip)) = words.next().map(str::parse::<IpAddr>) else { continue };
        if is_loopback_ip(ip) || ips.contains(&ip.to_canonical()) {
            names.extend(words.map(normal_name));
        }
    }
    names
}

/// What this machine calls itself, in lower case, perhaps without its domain; `None` if it has no name.
pub fn host_name() -> Option<String> {
    let name = rustix::system::uname().nodename().to_str().map(normal_name).ok()?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn example() -> LocalAddresses {
        LocalAddresses::fixed([ip("192.168.1.10"), ip("2001:db8::5")], ["Box.Example.com".to_owned()])
    }

    #[test]
    fn own_interface_addresses_are_local_but_not_loopback() {
        let local = example();
        for (text, expected) in [
            ("192.168.1.10", true),
            ("::ffff:192.168.1.10", true),
            ("192.168.1.11", false),
            ("2001:db8::5", true),
            ("2001:db8::6", false),
            ("127.9.9.9", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("0.0.0.0", false),
            ("::", false),
        ] {
            assert_eq!(local.is_local_ip(ip(text)), expected, "{text}");
            assert_eq!(local.is_local_host(text), expected, "{text}");
            assert_eq!(local.is_local(&(ip(text), 1).into()), expected, "{text}");
        }
        assert!(local.is_local_host("[::1]"));
        assert!(local.is_local(&SockAddr::parse("@kudu-1", 0).unwrap()));
    }

    #[test]
    fn names_are_compared_without_case_and_closing_dot() {
        let local = example();
        for name in [
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "localhost.localdomain",
            "box.example.com",
            "BOX.example.COM.",
        ] {
            assert!(local.is_local_host(name), "{name}");
        }
        for name in ["", ".", "box", "box.example.com.evil.org", "notlocalhost", "localhost.evil.org"] {
            assert!(!local.is_local_host(name), "{name}");
        }
    }

    #[test]
    fn hosts_file_names_only_count_when_their_address_is_ours() {
        let hosts = "127.0.0.1 localhost\n127.0.1.1 box.example.com Box # us\n10.0.0.9 other\n192.168.1.10\tlan\nbroken line\n0.0.0.0 ads\n";
        let names = names_in_hosts(hosts, &HashSet::from([ip("192.168.1.10")]));
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort();
        assert_eq!(names, ["box", "box.example.com", "lan", "localhost"]);
    }

    #[test]
    fn addresses_that_came_and_went_are_noticed_within_half_a_minute() {
        let gone = ip("192.0.2.1");
        let known = Known { ips: HashSet::from([gone]), names: HashSet::new() };
        let read = Instant::now();
        let local = LocalAddresses {
            known: RwLock::new(Arc::new(known)),
            read: Mutex::new(read),
            source: Source::System,
        };
        assert!(local.known(read + FRESH).ips.contains(&gone));
        let later = local.known(read + FRESH + Duration::from_millis(1));
        assert!(!later.ips.contains(&gone), "an address that left is no longer ours");
        assert!(later.ips.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)), "one that came is");
        assert!(later.names.contains(&host_name().unwrap()));
        assert!(!local.is_local_ip(gone));
    }

    #[test]
    fn this_machine_knows_its_own_name_and_interfaces() {
        let local = LocalAddresses::system();
        assert!(local.is_local_host(&host_name().unwrap()));
        assert!(local.ips().contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
        for own in local.ips() {
            assert!(local.is_local_ip(own));
            if !own.is_loopback() && own.is_ipv4() {
                UdpSocket::bind((own, 0)).unwrap();
            }
        }
        assert!(!local.is_local_ip(ip("192.0.2.1")));
        local.refresh().unwrap();
        assert!(local.is_local_host("localhost"));
    }
}
