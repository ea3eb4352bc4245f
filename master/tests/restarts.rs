//! Masters with a data folder: what is there after a stop, and folders that cannot be used.

mod common;

use std::path::Path;
use std::sync::atomic::Ordering;

use common::{Client, Tserver, column, hashed, report, run, start, table, until};
use master::{Master, MasterOptions, StartError};
use proto::kudu::master::alter_table_request_pb::{AddColumn, Step, StepType};
use proto::kudu::master::master_error_pb::Code;
use proto::kudu::master::{
    AlterTableRequestPb, ConnectToMasterRequestPb, DeleteTableRequestPb, GetTableLocationsRequestPb,
    GetTableSchemaRequestPb, GetTableSchemaResponsePb, IsAlterTableDoneRequestPb, ListTablesRequestPb,
};
use proto::methods::master_service as m;

fn open(folder: &Path) -> Master {
    start(&[&format!("--fs_wal_dir={}", folder.display()), "--log_force_fsync_all"])
}

fn refused(folder: &Path) -> StartError {
    let flags = MasterOptions::flags();
    let folder = format!("--fs_wal_dir={}", folder.display());
    flags.parse(["--rpc_bind_addresses=127.0.0.1:0", &folder]).unwrap();
    Master::start(MasterOptions::from_flags(&flags, &net_addr::SystemResolver).unwrap()).unwrap_err()
}

async fn schema(client: &Client, name: &str) -> GetTableSchemaResponsePb {
    client.call::<m::GetTableSchema>(&GetTableSchemaRequestPb { table: table(name) }).await
}

async fn names(client: &Client) -> Vec<String> {
    let tables = client.call::<m::ListTables>(&ListTablesRequestPb::default()).await.tables;
    tables.into_iter().map(|table| table.name).collect()
}

async fn delete(client: &Client, name: &str) {
    let delete = DeleteTableRequestPb { table: table(name), ..Default::default() };
    assert_eq!(client.call::<m::DeleteTable>(&delete).await.error, None);
}

#[test]
fn tables_and_the_ids_of_master_and_cluster_outlive_the_master() {
    let folder = tempfile::tempdir().unwrap();
    run(async {
        let master = open(folder.path());
        let client = Client::to(&master.bound_addresses()[0]);
        let server = Tserver::start("ts");
        server.register(&client).await;
        let mut request = hashed("t", 3);
        request.comment = Some("for people".into());
        request.extra_configs = [("kudu.table.history_max_age_sec".to_owned(), "77".to_owned())].into();
        client.create(request).await;
        client.create(hashed("gone", 2)).await;
        delete(&client, "gone").await;
        let before = schema(&client, "t").await;
        let ids = client.call::<m::ConnectToMaster>(&ConnectToMasterRequestPb::default()).await;
        let locations = GetTableLocationsRequestPb { table: table("t"), ..Default::default() };
        let placed = client.call::<m::GetTableLocations>(&locations).await.tablet_locations;
        let uuid = master.uuid().to_owned();
        assert!(refused(folder.path()).to_string().ends_with("is in use by another server"));
        drop(master);

        let master = open(folder.path());
        let client = Client::to(&master.bound_addresses()[0]);
        assert_eq!(master.uuid(), uuid);
        assert_eq!(names(&client).await, ["t"]);
        assert_eq!(schema(&client, "t").await, before);
        let again = client.call::<m::ConnectToMaster>(&ConnectToMasterRequestPb::default()).await;
        assert_eq!(again.cluster_id, ids.cluster_id);
        // The tablet server has not called yet.
        let early = client.call::<m::GetTableLocations>(&locations).await;
        assert_eq!(early.error.map(|error| error.code()), Some(Code::TabletNotRunning));
        let asked = server.created.lock().len();
        server.register(&client).await;
        let late = client.call::<m::GetTableLocations>(&locations).await;
        assert_eq!((late.error, late.tablet_locations), (None, placed));
        assert_eq!(server.created.lock().len(), asked, "nothing is made twice");
        client.create(hashed("gone", 2)).await;
    });
}

#[test]
fn what_was_on_its_way_to_tablet_servers_is_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    run(async {
        let master = open(folder.path());
        let client = Client::to(&master.bound_addresses()[0]);
        let server = Tserver::start("ts");
        server.register(&client).await;
        client.create(hashed("dropped", 2)).await;
        server.broken.store(true, Ordering::SeqCst);
        delete(&client, "dropped").await;
        assert_eq!(client.call::<m::CreateTable>(&hashed("made", 2)).await.error, None);
        drop(master);

        // What the first master sent may still be in the server's queue: it is to fail, too.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        server.broken.store(false, Ordering::SeqCst);
        let master = open(folder.path());
        let client = Client::to(&master.bound_addresses()[0]);
        assert_eq!(names(&client).await, ["made"]);
        server.register(&client).await;
        until("replicas are dropped", || server.deleted.lock().len() == 2).await;
        until("replicas are made", || server.created.lock().len() == 4).await;
        // The answers may still be on their way to the master.
        let locations = GetTableLocationsRequestPb { table: table("made"), ..Default::default() };
        while client.call::<m::GetTableLocations>(&locations).await.error.is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        // A replica of the deleted table turns up late at a third master.
        let orphan = server.deleted.lock()[0].clone();
        drop(master);
        let master = open(folder.path());
        let client = Client::to(&master.bound_addresses()[0]);
        server.register(&client).await;
        let peers = ["ts".to_owned()];
        let beat = server.heartbeat_with([report(&orphan, "ts", &peers)].into_iter());
        client.call::<m::TSHeartbeat>(&beat).await;
        assert_eq!(client.call::<m::GetTableLocations>(&locations).await.error, None);
        assert_eq!(server.created.lock().len(), 4, "nothing is made twice");
    });
}

/// Bytes of the catalog's log, and its rowsets.
fn catalog(folder: &Path) -> (u64, usize) {
    let files = std::fs::read_dir(folder.join("catalog")).unwrap().map(|file| file.unwrap());
    let logs = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "log"));
    let bytes = logs.map(|log| log.metadata().unwrap().len()).sum();
    let rowsets = std::fs::read_dir(folder.join("catalog/rowsets")).into_iter().flatten().flatten();
    (bytes, rowsets.filter(|entry| entry.path().is_dir()).count())
}

#[test]
fn the_log_of_a_catalog_that_changes_much_stays_short_and_all_is_there_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let wal = format!("--fs_wal_dir={}", folder.path().display());
    let lazy = start(&[&wal, "--enable_maintenance_manager=false"]);
    run(async {
        let client = Client::to(&lazy.bound_addresses()[0]);
        let server = Tserver::start("ts");
        server.register(&client).await;
        for number in 0..60 {
            client.create(hashed(&format!("t{number}"), 4)).await;
        }
        let long = catalog(folder.path()).0;
        assert!(long > 50_000, "{long} bytes");
        drop(lazy);

        // As soon as there is something to flush.
        let quick = [&wal[..], "--flush_threshold_secs=0", "--maintenance_manager_polling_interval_ms=5"];
        let master = start(&quick);
        let client = Client::to(&master.bound_addresses()[0]);
        server.register(&client).await;
        for number in 0..50 {
            delete(&client, &format!("t{number}")).await;
        }
        let is_kept_short = || {
            let (bytes, rowsets) = catalog(folder.path());
            bytes < long / 10 && (1..8).contains(&rowsets)
        };
        // The newest segment goes when there is another one.
        for round in 0.. {
            assert!(round < 500, "{:?} after {long}", catalog(folder.path()));
            client.create(hashed("more", 2)).await;
            delete(&client, "more").await;
            if is_kept_short() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let before = (names(&client).await, schema(&client, "t55").await);
        assert_eq!(before.0.len(), 10);
        drop(master);

        let master = start(&[&wal]);
        let client = Client::to(&master.bound_addresses()[0]);
        assert_eq!((names(&client).await, schema(&client, "t55").await), before);
        server.register(&client).await;
        let locations = GetTableLocationsRequestPb { table: table("t55"), ..Default::default() };
        assert_eq!(client.call::<m::GetTableLocations>(&locations).await.tablet_locations.len(), 4);
    });
}

#[test]
fn folders_that_cannot_be_used_are_named_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let text = |folder: &Path| refused(folder).to_string();
    let log = folder.path().join("catalog/0000000000000001.log");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let damaged = text(folder.path());
    assert_eq!(
        damaged,
        "--fs_wal_dir: cannot open the catalog: catalog/0000000000000001.log is corrupt at offset 0: the header does not fit its checksum"
    );
    std::fs::remove_dir_all(folder.path().join("catalog")).unwrap();
    let half = text(folder.path());
    assert!(half.starts_with("--fs_wal_dir: ") && half.contains("catalog is missing"), "{half}");
    let text = text(Path::new("/dev/null/x"));
    assert!(text.starts_with("--fs_wal_dir: cannot create /dev/null/x: "), "{text}");
}

#[test]
fn a_master_that_ends_between_a_change_and_its_tablets_tells_them_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    run(async {
        let master = open(folder.path());
        let client = Client::to(&master.bound_addresses()[0]);
        let server = Tserver::start("ts");
        server.register(&client).await;
        client.create(hashed("t", 3)).await;
        server.broken.store(true, Ordering::SeqCst);
        let added = AddColumn { schema: column("added", false) };
        let step =
            Step { r#type: Some(StepType::AddColumn as i32), add_column: Some(added), ..Default::default() };
        let new_table_comment = Some("changed".to_owned());
        let alter = AlterTableRequestPb {
            table: table("t"),
            alter_schema_steps: vec![step],
            new_table_comment,
            ..Default::default()
        };
        assert_eq!(client.call::<m::AlterTable>(&alter).await.error, None);
        let done = IsAlterTableDoneRequestPb { table: table("t") };
        let answer = client.call::<m::IsAlterTableDone>(&done).await;
        assert_eq!((answer.done(), answer.schema_version()), (false, 1));
        assert_eq!(schema(&client, "t").await.schema.unwrap().columns.len(), 2, "as all tablets have it");
        drop(master);

        server.broken.store(false, Ordering::SeqCst);
        let master = open(folder.path());
        let client = Client::to(&master.bound_addresses()[0]);
        assert!(!client.call::<m::IsAlterTableDone>(&done).await.done());
        server.register(&client).await;
        until("all tablets know", || server.altered.lock().len() == 3).await;
        assert!(server.altered.lock().iter().all(|(_, version)| *version == 1));
        let mut is_done = false;
        for _ in 0..5000 {
            is_done = client.call::<m::IsAlterTableDone>(&done).await.done();
            if is_done {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert!(is_done, "within seconds");
        let now = schema(&client, "t").await;
        assert_eq!((now.schema.unwrap().columns.len(), &now.comment.unwrap()[..]), (3, "changed"));
    });
}
