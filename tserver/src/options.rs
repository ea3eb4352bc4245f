//! What a tablet server is told by its flags.

use std::time::Duration;

use net_addr::{HostPort, Resolver};
use server_base::flags::{FlagSet, Role};
use server_base::{OptionsError, RPC_FLAGS, RpcOptions, ServerIdentity, durability};

/// Everything a [`TabletServer`](crate::TabletServer) needs to start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TserverOptions {
    /// Who it is; a new server by default. With `--fs_wal_dir` the folder knows better.
    pub identity: ServerIdentity,
    /// Where it listens, with how many threads.
    pub rpc: RpcOptions,
    /// The masters it reports to; none is fine, repeats count once.
    pub masters: Vec<HostPort>,
    /// Between two reports to a master when there is no news.
    pub heartbeat_interval: Duration,
    /// A report that takes longer has failed.
    pub heartbeat_timeout: Duration,
    /// How often idle scanners are looked for.
    pub scanner_check_interval: Duration,
    /// The flags these options come from; also told by GetFlags. Those that SetFlag may change are read while the server runs.
    pub flags: FlagSet,
}

impl TserverOptions {
    /// The flags of a tablet server at our defaults: listens on 127.0.0.1:7050 and on its unix socket, and reports to
    /// 127.0.0.1:7051.
    pub fn flags() -> FlagSet {
        durability::with_flags(FlagSet::builder(Role::TabletServer, "nyala-tserver"))
            .acts_on_all(RPC_FLAGS)
            .acts_on_all(TSERVER_FLAGS)
            .read_at_start(&["rpc_max_message_size"])
            .default_value("rpc_bind_addresses", "127.0.0.1:7050")
            .default_value("rpc_listen_on_unix_domain_socket", "true")
            .build()
    }

    /// Reads the flags as they are now. Blocks while names are resolved.
    ///
    /// # Errors
    /// An address list that cannot be read, or a host to listen on that is not known.
    pub fn from_flags(flags: &FlagSet, resolver: &dyn Resolver) -> Result<Self, OptionsError> {
        let flag = "tserver_master_addrs";
        let masters = HostPort::parse_list(&flags.string(flag), DEFAULT_MASTER_PORT)
            .map_err(|source| OptionsError::Address { flag, source })?;
        Ok(Self {
            identity: ServerIdentity::new(),
            rpc: RpcOptions::from_flags(flags, DEFAULT_PORT, resolver)?,
            masters,
            heartbeat_interval: flags.millis("heartbeat_interval_ms").unwrap_or(Duration::from_secs(1)),
            heartbeat_timeout: flags.millis("heartbeat_rpc_timeout_ms").unwrap_or(Duration::from_secs(15)),
            scanner_check_interval: Duration::from_micros(flags.count("scanner_gc_check_interval_us") as u64),
            flags: flags.clone(),
        })
    }
}

const TSERVER_FLAGS: &[(&str, &str)] = &[
    ("tserver_master_addrs", "the masters to report to: host:port, separated by commas"),
    ("heartbeat_interval_ms", "how often the masters hear of this server"),
    ("heartbeat_rpc_timeout_ms", "how long a master may take to answer"),
    ("scanner_ttl_ms", "how long an idle scanner lives"),
    ("scanner_gc_check_interval_us", "how often idle scanners are looked for"),
    ("scanner_default_batch_size_bytes", "the size of a batch if the client names none"),
    ("scanner_max_batch_size_bytes", "the largest batch, whatever the client asks for"),
    (
        "block_cache_capacity_mb",
        "memory for columns that local clients read in place, and as much for decoded blocks; 0: none",
    ),
    ("tablet_history_max_age_sec", "how far back snapshots may be read"),
    (
        "memory_limit_hard_bytes",
        "memory of the server; 0 is four fifths of the machine's, negative is no limit",
    ),
    ("memory_limit_soft_percentage", "writes are refused when rows take this much of it"),
    ("memory_pressure_percentage", "rows go to files when they take this much of it"),
    ("update_tablet_stats_interval_ms", "accepted: figures are as new as each heartbeat"),
    ("time_source", "accepted: the machine's own clock is used"),
];
const DEFAULT_PORT: u16 = 7050;
const DEFAULT_MASTER_PORT: u16 = 7051;
