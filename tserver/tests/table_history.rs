//! How long a table's past can be read: by its own age where it has one, by the server's otherwise. As a real server has it.

mod common;

use std::time::{Duration, Instant};

use common::{Rig, create_request, row, scan_request, table};
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::kudu::tserver::{AlterSchemaRequestPb, ScanResponsePb};
use proto::kudu::{ReadMode, TableExtraConfigPb};
use proto::methods::tablet_server_admin_service::{AlterSchema, CreateTablet};
use schema::{OpKind, Timestamp};
use server_base::physical_micros;

fn config(history_max_age_sec: Option<i32>) -> Option<TableExtraConfigPb> {
    Some(TableExtraConfigPb { history_max_age_sec, ..Default::default() })
}

fn create(rig: &Rig, age: Option<i32>) {
    let mut request = create_request(&table());
    request.extra_config = config(age);
    assert_eq!(rig.call::<CreateTablet>(&request).unwrap().message.error, None);
}

fn alter(rig: &Rig, schema_version: u32, new_extra_config: Option<TableExtraConfigPb>) {
    let request = AlterSchemaRequestPb {
        tablet_id: common::TABLET.into(),
        schema: (&table()).into(),
        schema_version,
        new_extra_config,
        ..Default::default()
    };
    assert_eq!(rig.call::<AlterSchema>(&request).unwrap().message.error, None);
}

fn scan_at(rig: &Rig, snapshot: Timestamp) -> ScanResponsePb {
    let mut new = scan_request(&table());
    new.set_read_mode(ReadMode::ReadAtSnapshot);
    new.snap_timestamp = Some(snapshot.0);
    rig.open(new, 1 << 20).0
}

/// Which of these ages, in seconds, can be read; the others are refused.
fn readable(rig: &Rig) -> Vec<u64> {
    let can = |seconds: &u64| {
        let response = scan_at(rig, Timestamp::new(physical_micros() - seconds * 1_000_000, 0));
        let refused = response.error.as_ref().map(|error| error.code());
        assert!(refused.is_none_or(|code| code == Code::InvalidSnapshot), "{response:?}");
        refused.is_none()
    };
    [0, 100, 3_600, 900_000].into_iter().filter(can).collect()
}

#[test]
fn a_table_has_its_own_age_or_that_of_the_server_and_keeps_it_over_alterations_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let wal = format!("--fs_wal_dir={}", folder.path().display());
    let rig = Rig::new(&[&wal]);
    create(&rig, Some(1_000));
    assert_eq!(readable(&rig), [0, 100]);
    alter(&rig, 1, None);
    assert_eq!(readable(&rig), [0, 100], "an alteration of other things");
    alter(&rig, 2, config(Some(-1)));
    assert_eq!(readable(&rig), [0, 100, 3_600, 900_000], "for ever");
    alter(&rig, 3, config(Some(0)));
    assert_eq!(readable(&rig), []);
    drop(rig);
    let rig = Rig::new(&[&wal]);
    let started = Instant::now();
    while rig.server.tablets() == 0 {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(readable(&rig), [], "after a restart");
    alter(&rig, 4, config(None));
    assert_eq!(readable(&rig), [0, 100, 3_600], "seven days, as the flag says");
    drop(rig);
    let rig = Rig::new(&["--tablet_history_max_age_sec=-1"]);
    create(&rig, None);
    assert_eq!(readable(&rig), [0, 100, 3_600, 900_000]);
}

#[test]
fn flushes_drop_what_the_table_does_not_keep_and_nothing_that_it_keeps() {
    for (age, is_kept) in [(0, false), (-1, true)] {
        let folder = tempfile::tempdir().unwrap();
        let wal = format!("--fs_wal_dir={}", folder.path().display());
        let quick = ["--flush_threshold_secs=0", "--maintenance_manager_polling_interval_ms=5"];
        let rig = Rig::new(&[&wal, "--tablet_history_max_age_sec=50", quick[0], quick[1]]);
        create(&rig, Some(age));
        let schema = table();
        let inserted = rig.insert(&schema, &[row(&schema, 1)]);
        let deleted = rig.write(
            &schema,
            &[(OpKind::Delete, {
                let mut key = schema::PartialRow::new(&schema);
                key.set_at(0, 1).unwrap();
                key
            })],
        );
        assert_eq!((deleted.error, deleted.per_row_errors.len()), (None, 0));
        let data = folder.path().join("tablets").join(common::TABLET).join("data");
        let rowsets = || std::fs::read_dir(data.join("rowsets")).map_or(0, Iterator::count);
        let started = Instant::now();
        // Flushed, and merged away if nothing of it is kept.
        while !data.join("manifest").exists() || (rowsets() > 0) != is_kept {
            assert!(started.elapsed() < Duration::from_secs(30), "{} files", rowsets());
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(200));
        alter(&rig, 1, config(Some(-1)));
        let response = scan_at(&rig, Timestamp(inserted + 1));
        if is_kept {
            assert_eq!((response.error, response.data.unwrap_or_default().num_rows()), (None, 1));
        } else {
            assert_eq!(response.error.map(|error| error.code()), Some(Code::InvalidSnapshot));
        }
    }
}
