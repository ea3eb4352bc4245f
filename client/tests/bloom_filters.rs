//! Bloom filters in scans: no row of the set is lost, few others come along, whatever the type.

mod common;

use std::collections::BTreeSet;

use client::schema::bloom::BlockBloomFilter;
use client::schema::{Column, DataType, RowError, Schema, Value};
use client::{Filter, FlushMode, Layout, ScanError, Table, column};
use common::{connect, fill, small_table, unique_name};

async fn ids(table: &Table, filters: Vec<Filter>, layout: Layout) -> BTreeSet<i64> {
    let scan = table.scan().project(&["id"]).layout(layout);
    let mut scan = filters.into_iter().fold(scan, |scan, filter| scan.filter(filter)).start().unwrap();
    let mut ids = BTreeSet::new();
    while let Some(batch) = scan.next().await {
        ids.extend(batch.unwrap().fixed::<i64>("id").unwrap().values());
    }
    ids
}

fn filter_of(table: &Table, name: &str, values: impl IntoIterator<Item = Value>) -> BlockBloomFilter {
    let mut filter = table.bloom_filter(name, 100, 0.01).unwrap();
    for value in values {
        filter.insert(value).unwrap();
    }
    filter.build()
}

#[tokio::test]
async fn rows_of_the_set_come_back_with_few_others() {
    let test = small_table("bloom", 3).await;
    fill(&test.client.session().mode(FlushMode::Manual).build(), &test.table, 5000).await;
    let wanted: BTreeSet<i64> = (0..100).map(|n| n * 47 + 3).collect();
    for layout in [Layout::Columnar, Layout::RowWise] {
        let filter = filter_of(&test.table, "id", wanted.iter().map(|id| Value::Int64(*id)));
        let found = ids(&test.table, vec![column("id").in_bloom_filters([filter])], layout).await;
        assert!(found.is_superset(&wanted));
        // 1 % of 4900 others would be 49.
        assert!(found.len() < 300, "{} rows for 100", found.len());
    }
    // Both filters, and other conditions, must hold.
    let texts = |ids: std::ops::Range<i64>| {
        filter_of(&test.table, "text", ids.map(|id| Value::String(format!("row {id}"))))
    };
    let both = column("text").in_bloom_filters([texts(0..60), texts(40..100)]);
    let found = ids(&test.table, vec![both, column("id").less_than(1000i64)], Layout::Columnar).await;
    let expected: BTreeSet<i64> = (41..60).filter(|id| id % 10 != 0).collect();
    assert!(
        found.is_superset(&expected) && found.len() < 60 && found.iter().all(|id| *id < 1000),
        "{found:?}"
    );
    // NULL is in no filter, and nothing in an empty one.
    assert!(!found.contains(&50), "its text is NULL");
    let nothing = column("id").in_bloom_filters([filter_of(&test.table, "id", [])]);
    assert!(ids(&test.table, vec![nothing], Layout::Columnar).await.is_empty());
    test.delete().await;
}

#[tokio::test]
async fn cells_of_every_type_are_found() {
    let client = connect().await;
    let typed = [
        Column::new("i8", DataType::Int8),
        Column::new("i16", DataType::Int16),
        Column::new("i32", DataType::Int32),
        Column::new("bool", DataType::Bool),
        Column::new("float", DataType::Float),
        Column::new("double", DataType::Double),
        Column::new("string", DataType::String),
        Column::new("binary", DataType::Binary),
        Column::new("time", DataType::UnixtimeMicros),
        Column::new("date", DataType::Date),
        Column::varchar("varchar", 9),
        Column::decimal("d32", 9, 2),
        Column::decimal("d64", 18, 0),
        Column::decimal("d128", 38, 10),
    ];
    let value = |column: &Column, n: i64| match column.data_type {
        DataType::Int8 => Value::Int8(n as i8),
        DataType::Int16 => Value::Int16(n as i16 - 50),
        DataType::Int32 => Value::Int32(n as i32 * 1_000_003),
        DataType::Bool => Value::Bool(n % 2 == 0),
        DataType::Float => Value::Float(n as f32 / 3.0),
        DataType::Double => Value::Double(n as f64 / -7.0),
        // The first is empty: empty cells hash in their own way.
        DataType::String => Value::String("é".repeat(n as usize)),
        DataType::Binary => Value::Binary(vec![0; n as usize].into()),
        DataType::UnixtimeMicros => Value::UnixtimeMicros(-n),
        DataType::Date => Value::Date(n as i32),
        DataType::Varchar => Value::Varchar(format!("v{n}")),
        DataType::Decimal32 => Value::Decimal32(-(n as i32)),
        DataType::Decimal64 => Value::Decimal64(n * 1_000_000_007),
        _ => Value::Decimal128(i128::from(n) * 10_i128.pow(20)),
    };
    let columns = [Column::new("id", DataType::Int64)].into_iter().chain(typed.iter().cloned());
    let schema = Schema::new(columns.collect(), 1).unwrap();
    let name = unique_name("bloom_types");
    let table =
        client.create_table(&name, schema).hash_partition(&["id"], 2).replicas(1).create().await.unwrap();
    let session = client.session().mode(FlushMode::Manual).build();
    for id in 0..100i64 {
        let mut row = table.insert().with("id", id).unwrap();
        for column in &typed {
            row.set(&column.name, value(column, id)).unwrap();
        }
        session.apply(row).await.unwrap();
    }
    session.flush().await.unwrap();
    for of in &typed {
        let filter = filter_of(&table, &of.name, [value(of, 0), value(of, 42)]);
        let filters = vec![column(&of.name).in_bloom_filters([filter])];
        let found = ids(&table, filters, Layout::Columnar).await;
        let most = if of.data_type == DataType::Bool { 50 } else { 10 };
        assert!(found.contains(&0) && found.contains(&42) && found.len() <= most, "{}: {found:?}", of.name);
    }
    client.delete_table(&name).await.unwrap();
}

#[tokio::test]
async fn wrong_columns_and_types_are_named() {
    let test = small_table("bloom_wrong", 1).await;
    assert!(matches!(test.table.bloom_filter("nope", 1, 0.1), Err(ScanError::NoSuchColumn { .. })));
    let mut filter = test.table.bloom_filter("value", 1, 0.1).unwrap();
    let error = filter.insert("text").unwrap_err();
    assert!(matches!(error, RowError::Type { column, .. } if column == "value"));
    // Without filters the condition says nothing: the servers refuse it.
    let scan = test.table.scan().filter(column("value").in_bloom_filters([]));
    assert!(matches!(scan.start().unwrap().count().await, Err(ScanError::Refused { .. })));
    test.delete().await;
}
