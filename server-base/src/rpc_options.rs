//! How a server listens and how much it takes, as its flags say.

use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use net_addr::{HostPort, ParseError, Resolver, SockAddr};
use rpc_core::negotiate::Subnet;

use crate::flags::FlagSet;

/// The flags that [`RpcOptions::from_flags`] reads, for [`crate::flags::FlagSetBuilder::acts_on_all`].
pub const RPC_FLAGS: &[(&str, &str)] = &[
    ("rpc_bind_addresses", "where to listen: host:port, separated by commas; port 0 takes a free one"),
    ("rpc_advertised_addresses", "what to tell clients in place of the bound addresses"),
    ("rpc_proxied_addresses", "listen here, too, for clients that come through a proxy"),
    ("rpc_proxy_advertised_addresses", "what to tell clients that come through a proxy"),
    ("rpc_listen_on_unix_domain_socket", "also listen on the unix socket @kudu-<uuid>"),
    ("rpc_server_allow_ephemeral_ports", "accepted: free ports are always allowed"),
    ("num_reactor_threads", "threads that move bytes"),
    ("rpc_num_service_threads", "threads that run calls, for each service"),
    ("rpc_service_queue_length", "calls that may wait for a thread, for each service"),
    ("rpc_max_message_size", "the largest request in bytes"),
    ("rpc_negotiation_timeout_ms", "how long a peer may take to introduce itself"),
    ("trusted_subnets", "networks whose members may connect without encryption"),
    ("server_dump_info_path", "a file to tell in where this server listens"),
    ("server_dump_info_format", "the format of that file: pb or json"),
    ("rpc_default_keepalive_time_ms", "close connections that were idle for so long; negative is never"),
];

/// Listening addresses, threads and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RpcOptions {
    /// Where to listen, resolved, each once; at least one.
    pub bind: Vec<SockAddr>,
    /// What to advertise; empty if that is what was bound.
    pub advertised: Vec<HostPort>,
    /// Where to listen for clients that come through a proxy, resolved, each once; may repeat some of `bind`.
    pub proxied: Vec<SockAddr>,
    /// What to tell those clients; empty exactly if `proxied` is.
    pub proxy_advertised: Vec<HostPort>,
    /// Also listen on the unix socket.
    pub unix_socket: bool,
    /// Reactor threads, at least 1.
    pub reactors: usize,
    /// Threads a service, at least 1.
    pub service_threads: usize,
    /// Waiting calls a service, at least 1.
    pub queue_length: usize,
    /// Bytes of the largest frame.
    pub max_message_size: u32,
    /// From accept to the end of the negotiation.
    pub negotiation_timeout: Duration,
    /// Idle time after which a connection is closed; `None` is never.
    pub keepalive: Option<Duration>,
    /// Who may connect without encryption; `None` leaves it to `rpc-core`: private networks, of IPv6 too.
    pub trusted_subnets: Option<Arc<[Subnet]>>,
}

/// The flags cannot be followed. The fault is the operator's, or the name server's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The value is no list of addresses.
    #[error("--{flag}: {source}")]
    Address {
        /// The flag.
        flag: &'static str,
        /// What is wrong.
        source: ParseError,
    },
    /// A host of the list is not known.
    #[error("--{flag}: {source}")]
    Resolve {
        /// The flag.
        flag: &'static str,
        /// What the resolver says; it names the host.
        source: io::Error,
    },
    /// The value is no list of networks.
    #[error("--{flag}: {source}")]
    Subnet {
        /// The flag.
        flag: &'static str,
        /// What is wrong.
        source: <Subnet as FromStr>::Err,
    },
    /// The list is empty.
    #[error("--{flag} is empty: give at least one host:port")]
    Nowhere {
        /// The flag.
        flag: &'static str,
    },
    /// One of two flags that need each other.
    #[error(
        "--rpc_proxy_advertised_addresses and --rpc_proxied_addresses should be either both set or both unset"
    )]
    HalfAProxy,
}

impl OptionsError {
    /// True if a host could not be resolved: that may work later.
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::Resolve { .. })
    }
}

impl RpcOptions {
    /// Reads the flags as they are now; `default_port` for addresses without one. Blocks while names are resolved.
    pub fn from_flags(
        flags: &FlagSet,
        default_port: u16,
        resolver: &dyn Resolver,
    ) -> Result<Self, OptionsError> {
        let list = |flag: &'static str| {
            HostPort::parse_list(&flags.string(flag), default_port)
                .map_err(|source| OptionsError::Address { flag, source })
        };
        let resolved = |flag: &'static str| {
            let mut unique = Vec::new();
            for host_port in list(flag)? {
                let found =
                    host_port.resolve(resolver).map_err(|source| OptionsError::Resolve { flag, source })?;
                for addr in to_bind(found) {
                    // Two wishes for a free port are two ports.
                    if addr.port() == Some(0) || !unique.contains(&addr) {
                        unique.push(addr);
                    }
                }
            }
            Ok(unique)
        };
        let bind = resolved("rpc_bind_addresses")?;
        if bind.is_empty() {
            return Err(OptionsError::Nowhere { flag: "rpc_bind_addresses" });
        }
        let proxied = resolved("rpc_proxied_addresses")?;
        let proxy_advertised = list("rpc_proxy_advertised_addresses")?;
        if proxied.is_empty() != proxy_advertised.is_empty() {
            return Err(OptionsError::HalfAProxy);
        }
        let trusted_subnets = if flags.is_set("trusted_subnets") {
            let text = flags.string("trusted_subnets");
            let subnets = text.split(',').filter(|subnet| !subnet.trim().is_empty()).map(Subnet::from_str);
            let subnets: Result<_, _> = subnets.collect();
            Some(subnets.map_err(|source| OptionsError::Subnet { flag: "trusted_subnets", source })?)
        } else {
            None
        };
        Ok(Self {
            bind,
            advertised: list("rpc_advertised_addresses")?,
            proxied,
            proxy_advertised,
            unix_socket: flags.bool("rpc_listen_on_unix_domain_socket"),
            reactors: flags.count("num_reactor_threads").max(1),
            service_threads: flags.count("rpc_num_service_threads").max(1),
            queue_length: flags.count("rpc_service_queue_length").max(1),
            max_message_size: u32::try_from(flags.count("rpc_max_message_size")).unwrap_or(u32::MAX),
            negotiation_timeout: flags.millis("rpc_negotiation_timeout_ms").unwrap_or_default(),
            keepalive: flags.millis("rpc_default_keepalive_time_ms"),
            trusted_subnets,
        })
    }

    /// The part of them that each connection needs, for [`rpc_server::ServerBuilder::options`].
    pub fn connection_options(&self) -> rpc_server::ServerOptions {
        let defaults = rpc_server::ServerOptions::default();
        rpc_server::ServerOptions {
            max_message_size: self.max_message_size,
            negotiation_timeout: self.negotiation_timeout,
            keepalive: self.keepalive,
            trusted_subnets: self.trusted_subnets.clone().unwrap_or(defaults.trusted_subnets.clone()),
            ..defaults
        }
    }
}

/// A name with several addresses: all for a fixed port, one for a free port (they would get different ones). IPv4 goes before
/// IPv6, which Kudu 1.18 does not know.
fn to_bind(mut found: Vec<SockAddr>) -> Vec<SockAddr> {
    if found.iter().any(|addr| matches!(addr, SockAddr::V4(_))) {
        found.retain(|addr| matches!(addr, SockAddr::V4(_)));
    }
    if found.first().is_some_and(|addr| addr.port() == Some(0)) {
        found.truncate(1);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Role;
    use std::net::IpAddr;

    struct Names;
    impl Resolver for Names {
        fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
            match host {
                "localhost" => Ok(vec!["::1".parse().unwrap(), "127.0.0.1".parse().unwrap()]),
                "both" => Ok(vec!["127.0.0.2".parse().unwrap(), "127.0.0.3".parse().unwrap()]),
                _ => Err(io::Error::new(io::ErrorKind::NotFound, format!("no host {host}"))),
            }
        }
    }

    fn read(arguments: &[&str]) -> Result<RpcOptions, OptionsError> {
        let flags = FlagSet::builder(Role::TabletServer, "test").acts_on_all(RPC_FLAGS).build();
        flags.parse(arguments.iter().copied()).unwrap();
        RpcOptions::from_flags(&flags, 7050, &Names)
    }

    fn bound(list: &str) -> Vec<String> {
        let options = read(&[&format!("--rpc_bind_addresses={list}")]).unwrap();
        options.bind.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults_are_those_of_the_real_server() {
        let options = read(&[]).unwrap();
        assert_eq!(options.bind, ["0.0.0.0:7050".parse().unwrap()]);
        assert_eq!((options.reactors, options.service_threads, options.queue_length), (4, 20, 50));
        assert_eq!(options.max_message_size, 52_428_800);
        assert_eq!(options.negotiation_timeout, Duration::from_secs(3));
        assert_eq!(options.keepalive, Some(Duration::from_secs(65)));
        assert!(!options.unix_socket && options.advertised.is_empty());
        assert_eq!(read(&["--rpc_default_keepalive_time_ms=-1"]).unwrap().keepalive, None);
    }

    #[test]
    fn connections_get_the_limits_of_the_flags() {
        let options =
            read(&["--rpc_max_message_size=1048576", "--trusted_subnets=10.0.0.0/8, ::1/128"]).unwrap();
        let connection = options.connection_options();
        assert_eq!(connection.max_message_size, 1 << 20);
        assert_eq!(*connection.trusted_subnets, ["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()]);
        assert!(read(&["--trusted_subnets="]).unwrap().connection_options().trusted_subnets.is_empty());
        let default = read(&[]).unwrap().connection_options();
        assert_eq!(default.trusted_subnets, rpc_server::ServerOptions::default().trusted_subnets);
    }

    #[test]
    fn a_proxy_needs_both_of_its_flags_and_listens_at_all_addresses_of_a_name() {
        for half in ["--rpc_proxied_addresses=127.0.0.1:5", "--rpc_proxy_advertised_addresses=out:6"] {
            assert!(matches!(read(&[half]), Err(OptionsError::HalfAProxy)), "{half}");
        }
        let options =
            read(&["--rpc_proxied_addresses=both:5", "--rpc_proxy_advertised_addresses=out:6"]).unwrap();
        assert_eq!(options.proxied, ["127.0.0.2:5".parse().unwrap(), "127.0.0.3:5".parse().unwrap()]);
        assert_eq!(options.proxy_advertised, [HostPort::new("out", 6)]);
    }

    #[test]
    fn names_are_bound_by_their_addresses() {
        assert_eq!(bound("localhost"), ["127.0.0.1:7050"]);
        assert_eq!(bound("both:1,127.0.0.2:1"), ["127.0.0.2:1", "127.0.0.3:1"]);
        assert_eq!(bound("both:0"), ["127.0.0.2:0"]);
        assert_eq!(bound("[::1]:0"), ["[::1]:0"]);
    }

    #[test]
    fn what_cannot_be_followed_names_its_flag() {
        for (argument, text) in [
            ("--rpc_bind_addresses=nowhere", "--rpc_bind_addresses: no host nowhere"),
            ("--rpc_bind_addresses=a:b", "--rpc_bind_addresses: `b` in `a:b` is no port"),
            ("--rpc_bind_addresses=,", "--rpc_bind_addresses is empty"),
            ("--trusted_subnets=10.0.0.0/8,x", "--trusted_subnets: `x` is not a subnet"),
            ("--rpc_advertised_addresses=:1", "--rpc_advertised_addresses: `:1` has no host"),
        ] {
            let error = read(&[argument]).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
