//! Scans of what changed between two snapshots, beside a model of the table.

mod common;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::schema::{Column, DataType, Schema, Timestamp, Value};
use client::{FlushMode, Layout, ScanBuilder, ScanError, Session, Table, column};
use common::{connect, fill, small_table, unique_name};

/// What a scan of changes says of each row: the value, and whether the row is gone.
type Changes = BTreeMap<i64, (i32, bool)>;

async fn changes(scan: ScanBuilder) -> Changes {
    let mut scan = scan.start().unwrap();
    assert_eq!(scan.schema().columns().last().unwrap().data_type, DataType::IsDeleted);
    let mut changes = Changes::new();
    while let Some(batch) = scan.next().await {
        let batch = batch.unwrap();
        let (ids, values) = (batch.fixed::<i64>("id").unwrap(), batch.fixed::<i32>("value").unwrap());
        let gone = batch.fixed::<bool>("is_deleted").unwrap();
        for row in 0..batch.rows() {
            let change = (values.get(row).unwrap(), gone.get(row).unwrap());
            assert_eq!(changes.insert(ids.get(row).unwrap(), change), None, "a row came twice");
        }
    }
    changes
}

enum Write {
    Insert(i64, i32),
    Upsert(i64, i32),
    Update(i64, i32),
    Delete(i64),
}

/// Writes in this order, one flush each, and gives the snapshot that shows all of them.
async fn write(session: &Session, table: &Table, writes: Vec<Write>) -> Timestamp {
    for write in writes {
        let row = match write {
            Write::Insert(id, value) => table.insert().with("id", id).unwrap().with("value", value),
            Write::Upsert(id, value) => table.upsert().with("id", id).unwrap().with("value", value),
            Write::Update(id, value) => table.update().with("id", id).unwrap().with("value", value),
            Write::Delete(id) => table.delete().with("id", id),
        };
        session.apply(row.unwrap()).await.unwrap();
        session.flush().await.unwrap();
    }
    table.client().latest_observed_timestamp().next()
}

#[tokio::test]
async fn each_row_that_changed_comes_once_as_it_is_or_as_it_was() {
    let test = small_table("diff", 3).await;
    let (table, session) = (&test.table, test.client.session().mode(FlushMode::Manual).build());
    let a_second_ago = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - Duration::from_secs(1);
    let before = Timestamp::new(a_second_ago.as_micros() as u64, 0);
    let start = {
        let rows = (0..40).map(|id| Write::Insert(id, id as i32));
        write(&session, table, rows.collect()).await
    };
    let end = write(
        &session,
        table,
        vec![
            Write::Update(1, 100),
            Write::Upsert(2, 200),
            Write::Upsert(50, 500),
            Write::Insert(51, 510),
            Write::Delete(3),
            // Changed, then gone: with the values that it had last.
            Write::Update(4, 400),
            Write::Delete(4),
            // Came and went.
            Write::Insert(60, 600),
            Write::Delete(60),
            // Gone and back.
            Write::Delete(5),
            Write::Insert(5, 501),
            // Gone, back and gone.
            Write::Delete(6),
            Write::Insert(6, 601),
            Write::Delete(6),
            // Written again as it was.
            Write::Update(7, 7),
            Write::Upsert(8, 8),
            // Several times.
            Write::Update(9, 901),
            Write::Update(9, 902),
        ],
    )
    .await;
    let last = write(&session, table, vec![Write::Update(1, 101), Write::Delete(2), Write::Delete(0)]).await;

    let expected = Changes::from([
        (1, (100, false)),
        (2, (200, false)),
        (3, (3, true)),
        (4, (400, true)),
        (5, (501, false)),
        (6, (601, true)),
        (7, (7, false)),
        (8, (8, false)),
        (9, (902, false)),
        (50, (500, false)),
        (51, (510, false)),
    ]);
    for layout in [Layout::Columnar, Layout::RowWise] {
        let scan = table.scan().layout(layout).diff_scan(start, end);
        assert_eq!(changes(scan.clone()).await, expected, "{layout:?}");
        assert_eq!(changes(scan.batch_bytes(1)).await, expected, "in small batches, {layout:?}");
    }
    let after = Changes::from([(1, (101, false)), (2, (200, true)), (0, (0, true))]);
    assert_eq!(changes(table.scan().diff_scan(end, last)).await, after);
    assert!(changes(table.scan().diff_scan(end, end)).await.is_empty());
    // Of all time: what is there, and nothing that went.
    let all = changes(table.scan().diff_scan(before, last)).await;
    assert_eq!(all.len(), 40 + 2 - 5);
    assert!(all.values().all(|(_, gone)| !gone));

    let few = table.scan().project(&["id", "value"]).filter(column("id").within(2i64, 6i64));
    let some: Changes =
        expected.iter().filter(|(id, _)| (2..6).contains(*id)).map(|(k, v)| (*k, *v)).collect();
    assert_eq!(changes(few.diff_scan(start, end)).await, some);
    // Conditions are on the values that come back.
    let by_value = table.scan().filter(column("value").at_least(400));
    let some: Changes =
        expected.iter().filter(|(_, (value, _))| *value >= 400).map(|(k, v)| (*k, *v)).collect();
    assert_eq!(changes(by_value.diff_scan(start, end)).await, some);

    let mut of_tokens = Changes::new();
    for token in table.scan().diff_scan(start, end).tokens().build().await.unwrap() {
        of_tokens.extend(changes(test.client.open_token(&token).await.unwrap()).await);
    }
    assert_eq!(of_tokens, expected);
    test.delete().await;
}

#[tokio::test]
async fn the_column_of_the_gone_gets_a_name_of_its_own() {
    let client = connect().await;
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("is_deleted", DataType::Bool),
        Column::new("is_deleted_", DataType::Bool).nullable(true),
    ];
    let name = unique_name("diff_names");
    let create = client.create_table(&name, Schema::new(columns, 1).unwrap());
    let table = create.hash_partition(&["id"], 2).replicas(1).create().await.unwrap();
    let session = client.session().mode(FlushMode::Manual).build();
    let row = table.insert().with("id", 1i64).unwrap().with("is_deleted", true).unwrap();
    session.apply(row).await.unwrap();
    session.flush().await.unwrap();
    let start = client.latest_observed_timestamp().next();
    session.apply(table.delete().with("id", 1i64).unwrap()).await.unwrap();
    session.flush().await.unwrap();
    let end = client.latest_observed_timestamp().next();
    let scan = table.scan().diff_scan(start, end).start().unwrap();
    assert_eq!(scan.schema().columns()[3].name, "is_deleted__");
    let rows = scan.collect_rows().await.unwrap();
    let row = vec![Some(Value::Int64(1)), Some(Value::Bool(true)), None, Some(Value::Bool(true))];
    assert_eq!(rows, [row]);
    client.delete_table(&name).await.unwrap();
}

#[tokio::test]
async fn an_end_before_the_start_is_refused() {
    let test = small_table("diff_order", 1).await;
    fill(&test.client.session().mode(FlushMode::Manual).build(), &test.table, 10).await;
    let now = test.client.latest_observed_timestamp().next();
    let scan = test.table.scan().diff_scan(now, Timestamp(now.0 - 10)).start().unwrap();
    let error = scan.count().await.unwrap_err();
    assert!(matches!(error, ScanError::Refused { .. }) && !error.is_retriable(), "{error}");
    test.delete().await;
}
