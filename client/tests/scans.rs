//! Scans: the right rows, whatever the layout, the way, the mode and the reader's pace.

mod common;

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use client::schema::{Column, DataType, Schema, Timestamp, Value};
use client::{Client, Filter, FlushMode, Layout, ReadMode, ReplicaSelection, ScanError, Table, column};
use common::{connect, fill, master_address, small_schema, small_table, unique_name};
use futures_core::Stream;

/// Says by looking at a row whether a filter should let it through.
type Judge = Box<dyn Fn(i64) -> bool>;

async fn ids(table: &Table, filters: Vec<Filter>) -> Vec<i64> {
    let mut scan = table.scan().project(&["id"]);
    for filter in filters {
        scan = scan.filter(filter);
    }
    let mut scan = scan.start().expect("the filters fit");
    let mut ids = Vec::new();
    while let Some(batch) = scan.next().await {
        ids.extend(batch.expect("rows").fixed::<i64>("id").expect("an INT64").values());
    }
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn rows_come_back_as_written_in_both_layouts_and_by_every_replica_choice() {
    let test = small_table("layouts", 4).await;
    fill(&test.client.session().mode(FlushMode::Manual).build(), &test.table, 1000).await;
    for layout in [Layout::Columnar, Layout::RowWise] {
        for selection in [ReplicaSelection::LeaderOnly, ReplicaSelection::First, ReplicaSelection::Closest] {
            let scan = test.table.scan().layout(layout).selection(selection).batch_bytes(2000);
            let mut scan = scan.start().unwrap();
            assert_eq!(scan.schema().columns().len(), 3);
            let mut seen = BTreeSet::new();
            while let Some(batch) = scan.next().await {
                let batch = batch.unwrap();
                let (ids, values) = (batch.fixed::<i64>("id").unwrap(), batch.fixed::<i32>(1).unwrap());
                let texts = batch.varlen("text").unwrap();
                if let Some(slice) = ids.as_slice() {
                    assert_eq!(slice, ids.values().collect::<Vec<_>>());
                }
                for row in 0..batch.rows() {
                    let id = ids.get(row).unwrap();
                    assert!(seen.insert(id), "row {id} came twice");
                    assert_eq!(values.get(row), Some(id as i32));
                    assert_eq!(texts.is_null(row), id % 10 == 0);
                    let text = (id % 10 != 0).then(|| format!("row {id}"));
                    assert_eq!(texts.text(row), text.as_deref());
                    assert_eq!(batch.row(row).get("text").unwrap(), text.map(Value::String));
                }
                assert!(
                    batch.fixed::<i32>("id").is_err()
                        && batch.varlen("id").is_err()
                        && batch.fixed::<i64>(9).is_err()
                );
            }
            assert_eq!(seen.len(), 1000, "{layout:?} {selection:?}");
        }
    }
    test.delete().await;
}

#[tokio::test]
async fn every_type_comes_back_as_written() {
    let client = connect().await;
    let columns = vec![
        Column::new("key", DataType::Int8),
        Column::new("i16", DataType::Int16).nullable(true),
        Column::new("i32", DataType::Int32).nullable(true),
        Column::new("i64", DataType::Int64).nullable(true),
        Column::new("bool", DataType::Bool).nullable(true),
        Column::new("float", DataType::Float).nullable(true),
        Column::new("double", DataType::Double).nullable(true),
        Column::new("string", DataType::String).nullable(true),
        Column::new("binary", DataType::Binary).nullable(true),
        Column::new("time", DataType::UnixtimeMicros).nullable(true),
        Column::new("date", DataType::Date).nullable(true),
        Column::varchar("varchar", 5).nullable(true),
        Column::decimal("d32", 9, 2).nullable(true),
        Column::decimal("d64", 18, 0).nullable(true),
        Column::decimal("d128", 38, 10).nullable(true),
    ];
    let schema = Schema::new(columns, 1).unwrap();
    let table =
        client.create_table(unique_name("types"), schema).hash_partition(&["key"], 2).replicas(1).create();
    let table = table.await.unwrap();
    let values = |key: i8, sign: i64| {
        vec![
            Value::Int8(key),
            Value::Int16(i16::MAX / 2 * sign as i16),
            Value::Int32(i32::MIN),
            Value::Int64(i64::MAX * sign),
            Value::Bool(sign > 0),
            Value::Float(-0.5),
            Value::Double(f64::MIN_POSITIVE),
            Value::String("zwölf \0 Nüsse".into()),
            Value::Binary(vec![0, 255, 128].into()),
            Value::UnixtimeMicros(-1),
            Value::Date(18_000),
            Value::Varchar("ünfzi".into()),
            Value::Decimal32(99_999 * sign as i32),
            Value::Decimal64(999_999_999_999_999_999 * sign),
            Value::Decimal128(-12_345_678_901_234_567_890_123),
        ]
    };
    let session = client.session().mode(FlushMode::Manual).build();
    let mut expected = Vec::new();
    for (key, sign) in [(1i8, 1i64), (2, -1)] {
        let mut row = table.insert();
        for (index, value) in values(key, sign).into_iter().enumerate() {
            row.row_mut().set_at(index, value).unwrap();
        }
        session.apply(row).await.unwrap();
        expected.push(values(key, sign).into_iter().map(Some).collect::<Vec<_>>());
    }
    session.apply(table.insert().with("key", 3i8).unwrap()).await.unwrap();
    let mut nulls = vec![None; 15];
    nulls[0] = Some(Value::Int8(3));
    expected.push(nulls);
    session.flush().await.unwrap();
    for layout in [Layout::Columnar, Layout::RowWise] {
        let mut rows = table.scan().layout(layout).start().unwrap().collect_rows().await.unwrap();
        rows.sort_by_key(|row| match row[0] {
            Some(Value::Int8(key)) => key,
            _ => 0,
        });
        assert_eq!(rows, expected, "{layout:?}");
    }
    client.delete_table(table.name()).await.unwrap();
}

#[tokio::test]
async fn the_limit_counts_over_all_tablets() {
    let test = small_table("limit", 4).await;
    fill(&test.client.session().mode(FlushMode::Manual).build(), &test.table, 400).await;
    for limit in [0, 1, 99, 101, 399, 400, 1000] {
        for layout in [Layout::Columnar, Layout::RowWise] {
            let scan = test.table.scan().layout(layout).limit(limit).start().unwrap();
            assert_eq!(scan.count().await.unwrap(), limit.min(400), "limit {limit}, {layout:?}");
        }
    }
    test.delete().await;
}

#[tokio::test]
async fn a_scan_without_columns_counts() {
    let test = small_table("count", 3).await;
    fill(&test.client.session().mode(FlushMode::Manual).build(), &test.table, 300).await;
    for layout in [Layout::Columnar, Layout::RowWise] {
        let count = test.table.scan().project(&[]).layout(layout).start().unwrap().count().await.unwrap();
        assert_eq!(count, 300, "{layout:?}");
    }
    let some = test.table.scan().project(&[]).filter(column("value").less_than(100)).start().unwrap();
    assert_eq!(some.count().await.unwrap(), 100);
    test.delete().await;
}

#[tokio::test]
async fn a_scan_is_a_stream() {
    fn is_stream<S: Stream<Item = Result<client::Batch, ScanError>> + Send + Unpin>(scan: S) -> S {
        scan
    }
    let test = small_table("stream", 2).await;
    fill(&test.client.session().mode(FlushMode::Manual).build(), &test.table, 50).await;
    let mut stream = is_stream(test.table.scan().start().unwrap());
    let mut rows = 0;
    while let Some(batch) = poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await {
        rows += batch.unwrap().rows();
    }
    assert_eq!(rows, 50);
    test.delete().await;
}

#[tokio::test]
async fn an_empty_table_gives_no_batch() {
    let test = small_table("empty", 2).await;
    let mut scan = test.table.scan().start().unwrap();
    assert!(scan.next().await.is_none());
    assert!(scan.next().await.is_none());
    test.delete().await;
}

#[tokio::test]
async fn filters_choose_the_rows_that_a_look_at_each_row_would() {
    let test = small_table("filters", 3).await;
    fill(&test.client.session().mode(FlushMode::Manual).build(), &test.table, 200).await;
    let cases: Vec<(Filter, Judge)> = vec![
        (column("value").eq(17), Box::new(|id| id == 17)),
        (column("value").at_least(150), Box::new(|id| id >= 150)),
        (column("value").more_than(150), Box::new(|id| id > 150)),
        (column("value").at_most(20), Box::new(|id| id <= 20)),
        (column("value").less_than(20), Box::new(|id| id < 20)),
        (column("value").within(20, 30), Box::new(|id| (20..30).contains(&id))),
        (column("value").within(30, 20), Box::new(|_| false)),
        (column("value").more_than(i32::MAX), Box::new(|_| false)),
        (column("value").at_most(i32::MAX), Box::new(|_| true)),
        (column("value").is_null(), Box::new(|_| false)),
        (column("value").is_not_null(), Box::new(|_| true)),
        (column("text").is_null(), Box::new(|id| id % 10 == 0)),
        (column("text").is_not_null(), Box::new(|id| id % 10 != 0)),
        (column("text").eq("row 33"), Box::new(|id| id == 33)),
        (column("text").eq(""), Box::new(|_| false)),
        (column("text").is_in(["row 5", "row 10", "row 5", "nothing"]), Box::new(|id| id == 5)),
        (
            column("text").at_least("row 9"),
            Box::new(|id| id % 10 != 0 && format!("row {id}").as_str() >= "row 9"),
        ),
        (
            column("text").at_most("row 11"),
            Box::new(|id| id % 10 != 0 && format!("row {id}").as_str() <= "row 11"),
        ),
        (column("id").eq(42i64), Box::new(|id| id == 42)),
        (column("id").at_most(3i64), Box::new(|id| id <= 3)),
        (column("id").is_in(Vec::<i64>::new()), Box::new(|_| false)),
    ];
    for (filter, matches) in &cases {
        let expected: Vec<i64> = (0..200).filter(|id| matches(*id)).collect();
        assert_eq!(ids(&test.table, vec![filter.clone()]).await, expected, "{filter:?}");
    }
    let both = vec![column("value").at_least(50), column("text").is_null()];
    assert_eq!(ids(&test.table, both).await, (50..200).step_by(10).collect::<Vec<_>>());
    test.delete().await;
}

#[tokio::test]
async fn long_in_lists_give_what_a_row_by_row_test_gives() {
    let test = small_table("in_lists", 2).await;
    fill(&test.client.session().mode(FlushMode::Manual).build(), &test.table, 10_000).await;
    let started = std::time::Instant::now();
    // Unsorted, with repetitions, half of it outside of the table.
    let long: Vec<i64> = (0..30_000).map(|n: i64| (n * 7919) % 20_000).collect();
    let wanted: BTreeSet<i64> = long.iter().copied().filter(|id| *id < 10_000).collect();
    let expected: Vec<i64> = wanted.iter().copied().collect();
    assert_eq!(ids(&test.table, vec![column("id").is_in(long.clone())]).await, expected);
    let values = long.iter().map(|id| *id as i32);
    assert_eq!(ids(&test.table, vec![column("value").is_in(values.clone())]).await, expected);
    let strings = (0..5140).map(|n| format!("row {}", n * 2));
    let expected_texts: Vec<i64> = (0..10_000).step_by(2).filter(|id| id % 10 != 0).collect();
    assert_eq!(ids(&test.table, vec![column("text").is_in(strings)]).await, expected_texts);
    let ranged = vec![column("value").is_in(values), column("id").within(100i64, 200i64)];
    let expected: Vec<i64> = wanted.range(100..200).copied().collect();
    assert_eq!(ids(&test.table, ranged).await, expected);
    assert!(started.elapsed() < Duration::from_secs(120), "took {:?}", started.elapsed());
    test.delete().await;
}

#[tokio::test]
async fn primary_key_bounds_cut_the_scan() {
    let client = connect().await;
    let table = client.create_table(unique_name("bounds"), small_schema()).replicas(1).range_columns(&["id"]);
    let split = |id: i64| {
        let mut row = client::schema::PartialRow::new(&small_schema());
        row.set("id", id).unwrap();
        row
    };
    let table = table.split(split(100)).split(split(200)).create().await.unwrap();
    fill(&client.session().mode(FlushMode::Manual).build(), &table, 300).await;
    let bound = |id: i64| {
        let mut row = table.row();
        row.set("id", id).unwrap();
        row
    };
    let scan = table.scan().lower_bound(bound(95)).upper_bound(bound(105));
    let rows = scan.project(&["id"]).start().unwrap().collect_rows().await.unwrap();
    assert_eq!(rows.len(), 10);
    let backwards = table.scan().lower_bound(bound(105)).upper_bound(bound(95)).start().unwrap();
    assert_eq!(backwards.count().await.unwrap(), 0);
    assert!(matches!(table.scan().lower_bound(table.row()).start(), Err(ScanError::Key { .. })));
    client.delete_table(table.name()).await.unwrap();
}

#[tokio::test]
async fn a_snapshot_shows_what_was_written_before_it_and_nothing_later() {
    let test = small_table("snapshot", 3).await;
    let session = test.client.session().mode(FlushMode::Manual).build();
    fill(&session, &test.table, 50).await;
    let after_first = test.client.latest_observed_timestamp();
    assert!(after_first > Timestamp::MIN, "writes give timestamps");
    for id in 0..50i64 {
        session.apply(test.table.delete().with("id", id).unwrap()).await.unwrap();
    }
    session.flush().await.unwrap();
    let count = |mode| {
        let scan = test.table.scan().read_mode(mode).start().unwrap();
        async move { scan.count().await.unwrap() }
    };
    assert_eq!(count(ReadMode::Snapshot(after_first.next())).await, 50);
    assert_eq!(count(ReadMode::SnapshotNow).await, 0);
    assert_eq!(count(ReadMode::Latest).await, 0);
    assert_eq!(count(ReadMode::ReadYourWrites).await, 0);
    test.delete().await;
}

#[tokio::test]
async fn another_client_reads_what_this_one_wrote_when_told_its_timestamp() {
    let test = small_table("own_writes", 2).await;
    fill(&test.client.session().mode(FlushMode::Manual).build(), &test.table, 20).await;
    let seen = test.client.latest_observed_timestamp();
    let other = Client::builder(master_address()).propagated_timestamp(seen).connect().await.unwrap();
    let table = other.open_table(test.table.name()).await.unwrap();
    let scan = table.scan().read_mode(ReadMode::ReadYourWrites).selection(ReplicaSelection::Closest);
    assert_eq!(scan.start().unwrap().count().await.unwrap(), 20);
    test.delete().await;
}

#[tokio::test]
async fn a_fault_tolerant_scan_gives_each_tablets_rows_in_key_order() {
    let test = small_table("ordered", 1).await;
    fill(&test.client.session().mode(FlushMode::Manual).build(), &test.table, 2000).await;
    let mut scan = test.table.scan().fault_tolerant(true).batch_bytes(1000).project(&["id"]).start().unwrap();
    let mut ids = Vec::new();
    while let Some(batch) = scan.next().await {
        ids.extend(batch.unwrap().fixed::<i64>("id").unwrap().values());
    }
    assert_eq!(ids, (0..2000).collect::<Vec<_>>());
    for mode in [ReadMode::Latest, ReadMode::ReadYourWrites, ReadMode::SnapshotNow] {
        let scan = test.table.scan().fault_tolerant(true).read_mode(mode);
        assert_eq!(scan.start().unwrap().count().await.unwrap(), 2000, "{mode:?}");
    }
    test.delete().await;
}

#[tokio::test]
async fn a_slow_reader_keeps_its_scanner_and_many_dropped_ones_do_no_harm() {
    let test = small_table("slow", 1).await;
    fill(&test.client.session().mode(FlushMode::Manual).build(), &test.table, 2000).await;
    for _ in 0..200 {
        drop(test.table.scan().batch_bytes(1).start().unwrap());
    }
    let scan = test.table.scan().batch_bytes(1).keep_alive(Duration::from_millis(20));
    let mut scan = scan.start().unwrap();
    let mut rows = 0;
    while let Some(batch) = scan.next().await {
        rows += batch.unwrap().rows();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(rows, 2000);
    test.delete().await;
}

#[tokio::test]
async fn a_scan_that_does_not_fit_the_table_is_refused_with_the_column_named() {
    let test = small_table("misfit", 1).await;
    for error in [
        test.table.scan().project(&["nope"]).start().unwrap_err(),
        test.table.scan().filter(column("nope").is_null()).start().unwrap_err(),
    ] {
        assert!(error.to_string().contains("'nope'") && !error.is_retriable(), "{error}");
    }
    assert!(matches!(test.table.scan().project(&["id", "id"]).start(), Err(ScanError::Projection { .. })));
    let wrong = test.table.scan().filter(column("value").eq("text")).start().unwrap_err();
    assert!(wrong.to_string().contains("'value'"), "{wrong}");
    let deleted = test.table.clone();
    test.delete().await;
    let error = deleted.scan().start().unwrap().count().await.unwrap_err();
    assert!(!error.is_timeout() && error.to_string().contains(deleted.name()), "{error}");
}

#[tokio::test]
async fn unix_sockets_are_used_by_default_and_tcp_when_told_so() {
    for wanted in [true, false] {
        let client =
            Client::builder(master_address()).use_unix_domain_sockets(wanted).connect().await.unwrap();
        let servers = client.list_tablet_servers().await.unwrap();
        let advertised = servers.iter().all(|server| server.unix_path.is_some());
        let name = unique_name("unix");
        let table = client
            .create_table(&name, small_schema())
            .hash_partition(&["id"], 2)
            .replicas(1)
            .create()
            .await
            .unwrap();
        fill(&client.session().mode(FlushMode::Manual).build(), &table, 100).await;
        assert_eq!(table.scan().start().unwrap().count().await.unwrap(), 100);
        let stats = client.location_stats();
        let is_unix = wanted && advertised;
        assert_eq!((stats.unix_chosen > 0, stats.tcp_chosen > 0), (is_unix, !is_unix), "{stats:?}");
        assert_eq!(stats.unix_fallbacks, 0);
        client.delete_table(&name).await.unwrap();
    }
}
