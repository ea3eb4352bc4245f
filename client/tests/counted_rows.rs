//! Tables whose key does not have to be unique: the server counts the rows of a key.

mod common;

use client::Table;
use client::schema::{Column, DataType, Schema, Value};
use common::{connect, unique_name};

async fn table() -> Table {
    let columns = vec![
        Column::new("k", DataType::Int32),
        Column::new("auto_incrementing_id", DataType::Int64).auto_incrementing(true),
        Column::new("v", DataType::String).nullable(true),
    ];
    let schema = Schema::new(columns, 2).unwrap();
    let client = connect().await;
    let table = client.create_table(unique_name("counted"), schema).range_columns(&[]).replicas(1);
    table.create().await.unwrap()
}

/// The numbers, in order.
async fn numbers(table: &Table) -> Vec<i64> {
    let scan = table.scan().project(&["auto_incrementing_id"]).start().unwrap();
    let rows = scan.collect_rows().await.unwrap();
    let number = |row: &Vec<Option<Value>>| match &row[0] {
        Some(Value::Int64(number)) => *number,
        other => panic!("{other:?}"),
    };
    let mut numbers: Vec<_> = rows.iter().map(number).collect();
    numbers.sort_unstable();
    numbers
}

#[tokio::test]
async fn rows_of_one_key_get_numbers_that_go_on_behind_the_greatest() {
    let table = table().await;
    assert!(table.schema().columns()[1].auto_incrementing);
    let session = table.client().session().build();
    let insert = |v: &str| table.insert().with("k", 1).unwrap().with("v", v).unwrap();
    for v in ["a", "a", "b"] {
        session.apply(insert(v)).await.unwrap();
    }
    assert_eq!(numbers(&table).await, [1, 2, 3]);
    let at = |operation: client::Operation, number: i64| {
        operation.with("k", 1).unwrap().with("auto_incrementing_id", number).unwrap()
    };
    session.apply(at(table.upsert(), 100).with("v", "c").unwrap()).await.unwrap();
    session.apply(insert("d")).await.unwrap();
    assert_eq!(numbers(&table).await, [1, 2, 3, 100, 101]);
    session.apply(at(table.update(), 2).with("v", "changed").unwrap()).await.unwrap();
    session.apply(at(table.delete(), 3)).await.unwrap();
    session.apply(table.insert_ignore().with("k", 1).unwrap()).await.unwrap();
    assert_eq!(numbers(&table).await, [1, 2, 100, 101, 102]);
    let changed = table.scan().filter(client::column("v").eq("changed")).start().unwrap();
    assert_eq!(changed.count().await.unwrap(), 1);

    let error = session.apply(at(table.insert(), 7)).await.unwrap_err();
    assert!(error.to_string().contains("should not be set for INSERT"), "{error}");
    let error = session.apply(table.upsert().with("k", 1).unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("should be set for UPSERT/UPSERT_IGNORE operations"), "{error}");
    assert_eq!(numbers(&table).await.len(), 5);
    table.client().delete_table(table.name()).await.unwrap();
}

#[tokio::test]
async fn writers_at_the_same_time_get_a_number_each() {
    let table = table().await;
    let write = |writer: i32| {
        let table = table.clone();
        async move {
            let session = table.client().session().mode(client::FlushMode::Manual).build();
            for _ in 0..20 {
                for _ in 0..10 {
                    session.apply(table.insert().with("k", writer % 2).unwrap()).await.unwrap();
                }
                session.flush().await.unwrap();
            }
        }
    };
    tokio::join!(write(0), write(1), write(2), write(3));
    assert_eq!(numbers(&table).await, (1..=800).collect::<Vec<_>>());
    table.client().delete_table(table.name()).await.unwrap();
}
