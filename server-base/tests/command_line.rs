//! The command line means what it means to the real servers, and a mistake costs one clear line.

use proptest::prelude::*;
use server_base::flags::{FlagSet, Kind, Outcome, Role, SetError};

fn flags(role: Role) -> FlagSet {
    FlagSet::builder(role, "nyala-test")
        .acts_on("heartbeat_interval_ms", "how often the master hears of this server")
        .own("nyala_own", Kind::Int32, "7", "a flag of ours")
        .build()
}

fn parsed(arguments: &[&str]) -> FlagSet {
    let flags = flags(Role::TabletServer);
    assert_eq!(flags.parse(arguments.iter().copied()).unwrap(), Outcome::Run { positional: Vec::new() });
    flags
}

fn error(arguments: &[&str]) -> String {
    let text = flags(Role::TabletServer).parse(arguments.iter().copied()).unwrap_err().to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    text
}

#[test]
fn all_ways_to_write_a_flag_are_understood() {
    let flags = parsed(&[
        "--heartbeat-interval-ms=100",
        "-scanner_ttl_ms",
        "5000",
        "--never_fsync",
        "--noenable_rowset_compaction",
        "--rpc-bind_addresses",
        "--odd",
        "--time_source=",
        "--superuser_acl=a=b",
    ]);
    assert_eq!(flags.int("heartbeat_interval_ms"), 100);
    assert_eq!(flags.int("scanner_ttl_ms"), 5000);
    assert!(flags.bool("never_fsync"));
    assert!(!flags.bool("enable_rowset_compaction"));
    assert_eq!(flags.string("rpc_bind_addresses"), "--odd", "a value may begin with dashes, as in gflags");
    assert_eq!(flags.string("time_source"), "");
    assert_eq!(flags.string("superuser_acl"), "a=b");
    assert!(flags.is_set("time_source") && !flags.is_set("v"));
}

#[test]
fn the_last_value_wins() {
    assert_eq!(parsed(&["--v=1", "--v=2"]).int("v"), 2);
    assert!(!parsed(&["--never_fsync", "--nonever_fsync"]).bool("never_fsync"));
    assert!(parsed(&["--never_fsync=false", "--never_fsync"]).bool("never_fsync"));
}

#[test]
fn a_boolean_does_not_swallow_the_next_argument() {
    let outcome =
        flags(Role::Master).parse(["run", "--never_fsync", "false", "--v=1", "--", "--v=2"]).unwrap();
    let positional = ["run", "false", "--v=2"].map(str::to_owned).to_vec();
    assert_eq!(outcome, Outcome::Run { positional });
}

#[test]
fn every_flag_that_test_suites_and_scripts_pass_is_known() {
    // From the real shell, the Java client's tests and the project's cluster script.
    let shared = "--fs_wal_dir=d --fs_data_dirs=d --block_manager=log --webserver_interface=127.0.0.1 --never_fsync \
        --enable_minidumps=false --redact=none --metrics_log_interval_ms=1000 --log_dir=d --server_dump_info_path=d/info.pb \
        --server_dump_info_format=pb --rpc_server_allow_ephemeral_ports --unlock_experimental_flags --unlock_unsafe_flags \
        --logtostderr --logbuflevel=-1 --ipki_server_key_size=768 --openssl_security_level_override=0 \
        --fs_data_dirs_reserved_bytes=0 --fs_wal_dir_reserved_bytes=0 --time_source=system_unsync \
        --rpc_listen_on_unix_domain_socket=true --webserver_port=0 --rpc_bind_addresses=127.0.0.1:0 --rpc_reuseport=true \
        --rpc_authentication=optional --rpc_encryption=disabled --rpc_encrypt_loopback_connections \
        --rpc_tls_min_protocol=TLSv1.3 --rpc_trace_negotiation --rpc_negotiation_timeout_ms=1500 --user_acl=* \
        --superuser_acl=token-user --rpc_inject_invalid_authn_token_ratio=0.5 --rpc_default_keepalive_time_ms=1 \
        --rpc_service_queue_length=1 --rpc_num_service_threads=3 --rpc_negotiation_inject_delay_ms=1000 \
        --raft_heartbeat_interval_ms=100 --leader_failure_max_missed_heartbeat_periods=10.0 \
        --rpc_inject_invalid_channel_bindings_ratio=1.0 --rpc_send_channel_bindings=false --jwks_url=http://localhost:1/jwks.json \
        --keytab_file=k --principal=kudu/_HOST --rpc_advertised_addresses=a:1 --rpc_proxied_addresses=b:1 \
        --rpc_proxy_advertised_addresses=c:1 --rpc_max_message_size=52428800 --num_reactor_threads=4";
    let master = "--ipki_ca_key_size=768 --tsk_num_rsa_bits=512 --master_addresses=127.0.0.1:1 --enable_jwt_token_auth=true \
        --enable_per_range_hash_schemas=false --max_num_columns=10 --master_support_immutable_column_attribute=false \
        --master_support_auto_incrementing_column=false --master_support_ignore_operations=false \
        --master_support_connect_to_master_rpc=0 --table_locations_ttl_ms=500 --master_client_location_assignment_enabled=true \
        --location_mapping_cmd=x --master_inject_latency_on_tablet_lookups_ms=100 --authz_token_validity_seconds=1 \
        --authn_token_validity_seconds=10 --txn_manager_enabled=true";
    let tserver = "--local_ip_for_outbound_sockets=127.0.0.1 --tserver_master_addrs=127.0.0.1:1 --scanner_ttl_ms=5000 \
        --scanner_gc_check_interval_us=500 --scanner_inject_latency_on_each_batch_ms=200000 \
        --update_tablet_stats_interval_ms=200 --heartbeat_interval_ms=100 --flush_threshold_mb=1 --flush_threshold_secs=1 \
        --enable_rowset_compaction=false --tserver_enforce_access_control=true --tserver_inject_invalid_authz_token_ratio=0.5 \
        --enable_txn_system_client_init=true --txn_schedule_background_tasks=false \
        --txn_status_manager_inject_latency_finalize_commit_ms=250 --txn_keepalive_interval_ms=200 \
        --txn_staleness_tracker_interval_ms=50";
    for (role, own) in [(Role::Master, master), (Role::TabletServer, tserver)] {
        let all = shared.split_whitespace().chain(own.split_whitespace());
        assert_eq!(flags(role).parse(all).unwrap(), Outcome::Run { positional: Vec::new() });
    }
}

#[test]
fn an_unknown_flag_names_the_nearest() {
    assert_eq!(
        error(&["--rpc_bind_adress=1"]),
        "unknown flag --rpc_bind_adress, did you mean --rpc_bind_addresses?"
    );
    assert_eq!(error(&["--hlep"]), "unknown flag --hlep, did you mean --help?");
    assert_eq!(
        error(&["--nonsense_without_a_neighbour=1"]),
        "unknown flag --nonsense_without_a_neighbour (see --help)"
    );
    assert_eq!(
        error(&["--max-num-columns=3"]),
        "unknown flag --max_num_columns: it belongs to the other server"
    );
    let known = ["--undefok=max_num_columns", "--max_num_columns=3"];
    assert!(!parsed(&known).is_set("max_num_columns"));
    assert!(!parsed(&["--bogus", "--undefok", "bogus,other"]).is_set("v"));
}

#[test]
fn a_wrong_value_is_one_line() {
    for (argument, text) in [
        (
            "--heartbeat_interval_ms=soon",
            "--heartbeat_interval_ms=soon: the flag takes an integer from -2147483648 to 2147483647",
        ),
        ("--never_fsync=maybe", "--never_fsync=maybe: the flag takes true or false"),
        ("--nofs_wal_dir", "--nofs_wal_dir: only boolean flags can be switched off, --fs_wal_dir is string"),
        ("--fs_wal_dir", "--fs_wal_dir needs a value: --fs_wal_dir=..."),
        (
            "--rpc_authentication=sometimes",
            "--rpc_authentication=sometimes: one of disabled, optional, required",
        ),
        ("--rpc_max_message_size=5", "--rpc_max_message_size=5: from 1048576 to 2147483647 bytes"),
        ("--num_reactor_threads=0", "--num_reactor_threads=0: from 1 to 65536"),
        ("--flagfile", "--flagfile needs a value: --flagfile=..."),
    ] {
        assert_eq!(error(&[argument]), text);
    }
}

#[test]
fn flag_files_are_read_where_they_stand_and_may_name_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let inner = path("inner");
    std::fs::write(&inner, "--scanner-ttl-ms 7\n").unwrap();
    std::fs::write(
        path("outer"),
        format!("# comment\n\n  --v=3  \n--never_fsync\n--flagfile={inner}\n-nyala_own=1\n"),
    )
    .unwrap();
    let flags = parsed(&["--v=1", &format!("--flagfile={}", path("outer")), "--nyala_own=2"]);
    assert_eq!((flags.int("v"), flags.int("scanner_ttl_ms"), flags.int("nyala_own")), (3, 7, 2));
    assert!(flags.bool("never_fsync"));

    std::fs::write(path("wrong"), "--v=1\n--v=x\n").unwrap();
    let text = error(&["--flagfile", &path("wrong")]);
    assert!(text.ends_with(&format!("({}, line 2)", path("wrong"))), "{text}");
    std::fs::write(path("stray"), "v=1\n").unwrap();
    assert!(error(&["--flagfile", &path("stray")]).starts_with("`v=1` is no flag: write --name=value"));
    assert!(error(&["--flagfile", &path("absent")]).contains("cannot read"));
    std::fs::write(path("loop"), format!("--flagfile={}\n", path("loop"))).unwrap();
    assert!(error(&["--flagfile", &path("loop")]).contains("includes itself"));
    let twice = format!("--flagfile={inner},{inner}");
    assert_eq!(parsed(&[&twice]).int("scanner_ttl_ms"), 7, "twice in turn is no loop");
}

#[test]
fn help_and_version_are_printed_in_place_of_running() {
    let print = |argument| match flags(Role::TabletServer).parse(["--v=1", argument]).unwrap() {
        Outcome::Print(text) => text,
        other => panic!("{other:?}"),
    };
    let help = print("--help");
    assert_eq!(help, print("--helpshort"));
    assert!(
        help.contains("--heartbeat_interval_ms (int32, default 1000)\n      how often the master hears"),
        "{help}"
    );
    assert!(help.contains("--nyala_own") && !help.contains("--scanner_ttl_ms"));
    let full = print("--helpfull");
    assert!(
        full.contains("* --heartbeat_interval_ms")
            && full.contains("  --scanner_ttl_ms (int32, default 60000)"),
        "{full}"
    );
    assert!(print("--version").starts_with("nyala-test ") && print("--version").contains("1.18.1"));
}

#[test]
fn only_runtime_flags_change_while_running_unless_forced() {
    let flags = flags(Role::TabletServer);
    assert_eq!(flags.set("scanner_ttl_ms", "5", false), Ok("60000".to_owned()));
    assert_eq!(flags.set("scanner_ttl_ms", "6", false), Ok("5".to_owned()));
    assert_eq!(flags.int("scanner_ttl_ms"), 6);
    assert_eq!(
        flags.set("scanner_ttl_ms", "x", false),
        Err(SetError::BadValue { name: "scanner_ttl_ms", value: "x".to_owned(), old: "6".to_owned() })
    );
    assert_eq!(
        flags.set("num_reactor_threads", "5", false),
        Err(SetError::NotSafe { name: "num_reactor_threads" })
    );
    assert_eq!(flags.set("num_reactor_threads", "5", true), Ok("4".to_owned()));
    assert_eq!(
        flags.set("scanner-ttl-ms", "5", true),
        Err(SetError::NoSuchFlag { name: "scanner-ttl-ms".to_owned() })
    );
    assert!(matches!(flags.set("rpc_max_message_size", "5", true), Err(SetError::BadValue { .. })));
}

#[test]
fn a_flag_that_has_no_effect_is_named_in_the_log_once() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer({
        let log = log.clone();
        move || log.clone()
    });
    tracing::subscriber::with_default(subscriber.finish(), || {
        let flags = parsed(&[
            "--fs_wal_dir=d",
            "--heartbeat_interval_ms=5",
            "--logtostderr",
            "--unlock_unsafe_flags",
        ]);
        flags.warn_ignored();
        flags.warn_ignored();
        flags.set("scanner_ttl_ms", "5", false).unwrap();
        flags.warn_ignored();
    });
    let text = String::from_utf8(log.0.lock().clone()).unwrap();
    let lines: Vec<_> =
        text.lines().map(|line| line.split("--").nth(1).unwrap().split(' ').next().unwrap()).collect();
    assert_eq!(lines, ["fs_wal_dir", "scanner_ttl_ms"], "{text}");
}

#[test]
fn listings_redact_secrets_and_tell_defaults() {
    let flags = parsed(&["--webserver_private_key_password_cmd=show-it", "--v=0"]);
    let info = |name| flags.list().into_iter().find(|info| info.name == name).unwrap();
    assert_eq!((info("v").value.as_str(), info("v").is_default), ("0", false));
    assert_eq!((info("scanner_ttl_ms").value.as_str(), info("scanner_ttl_ms").is_default), ("60000", true));
    assert_eq!(info("v").tags, ["advanced", "runtime", "stable"]);
    assert_eq!(info("webserver_private_key_password_cmd").value, "<redacted>");
    assert_eq!(info("webserver_private_key_file").value, "");
}

proptest! {
    #[test]
    fn no_argument_panics(arguments in proptest::collection::vec("-{0,3}(no)?(v|never_fsync|fs_wal_dir|undefok|flagfile)?[=\\-_ a-z0-9é]{0,6}", 0..4)) {
        if let Err(error) = flags(Role::Master).parse(arguments) {
            let text = error.to_string();
            prop_assert!(text.contains("--") && !text.contains('\n'), "{text}");
        }
    }
}

#[derive(Clone, Default)]
struct Log(std::sync::Arc<parking_lot::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
