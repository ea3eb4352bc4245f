//! `kill -9` of tablet servers and of the master under load, for seconds; `cargo xtask soak --kill` does it for minutes.

#[path = "../../xtask/src/soak/kills/mod.rs"]
#[allow(dead_code, reason = "the soak prints more")]
mod kills;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kills::Plan;
use mini_cluster::MiniCluster;

/// Builds the servers in the profile of this test; the folder they are in.
fn binaries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap().to_owned();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet", "-p", "master", "-p", "tserver"]);
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success(), "the servers can be built");
    folder
}

#[test]
fn whatever_is_killed_acknowledged_rows_and_tables_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = MiniCluster::builder()
        .binaries(binaries())
        .data_dir(folder.path())
        .tservers(2)
        .tserver_flag("--log_force_fsync_all")
        // Flushes and compactions all the time.
        .tserver_flag("--flush_threshold_secs=0")
        .tserver_flag("--maintenance_manager_polling_interval_ms=20")
        .master_flag("--log_force_fsync_all")
        .master_flag("--flush_threshold_secs=0")
        .master_flag("--maintenance_manager_polling_interval_ms=20")
        .start_blocking()
        .unwrap();
    let plan = Plan {
        writers: 2,
        kills_a_check: 3,
        longest_life: Duration::from_millis(150),
        operations_a_table: 3_000,
        rows_a_batch: 20,
    };
    let done = kills::run(&mut cluster, plan, |done| {
        done.tserver_kills >= 8 && done.master_kills >= 3 && done.snapshots >= 2
    });
    let done = done.unwrap_or_else(|error| panic!("{error}"));
    assert!(done.acknowledged > 100 && done.rows_compared > 100, "{done:?}");
    cluster.shutdown().unwrap();
}
