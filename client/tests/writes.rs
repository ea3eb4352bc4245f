//! Sessions: what is written, what is refused, and that nothing gets lost without a word.

mod common;

use std::time::Duration;

use client::schema::{Column, DataType, OpKind, Schema, Value};
use client::{ApplyError, FlushError, FlushMode, Operation, StatusCode, Table};
use common::{connect, fill, small_table, unique_name};

fn insert(table: &Table, id: i64) -> Operation {
    table.insert().with("id", id).unwrap().with("value", id as i32).unwrap()
}

#[tokio::test]
async fn auto_sync_tells_at_once_how_each_row_went() {
    let test = small_table("sync", 2).await;
    let session = test.client.session().build();
    session.apply(insert(&test.table, 1)).await.unwrap();
    let error = session.apply(insert(&test.table, 1)).await.unwrap_err();
    let row = error.row().expect("the row failed");
    assert!(row.is_already_present() && !row.is_timeout() && !row.is_retriable(), "{row}");
    assert!(error.to_string().contains(test.table.name()), "{error}");
    assert_eq!(error.into_operation().row().value(0), Some(Value::Int64(1)));
    let missing = test.table.update().with("id", 9i64).unwrap().with("value", 1).unwrap();
    assert!(session.apply(missing).await.unwrap_err().row().unwrap().is_not_found());
    session
        .apply(test.table.update_ignore().with("id", 9i64).unwrap().with("value", 1).unwrap())
        .await
        .unwrap();
    session
        .apply(test.table.insert_ignore().with("id", 1i64).unwrap().with("value", 7).unwrap())
        .await
        .unwrap();
    session.apply(test.table.upsert().with("id", 1i64).unwrap().with("value", 8).unwrap()).await.unwrap();
    session.apply(test.table.delete_ignore().with("id", 5i64).unwrap()).await.unwrap();
    let rows = test.table.scan().project(&["id", "value"]).start().unwrap().collect_rows().await.unwrap();
    assert_eq!(rows, [[Some(Value::Int64(1)), Some(Value::Int32(8))]]);
    session.apply(test.table.delete().with("id", 1i64).unwrap()).await.unwrap();
    assert!(
        session
            .apply(test.table.delete().with("id", 1i64).unwrap())
            .await
            .unwrap_err()
            .row()
            .unwrap()
            .is_not_found()
    );
    assert_eq!(session.pending_errors(), 0, "sync errors are told, not kept");
    test.delete().await;
}

#[tokio::test]
async fn a_manual_session_sends_nothing_before_the_flush_and_gives_errors_in_apply_order() {
    let test = small_table("manual", 4).await;
    let session = test.client.session().mode(FlushMode::Manual).build();
    fill(&session, &test.table, 20).await;
    for id in 0..40 {
        session.apply(insert(&test.table, id)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(session.pending_operations(), 40);
    assert_eq!(test.table.scan().project(&[]).start().unwrap().count().await.unwrap(), 20);
    let error = session.flush().await.unwrap_err();
    let FlushError::Rows { count, .. } = &error else { panic!("rows failed, not {error}") };
    assert_eq!(*count, 20);
    let errors = session.take_errors();
    assert!(!errors.is_overflowed());
    let ids: Vec<_> =
        errors.errors.iter().map(|failure| failure.operation().row().value(0).unwrap()).collect();
    assert_eq!(ids, (0..20).map(Value::Int64).collect::<Vec<_>>(), "over four tablets, in apply order");
    session.flush().await.expect("taken errors are told no more");
    assert_eq!(test.table.scan().project(&[]).start().unwrap().count().await.unwrap(), 40);
    test.delete().await;
}

#[tokio::test]
async fn a_background_session_sends_by_itself_after_its_interval() {
    let test = small_table("interval", 2).await;
    let session = test
        .client
        .session()
        .mode(FlushMode::AutoBackground)
        .flush_interval(Duration::from_millis(50))
        .build();
    session.apply(insert(&test.table, 1)).await.unwrap();
    let written = async {
        while session.pending_operations() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), written).await.expect("sent without a flush");
    assert_eq!(test.table.scan().start().unwrap().count().await.unwrap(), 1);
    test.delete().await;
}

#[tokio::test]
async fn a_dropped_background_session_still_writes_what_waits() {
    let test = small_table("dropped", 2).await;
    let session = test.client.session().mode(FlushMode::AutoBackground).build();
    for id in 0..100 {
        session.apply(insert(&test.table, id)).await.unwrap();
    }
    drop(session);
    let written = async {
        while test.table.scan().project(&[]).start().unwrap().count().await.unwrap() < 100 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), written).await.expect("all rows arrive");
    test.delete().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushes_beside_background_flushes_lose_no_row() {
    const ROWS: i64 = 100_000;
    let test = small_table("race", 4).await;
    let session = test.client.session().mode(FlushMode::AutoBackground).buffer_bytes(256 << 10).build();
    let flusher = {
        let session = session.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
                // Row errors are looked at in the end.
                drop(session.flush().await);
            }
        })
    };
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (session, table) = (session.clone(), test.table.clone());
            tokio::spawn(async move {
                // Every tenth row is one that the writer has written before.
                let mut last = writer;
                for n in (writer..ROWS).step_by(8) {
                    let is_duplicate = (n / 8) % 10 == 9;
                    let id = if is_duplicate { last } else { n };
                    last = id;
                    session.apply(insert(&table, id)).await.expect("background sessions take rows");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    flusher.abort();
    drop(session.flush().await);
    let errors = session.take_errors();
    assert!(!errors.is_overflowed());
    assert_eq!(errors.errors.len() as i64, ROWS / 10);
    for failure in &errors.errors {
        assert!(failure.error().is_already_present(), "{failure}");
        let Some(Value::Int64(id)) = failure.operation().row().value(0) else {
            panic!("the operation is its own")
        };
        assert_eq!((id / 8) % 10, 8, "row {id} was written twice");
    }
    assert_eq!(test.table.scan().project(&[]).start().unwrap().count().await.unwrap() as i64, ROWS / 10 * 9);
    test.delete().await;
}

#[tokio::test]
async fn operations_on_one_row_take_effect_in_the_order_they_were_applied() {
    let test = small_table("order", 2).await;
    // A small buffer, so that the operations fall into many batches.
    let session = test.client.session().mode(FlushMode::AutoBackground).buffer_bytes(400).build();
    session.apply(insert(&test.table, 1)).await.unwrap();
    for value in 0..300 {
        session
            .apply(test.table.update().with("id", 1i64).unwrap().with("value", value).unwrap())
            .await
            .unwrap();
    }
    session.apply(test.table.delete().with("id", 1i64).unwrap()).await.unwrap();
    session.apply(test.table.insert().with("id", 1i64).unwrap().with("value", 42).unwrap()).await.unwrap();
    session.flush().await.expect("in order, none of them fails");
    let rows = test.table.scan().project(&["value"]).start().unwrap().collect_rows().await.unwrap();
    assert_eq!(rows, [[Some(Value::Int32(42))]]);
    test.delete().await;
}

#[tokio::test]
async fn more_than_one_message_may_hold_is_sent_in_several() {
    let test = small_table("much", 1).await;
    let session = test.client.session().mode(FlushMode::Manual).buffer_bytes(64 << 20).build();
    for id in 0..500 {
        session.apply(insert(&test.table, id).with("text", "x".repeat(60_000)).unwrap()).await.unwrap();
    }
    // Behind all others, though they do not fit one message.
    session.apply(test.table.delete().with("id", 0i64).unwrap()).await.unwrap();
    session.flush().await.unwrap();
    let scan = test.table.scan().project(&["id", "text"]).start().unwrap();
    assert_eq!(scan.count().await.unwrap(), 499);
    test.delete().await;
}

#[tokio::test]
async fn a_row_larger_than_the_buffer_is_refused_with_both_sizes() {
    let test = small_table("large", 1).await;
    let session = test.client.session().mode(FlushMode::Manual).buffer_bytes(1024).build();
    let large = insert(&test.table, 1).with("text", "x".repeat(2048)).unwrap();
    let error = session.apply(large).await.unwrap_err();
    assert!(matches!(error, ApplyError::RowTooLarge { .. }) && !error.is_retriable());
    assert!(error.to_string().contains("1024") && error.to_string().contains("20"), "{error}");
    let middle = |id| insert(&test.table, id).with("text", "x".repeat(600)).unwrap();
    session.apply(middle(1)).await.unwrap();
    let error = session.apply(middle(2)).await.unwrap_err();
    assert!(matches!(error, ApplyError::BufferFull { .. }) && error.is_retriable(), "{error}");
    session.flush().await.unwrap();
    session.apply(error.into_operation()).await.expect("there is room again");
    session.flush().await.unwrap();
    test.delete().await;
}

#[tokio::test]
async fn the_error_list_is_bounded_and_says_so() {
    let test = small_table("errors", 2).await;
    let session = test.client.session().mode(FlushMode::AutoBackground).error_buffer_bytes(1 << 20).build();
    for id in 0..50_000 {
        session.apply(insert(&test.table, id % 100)).await.unwrap();
    }
    assert!(session.flush().await.is_err());
    assert_eq!(session.pending_errors(), 49_900);
    let errors = session.take_errors();
    assert!(errors.is_overflowed());
    assert!(errors.errors.len() < 5000 && !errors.errors.is_empty(), "{} kept", errors.errors.len());
    assert_eq!(errors.errors.len() as u64 + errors.dropped, 49_900);
    assert_eq!(session.pending_errors(), 0);
    test.delete().await;
}

#[tokio::test]
async fn a_row_without_key_is_refused_here() {
    let test = small_table("key", 1).await;
    let session = test.client.session().build();
    let error = session.apply(test.table.insert().with("value", 1).unwrap()).await.unwrap_err();
    assert!(matches!(error, ApplyError::KeyNotSet { .. }), "{error}");
    assert!(test.table.insert().with("id", "text").is_err());
    assert!(test.table.insert().with("nope", 1).is_err());
    assert!(test.table.insert().with_null("id").is_err());
    test.delete().await;
}

#[tokio::test]
async fn null_default_empty_and_missing_are_told_apart() {
    let client = connect().await;
    let columns = vec![
        Column::new("id", DataType::Int32),
        Column::new("must", DataType::Int32),
        Column::new("may", DataType::String).nullable(true),
        Column::new("default", DataType::Int32).default_value(42),
    ];
    let schema = Schema::new(columns, 1).unwrap();
    let table = client
        .create_table(unique_name("nulls"), schema)
        .hash_partition(&["id"], 2)
        .replicas(1)
        .create()
        .await
        .unwrap();
    let session = client.session().mode(FlushMode::Manual).build();
    let row = |id: i32| table.insert().with("id", id).unwrap().with("must", 0).unwrap();
    let operations = [
        row(1),
        row(2).with_null("may").unwrap(),
        row(3).with("may", "").unwrap(),
        row(4).with("default", 0).unwrap(),
        row(5).with("default", 42).unwrap(),
        table.insert().with("id", 6).unwrap(),
        table.upsert().with("id", 3).unwrap().with("must", 9).unwrap(),
        table.update().with("id", 4).unwrap().with_null("may").unwrap(),
        table.update().with("id", 77).unwrap().with("must", 1).unwrap(),
        table.delete().with("id", 78).unwrap(),
        row(1),
        row(7).with("may", "x").unwrap(),
        table.delete().with("id", 7).unwrap(),
    ];
    for operation in operations {
        session.apply(operation).await.unwrap();
    }
    session.flush().await.unwrap_err();
    let errors = session.take_errors().errors;
    let found: Vec<_> = errors
        .iter()
        .map(|failure| (failure.operation().kind(), failure.error().status().unwrap()))
        .collect();
    assert_eq!(
        found,
        [
            (OpKind::Insert, StatusCode::INVALID_ARGUMENT),
            (OpKind::Update, StatusCode::NOT_FOUND),
            (OpKind::Delete, StatusCode::NOT_FOUND),
            (OpKind::Insert, StatusCode::ALREADY_PRESENT),
        ]
    );
    let mut rows = table.scan().start().unwrap().collect_rows().await.unwrap();
    rows.sort_by_key(|row| match row[0] {
        Some(Value::Int32(id)) => id,
        _ => i32::MIN,
    });
    let (int, text) = (|n| Some(Value::Int32(n)), |text: &str| Some(Value::String(text.into())));
    assert_eq!(
        rows,
        [
            [int(1), int(0), None, int(42)],
            [int(2), int(0), None, int(42)],
            [int(3), int(9), text(""), int(42)],
            [int(4), int(0), None, int(0)],
            [int(5), int(0), None, int(42)],
        ]
    );
    client.delete_table(table.name()).await.unwrap();
}

#[tokio::test]
async fn a_key_that_is_immutable_is_a_key_as_any_other() {
    let client = connect().await;
    let columns = vec![
        Column::new("id", DataType::Int64).immutable(true),
        Column::new("value", DataType::Int32),
        Column::new("kept", DataType::Int32).nullable(true).immutable(true),
    ];
    let schema = Schema::new(columns, 1).unwrap();
    let name = unique_name("immutable_key");
    let table = client.create_table(&name, schema).replicas(1).hash_partition(&["id"], 2);
    let table = table.create().await.unwrap();
    let session = client.session().build();
    let with = |op: Operation, value: i32| op.with("id", 1_i64).unwrap().with("value", value).unwrap();
    for operation in [
        with(table.insert(), 1).with("kept", 7).unwrap(),
        with(table.update(), 2),
        with(table.upsert(), 3),
        with(table.upsert_ignore(), 4).with("kept", 8).unwrap(),
        with(table.update_ignore(), 5).with("kept", 9).unwrap(),
    ] {
        session.apply(operation).await.unwrap();
    }
    // Who has not made the table opens it, too.
    let opened = connect().await.open_table(&name).await.unwrap();
    assert!(opened.schema().columns()[0].immutable);
    let rows = opened.scan().start().unwrap().collect_rows().await.unwrap();
    assert_eq!(rows, [[Some(Value::Int64(1)), Some(Value::Int32(5)), Some(Value::Int32(7))]]);
    client.delete_table(&name).await.unwrap();
}
