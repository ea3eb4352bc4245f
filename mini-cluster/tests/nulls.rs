//! NULL, the default, zero and the empty string are four different things, from the client to the tablet and back.

mod common;

use std::path::Path;

use client::schema::{Column, DataType, Schema, Value};
use client::{Client, Filter, FlushMode, StatusCode, Table, column};
use common::{eventually, run, start};
use mini_cluster::MiniCluster;

async fn keys(table: &Table, filter: Filter) -> Vec<i32> {
    let rows = table.scan().project(&["k"]).filter(filter).start().unwrap().collect_rows().await.unwrap();
    let key = |row: &Vec<Option<Value>>| match row[0] {
        Some(Value::Int32(key)) => key,
        _ => panic!("keys are never NULL"),
    };
    let mut keys: Vec<i32> = rows.iter().map(key).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn thirteen_operations_in_a_batch_fail_and_succeed_row_by_row_and_predicates_tell_them_apart() {
    let cluster = start(MiniCluster::builder());
    write(&cluster);
    read(&cluster);
}

#[test]
fn nulls_defaults_and_zeros_are_told_apart_after_a_flush_and_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let builder = MiniCluster::builder().data_dir(folder.path());
    let mut cluster = start(
        builder
            .tserver_flag("--flush_threshold_secs=0")
            .tserver_flag("--maintenance_manager_polling_interval_ms=5"),
    );
    write(&cluster);
    read(&cluster);
    eventually("rows are in a file", || has_rowset(folder.path()));
    read(&cluster);
    for _ in 0..2 {
        cluster.stop_tserver(0).unwrap();
        cluster.start_tserver(0).unwrap();
        read(&cluster);
    }
    cluster.shutdown().unwrap();
}

/// Whether a folder below this one holds the files of flushed rows.
fn has_rowset(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut inside = entries.filter(|entry| entry.path().is_dir() && entry.file_name() != "catalog");
    inside.any(|entry| entry.path().join("data.arrow").exists() || has_rowset(&entry.path()))
}

fn write(cluster: &MiniCluster) {
    let columns = vec![
        Column::new("k", DataType::Int32),
        Column::new("n", DataType::Int32).nullable(true),
        Column::new("s", DataType::String).nullable(true),
        Column::new("d", DataType::Int32).default_value(42),
        Column::new("r", DataType::Int32),
    ];
    let schema = Schema::new(columns, 1).unwrap();
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        let table =
            client.create_table("nulls", schema).replicas(1).range_columns(&["k"]).create().await.unwrap();
        let insert = |k: i32| table.insert().with("k", k).unwrap().with("r", 1).unwrap();
        let upsert = |k: i32| table.upsert().with("k", k).unwrap().with("r", 1).unwrap();
        let operations = [
            insert(1),
            insert(2).with_null("n").unwrap().with("s", "").unwrap(),
            insert(3).with("n", 0).unwrap().with("s", "x").unwrap(),
            table.insert().with("k", 4).unwrap(),
            insert(5).with("n", 0).unwrap().with("d", 0).unwrap(),
            table.update().with("k", 99).unwrap().with("n", 1).unwrap(),
            table.delete().with("k", 98).unwrap(),
            insert(1).with("n", 7).unwrap(),
            upsert(6).with_null("s").unwrap(),
            upsert(5).with("n", 5).unwrap(),
            table.update().with("k", 3).unwrap().with_null("n").unwrap(),
            table.insert_ignore().with("k", 6).unwrap().with("r", 1).unwrap().with("n", 9).unwrap(),
            table.delete_ignore().with("k", 97).unwrap(),
        ];
        let session = client.session().mode(FlushMode::Manual).build();
        for operation in operations {
            session.apply(operation).await.unwrap();
        }
        session.flush().await.unwrap_err();
        let failed = |failure: &client::RowFailure| {
            (failure.operation().row().value(0), failure.error().status().expect("the server's own words"))
        };
        let errors: Vec<_> = session.take_errors().errors.iter().map(failed).collect();
        let key = |k: i32| Some(Value::Int32(k));
        let expected = [
            (key(4), StatusCode::INVALID_ARGUMENT),
            (key(99), StatusCode::NOT_FOUND),
            (key(98), StatusCode::NOT_FOUND),
            (key(1), StatusCode::ALREADY_PRESENT),
        ];
        assert_eq!(errors, expected);
    });
}

fn read(cluster: &MiniCluster) {
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        let table = client.open_table("nulls").await.unwrap();
        let filters: [(Filter, &[i32]); 12] = [
            (column("n").is_null(), &[1, 2, 3, 6]),
            (column("n").is_not_null(), &[5]),
            (column("s").is_null(), &[1, 5, 6]),
            (column("s").is_not_null(), &[2, 3]),
            (column("d").is_null(), &[]),
            (column("d").is_not_null(), &[1, 2, 3, 5, 6]),
            (column("n").eq(0), &[]),
            (column("s").eq(""), &[2]),
            (column("d").eq(0), &[5]),
            (column("s").is_in(["", "x"]), &[2, 3]),
            (column("d").is_in([42, 0, 42]), &[1, 2, 3, 5, 6]),
            (column("n").is_in(Vec::<i32>::new()), &[]),
        ];
        for (filter, expected) in filters {
            assert_eq!(keys(&table, filter.clone()).await, expected, "{filter:?}");
        }
    });
}
