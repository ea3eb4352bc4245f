//! A disk without room: changes of the catalog are refused in clear words, none of them is half there, and they are taken again
//! once there is room. The disk is a small tmpfs, which only root can mount: others are told that the test was left out.

mod common;
#[path = "../../server-base/tests/common/small_disk.rs"]
mod small_disk;

use std::time::{Duration, Instant};

use common::{Client, Tserver, hashed, run, start};
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::master::ListTablesRequestPb;
use proto::methods::master_service as m;
use small_disk::SmallDisk;

async fn names(client: &Client) -> Vec<String> {
    let tables = client.call::<m::ListTables>(&ListTablesRequestPb::default()).await.tables;
    let mut names: Vec<String> = tables.into_iter().map(|table| table.name).collect();
    names.sort();
    names
}

#[test]
fn a_catalog_on_a_full_disk_refuses_changes_and_takes_them_when_there_is_room_again() {
    let Some(disk) = SmallDisk::mount(16) else { return };
    let wal = format!("--fs_wal_dir={}", disk.path().join("master").display());
    let flags = [
        &wal[..],
        "--log_force_fsync_all",
        "--log_segment_size_mb=1",
        "--maintenance_manager_polling_interval_ms=20",
    ];
    run(async {
        let master = start(&flags);
        let client = Client::to(&master.bound_addresses()[0]);
        let server = Tserver::start("ts");
        server.register(&client).await;
        let mut expected = Vec::new();
        for round in 0..3 {
            let ballast = disk.fill(100);
            let refused = loop {
                let name = format!("{round:02} {:04}", expected.len());
                let answer = client.call::<m::CreateTable>(&hashed(&name, 50)).await;
                match answer.error {
                    Some(error) => break error,
                    None => expected.push(name),
                }
                assert!(expected.len() < 1000, "it never gets full");
            };
            assert_eq!(refused.status.code(), ErrorCode::IoError, "{refused:?}");
            assert!(refused.status.message().contains("No space left on device"), "{refused:?}");
            assert_eq!(names(&client).await, expected, "it is read on, and what was refused is not there");

            std::fs::remove_file(ballast).unwrap();
            let (name, started) = (format!("{round:02} room"), Instant::now());
            while let Some(error) = client.call::<m::CreateTable>(&hashed(&name, 2)).await.error {
                assert!(started.elapsed() < Duration::from_secs(30), "{error:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            expected.push(name);
            assert_eq!(names(&client).await, expected);
        }
        drop(master);
        let master = start(&flags);
        assert_eq!(names(&Client::to(&master.bound_addresses()[0])).await, expected, "as after a start");
    });
}
