//! A disk without room: writes are refused in clear words, all that was acknowledged stays readable, and writes work again
//! once there is room. The disk is a small tmpfs, which only root can mount: others are told that the test was left out.

mod common;
#[path = "../../server-base/tests/common/small_disk.rs"]
mod small_disk;

use std::process::Command;
use std::time::{Duration, Instant};

use common::{Rig, scan_request, table, write_request};
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tserver::WriteResponsePb;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::methods::tablet_server_service::Write;
use schema::{OpKind, PartialRow};
use small_disk::SmallDisk;

fn rows(keys: std::ops::Range<i32>) -> Vec<(OpKind, PartialRow)> {
    let schema = table();
    let row = |key: i32| {
        let mut row = PartialRow::new(&schema);
        row.set_at(0, key).unwrap().set_at(1, "x".repeat(1000)).unwrap();
        (OpKind::Insert, row)
    };
    keys.map(row).collect()
}

fn insert(rig: &Rig, keys: std::ops::Range<i32>) -> WriteResponsePb {
    rig.call::<Write>(&write_request(&table(), &rows(keys))).unwrap().message
}

/// How many rows a scan gives; none while the tablet is opened.
fn count(rig: &Rig) -> Option<i32> {
    let mut new = scan_request(&table());
    new.projected_columns.clear();
    let (response, _) = rig.open(new, 1 << 20);
    assert!(!response.has_more_results());
    response.error.is_none().then(|| response.data.unwrap_or_default().num_rows())
}

fn within_seconds(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_full_disk_refuses_writes_keeps_all_that_was_acknowledged_and_takes_writes_when_there_is_room_again() {
    let Some(disk) = SmallDisk::mount(16) else { return };
    let wal = format!("--fs_wal_dir={}", disk.path().join("ts").display());
    let flags = [
        &wal[..],
        "--log_force_fsync_all",
        "--log_segment_size_mb=1",
        "--maintenance_manager_polling_interval_ms=20",
    ];
    let rig = Rig::new(&flags);
    rig.create(&table());
    // Rows, and where the next batch begins.
    let (mut acknowledged, mut next) = (0, 0);
    for round in 0..3 {
        let ballast = disk.fill(700);
        let before = acknowledged;
        let refused = loop {
            let response = insert(&rig, next..next + 50);
            match response.error {
                Some(error) => break error,
                None => (acknowledged, next) = (acknowledged + 50, next + 50),
            }
            assert!(acknowledged < 10_000, "it never gets full");
        };
        assert_eq!((refused.code(), refused.status.code()), (Code::UnknownError, ErrorCode::IoError));
        let text = refused.status.message();
        assert!(text.contains("takes no writes") && text.contains("No space left on device"), "{text}");
        assert!(text.contains(".log"), "the file is named: {text}");
        assert!(acknowledged > before, "there was room for some");
        assert_eq!(count(&rig), Some(acknowledged), "what failed is not shown, what was acknowledged is");
        assert!(insert(&rig, 100_000..100_001).error.is_some(), "still full");
        assert_eq!(count(&rig), Some(acknowledged));

        std::fs::remove_file(ballast).unwrap();
        within_seconds("writes work again", || insert(&rig, -1 - round..-round).error.is_none());
        let found = count(&rig).unwrap() - 1;
        // Of the batch that failed, all or nothing may be there now.
        assert!(found == acknowledged || found == acknowledged + 50, "{found} of {acknowledged}");
        next += found - acknowledged;
        acknowledged = found + 1;
    }
    let all = count(&rig).unwrap();
    drop(rig);
    let rig = Rig::new(&flags);
    within_seconds("the tablet is open", || count(&rig) == Some(all));
}

#[test]
fn a_read_only_disk_is_named_in_one_line_and_ends_the_start_with_exit_code_1() {
    let Some(disk) = SmallDisk::mount(1) else { return };
    let old = disk.path().join("old");
    drop(Rig::new(&[&format!("--fs_wal_dir={}", old.display())]));
    disk.remount_read_only();
    for folder in [old, disk.path().join("new")] {
        let wal = format!("--fs_wal_dir={}", folder.display());
        let flags = [&wal[..], "--rpc_bind_addresses=127.0.0.1:0", "--tserver_master_addrs="];
        let mut command = Command::new(env!("CARGO_BIN_EXE_nyala-tserver"));
        let output = command.env_remove("RUST_LOG").args(flags).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{text}");
        assert!(text.contains(&folder.display().to_string()), "{text}");
        assert!(text.contains("Read-only file system"), "{text}");
    }
}
