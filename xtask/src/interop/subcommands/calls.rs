//! The calls that are made on both clusters, in their order: later ones see what earlier ones left.

use super::shape::Look;

/// One call of `kudu`. `{m}` is the master, `{t0}` and `{u0}` address and uuid of the first tablet server, `{tablet}` a tablet of
/// the table `shop`, `{home}` and `{home_uuid}` who has it, `{other}` and `{other_uuid}` who has it not, `{id:NAME}` the id of a table,
/// `{dir}` an empty folder, `{port}` a free port of 127.0.0.1.
pub(super) struct Call {
    /// The subcommand, as the help names it.
    pub(super) command: &'static str,
    pub(super) arguments: &'static [&'static str],
    pub(super) look: Look,
}

const fn exact(command: &'static str, arguments: &'static [&'static str]) -> Call {
    Call { command, arguments, look: Look::Lines }
}

/// Numbers in the output are of the moment.
const fn figures(command: &'static str, arguments: &'static [&'static str]) -> Call {
    Call { command, arguments, look: Look::LinesWithoutNumbers }
}

/// The names of the fields count, not what they hold.
const fn fields(command: &'static str, arguments: &'static [&'static str]) -> Call {
    Call { command, arguments, look: Look::Fields }
}

/// What is below the first line is the server's own business.
const fn heading(command: &'static str, arguments: &'static [&'static str]) -> Call {
    Call { command, arguments, look: Look::Heading }
}

/// A server that runs until it is killed.
const fn server(command: &'static str, arguments: &'static [&'static str]) -> Call {
    Call { command, arguments, look: Look::Server }
}

const SHOP: &str = r#"{"table_name": "shop", "schema": {"columns": [
  {"column_name": "id", "column_type": "INT64"},
  {"column_name": "day", "column_type": "INT32"},
  {"column_name": "what", "column_type": "STRING", "is_nullable": true, "comment": "sold"},
  {"column_name": "price", "column_type": "DOUBLE", "is_nullable": true}],
  "key_column_names": ["id", "day"]},
  "partition": {"hash_partitions": [{"columns": ["id"], "num_buckets": 2}],
    "range_partition": {"columns": ["day"], "range_bounds": [
      {"lower_bound": {"bound_type": "inclusive", "bound_values": ["0"]},
       "upper_bound": {"bound_type": "exclusive", "bound_values": ["1000000"]}}]}},
  "num_replicas": 1}"#;

const NOTES: &str = r#"{"table_name": "notes", "schema": {"columns": [
  {"column_name": "id", "column_type": "INT32", "default_value": "1"},
  {"column_name": "text", "column_type": "STRING", "is_nullable": true, "encoding": "PLAIN_ENCODING", "compression": "LZ4"}],
  "key_column_names": ["id"]},
  "partition": {"hash_partitions": [{"columns": ["id"], "num_buckets": 3}]},
  "extra_configs": {"configs": {"kudu.table.history_max_age_sec": "3600"}}, "comment": "notes", "owner": "alice", "num_replicas": 1}"#;

pub(super) const CALLS: &[Call] = &[
    // Tables: make, fill, look.
    exact("table create", &["{m}", SHOP]),
    exact("table create", &["{m}", SHOP]),
    exact("table create", &["{m}", NOTES]),
    exact("table create", &["{m}", "{\"table_name\": \"no columns\"}"]),
    figures(
        "perf loadgen",
        &[
            "{m}",
            "--table_name=shop",
            "--num_rows_per_thread=500",
            "--num_threads=1",
            "--show_first_n_errors=0",
        ],
    ),
    figures("perf loadgen", &["{m}", "--table_name=notes", "--num_rows_per_thread=50", "--num_threads=1"]),
    exact("table list", &["{m}"]),
    exact("table list", &["{m}", "--list_tablets"]),
    exact(
        "table list",
        &["{m}", "--list_tablets", "--show_tablet_partition_info", "--show_hash_partition_info"],
    ),
    figures("table list", &["{m}", "--show_table_info", "--list_table_output_format=json"]),
    exact("table list", &["{m}", "--tables=no*,shop"]),
    exact("table list_in_flight", &["{m}"]),
    exact("table list_in_flight", &["{m}", "--list_table_output_format=json_compact"]),
    exact("table describe", &["{m}", "shop"]),
    exact("table describe", &["{m}", "notes", "--show_attributes", "--show_column_comment"]),
    exact("table describe", &["{m}", "nowhere"]),
    figures("table statistics", &["{m}", "notes"]),
    exact("table locate_row", &["{m}", "notes", "[7]"]),
    exact("table locate_row", &["{m}", "notes", "[7]", "--check_row_existence"]),
    exact("table locate_row", &["{m}", "notes", "[777777]", "--check_row_existence"]),
    exact("table locate_row", &["{m}", "shop", "[7, 2000000]"]),
    exact("table locate_row", &["{m}", "notes", "[\"seven\"]"]),
    figures("table scan", &["{m}", "notes", "--columns=id"]),
    figures("table scan", &["{m}", "shop", "--row_count_only"]),
    figures(
        "table scan",
        &[
            "{m}",
            "shop",
            "--columns=id,day,price",
            r#"--predicates=["AND", ["<", "id", 40], [">=", "day", 5], ["NOTNULL", "what"]]"#,
        ],
    ),
    figures("table scan", &["{m}", "notes", "--fault_tolerant", "--num_threads=1"]),
    figures("table scan", &["{m}", "notes", "--predicates=[\"IN\", \"id\", [1, 4, 9]]"]),
    figures("table scan", &["{m}", "nowhere"]),
    figures("table copy", &["{m}", "notes", "{m}", "--dst_table=copies", "--write_type=insert"]),
    figures(
        "table copy",
        &["{m}", "notes", "{m}", "--dst_table=copies", "--write_type=upsert", "--create_table=false"],
    ),
    figures("table scan", &["{m}", "copies", "--columns=id"]),
    // Tables: change.
    exact(
        "table add_column",
        &[
            "{m}",
            "notes",
            "stars",
            "INT16",
            "--default_value=3",
            "--comment=given",
            "--encoding_type=RLE",
            "--compression_type=ZLIB",
        ],
    ),
    exact("table add_column", &["{m}", "notes", "stars", "INT16"]),
    exact("table add_column", &["{m}", "notes", "odd", "NUMBER"]),
    exact("table column_set_default", &["{m}", "notes", "stars", "[4]"]),
    exact("table column_set_default", &["{m}", "notes", "stars", "[\"four\"]"]),
    exact("table column_set_default", &["{m}", "notes", "moons", "[4]"]),
    exact("table column_set_compression", &["{m}", "notes", "text", "SNAPPY"]),
    exact("table column_set_compression", &["{m}", "notes", "text", "BROTLI"]),
    exact("table column_set_encoding", &["{m}", "notes", "text", "DICT_ENCODING"]),
    exact("table column_set_encoding", &["{m}", "notes", "stars", "DICT_ENCODING"]),
    exact("table column_set_block_size", &["{m}", "notes", "text", "65536"]),
    exact("table column_set_comment", &["{m}", "notes", "text", "what was noted"]),
    exact("table describe", &["{m}", "notes", "--show_attributes", "--show_column_comment"]),
    exact("table column_remove_default", &["{m}", "notes", "stars"]),
    exact("table rename_column", &["{m}", "notes", "stars", "rating"]),
    exact("table rename_column", &["{m}", "notes", "rating", "text"]),
    exact("table rename_column", &["{m}", "notes", "id", "number"]),
    figures("table scan", &["{m}", "notes", "--columns=number,rating"]),
    exact("table delete_column", &["{m}", "notes", "rating"]),
    exact("table delete_column", &["{m}", "notes", "rating"]),
    exact("table delete_column", &["{m}", "notes", "number"]),
    exact("table describe", &["{m}", "notes"]),
    exact("table set_comment", &["{m}", "notes", "remarks"]),
    exact("table describe", &["{m}", "notes"]),
    exact("table clear_comment", &["{m}", "notes"]),
    exact("table get_extra_configs", &["{m}", "notes"]),
    exact("table set_extra_config", &["{m}", "notes", "kudu.table.history_max_age_sec", "7200"]),
    exact("table set_extra_config", &["{m}", "notes", "kudu.table.no_such_config", "1"]),
    exact("table set_extra_config", &["{m}", "notes", "kudu.table.history_max_age_sec", "old"]),
    exact("table get_extra_configs", &["{m}", "notes"]),
    exact("table set_limit disk_size", &["{m}", "notes", "1000000"]),
    exact("table set_limit row_count", &["{m}", "notes", "5"]),
    exact("table set_limit row_count", &["{m}", "notes", "unlimited"]),
    exact("table set_limit disk_size", &["{m}", "notes", "some"]),
    figures("table statistics", &["{m}", "notes"]),
    exact("master set_flag", &["{m}", "enable_table_write_limit", "true"]),
    figures("table statistics", &["{m}", "notes"]),
    exact("table set_limit disk_size", &["{m}", "notes", "1000000"]),
    exact("table set_limit row_count", &["{m}", "notes", "5"]),
    figures("table statistics", &["{m}", "notes"]),
    figures(
        "perf loadgen",
        &["{m}", "--table_name=notes", "--num_rows_per_thread=9", "--num_threads=1", "--seq_start=500"],
    ),
    exact("table set_limit row_count", &["{m}", "notes", "unlimited"]),
    figures("table statistics", &["{m}", "notes"]),
    exact("master set_flag", &["{m}", "enable_table_write_limit", "false"]),
    figures("table statistics", &["{m}", "notes"]),
    exact("table add_range_partition", &["{m}", "shop", "[1000000]", "[2000000]"]),
    exact("table add_range_partition", &["{m}", "shop", "[1500000]", "[2500000]"]),
    exact(
        "table add_range_partition",
        &[
            "{m}",
            "shop",
            "[2000000]",
            "[]",
            "--lower_bound_type=EXCLUSIVE_BOUND",
            r#"--hash_schema={"hash_schema": [{"columns": ["id"], "num_buckets": 5, "seed": 7}]}"#,
        ],
    ),
    exact("table describe", &["{m}", "shop"]),
    exact("table list", &["{m}", "--list_tablets", "--show_tablet_partition_info", "--tables=shop"]),
    exact("table drop_range_partition", &["{m}", "shop", "[1000000]", "[2000000]"]),
    exact("table drop_range_partition", &["{m}", "shop", "[1000000]", "[2000000]"]),
    exact("table describe", &["{m}", "shop"]),
    exact("table set_replication_factor", &["{m}", "notes", "1"]),
    exact("table set_replication_factor", &["{m}", "notes", "2"]),
    exact("table set_replication_factor", &["{m}", "notes", "9"]),
    exact("table rename_table", &["{m}", "copies", "duplicates"]),
    exact("table rename_table", &["{m}", "duplicates", "shop"]),
    exact("table list", &["{m}"]),
    figures("table scan", &["{m}", "duplicates", "--columns=id"]),
    // Tables: away and back.
    exact("table delete", &["{m}", "duplicates", "--reserve_seconds=600"]),
    exact("table list", &["{m}"]),
    exact("table list", &["{m}", "--soft_deleted_only"]),
    exact("table recall", &["{m}", "{id:duplicates}", "--new_table_name=again"]),
    exact("table recall", &["{m}", "00000000000000000000000000000000"]),
    figures("table scan", &["{m}", "again", "--columns=id"]),
    exact("table delete", &["{m}", "again"]),
    exact("table delete", &["{m}", "again"]),
    // Tablet servers.
    exact("tserver list", &["{m}"]),
    exact("tserver list", &["{m}", "--columns=uuid,rpc-addresses,state,location", "--format=json"]),
    fields("tserver status", &["{t0}"]),
    figures("tserver timestamp", &["{t0}"]),
    exact("tserver timestamp", &["127.0.0.1:1"]),
    heading("tserver dump_memtrackers", &["{t0}"]),
    heading("tserver dump_memtrackers", &["{t0}", "--memtracker_output=json"]),
    heading("tserver get_flags", &["{t0}"]),
    exact("tserver get_flags", &["{t0}", "--flags=scanner_ttl_ms,rpc_service_queue_length"]),
    exact("tserver set_flag", &["{t0}", "scanner_ttl_ms", "61000"]),
    exact("tserver set_flag", &["{t0}", "rpc_service_queue_length", "60"]),
    exact("tserver set_flag", &["{t0}", "no_such_flag", "1"]),
    exact("tserver set_flag", &["{t0}", "scanner_ttl_ms", "long"]),
    exact("tserver get_flags", &["{t0}", "--flags=scanner_ttl_ms"]),
    exact("tserver set_flag_for_all", &["{m}", "scanner_ttl_ms", "62000"]),
    exact("tserver set_flag_for_all", &["{m}", "no_such_flag", "62000"]),
    figures("tserver quiesce status", &["{t0}"]),
    exact("tserver quiesce start", &["{t0}"]),
    figures("tserver quiesce status", &["{t0}"]),
    exact("tserver quiesce stop", &["{t0}"]),
    exact("tserver state enter_maintenance", &["{m}", "{u0}"]),
    exact("tserver state enter_maintenance", &["{m}", "00000000000000000000000000000000"]),
    exact("tserver list", &["{m}", "--columns=uuid,state"]),
    exact("tserver state exit_maintenance", &["{m}", "{u0}"]),
    exact("tserver list", &["{m}", "--columns=uuid,state"]),
    exact("tserver unregister", &["{m}", "{u0}"]),
    exact("tserver unregister", &["{m}", "00000000000000000000000000000000"]),
    server(
        "tserver run",
        &[
            "--tserver_master_addrs={m}",
            "--fs_wal_dir={dir}/tserver",
            "--log_dir={dir}",
            "--rpc_bind_addresses=127.0.0.1:{port}",
            "--webserver_interface=127.0.0.1",
            "--webserver_port=0",
            "--time_source=system_unsync",
            "--unlock_experimental_flags",
            "--unlock_unsafe_flags",
            "--fs_wal_dir_reserved_bytes=0",
            "--fs_data_dirs_reserved_bytes=0",
        ],
    ),
    exact("tserver unregister", &["{m}", "{new_uuid}", "--force_unregister_live_tserver"]),
    exact("tserver list", &["{m}"]),
    // A copy would count twice in what is rebuilt.
    figures(
        "master unsafe_rebuild",
        &[
            "{t0}",
            "{t1}",
            "{t2}",
            "--fs_wal_dir={dir}/rebuilt",
            "--default_num_replicas=1",
            "--unlock_experimental_flags",
            "--unlock_unsafe_flags",
            "--time_source=system_unsync",
            "--fs_wal_dir_reserved_bytes=0",
            "--fs_data_dirs_reserved_bytes=0",
        ],
    ),
    // Tablets.
    figures("tablet info", &["{m}", "{tablet}"]),
    exact("tablet info", &["{m}", "00000000000000000000000000000000"]),
    exact("tablet leader_step_down", &["{m}", "{tablet}", "--new_leader_uuid={home_uuid}"]),
    exact(
        "tablet leader_step_down",
        &["{m}", "{tablet}", "--new_leader_uuid=00000000000000000000000000000000"],
    ),
    exact("tablet leader_step_down", &["{m}", "00000000000000000000000000000000"]),
    exact("tablet change_config change_replica_type", &["{m}", "{tablet}", "{home_uuid}", "VOTER"]),
    exact("tablet change_config change_replica_type", &["{m}", "{tablet}", "{home_uuid}", "NON_VOTER"]),
    exact(
        "tablet change_config change_replica_type",
        &["{m}", "{tablet}", "00000000000000000000000000000000", "VOTER"],
    ),
    exact("tablet change_config remove_replica", &["{m}", "{tablet}", "{home_uuid}"]),
    exact("tablet change_config remove_replica", &["{m}", "{tablet}", "00000000000000000000000000000000"]),
    exact("tablet change_config add_replica", &["{m}", "{tablet}", "{home_uuid}", "VOTER"]),
    exact(
        "tablet change_config add_replica",
        &["{m}", "{tablet}", "00000000000000000000000000000000", "VOTER"],
    ),
    exact("tablet change_config move_replica", &["{m}", "{tablet}", "{home_uuid}", "{home_uuid}"]),
    exact(
        "tablet change_config move_replica",
        &["{m}", "{tablet}", "{home_uuid}", "00000000000000000000000000000000"],
    ),
    // Replicas.
    // Of one tablet: how many a server has, is the master's choice.
    figures("remote_replica list", &["{home}", "--tablets={tablet}"]),
    figures(
        "remote_replica list",
        &["{home}", "--tablets={tablet}", "--include_schema=false", "--table_name=shop"],
    ),
    exact("remote_replica check", &["{home}"]),
    figures("remote_replica dump", &["{home}", "{tablet}"]),
    exact("remote_replica dump", &["{home}", "00000000000000000000000000000000"]),
    exact("remote_replica copy", &["{tablet}", "{home}", "{home}"]),
    exact("remote_replica copy", &["{tablet}", "{home}", "{other}"]),
    exact("remote_replica unsafe_change_config", &["{home}", "{tablet}", "{home_uuid}"]),
    exact("remote_replica delete", &["{home}", "00000000000000000000000000000000", "not there"]),
    // Masters.
    exact("master list", &["{m}"]),
    exact("master list", &["{m}", "--columns=rpc-addresses,role,member_type", "--format=json_compact"]),
    fields("master status", &["{m}"]),
    figures("master timestamp", &["{m}"]),
    heading("master dump_memtrackers", &["{m}"]),
    heading("master get_flags", &["{m}"]),
    exact("master get_flags", &["{m}", "--flags=rpc_service_queue_length"]),
    exact("master set_flag", &["{m}", "rpc_service_queue_length", "60"]),
    exact("master set_flag", &["{m}", "rpc_service_queue_length", "60", "--force"]),
    exact("master set_flag", &["{m}", "no_such_flag", "1"]),
    exact("master set_flag_for_all", &["{m}", "table_locations_ttl_ms", "200000"]),
    exact("master authz_cache refresh", &["{m}"]),
    exact("master remove", &["{m}", "{m}"]),
    exact("master remove", &["{m}", "127.0.0.1:1"]),
    exact("master add", &["{m}", "{m}"]),
    server(
        "master run",
        &[
            "--fs_wal_dir={dir}/master",
            "--log_dir={dir}",
            "--rpc_bind_addresses=127.0.0.1:{port}",
            "--webserver_interface=127.0.0.1",
            "--webserver_port=0",
            "--time_source=system_unsync",
            "--unlock_experimental_flags",
            "--unlock_unsafe_flags",
            "--fs_wal_dir_reserved_bytes=0",
            "--fs_data_dirs_reserved_bytes=0",
        ],
    ),
    // The cluster.
    figures("cluster ksck", &["{m}"]),
    figures("cluster ksck", &["{m}", "--checksum_scan", "--tables=notes,shop"]),
    figures("cluster ksck", &["{m}", "--sections=TABLE_SUMMARIES", "--ksck_format=plain_full"]),
    figures("cluster rebalance", &["{m}", "--report_only"]),
    figures("cluster rebalance", &["{m}", "--move_single_replicas=disabled"]),
];

/// With the server of a tablet of `shop` stopped: what is sick has its name.
pub(super) const SICK: &[Call] = &[
    figures("cluster ksck", &["{m}"]),
    figures("cluster ksck", &["{m}", "--tables=shop", "--sections=TABLE_SUMMARIES,TSERVER_SUMMARIES"]),
    exact("tserver status", &["{home}"]),
    exact("remote_replica check", &["{home}"]),
    exact("tablet leader_step_down", &["{m}", "{tablet}"]),
];

/// With all servers up again: what ends tablets and tables.
pub(super) const LAST: &[Call] = &[
    figures("cluster ksck", &["{m}"]),
    exact("tablet leader_step_down", &["{m}", "{tablet}", "--abrupt"]),
    exact("remote_replica delete", &["{home}", "{tablet}", "no longer wanted"]),
    exact("tablet unsafe_replace_tablet", &["{m}", "00000000000000000000000000000000"]),
    exact("tablet unsafe_replace_tablet", &["{m}", "{tablet}"]),
    figures("table scan", &["{m}", "shop", "--row_count_only"]),
    // More than one replica, for a while or for good.
    figures("tablet change_config move_replica", &["{m}", "{tablet}", "{home_uuid}", "{other_uuid}"]),
    exact("tablet change_config add_replica", &["{m}", "{tablet}", "{other_uuid}", "NON_VOTER"]),
    exact("table delete", &["{m}", "notes"]),
    exact("table delete", &["{m}", "shop"]),
    exact("table list", &["{m}"]),
];
