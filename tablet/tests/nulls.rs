//! NULL, the default, zero and the empty string are four different things (KUDU-168, 1880, 1595, 1652).

mod common;

use bytes::Bytes;
use common::storage::reopen_as;
use common::{NOW, batch, open, rows_of};
use schema::{Column, DataType, OpKind, PartialRow, Predicate, RowFault, Schema, Timestamp, Value};
use tablet::backend::Memory;
use tablet::{RowErrorKind, ScanSpec, SyncPolicy, Tablet};

fn table() -> Schema {
    let columns = vec![
        Column::new("k", DataType::Int32),
        Column::new("n", DataType::Int32).nullable(true),
        Column::new("s", DataType::String).nullable(true),
        Column::new("d", DataType::Int32).default_value(42),
        Column::new("r", DataType::Int32),
    ];
    Schema::new(columns, 1).unwrap().with_sequential_ids(10)
}

/// A row of the required cells, changed by `fill`.
fn row(schema: &Schema, key: i32, fill: impl FnOnce(&mut PartialRow)) -> PartialRow {
    let mut row = PartialRow::new(schema);
    row.set("k", key).unwrap().set("r", 1).unwrap();
    fill(&mut row);
    row
}

fn key_only(schema: &Schema, key: i32) -> PartialRow {
    let mut row = PartialRow::new(schema);
    row.set("k", key).unwrap();
    row
}

/// The tablet with its rows in memory, in a file, and opened again from there.
fn everywhere() -> Vec<(Tablet, Vec<(u32, RowErrorKind)>)> {
    let memory = Memory::new();
    let stored = || reopen_as(memory.clone(), SyncPolicy::System, table()).unwrap();
    let flushed = fill(stored());
    flushed.0.flush(Timestamp::MIN).unwrap();
    vec![fill(open(table())), (stored(), flushed.1.clone()), flushed]
}

fn fill(tablet: Tablet) -> (Tablet, Vec<(u32, RowErrorKind)>) {
    let schema = tablet.schema();
    let mut update_absent = key_only(&schema, 99);
    update_absent.set("n", 1).unwrap();
    let mut to_null = key_only(&schema, 3);
    to_null.set_null("n").unwrap();
    let operations = vec![
        (OpKind::Insert, row(&schema, 1, |_| {})),
        (
            OpKind::Insert,
            row(&schema, 2, |r| {
                r.set_null("n").unwrap().set("s", "").unwrap();
            }),
        ),
        (
            OpKind::Insert,
            row(&schema, 3, |r| {
                r.set("n", 0).unwrap().set("s", "x").unwrap();
            }),
        ),
        (OpKind::Insert, key_only(&schema, 4)),
        (
            OpKind::Insert,
            row(&schema, 5, |r| {
                r.set("n", 0).unwrap().set("d", 0).unwrap();
            }),
        ),
        (OpKind::Update, update_absent),
        (OpKind::Delete, key_only(&schema, 98)),
        (
            OpKind::Insert,
            row(&schema, 1, |r| {
                r.set("n", 7).unwrap();
            }),
        ),
        (
            OpKind::Upsert,
            row(&schema, 6, |r| {
                r.set_null("s").unwrap();
            }),
        ),
        (
            OpKind::Upsert,
            row(&schema, 5, |r| {
                r.set("n", 5).unwrap();
            }),
        ),
        (OpKind::Update, to_null),
        (
            OpKind::InsertIgnore,
            row(&schema, 6, |r| {
                r.set("n", 9).unwrap();
            }),
        ),
        (OpKind::DeleteIgnore, key_only(&schema, 97)),
    ];
    let outcome = batch(&tablet, &operations).unwrap();
    assert_eq!(
        (
            outcome.metrics.successful_inserts,
            outcome.metrics.successful_upserts,
            outcome.metrics.successful_updates
        ),
        (4, 2, 1)
    );
    assert_eq!((outcome.metrics.insert_ignore_errors, outcome.metrics.delete_ignore_errors), (1, 1));
    (tablet, outcome.row_errors.into_iter().map(|error| (error.index, error.kind)).collect())
}

#[test]
fn wrong_rows_fail_alone_and_the_others_keep_their_nulls_defaults_and_zeros() {
    for (tablet, errors) in everywhere() {
        check_rows(&tablet, &errors);
    }
}

fn check_rows(tablet: &Tablet, errors: &[(u32, RowErrorKind)]) {
    let missing = RowErrorKind::InvalidArgument(RowFault::Missing { column: "r INT32 NOT NULL".into() });
    let expected = vec![
        (3, missing),
        (5, RowErrorKind::NotFound),
        (6, RowErrorKind::NotFound),
        (7, RowErrorKind::AlreadyPresent),
    ];
    assert_eq!(errors, expected);

    let spec = ScanSpec { projection: vec![0, 1, 2, 3], ordered: true, ..ScanSpec::default() };
    let block = tablet.scan(spec, NOW).unwrap().next_block(1 << 20).unwrap().unwrap();
    let projection = tablet.schema().project(&[0, 1, 2, 3]).unwrap();
    let (int, text) = (|v| Some(Value::Int32(v)), |v: &str| Some(Value::String(v.into())));
    assert_eq!(
        rows_of(&projection, &block),
        [
            vec![int(1), None, None, int(42)],
            vec![int(2), None, text(""), int(42)],
            vec![int(3), None, text("x"), int(42)],
            vec![int(5), int(5), None, int(0)],
            vec![int(6), None, None, int(42)],
        ]
    );
}

#[test]
fn each_predicate_tells_null_from_empty_and_zero() {
    for (tablet, _) in everywhere() {
        check_predicates(&tablet);
    }
}

fn check_predicates(tablet: &Tablet) {
    let int = |v: i32| Bytes::copy_from_slice(&v.to_le_bytes());
    let cases: Vec<(Predicate, &[i32])> = vec![
        (Predicate::IsNull { column: 1 }, &[1, 2, 3, 6]),
        (Predicate::IsNotNull { column: 1 }, &[5]),
        (Predicate::IsNull { column: 2 }, &[1, 5, 6]),
        (Predicate::IsNotNull { column: 2 }, &[2, 3]),
        (Predicate::IsNull { column: 3 }, &[]),
        (Predicate::IsNotNull { column: 3 }, &[1, 2, 3, 5, 6]),
        (Predicate::Equality { column: 1, value: int(0) }, &[]),
        (Predicate::Equality { column: 2, value: Bytes::new() }, &[2]),
        (Predicate::Equality { column: 3, value: int(0) }, &[5]),
        (Predicate::InList { column: 2, values: vec![Bytes::new(), "x".into()] }, &[2, 3]),
        (Predicate::InList { column: 3, values: vec![int(42), int(0), int(42)] }, &[1, 2, 3, 5, 6]),
        (Predicate::InList { column: 1, values: vec![] }, &[]),
    ];
    for (predicate, expected) in cases {
        let spec = ScanSpec {
            projection: vec![0],
            predicates: vec![predicate.clone()],
            ordered: true,
            ..ScanSpec::default()
        };
        let mut scanner = tablet.scan(spec, NOW).unwrap();
        let mut keys = Vec::new();
        while let Some(block) = scanner.next_block(1 << 20).unwrap() {
            keys.extend(block.columns[0].data.chunks(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())));
        }
        assert_eq!(keys, expected, "{predicate:?}");
    }
}
