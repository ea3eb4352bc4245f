//! Record batches out of a table and into it: every type, every value, and clear errors for what does not fit.

mod common;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, ArrayRef, Int32Array, Int64Array, LargeStringArray, RecordBatch, StringViewArray,
    TimestampMillisecondArray,
};
use arrow_schema::{ArrowError, DataType as ArrowType, TimeUnit};
use client::arrow::{ApplyRecordBatchError, RecordBatchError};
use client::schema::{Column, DataType, OpKind, Schema, Value};
use client::{ApplyError, Client, FlushMode, Layout, Table};
use common::{connect, fill, small_table, unique_name};

async fn read(table: &Table, layout: Layout) -> Vec<RecordBatch> {
    let mut scan = table.scan().layout(layout).fault_tolerant(true).start().unwrap();
    let schema = scan.arrow_schema();
    let mut batches = Vec::new();
    while let Some(batch) = scan.next().await {
        let batch = batch.unwrap().to_record_batch().unwrap();
        assert_eq!(*batch.schema(), schema);
        batches.push(batch);
    }
    batches
}

fn every_type() -> Schema {
    let columns = vec![
        Column::new("key", DataType::Int64),
        Column::new("i8", DataType::Int8).nullable(true),
        Column::new("i16", DataType::Int16).nullable(true),
        Column::new("i32", DataType::Int32),
        Column::new("bool", DataType::Bool).nullable(true),
        Column::new("not_null_bool", DataType::Bool),
        Column::new("float", DataType::Float).nullable(true),
        Column::new("double", DataType::Double).nullable(true),
        Column::new("string", DataType::String).nullable(true),
        Column::new("binary", DataType::Binary).nullable(true),
        Column::new("time", DataType::UnixtimeMicros).nullable(true),
        Column::new("date", DataType::Date).nullable(true),
        Column::varchar("varchar", 9),
        Column::decimal("d32", 9, 2).nullable(true),
        Column::decimal("d64", 18, 0).nullable(true),
        Column::decimal("d128", 38, 10).nullable(true),
    ];
    Schema::new(columns, 1).unwrap()
}

fn value(column: &Column, n: i64) -> Option<Value> {
    if column.nullable && n % 5 == 4 {
        return None;
    }
    Some(match column.data_type {
        DataType::Int8 => Value::Int8(n as i8),
        DataType::Int16 => Value::Int16(n as i16 - 50),
        DataType::Int32 => Value::Int32(n as i32 * 1_000_003),
        DataType::Bool => Value::Bool(n % 3 == 0),
        DataType::Float => Value::Float(n as f32 / 3.0),
        DataType::Double => Value::Double(n as f64 / -7.0),
        DataType::String => Value::String("é".repeat(n as usize % 7)),
        DataType::Binary => Value::Binary(vec![0xff; n as usize % 3].into()),
        DataType::UnixtimeMicros => Value::UnixtimeMicros(-n),
        DataType::Date => Value::Date(n as i32),
        DataType::Varchar => Value::Varchar(format!("v{n}")),
        DataType::Decimal32 => Value::Decimal32(-(n as i32)),
        DataType::Decimal64 => Value::Decimal64(n * 1_000_000_007),
        DataType::Decimal128 => Value::Decimal128(i128::from(n) * 10_i128.pow(20)),
        _ => Value::Int64(n),
    })
}

async fn typed_table(client: &Client, rows: i64) -> Table {
    let create = client.create_table(unique_name("record_batches"), every_type());
    let table = create.range_columns(&[]).replicas(1).create().await.unwrap();
    let session = client.session().mode(FlushMode::Manual).build();
    for n in 0..rows {
        let mut row = table.insert();
        for (index, column) in table.schema().columns().iter().enumerate() {
            match value(column, n) {
                Some(value) => row.row_mut().set_at(index, value).unwrap(),
                None => row.row_mut().set_null_at(index).unwrap(),
            };
        }
        session.apply(row).await.unwrap();
    }
    session.flush().await.unwrap();
    table
}

#[tokio::test]
async fn a_table_of_every_type_is_the_same_after_a_way_through_arrow() {
    let client = connect().await;
    let (from, to) = (typed_table(&client, 100).await, typed_table(&client, 0).await);
    for layout in [Layout::Columnar, Layout::RowWise] {
        let batches = read(&from, layout).await;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, 100);
        let session = client.session().mode(FlushMode::AutoBackground).build();
        for batch in &batches {
            session.apply_record_batch(&to, OpKind::Upsert, batch).await.unwrap();
        }
        session.flush().await.unwrap();
        let rows = |table: &Table| table.scan().fault_tolerant(true).start().unwrap().collect_rows();
        let copied = rows(&to).await.unwrap();
        assert_eq!(copied, rows(&from).await.unwrap());
        for (n, row) in copied.iter().enumerate() {
            let expected: Vec<_> = to.schema().columns().iter().map(|of| value(of, n as i64)).collect();
            assert_eq!(*row, expected);
        }
        assert_eq!(read(&to, layout).await, batches);
    }
    for table in [from, to] {
        client.delete_table(table.name()).await.unwrap();
    }
}

#[tokio::test]
async fn numbers_and_text_of_a_columnar_scan_are_not_copied() {
    let test = small_table("uncopied", 1).await;
    fill(&test.client.session().mode(FlushMode::Manual).build(), &test.table, 20_000).await;
    let mut scan = test.table.scan().start().unwrap();
    let batch = scan.next().await.unwrap().unwrap();
    assert!(batch.rows() > 10_000, "a small answer is in one piece, and its columns lie anyhow");
    let arrow = batch.to_record_batch().unwrap();
    for (column, array) in batch.block().columns.iter().zip(arrow.columns()) {
        let data = array.to_data();
        assert_eq!(data.buffers()[0].as_ptr(), column.data.as_ptr());
        if let Some(varlen) = &column.varlen {
            assert_eq!(data.buffers()[1].as_ptr(), varlen.as_ptr());
        }
        let nulls = data.nulls().map(|nulls| nulls.validity().as_ptr());
        assert_eq!(nulls, column.non_null.as_ref().map(|bits| bits.as_ptr()));
    }
    assert_eq!(arrow["id"].as_primitive::<Int64Type>().len(), batch.rows());
    // Arrays outlive what they came from.
    let ids = arrow["id"].clone();
    drop((arrow, batch, scan));
    let mut ids = ids.as_primitive::<Int64Type>().values().to_vec();
    ids.sort_unstable();
    assert_eq!(ids[..3], [0, 1, 2]);
    test.delete().await;
}

#[tokio::test]
async fn rows_are_counted_without_columns_and_changes_have_their_mark() {
    let test = small_table("counted_batches", 1).await;
    let session = test.client.session().mode(FlushMode::Manual).build();
    fill(&session, &test.table, 10).await;
    let mut scan = test.table.scan().project(&[]).start().unwrap();
    let batch = scan.next().await.unwrap().unwrap().to_record_batch().unwrap();
    assert_eq!((batch.num_rows(), batch.num_columns()), (10, 0));
    let start = test.client.latest_observed_timestamp().next();
    session.apply(test.table.delete().with("id", 3i64).unwrap()).await.unwrap();
    session.flush().await.unwrap();
    let end = test.client.latest_observed_timestamp().next();
    let mut scan = test.table.scan().project(&["id"]).diff_scan(start, end).start().unwrap();
    let batch = scan.next().await.unwrap().unwrap().to_record_batch().unwrap();
    assert_eq!(batch["id"].as_primitive::<Int64Type>().values(), &[3]);
    assert!(batch["is_deleted"].as_boolean().value(0));
    test.delete().await;
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

#[tokio::test]
async fn large_and_view_text_is_taken_and_missing_columns_stay_unset() {
    let test = small_table("views", 2).await;
    let session = test.client.session().mode(FlushMode::Manual).build();
    let (one, two) = (Arc::new(Int64Array::from(vec![1, 2])), Arc::new(Int64Array::from(vec![2, 3])));
    let values = Arc::new(Int32Array::from(vec![10, 20]));
    let large = Arc::new(LargeStringArray::from(vec![Some("large"), None]));
    let rows = batch(vec![("text", large), ("id", one), ("value", values.clone())]);
    session.apply_record_batch(&test.table, OpKind::Insert, &rows).await.unwrap();
    session.flush().await.unwrap();
    let views = Arc::new(StringViewArray::from(vec!["seen", "a text too long to lie in the view itself"]));
    let rows = batch(vec![("id", two), ("text", views), ("value", values)]);
    session.apply_record_batch(&test.table, OpKind::Upsert, &rows).await.unwrap();
    session.flush().await.unwrap();
    let ids = Arc::new(Int64Array::from(vec![1]));
    let only_key = batch(vec![("id", ids)]);
    session.apply_record_batch(&test.table, OpKind::Delete, &only_key).await.unwrap();
    session.flush().await.unwrap();
    let mut rows = test.table.scan().start().unwrap().collect_rows().await.unwrap();
    rows.sort_by_key(|row| format!("{row:?}"));
    let row = |id, value, text: &str| {
        vec![Some(Value::Int64(id)), Some(Value::Int32(value)), Some(Value::String(text.to_owned()))]
    };
    let expected = [row(2, 10, "seen"), row(3, 20, "a text too long to lie in the view itself")];
    assert_eq!(rows, expected);
    test.delete().await;
}

#[tokio::test]
async fn what_does_not_fit_is_refused_with_its_column_and_row() {
    let test = small_table("misfit_batches", 1).await;
    let session = test.client.session().mode(FlushMode::Manual).build();
    let apply = |batch: RecordBatch| {
        let (session, table) = (session.clone(), test.table.clone());
        async move { session.apply_record_batch(&table, OpKind::Insert, &batch).await.unwrap_err() }
    };
    let ids = || Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef;
    let error = apply(batch(vec![("id", ids()), ("nope", ids())])).await;
    let expected = RecordBatchError::NoSuchColumn { table: test.table.name().into(), column: "nope".into() };
    assert!(matches!(&error, ApplyRecordBatchError::Batch(error) if *error == expected), "{error}");
    let times = Arc::new(TimestampMillisecondArray::from(vec![1, 2]));
    let error = apply(batch(vec![("id", ids()), ("value", times)])).await;
    let expected = RecordBatchError::Type {
        table: test.table.name().into(),
        column: "value".into(),
        expected: DataType::Int32,
        given: Box::new(ArrowType::Timestamp(TimeUnit::Millisecond, None)),
    };
    assert!(matches!(&error, ApplyRecordBatchError::Batch(error) if *error == expected), "{error}");
    assert_eq!(session.pending_operations(), 0, "nothing of such a batch is applied");
    let nulls = Arc::new(Int32Array::from(vec![Some(1), None]));
    let error = apply(batch(vec![("id", ids()), ("value", nulls)])).await;
    assert!(matches!(error, ApplyRecordBatchError::Cell { row: 1, .. }), "{error}");
    assert!(error.to_string().contains("'value'"));
    let error = apply(batch(vec![("value", Arc::new(Int32Array::from(vec![1])))])).await;
    assert!(
        matches!(error, ApplyRecordBatchError::Apply { row: 0, source: ApplyError::KeyNotSet { .. } }),
        "{error}"
    );
    test.delete().await;
}

#[tokio::test]
async fn text_that_is_not_utf8_is_an_error_and_its_bytes_can_still_be_had() {
    let test = small_table("no_text", 1).await;
    let session = test.client.session().build();
    let row = test.table.insert().with("id", 1i64).unwrap().with("value", 1).unwrap();
    session.apply(row.with("text", vec![0xffu8, 0xfe]).unwrap()).await.unwrap();
    let mut scan = test.table.scan().start().unwrap();
    let batch = scan.next().await.unwrap().unwrap();
    let error = batch.to_record_batch().unwrap_err();
    assert!(
        matches!(error, ArrowError::InvalidArgumentError(_)) && error.to_string().contains("'text'"),
        "{error}"
    );
    assert_eq!(batch.varlen("text").unwrap().get(0), Some(&[0xff, 0xfe][..]));
    test.delete().await;
}
