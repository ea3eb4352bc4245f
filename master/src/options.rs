//! How a master is told what to do.

use std::time::Duration;

use net_addr::Resolver;
use server_base::flags::{FlagSet, Role};
use server_base::{OptionsError, RPC_FLAGS, RpcOptions, ServerIdentity, durability};

/// What a [`Master`](crate::Master) is started with.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MasterOptions {
    /// Where to listen, and with how many threads.
    pub rpc: RpcOptions,
    /// Who it is; a new server by default. With `--fs_wal_dir` the folder knows better.
    pub identity: ServerIdentity,
    /// How long a CreateTable waits for the first tablet server of the cluster to register.
    pub first_server_wait: Duration,
    /// Features of MasterService that are not to be offered, by number.
    pub withheld_features: Vec<u32>,
    /// What tables may be like.
    pub limits: Limits,
    /// The flags these options come from; also told by GetFlags. Those that SetFlag may change are read while the master runs.
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
    /// Bytes of a table's comment. Kudu: 256.
    pub table_comment_length: usize,
    /// Bytes of a column's comment. Kudu: 256.
    pub column_comment_length: usize,
    /// Columns of a table. Kudu: 300.
    pub columns: usize,
    /// Whether limits of tables can be set. Kudu: false.
    pub table_write_limit: bool,
    /// Replicas if the user does not say. Kudu: 3; here 1, since tablets are not replicated yet.
    pub default_replicas: i32,
    /// Fewest replicas. Kudu: 1.
    pub min_replicas: i32,
    /// Most replicas. Kudu: 7.
    pub max_replicas: i32,
    /// Replicas per live server at creation, for tables with more than one. Kudu: 60.
    pub max_create_tablets_per_server: usize,
    /// Tablets per live server at creation, for tables with one replica. Kudu has no limit; here 1000.
    pub max_create_unreplicated_per_server: usize,
    /// A tablet server silent for so long counts as dead. Kudu: 60 s.
    pub tserver_silence: Duration,
    /// How long a server may fail to make a replica before another one gets it: 10 s.
    pub placement_patience: Duration,
}

impl MasterOptions {
    /// The flags of a master, at their defaults: it listens on 127.0.0.1:7051 and on its unix socket.
    pub fn flags() -> FlagSet {
        durability::with_flags(FlagSet::builder(Role::Master, "nyala-master"))
            .acts_on_all(RPC_FLAGS)
            .acts_on_all(MASTER_FLAGS)
            .read_at_start(&["rpc_max_message_size", "max_create_tablets_per_ts"])
            .read_at_start(&["default_num_replicas", "min_num_replicas", "max_num_replicas"])
            .read_at_start(&["enable_per_range_hash_schemas", "master_support_ignore_operations"])
            .read_at_start(&["master_support_immutable_column_attribute"])
            .read_at_start(&["master_support_auto_incrementing_column"])
            .default_value("rpc_bind_addresses", "127.0.0.1:7051")
            .default_value("rpc_listen_on_unix_domain_socket", "true")
            .default_value("default_num_replicas", "1")
            .build()
    }

    /// Reads the flags as they are now. Blocks while names are resolved.
    ///
    /// # Errors
    /// An address list that cannot be read, or a host to listen on that is not known.
    pub fn from_flags(flags: &FlagSet, resolver: &dyn Resolver) -> Result<Self, OptionsError> {
        let int = |flag: &str| i32::try_from(flags.int(flag)).unwrap_or(i32::MAX);
        let limits = Limits {
            identifier_length: flags.count("max_identifier_length"),
            owner_length: flags.count("max_owner_length"),
            table_comment_length: flags.count("max_table_comment_length"),
            column_comment_length: flags.count("max_column_comment_length"),
            columns: flags.count("max_num_columns"),
            table_write_limit: flags.bool(TABLE_WRITE_LIMIT),
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
            identity: ServerIdentity::new(),
            rpc: RpcOptions::from_flags(flags, DEFAULT_PORT, resolver)?,
            first_server_wait: Duration::from_secs(5),
            withheld_features: withheld.collect(),
            limits,
            flags: flags.clone(),
        })
    }

    /// The limits with what SetFlag has changed of them.
    pub(crate) fn limits_now(&self) -> Limits {
        Limits { table_write_limit: self.flags.bool(TABLE_WRITE_LIMIT), ..self.limits.clone() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            identifier_length: 256,
            owner_length: 128,
            table_comment_length: 256,
            column_comment_length: 256,
            columns: 300,
            table_write_limit: false,
            default_replicas: 1,
            min_replicas: 1,
            max_replicas: 7,
            max_create_tablets_per_server: 60,
            max_create_unreplicated_per_server: 1000,
            tserver_silence: Duration::from_secs(60),
            placement_patience: Duration::from_secs(10),
        }
    }
}

const DEFAULT_PORT: u16 = 7051;
const TABLE_WRITE_LIMIT: &str = "enable_table_write_limit";

/// Flags that switch off a feature of MasterService.
const FEATURE_FLAGS: &[(&str, u32)] = &[
    ("master_support_connect_to_master_rpc", 3),
    ("master_support_ignore_operations", 7),
    ("enable_per_range_hash_schemas", 8),
    ("master_support_immutable_column_attribute", 10),
    ("master_support_auto_incrementing_column", 11),
];

const MASTER_FLAGS: &[(&str, &str)] = &[
    ("max_owner_length", "bytes of the name of a table's owner"),
    ("max_table_comment_length", "bytes of a table's comment"),
    ("max_column_comment_length", "bytes of a column's comment"),
    ("max_identifier_length", "bytes of the name of a table or column"),
    ("max_num_columns", "columns of a table"),
    (TABLE_WRITE_LIMIT, "take limits of tables' rows and bytes, which their statistics tell"),
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

    fn read(arguments: &[&str]) -> Result<MasterOptions, OptionsError> {
        let flags = MasterOptions::flags();
        flags.parse(arguments.iter().copied()).unwrap();
        MasterOptions::from_flags(&flags, &net_addr::SystemResolver)
    }

    #[test]
    fn a_master_listens_on_loopback_unless_told_otherwise() {
        let options = read(&[]).unwrap();
        assert_eq!(options.rpc.bind, ["127.0.0.1:7051".parse().unwrap()]);
        assert!(options.rpc.unix_socket);
        assert_eq!((options.limits.columns, options.limits.max_replicas), (300, 7));
        assert!(options.withheld_features.is_empty());
    }

    #[test]
    fn lengths_of_names_and_comments_follow_their_flags() {
        let flags = ["--max_owner_length=3", "--max_table_comment_length=4", "--max_column_comment_length=5"];
        let limits = read(&flags).unwrap().limits;
        let lengths = (limits.owner_length, limits.table_comment_length, limits.column_comment_length);
        assert_eq!(lengths, (3, 4, 5));
    }

    #[test]
    fn features_can_be_withheld() {
        let options =
            read(&["--enable_per_range_hash_schemas=false", "--master_support_connect_to_master_rpc=false"]);
        assert_eq!(options.unwrap().withheld_features, [3, 8]);
    }
}
