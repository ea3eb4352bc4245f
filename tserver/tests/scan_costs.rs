//! What the answers of a scan tell of its cost.

mod common;

use std::time::{Duration, Instant};

use common::{Rig, row, scan_request, table};
use proto::kudu::tserver::{ChecksumRequestPb, ResourceMetricsPb};
use proto::methods::tablet_server_service::Checksum;
use schema::Schema;

fn fill(rig: &Rig, schema: &Schema) {
    rig.create(schema);
    rig.insert(schema, &(0..1000).map(|key| row(schema, key)).collect::<Vec<_>>());
}

/// Real servers give all of these, 0 included, and none of what writes count.
fn all_told(told: &ResourceMetricsPb) {
    let figures = [
        told.cfile_cache_hit_bytes,
        told.cfile_cache_miss_bytes,
        told.bytes_read,
        told.queue_duration_nanos,
        told.total_duration_nanos,
        told.cpu_user_nanos,
        told.cpu_system_nanos,
    ];
    assert!(figures.iter().all(|figure| figure.is_some_and(|figure| figure >= 0)), "{told:?}");
    assert_eq!(told.successful_inserts, None);
    assert!(told.total_duration_nanos() >= told.queue_duration_nanos() && told.total_duration_nanos() > 0);
    assert!(told.cpu_user_nanos() <= told.total_duration_nanos());
}

#[test]
fn each_answer_tells_its_times_and_rows_in_memory_are_read_from_no_file() {
    let (rig, schema) = (Rig::new(&[]), table());
    fill(&rig, &schema);
    let (opened, _) = rig.open(scan_request(&schema), 0);
    all_told(&opened.resource_metrics.unwrap());
    let (rows, _) = rig.go_on(&opened.scanner_id.unwrap(), 1, 1 << 20);
    let told = rows.resource_metrics.unwrap();
    all_told(&told);
    assert_eq!((told.bytes_read(), told.cfile_cache_hit_bytes(), told.cfile_cache_miss_bytes()), (0, 0, 0));
    let mut unknown = scan_request(&schema);
    unknown.tablet_id = "none".into();
    assert_eq!(rig.open(unknown, 1).0.resource_metrics, None, "a refusal costs nothing worth telling");
}

#[test]
fn blocks_of_files_are_told_when_they_are_read_and_when_they_are_at_hand() {
    let folder = tempfile::tempdir().unwrap();
    let place = format!("--fs_wal_dir={}", folder.path().display());
    let always = ["--flush_threshold_secs=0", "--maintenance_manager_polling_interval_ms=5", &place];
    let (rig, schema) = (Rig::new(&always), table());
    fill(&rig, &schema);
    let deadline = Instant::now() + Duration::from_secs(120);
    let scan = |columns: &Schema| rig.open(scan_request(columns), 1 << 20).0.resource_metrics.unwrap();
    let keys = schema.project(&[0]).unwrap();
    let first = loop {
        let told = scan(&keys);
        if told.bytes_read() > 0 {
            break told;
        }
        assert!(Instant::now() < deadline, "nothing was flushed");
        std::thread::sleep(Duration::from_millis(5));
    };
    all_told(&first);
    // 1000 keys of 4 bytes; which of them a flush has left at hand is its own affair.
    assert_eq!(first.bytes_read(), 4000);
    assert_eq!(first.cfile_cache_hit_bytes() + first.cfile_cache_miss_bytes(), 4000);
    let all = scan(&schema);
    assert!(all.bytes_read() > 8000, "{all:?}");
    let again = scan(&schema);
    assert_eq!((again.cfile_cache_hit_bytes(), again.cfile_cache_miss_bytes()), (all.bytes_read(), 0));
    let checksum = ChecksumRequestPb {
        new_request: Some(scan_request(&schema)),
        call_seq_id: Some(0),
        batch_size_bytes: Some(1 << 20),
        ..Default::default()
    };
    let told = rig.call::<Checksum>(&checksum).unwrap().message.resource_metrics.unwrap();
    assert_eq!(told.bytes_read(), all.bytes_read());
}
