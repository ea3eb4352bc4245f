//! Tables that change while they are used: what readers and writers of the old and the new columns see.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use client::schema::{Column, Compression, DataType, Encoding, PartialRow, Schema, Value};
use client::{FlushMode, MasterCode, RangeBound, RangePartition, Table, column};
use common::{connect, fill, small_schema, small_table, unique_name};

/// All rows of these columns, sorted by their text.
async fn rows(table: &Table, columns: &[&str]) -> Vec<Vec<Option<Value>>> {
    let scan = table.scan().project(columns).start().expect("columns of the table");
    let mut rows = scan.collect_rows().await.expect("a scan");
    rows.sort_by_key(|row| format!("{row:?}"));
    rows
}

async fn insert(table: &Table, id: i64) -> Result<(), client::ApplyError> {
    let row = table.insert().with("id", id).unwrap().with("value", id as i32).unwrap();
    table.client().session().build().apply(row).await
}

#[tokio::test]
async fn an_added_column_shows_its_default_in_old_rows_and_takes_values_in_new_ones() {
    let test = small_table("added", 3).await;
    let (client, old) = (&test.client, &test.table);
    insert(old, 1).await.unwrap();
    let new = client
        .alter_table(old.name())
        .add_column(&Column::new("answer", DataType::Int32).default_value(42))
        .add_column(&Column::new("word", DataType::String).nullable(true))
        .alter()
        .await
        .unwrap();
    assert_eq!(new.id(), old.id());
    assert_eq!(
        new.schema().columns().iter().map(|c| &c.name[..]).collect::<Vec<_>>()[3..],
        ["answer", "word"]
    );
    let one = [Some(Value::Int64(1)), Some(Value::Int32(42)), None];
    assert_eq!(rows(&new, &["id", "answer", "word"]).await, [one.to_vec()]);
    // Who knows only the old columns goes on; what they leave out gets its default.
    insert(old, 2).await.unwrap();
    let row = new.insert().with("id", 3i64).unwrap().with("value", 3).unwrap().with("answer", 7).unwrap();
    client.session().build().apply(row.with("word", "hello").unwrap()).await.unwrap();
    assert_eq!(rows(old, &["id", "value"]).await.len(), 3);
    let two = [Some(Value::Int64(2)), Some(Value::Int32(42)), None];
    let three = [Some(Value::Int64(3)), Some(Value::Int32(7)), Some(Value::String("hello".into()))];
    let all = rows(&new, &["id", "answer", "word"]).await;
    assert_eq!(all, [one.to_vec(), two.to_vec(), three.to_vec()]);
    let found = new.scan().project(&["id"]).filter(column("answer").eq(42)).start().unwrap();
    assert_eq!(found.count().await.unwrap(), 2, "old rows match by their default");
    let found = new.scan().project(&["id"]).filter(column("word").is_null()).start().unwrap();
    assert_eq!(found.count().await.unwrap(), 2);
    // An update of an old row keeps what it does not set.
    let row = new.update().with("id", 1i64).unwrap().with("word", "one").unwrap();
    client.session().build().apply(row).await.unwrap();
    let one = [Some(Value::Int64(1)), Some(Value::Int32(42)), Some(Value::String("one".into()))];
    assert_eq!(rows(&new, &["id", "answer", "word"]).await[0], one);
    test.delete().await;
}

#[tokio::test]
async fn another_default_is_for_new_rows_only() {
    let test = small_table("default", 1).await;
    let client = &test.client;
    let name = test.table.name();
    insert(&test.table, 1).await.unwrap();
    let added = Column::new("n", DataType::Int32).default_value(1);
    let table = client.alter_table(name).add_column(&added).alter().await.unwrap();
    let table = {
        insert(&table, 2).await.unwrap();
        client.alter_table(name).set_default("n", 9).alter().await.unwrap()
    };
    insert(&table, 3).await.unwrap();
    let values =
        |rows: Vec<Vec<Option<Value>>>| rows.into_iter().map(|row| row[1].clone()).collect::<Vec<_>>();
    let int = |n| Some(Value::Int32(n));
    assert_eq!(values(rows(&table, &["id", "n"]).await), [int(1), int(1), int(9)]);
    let n = &table.schema().columns()[3];
    assert_eq!((&n.read_default, &n.write_default), (&int(1), &int(9)));
    let table = client.alter_table(name).remove_default("n").alter().await.unwrap();
    let error = insert(&table, 4).await.unwrap_err();
    assert!(error.to_string().contains('n'), "{error}");
    test.delete().await;
}

#[tokio::test]
async fn a_column_that_is_dropped_and_added_again_shows_no_old_cells() {
    let test = small_table("again", 2).await;
    let (client, old) = (&test.client, &test.table);
    let session = client.session().mode(FlushMode::Manual).build();
    fill(&session, old, 50).await;
    let without = client.alter_table(old.name()).drop_column("text").alter().await.unwrap();
    assert_eq!(without.schema().index_of("text"), None);
    assert_eq!(without.scan().start().unwrap().count().await.unwrap(), 50);
    // Who still asks for the dropped column is refused, in scans as in writes.
    let error = old.scan().project(&["text"]).start().unwrap().count().await.unwrap_err();
    assert!(error.to_string().contains("text"), "{error}");
    let row = old.insert().with("id", 100i64).unwrap().with("value", 1).unwrap().with("text", "x").unwrap();
    assert!(client.session().build().apply(row).await.unwrap_err().to_string().contains("text"));
    let again = Column::new("text", DataType::String).nullable(true);
    let table = client.alter_table(old.name()).add_column(&again).alter().await.unwrap();
    assert!(table.schema().id(2) > old.schema().id(2), "it is another column");
    assert!(rows(&table, &["text"]).await.iter().all(|row| row[0].is_none()), "no old cells");
    let both = client.alter_table(old.name()).drop_column("text");
    let both =
        both.add_column(&Column::new("text", DataType::Int64).default_value(5i64)).alter().await.unwrap();
    assert!(rows(&both, &["text"]).await.iter().all(|row| row[0] == Some(Value::Int64(5))));
    test.delete().await;
}

#[tokio::test]
async fn a_renamed_column_keeps_its_cells_and_loses_its_old_name() {
    let test = small_table("renamed", 2).await;
    let (client, old) = (&test.client, &test.table);
    insert(old, 1).await.unwrap();
    let new = client
        .alter_table(old.name())
        .rename_column("value", "number")
        .rename_column("id", "key")
        .alter()
        .await
        .unwrap();
    assert_eq!(rows(&new, &["key", "number"]).await, [[Some(Value::Int64(1)), Some(Value::Int32(1))]]);
    assert_eq!(new.schema().id(1), old.schema().id(1));
    let error = insert(old, 2).await.unwrap_err();
    assert!(error.to_string().contains("value") || error.to_string().contains("id"), "{error}");
    let row = new.insert().with("key", 2i64).unwrap().with("number", 2).unwrap();
    client.session().build().apply(row).await.unwrap();
    assert_eq!(rows(&new, &["key"]).await.len(), 2);
    test.delete().await;
}

#[tokio::test]
async fn hints_comments_properties_and_names_come_back_as_given() {
    let test = small_table("hints", 1).await;
    let client = &test.client;
    let other = unique_name("hints_renamed");
    let table = client
        .alter_table(test.table.name())
        .set_encoding("value", Encoding::Rle)
        .set_compression("text", Compression::Lz4)
        .set_block_size("text", 4096)
        .set_column_comment("text", "words")
        .set_immutable("value", true)
        .rename_to(&other)
        .owner("somebody else")
        .comment("another comment")
        .extra_config("kudu.table.history_max_age_sec", "77")
        .alter()
        .await
        .unwrap();
    assert_eq!((table.name(), table.id()), (&other[..], test.table.id()));
    assert_eq!((table.owner(), table.comment()), ("somebody else", "another comment"));
    assert_eq!(table.extra_configs()["kudu.table.history_max_age_sec"], "77");
    let (value, text) = (&table.schema().columns()[1], &table.schema().columns()[2]);
    assert_eq!((value.encoding, value.immutable), (Encoding::Rle, true));
    let expected = (Compression::Lz4, 4096, "words");
    assert_eq!((text.compression, text.block_size, &text.comment[..]), expected);
    assert!(!client.table_exists(test.table.name()).await.unwrap());
    // The handle from before names the table by its id.
    insert(&test.table, 1).await.unwrap();
    let row = table.update().with("id", 1i64).unwrap().with("value", 2).unwrap();
    let error = client.session().build().apply(row).await.unwrap_err();
    assert!(error.to_string().contains("value"), "immutable: {error}");
    let row = table.upsert_ignore().with("id", 1i64).unwrap().with("value", 2).unwrap();
    client.session().build().apply(row.with("text", "t").unwrap()).await.unwrap();
    let one = [Some(Value::Int32(1)), Some(Value::String("t".into()))];
    assert_eq!(rows(&table, &["value", "text"]).await, [one]);
    let row = table.update_ignore().with("id", 1i64).unwrap().with("value", 3).unwrap();
    client.session().build().apply(row.with("text", "u").unwrap()).await.unwrap();
    let one = [Some(Value::Int32(1)), Some(Value::String("u".into()))];
    assert_eq!(rows(&table, &["value", "text"]).await, [one]);
    client.delete_table(&other).await.unwrap();
}

fn day(schema: &Schema, day: i32) -> PartialRow {
    let mut row = PartialRow::new(schema);
    row.set("day", day).unwrap();
    row
}

#[tokio::test]
async fn ranges_come_with_hash_partitions_of_their_own_and_go_with_their_rows() {
    let client = connect().await;
    let columns = vec![Column::new("day", DataType::Int32), Column::new("id", DataType::Int64)];
    let schema = Schema::new(columns, 2).unwrap();
    let between = |from, to| RangePartition::between(day(&schema, from), day(&schema, to));
    let name = unique_name("ranges");
    let first = client
        .create_table(&name, schema.clone())
        .range_columns(&["day"])
        .hash_partition(&["id"], 2)
        .range(between(0, 10))
        .replicas(1)
        .create()
        .await
        .unwrap();
    let write = |table: &Table, day: i32| {
        let table = table.clone();
        async move {
            let session = table.client().session().mode(FlushMode::Manual).build();
            for id in 0..40i64 {
                let row = table.insert().with("day", day).unwrap().with("id", id).unwrap();
                if session.apply(row).await.is_err() {
                    return false;
                }
            }
            session.flush().await.is_ok()
        }
    };
    assert!(write(&first, 5).await);
    assert!(!write(&first, 15).await, "no such range yet");
    let own = between(10, 20).hash_seeded(&["id"], 5, 7);
    let last =
        RangePartition::new(RangeBound::Exclusive(day(&schema, 19)), RangeBound::Inclusive(day(&schema, 29)));
    let table = client.alter_table(&name).add_range(own).add_range(last).alter().await.unwrap();
    assert_eq!(table.tablets().await.unwrap().len(), 2 + 5 + 2);
    assert_eq!(table.partition_schema().custom_ranges.len(), 1);
    for day in [15, 20, 29] {
        assert!(write(&table, day).await, "day {day}");
    }
    assert_eq!(table.scan().project(&[]).start().unwrap().count().await.unwrap(), 160);
    let error = client.alter_table(&name).add_range(between(5, 12)).alter().await.unwrap_err();
    assert!(error.to_string().contains("5 <= VALUES < 12"), "{error}");
    assert_eq!(error.code(), Some(MasterCode::UNKNOWN_ERROR));
    let table = client.alter_table(&name).drop_range(between(10, 20)).alter().await.unwrap();
    assert_eq!(table.tablets().await.unwrap().len(), 4);
    assert!(table.partition_schema().custom_ranges.is_empty());
    assert_eq!(table.scan().project(&[]).start().unwrap().count().await.unwrap(), 120);
    assert!(!write(&table, 15).await, "it is gone");
    // In the place of the old one, with the table's hash partitions, and no old rows.
    let column = Column::new("note", DataType::String).nullable(true);
    let table =
        client.alter_table(&name).add_column(&column).add_range(between(10, 20)).alter().await.unwrap();
    assert_eq!(table.tablets().await.unwrap().len(), 6);
    let in_range = table.scan().filter(client::column("day").eq(15)).start().unwrap();
    assert_eq!(in_range.count().await.unwrap(), 0);
    assert!(write(&table, 15).await);
    let unbounded = RangePartition::new(RangeBound::Inclusive(day(&schema, 30)), RangeBound::Unbounded);
    let table = client.alter_table(&name).add_range(unbounded).alter().await.unwrap();
    assert!(write(&table, i32::MAX).await);
    client.delete_table(&name).await.unwrap();
}

#[tokio::test]
async fn one_wrong_change_of_several_changes_nothing() {
    let test = small_table("nothing", 1).await;
    let (client, name) = (&test.client, test.table.name());
    let error = client
        .alter_table(name)
        .add_column(&Column::new("a", DataType::Int32).nullable(true))
        .drop_column("text")
        .comment("never")
        .drop_column("nope")
        .alter()
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(MasterCode::INVALID_SCHEMA));
    assert!(error.to_string().contains("nope") && !error.is_retriable() && !error.is_timeout(), "{error}");
    let now = client.open_table(name).await.unwrap();
    assert_eq!((now.schema(), now.comment()), (test.table.schema(), ""));
    let error = client.alter_table("no such table").comment("x").alter().await.unwrap_err();
    assert!(error.is_table_not_found(), "{error}");
    test.delete().await;
}

#[tokio::test]
async fn alterations_at_the_same_time_all_happen() {
    let test = small_table("together", 4).await;
    let name = test.table.name().to_owned();
    let clients = [connect().await, connect().await, connect().await, connect().await];
    let one = |number: usize| {
        let (client, name) = (clients[number].clone(), name.clone());
        async move {
            for round in 0..5 {
                let column = Column::new(format!("c{number}_{round}"), DataType::Int32).nullable(true);
                client.alter_table(&name).add_column(&column).alter().await.unwrap();
            }
        }
    };
    tokio::join!(one(0), one(1), one(2), one(3));
    let table = test.client.open_table(&name).await.unwrap();
    let mut names: Vec<_> = table.schema().columns()[3..].iter().map(|column| column.name.clone()).collect();
    names.sort();
    let mut expected: Vec<_> =
        (0..4).flat_map(|number| (0..5).map(move |round| format!("c{number}_{round}"))).collect();
    expected.sort();
    assert_eq!(names, expected);
    let mut ids: Vec<_> = (0..table.schema().len()).map(|index| table.schema().id(index)).collect();
    ids.dedup();
    assert_eq!(ids.len(), 23, "an id a column");
    test.delete().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_lose_nothing_while_the_table_changes_under_them() {
    let test = small_table("load", 4).await;
    let (client, name) = (test.client.clone(), test.table.name().to_owned());
    let (stop, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
    let writers: Vec<_> = (0..3)
        .map(|_| {
            let (table, stop, next) = (test.table.clone(), stop.clone(), next.clone());
            tokio::spawn(async move {
                let session = table.client().session().mode(FlushMode::Manual).build();
                let mut batches = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..20 {
                        let id = next.fetch_add(1, Ordering::Relaxed);
                        let row = table.insert().with("id", id).unwrap().with("value", id as i32).unwrap();
                        session.apply(row).await.unwrap();
                    }
                    let start = Instant::now();
                    session.flush().await.expect("old columns are still there");
                    batches.push((start, Instant::now()));
                }
                batches
            })
        })
        .collect();
    let mut alterations = Vec::new();
    for round in 0..10 {
        let begin = Instant::now();
        let column = Column::new(format!("c{round}"), DataType::Int32).default_value(round);
        client.alter_table(&name).add_column(&column).alter().await.unwrap();
        alterations.push((begin, Instant::now()));
        if round % 2 == 1 {
            let begin = Instant::now();
            client.alter_table(&name).drop_column(format!("c{}", round - 1)).alter().await.unwrap();
            alterations.push((begin, Instant::now()));
        }
    }
    stop.store(true, Ordering::Relaxed);
    let mut batches = Vec::new();
    for writer in writers {
        batches.extend(writer.await.unwrap());
    }
    // The longest batch beside each alteration: a busy machine may hold up any one of them, an alteration that stops
    // writers would hold up most. A figure and no bound, for on a busy machine it is not ours.
    let beside = |(begin, end): &(Instant, Instant)| {
        let overlapping = batches.iter().filter(|(start, done)| start <= end && done >= begin);
        overlapping.map(|(start, done)| done.duration_since(*start)).max().unwrap_or_default()
    };
    let mut longest: Vec<Duration> = alterations.iter().map(beside).collect();
    longest.sort();
    println!("the longest batches beside {} alterations: {longest:?}", longest.len());
    let table = client.open_table(&name).await.unwrap();
    let written = next.load(Ordering::Relaxed) as u64;
    assert_eq!(table.scan().project(&[]).start().unwrap().count().await.unwrap(), written);
    let defaults = rows(&table, &["id", "value", "c9"]).await;
    assert_eq!(defaults.len() as u64, written);
    for row in defaults {
        let (Some(Value::Int64(id)), Some(Value::Int32(value))) = (&row[0], &row[1]) else {
            panic!("{row:?}")
        };
        assert_eq!((*id as i32, &row[2]), (*value, &Some(Value::Int32(9))), "{row:?}");
    }
    test.delete().await;
}

#[tokio::test]
async fn a_scan_goes_on_with_the_columns_it_began_with() {
    let test = small_table("scan", 1).await;
    let (client, table) = (&test.client, &test.table);
    let session = client.session().mode(FlushMode::Manual).build();
    fill(&session, table, 5_000).await;
    let mut scan = table.scan().project(&["id", "text"]).batch_bytes(1).start().unwrap();
    let mut seen = scan.next().await.unwrap().unwrap().rows();
    assert!(seen < 5_000, "more than one batch");
    let added = Column::new("more", DataType::Int32).nullable(true);
    client.alter_table(table.name()).add_column(&added).drop_column("value").alter().await.unwrap();
    while let Some(batch) = scan.next().await {
        seen += batch.unwrap().rows();
    }
    assert_eq!(seen, 5_000);
    test.delete().await;
}

#[tokio::test]
async fn rows_of_the_bounds_must_be_of_one_schema() {
    let test = small_table("mixed", 1).await;
    let other = Schema::new(vec![Column::new("day", DataType::Int32)], 1).unwrap();
    let mut row = PartialRow::new(&small_schema());
    row.set("id", 5i64).unwrap();
    let range = RangePartition::between(row, day(&other, 7));
    let error = test.client.alter_table(test.table.name()).add_range(range).alter().await.unwrap_err();
    assert!(error.to_string().contains("different schemas"), "{error}");
    test.delete().await;
}
