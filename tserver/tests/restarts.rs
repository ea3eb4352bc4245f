//! Tablet servers with a data folder: what is there after a stop, and what a damaged folder does.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{Rig, TABLET, create_request, row, scan_request, table, write_request};
use net_addr::SystemResolver;
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tablet::{TabletDataState, TabletStatePb};
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::kudu::tserver::{DeleteTabletRequestPb, ListTabletsRequestPb, TabletServerErrorPb};
use proto::methods::tablet_server_admin_service::{CreateTablet, DeleteTablet};
use proto::methods::tablet_server_service::{ListTablets, Write};
use rpc_core::RequestId;
use schema::{OpKind, PartialRow, Schema};
use tserver::{StartError, TabletServer, TserverOptions};

const OTHER: &str = "ffffffffffffffffffffffffffffffff";

fn start(folder: &Path) -> Rig {
    start_with(folder, &[])
}

fn start_with(folder: &Path, flags: &[&str]) -> Rig {
    let folder = format!("--fs_wal_dir={}", folder.display());
    let mut all = vec![folder.as_str(), "--log_force_fsync_all"];
    all.extend(flags);
    let rig = Rig::new(&all);
    let deadline = Instant::now() + Duration::from_secs(20);
    while states(&rig).iter().any(|(_, state, _)| *state == TabletStatePb::Bootstrapping) {
        assert!(Instant::now() < deadline, "{:?}", states(&rig));
        std::thread::sleep(Duration::from_millis(5));
    }
    rig
}

fn start_error(folder: &Path) -> StartError {
    let flags = TserverOptions::flags();
    let folder = format!("--fs_wal_dir={}", folder.display());
    flags.parse(["--rpc_bind_addresses=127.0.0.1:0", "--tserver_master_addrs=", &folder]).unwrap();
    TabletServer::start(TserverOptions::from_flags(&flags, &SystemResolver).unwrap()).unwrap_err()
}

/// Id, state and last status of all tablets.
fn states(rig: &Rig) -> Vec<(String, TabletStatePb, String)> {
    let listed = rig.call::<ListTablets>(&ListTabletsRequestPb::default()).unwrap().message;
    let statuses = listed.status_and_schema.into_iter().map(|one| one.tablet_status);
    statuses.map(|status| (status.tablet_id.clone(), status.state(), status.last_status)).collect()
}

fn count(rig: &Rig, schema: &Schema) -> i64 {
    let (response, _) = rig.open(scan_request(schema), 1 << 20);
    assert_eq!(response.error, None);
    response.data.map_or(0, |data| i64::from(data.num_rows()))
}

fn delete(rig: &Rig, id: &str, kind: TabletDataState) -> Option<TabletServerErrorPb> {
    let request = DeleteTabletRequestPb {
        tablet_id: id.to_owned().into(),
        delete_type: Some(kind.into()),
        ..Default::default()
    };
    rig.call::<DeleteTablet>(&request).unwrap().message.error
}

fn create_other(rig: &Rig, schema: &Schema) {
    let mut request = create_request(schema);
    request.tablet_id = OTHER.into();
    assert_eq!(rig.call::<CreateTablet>(&request).unwrap().message.error, None);
}

fn rows(schema: &Schema, keys: std::ops::Range<i32>) -> Vec<PartialRow> {
    keys.map(|key| row(schema, key)).collect()
}

fn first_segment(folder: &Path) -> PathBuf {
    folder.join("tablets").join(TABLET).join("data/0000000000000001.log")
}

#[test]
fn rows_ids_and_timestamps_outlive_the_server() {
    let (folder, schema) = (tempfile::tempdir().unwrap(), table());
    let rig = start(folder.path());
    let uuid = rig.server.uuid().to_owned();
    rig.create(&schema);
    let first = rig.insert(&schema, &rows(&schema, 0..100));
    let deleted: Vec<_> = (0..10)
        .map(|key| {
            let mut row = PartialRow::new(&schema);
            row.set_at(0, key).unwrap();
            (OpKind::Delete, row)
        })
        .collect();
    assert_eq!(rig.write(&schema, &deleted).per_row_errors, []);
    drop(rig);
    let rig = start(folder.path());
    assert_eq!(rig.server.uuid(), uuid);
    assert_eq!((rig.server.tablets(), count(&rig, &schema)), (1, 90));
    assert!(rig.insert(&schema, &rows(&schema, 0..10)) > first);
    let mut then = scan_request(&schema);
    then.read_mode = Some(proto::kudu::ReadMode::ReadAtSnapshot.into());
    then.snap_timestamp = Some(first + 1);
    let (response, _) = rig.open(then, 1 << 20);
    assert_eq!(response.data.unwrap().num_rows(), 100, "before the deletes");
    let error = start_error(folder.path()).to_string();
    assert!(error.ends_with("is in use by another server") && error.lines().count() == 1, "{error}");
}

#[test]
fn deleted_tablets_leave_no_files_and_tombstones_stay() {
    let (folder, schema) = (tempfile::tempdir().unwrap(), table());
    let rig = start(folder.path());
    rig.create(&schema);
    rig.insert(&schema, &rows(&schema, 0..10));
    create_other(&rig, &schema);
    assert_eq!(delete(&rig, TABLET, TabletDataState::TabletDataDeleted), None);
    assert_eq!(delete(&rig, OTHER, TabletDataState::TabletDataTombstoned), None);
    let left: Vec<_> =
        fs::read_dir(folder.path().join("tablets")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, [OTHER]);
    assert!(!folder.path().join("tablets").join(OTHER).join("data").exists());
    drop(rig);
    let rig = start(folder.path());
    let [(id, state, _)] = &states(&rig)[..] else { panic!("{:?}", states(&rig)) };
    assert_eq!((id.as_str(), *state), (OTHER, TabletStatePb::Stopped));
    create_other(&rig, &schema);
    assert!(states(&rig).contains(&(OTHER.to_owned(), TabletStatePb::Running, String::new())));
    rig.create(&schema);
    assert_eq!(count(&rig, &schema), 0, "the same id again is a new tablet");
    drop(rig);
    let rig = start(folder.path());
    assert_eq!(states(&rig).len(), 2);
}

#[test]
fn what_the_end_of_a_process_cut_off_is_finished() {
    let (folder, schema) = (tempfile::tempdir().unwrap(), table());
    let rig = start(folder.path());
    rig.create(&schema);
    rig.insert(&schema, &rows(&schema, 0..10));
    create_other(&rig, &schema);
    drop(rig);
    let tablets = folder.path().join("tablets");
    fs::rename(tablets.join(OTHER), tablets.join(format!("{OTHER}.gone"))).unwrap();
    fs::create_dir_all(tablets.join("0f.new/data")).unwrap();
    let segment = first_segment(folder.path());
    let mut bytes = fs::read(&segment).unwrap();
    bytes.extend_from_slice(&[9; 33]);
    fs::write(&segment, bytes).unwrap();
    let rig = start(folder.path());
    assert_eq!((states(&rig).len(), count(&rig, &schema)), (1, 10));
    assert_eq!(fs::read_dir(&tablets).unwrap().count(), 1);
}

#[test]
fn a_damaged_tablet_is_failed_by_name_and_the_others_go_on() {
    let (folder, schema) = (tempfile::tempdir().unwrap(), table());
    let rig = start(folder.path());
    rig.create(&schema);
    rig.insert(&schema, &rows(&schema, 0..10));
    rig.insert(&schema, &rows(&schema, 10..20));
    create_other(&rig, &schema);
    drop(rig);
    let segment = first_segment(folder.path());
    let mut bytes = fs::read(&segment).unwrap();
    bytes[100] ^= 1;
    fs::write(&segment, &bytes).unwrap();
    let rig = start(folder.path());
    let found = states(&rig);
    let (id, state, status) = &found[0];
    assert_eq!((id.as_str(), *state), (TABLET, TabletStatePb::Failed));
    assert!(
        status.contains("0000000000000001.log is corrupt at offset 40: a record does not fit"),
        "{status}"
    );
    assert_eq!(found[1].1, TabletStatePb::Running);
    let refused = rig.call::<Write>(&write_request(&schema, &[(OpKind::Insert, row(&schema, 1))])).unwrap();
    let error = refused.message.error.unwrap();
    assert_eq!((error.code(), error.status.code()), (Code::TabletFailed, ErrorCode::IllegalState));
    assert_eq!(fs::read(&segment).unwrap(), bytes, "nothing is changed");
    assert_eq!(delete(&rig, TABLET, TabletDataState::TabletDataDeleted), None);
    rig.create(&schema);
    rig.insert(&schema, &rows(&schema, 0..1));
    drop(rig);
    // The file that says what the tablet is.
    let about = folder.path().join("tablets").join(TABLET).join("tablet");
    let mut bytes = fs::read(&about).unwrap();
    bytes[50] ^= 1;
    fs::write(&about, &bytes).unwrap();
    let rig = start(folder.path());
    let (_, state, status) = &states(&rig)[0];
    assert_eq!(*state, TabletStatePb::Failed);
    assert!(status.contains("tablet is corrupt"), "{status}");
}

#[test]
fn rows_go_to_files_by_themselves_and_a_damaged_block_fails_its_tablet_alone() {
    let (folder, schema) = (tempfile::tempdir().unwrap(), table());
    let always = ["--flush_threshold_secs=0", "--maintenance_manager_polling_interval_ms=5"];
    let rig = start_with(folder.path(), &always);
    rig.create(&schema);
    create_other(&rig, &schema);
    rig.insert(&schema, &rows(&schema, 0..1000));
    let data = folder.path().join("tablets").join(TABLET).join("data");
    let manifest = data.join("manifest");
    let deadline = Instant::now() + Duration::from_secs(120);
    while !manifest.exists() {
        assert!(Instant::now() < deadline, "nothing was flushed");
        std::thread::sleep(Duration::from_millis(5));
    }
    rig.insert(&schema, &rows(&schema, 1000..1010));
    drop(rig);
    let rig = start(folder.path());
    assert_eq!(count(&rig, &schema), 1010);
    drop(rig);
    let keys: Vec<u8> = (500..510_i32).flat_map(i32::to_le_bytes).collect();
    let mut damaged = 0;
    for entry in fs::read_dir(data.join("rowsets")).unwrap() {
        let arrow = entry.unwrap().path().join("data.arrow");
        let mut bytes = fs::read(&arrow).unwrap_or_default();
        if let Some(at) = bytes.windows(keys.len()).position(|window| window == keys) {
            bytes[at] ^= 1;
            fs::write(&arrow, &bytes).unwrap();
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1);
    let rig = start(folder.path());
    let (response, _) = rig.open(scan_request(&schema), 1 << 20);
    let error = response.error.unwrap();
    assert_eq!((error.code(), error.status.code()), (Code::TabletFailed, ErrorCode::IllegalState));
    let mut found = states(&rig);
    found.sort();
    let [(id, state, status), (_, other, _)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((id.as_str(), *state, *other), (TABLET, TabletStatePb::Failed, TabletStatePb::Running));
    assert!(status.contains("data.arrow is corrupt at offset"), "{status}");
    let again = rig.open(scan_request(&schema), 1 << 20).0.error.unwrap();
    assert_eq!(again.code(), Code::TabletFailed);
}

#[test]
fn ids_that_would_be_other_folders_are_refused() {
    let (folder, schema) = (tempfile::tempdir().unwrap(), table());
    let rig = start(folder.path());
    for id in ["../x", "a/b", "..", "a.new", "\0", &"x".repeat(101)] {
        let mut request = create_request(&schema);
        request.tablet_id = id.to_owned().into();
        let error = rig.call::<CreateTablet>(&request).unwrap().message.error.unwrap();
        assert_eq!(error.status.code(), ErrorCode::InvalidArgument, "{id}");
    }
    assert_eq!(fs::read_dir(folder.path().join("tablets")).unwrap().count(), 0);
}

#[test]
fn a_disk_that_takes_no_more_is_named_and_rows_can_still_be_read() {
    let (folder, schema) = (tempfile::tempdir().unwrap(), table());
    let rig = Rig::new(&[&format!("--fs_wal_dir={}", folder.path().display()), "--log_segment_size_mb=0"]);
    rig.create(&schema);
    rig.insert(&schema, &rows(&schema, 0..10));
    // Each write begins a segment, and now none can be made.
    let log = first_segment(folder.path()).parent().unwrap().to_owned();
    fs::rename(&log, log.with_extension("away")).unwrap();
    let refused = rig.call::<Write>(&write_request(&schema, &[(OpKind::Insert, row(&schema, 77))])).unwrap();
    let error = refused.message.error.unwrap();
    assert_eq!(error.status.code(), ErrorCode::IoError);
    let text = error.status.message();
    assert!(
        text.starts_with("the tablet takes no writes: cannot create ") && text.contains(TABLET),
        "{text}"
    );
    assert_eq!(count(&rig, &schema), 10, "what is not in the log is not shown");
    fs::rename(log.with_extension("away"), &log).unwrap();
    drop(rig);
    assert_eq!(count(&start(folder.path()), &schema), 10);
}

#[test]
fn a_write_that_is_tried_again_after_a_restart_has_the_answer_of_its_first_run() {
    let (folder, schema) = (tempfile::tempdir().unwrap(), table());
    let rig = start(folder.path());
    rig.create(&schema);
    let id = |seq_no, attempt_no| RequestId {
        client_id: "client".into(),
        seq_no,
        first_incomplete_seq_no: 5,
        attempt_no,
    };
    rig.insert(&schema, &rows(&schema, 0..1));
    let request =
        write_request(&schema, &[(OpKind::Insert, row(&schema, 0)), (OpKind::Insert, row(&schema, 1))]);
    let first = rig.attempt(&request, id(5, 0)).unwrap();
    assert_eq!(first.per_row_errors.len(), 1);
    drop(rig);
    let rig = start(folder.path());
    let again = rig.attempt(&request, id(5, 1)).unwrap();
    assert_eq!((again.timestamp, again.per_row_errors), (first.timestamp, first.per_row_errors));
    let other = rig.attempt(&request, id(6, 0)).unwrap();
    assert_eq!(other.per_row_errors.len(), 2, "another call is another call");
}

#[test]
fn attempts_that_come_while_a_tablet_is_opened_do_not_make_the_call_run_anew() {
    let (folder, schema) = (tempfile::tempdir().unwrap(), table());
    let rig = start(folder.path());
    rig.create(&schema);
    for batch in 0..20 {
        rig.insert(&schema, &rows(&schema, batch * 1000..(batch + 1) * 1000));
    }
    let id =
        |seq_no| RequestId { client_id: "client".into(), seq_no, first_incomplete_seq_no: 0, attempt_no: 0 };
    let calls: Vec<_> = (0..300)
        .map(|seq_no| {
            let request = write_request(&schema, &[(OpKind::Insert, row(&schema, -1 - seq_no))]);
            let first = rig.attempt(&request, id(seq_no.into())).unwrap();
            assert_eq!((&first.error, first.per_row_errors.len()), (&None, 0));
            (request, id(seq_no.into()), first.timestamp)
        })
        .collect();
    drop(rig);
    let folder = format!("--fs_wal_dir={}", folder.path().display());
    let rig = Rig::new(&[&folder, "--rpc_service_queue_length=1000"]);
    rig.runtime.block_on(async {
        let attempts = calls.into_iter().map(|(request, id, timestamp)| {
            let proxy = rig.proxy.clone();
            tokio::spawn(async move {
                let (started, mut refused) = (Instant::now(), 0);
                let again = loop {
                    let call = proxy.call::<Write>(&request).request_id(id.clone());
                    let again = call.send().await.unwrap().message;
                    match &again.error {
                        Some(error) => assert_eq!(error.code(), Code::TabletNotRunning),
                        None => break again,
                    }
                    refused += 1;
                    assert!(started.elapsed() < Duration::from_secs(30), "the tablet is not opened");
                };
                assert_eq!((again.per_row_errors.len(), again.timestamp), (0, timestamp));
                refused
            })
        });
        let mut refused = 0;
        for attempt in attempts.collect::<Vec<_>>() {
            refused += attempt.await.unwrap();
        }
        assert!(refused > 0, "the tablet was there at once: nothing was tried");
    });
}
