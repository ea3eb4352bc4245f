//! How a master is told what to do.

use std::time::Duration;

use net_addr::{HostPort, ParseError, SockAddr, SystemResolver};
use server_base::flags::{FlagSet, Role};
use server_base::{OptionsError, RPC_FLAGS, RpcOptions, ServerUuid, durability};
use thiserror::Error;

/// What a [`Master`](crate::Master) is started with.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MasterOptions {
    /// Where to listen, and with how many threads.
    pub rpc: RpcOptions,
    /// Where clients arrive through a proxy; bound besides the others.
    pub proxied: Vec<SockAddr>,
    /// What to tell those clients.
    pub proxy_advertised: Vec<HostPort>,
    /// The server's id; a new one if `None`. With `--fs_wal_dir` the folder knows better.
    pub uuid: Option<ServerUuid>,
    /// How long a CreateTable waits for the first tablet server of the cluster to register.
    pub first_server_wait: Duration,
    /// How long clients may remember locations.
    pub locations_ttl: Duration,
    /// Features of MasterService that are not to be offered, by number.
    pub withheld_features: Vec<u32>,
    /// What tables may be like.
    pub limits: Limits,
    /// The flags that GetFlags shows, and whose ACLs count.
    pub flags: FlagSet,
}

/// Limits of tables and servers, with Kudu's values.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a name. Kudu: 256.
    pub identifier_length: usize,
    /// Bytes of an owner's name. Kudu: 128.
    pub owner_length: usize,
    /// Bytes of a comment. Kudu: 256.
    pub comment_length: usize,
    /// Columns of a table. Kudu: 300.
    pub columns: usize,
    /// Replicas if the user does not say. Kudu: 3; here 1, since tablets are not replicated yet.
    pub default_replicas: i32,
    /// Fewest replicas. Kudu: 1.
    pub min_replicas: i32,
    /// Most replicas. Kudu: 7.
    pub max_replicas: i32,
    /// Replicas per live server at creation, for tables with more than one. Kudu: 60.
    pub max_create_tablets_per_server: usize,
    /// A tablet server silent for so long counts as dead. Kudu: 60 s.
    pub tserver_silence: Duration,
    /// How long a server may fail to make a replica before another one gets it: 10 s.
    pub placement_patience: Duration,
}

/// The flags cannot be followed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FlagsError {
    /// An address to listen on or to advertise.
    #[error(transparent)]
    Rpc(#[from] OptionsError),
    /// An address for proxies.
    #[error("--{flag}: {source}")]
    #[non_exhaustive]
    Address {
        /// The flag.
        flag: &'static str,
        /// What is wrong.
        source: ParseError,
    },
    /// One of two flags that need each other.
    #[error(
        "--rpc_proxy_advertised_addresses and --rpc_proxied_addresses should be either both set or both unset"
    )]
    HalfAProxy,
}

impl FlagsError {
    /// True if a host could not be resolved: that may work later.
    pub fn is_retriable(&self) -> bool {
        matches!(self, Self::Rpc(error) if error.is_retriable())
    }
}

impl MasterOptions {
    /// The flags of a master, at their defaults: it listens on 127.0.0.1:7051 and on its unix socket.
    pub fn flags(program: &str) -> FlagSet {
        durability::with_flags(FlagSet::builder(Role::Master, program))
            .acts_on_all(RPC_FLAGS)
            .acts_on_all(MASTER_FLAGS)
            .default_value("rpc_bind_addresses", "127.0.0.1:7051")
            .default_value("rpc_listen_on_unix_domain_socket", "true")
            .default_value("default_num_replicas", "1")
            .build()
    }

    /// Reads the flags as they are now. Blocks while names are resolved.
    ///
    /// # Errors
    /// [`FlagsError`] names the flag.
    pub fn from_flags(flags: FlagSet) -> Result<Self, FlagsError> {
        let rpc = RpcOptions::from_flags(&flags, DEFAULT_PORT, &SystemResolver)?;
        let list = |flag: &'static str| {
            HostPort::parse_list(&flags.string(flag), DEFAULT_PORT)
                .map_err(|source| FlagsError::Address { flag, source })
        };
        let proxied_flag = "rpc_proxied_addresses";
        let mut proxied = Vec::new();
        for address in list(proxied_flag)? {
            let found = address.resolve(&SystemResolver);
            proxied.extend(found.map_err(|source| OptionsError::Resolve { flag: proxied_flag, source })?);
        }
        let proxy_advertised = list("rpc_proxy_advertised_addresses")?;
        if proxied.is_empty() != proxy_advertised.is_empty() {
            return Err(FlagsError::HalfAProxy);
        }
        let int = |flag: &str| i32::try_from(flags.int(flag)).unwrap_or(i32::MAX);
        let limits = Limits {
            identifier_length: flags.count("max_identifier_length"),
            columns: flags.count("max_num_columns"),
            default_replicas: int("default_num_replicas"),
            min_replicas: int("min_num_replicas"),
            max_replicas: int("max_num_replicas"),
            max_create_tablets_per_server: flags.count("max_create_tablets_per_ts"),
            tserver_silence: flags.millis("tserver_unresponsive_timeout_ms").unwrap_or(Duration::MAX),
            ..Limits::default()
        };
        let withheld =
            FEATURE_FLAGS.iter().filter(|(flag, _)| !flags.bool(flag)).map(|(_, feature)| *feature);
        Ok(Self {
            rpc,
            proxied,
            proxy_advertised,
            uuid: None,
            first_server_wait: Duration::from_secs(5),
            locations_ttl: flags.millis("table_locations_ttl_ms").unwrap_or_default(),
            withheld_features: withheld.collect(),
            limits,
            flags,
        })
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            identifier_length: 256,
            owner_length: 128,
            comment_length: 256,
            columns: 300,
            default_replicas: 1,
            min_replicas: 1,
            max_replicas: 7,
            max_create_tablets_per_server: 60,
            tserver_silence: Duration::from_secs(60),
            placement_patience: Duration::from_secs(10),
        }
    }
}

const DEFAULT_PORT: u16 = 7051;

/// Flags that switch off a feature of MasterService.
const FEATURE_FLAGS: &[(&str, u32)] = &[
    ("master_support_connect_to_master_rpc", 3),
    ("master_support_ignore_operations", 7),
    ("enable_per_range_hash_schemas", 8),
    ("master_support_immutable_column_attribute", 10),
    ("master_support_auto_incrementing_column", 11),
];

const MASTER_FLAGS: &[(&str, &str)] = &[
    ("rpc_proxied_addresses", "listen here, too, for clients that come through a proxy"),
    ("rpc_proxy_advertised_addresses", "what to tell clients that come through a proxy"),
    ("max_identifier_length", "bytes of the name of a table or column"),
    ("max_num_columns", "columns of a table"),
    ("default_num_replicas", "replicas of a table whose creator does not say"),
    ("min_num_replicas", "fewest replicas of a table"),
    ("max_num_replicas", "most replicas of a table"),
    ("max_create_tablets_per_ts", "replicas per tablet server at creation, for tables with more than one"),
    ("tserver_unresponsive_timeout_ms", "a tablet server silent for so long counts as dead"),
    ("table_locations_ttl_ms", "how long clients may remember locations"),
    ("master_support_connect_to_master_rpc", "offer feature 3"),
    ("master_support_ignore_operations", "offer feature 7"),
    ("enable_per_range_hash_schemas", "offer feature 8"),
    ("master_support_immutable_column_attribute", "offer feature 10"),
    ("master_support_auto_incrementing_column", "offer feature 11"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<MasterOptions, FlagsError> {
        let flags = MasterOptions::flags("test");
        flags.parse(arguments.iter().copied()).unwrap();
        MasterOptions::from_flags(flags)
    }

    #[test]
    fn a_master_listens_on_loopback_unless_told_otherwise() {
        let options = read(&[]).unwrap();
        assert_eq!(options.rpc.bind, ["127.0.0.1:7051".parse().unwrap()]);
        assert!(options.rpc.unix_socket);
        assert_eq!(options.locations_ttl, Duration::from_secs(300));
        assert_eq!((options.limits.columns, options.limits.max_replicas), (300, 7));
        assert!(options.withheld_features.is_empty());
    }

    #[test]
    fn a_proxy_needs_both_of_its_flags() {
        assert!(matches!(read(&["--rpc_proxied_addresses=127.0.0.1:5"]), Err(FlagsError::HalfAProxy)));
        let options =
            read(&["--rpc_proxied_addresses=127.0.0.1:5", "--rpc_proxy_advertised_addresses=out:6"]);
        assert_eq!(options.unwrap().proxy_advertised, [HostPort::new("out", 6)]);
    }

    #[test]
    fn features_can_be_withheld() {
        let options =
            read(&["--enable_per_range_hash_schemas=false", "--master_support_connect_to_master_rpc=false"]);
        assert_eq!(options.unwrap().withheld_features, [3, 8]);
    }
}
