//! Batches whose operations are alike take a way of their own: nothing may come out otherwise than one row at a time.

mod common;

use std::sync::Arc;

use common::{NOW, batch, options, rows_of};
use proptest::prelude::*;
use schema::{Column, DataType, HybridClock, OpKind, PartialRow, Schema, Timestamp, Value};
use tablet::{ScanSpec, Tablet};

fn table() -> Schema {
    let columns = vec![
        Column::new("k", DataType::Int8),
        Column::new("l", DataType::String),
        Column::new("n", DataType::Int16).nullable(true),
        Column::new("d", DataType::String).default_value("default"),
        Column::new("e", DataType::Double).nullable(true).immutable(true),
    ];
    Schema::new(columns, 2).unwrap().with_sequential_ids(10)
}

/// What a batch does, which of the last three columns it sets, and its keys.
type Batch = (OpKind, [bool; 3], Vec<(i8, String, i16)>);

fn batches() -> impl Strategy<Value = Vec<Batch>> {
    let kinds = [
        OpKind::Insert,
        OpKind::Insert,
        OpKind::InsertIgnore,
        OpKind::Upsert,
        OpKind::UpsertIgnore,
        OpKind::Update,
        OpKind::UpdateIgnore,
        OpKind::Delete,
        OpKind::DeleteIgnore,
    ];
    let row = (0..4i8, "[ab]{0,2}", any::<i16>());
    let rows = proptest::collection::vec(row, 1..30);
    proptest::collection::vec((proptest::sample::select(kinds.to_vec()), any::<[bool; 3]>(), rows), 1..12)
}

fn operations(schema: &Schema, (kind, sets, rows): &Batch) -> Vec<(OpKind, PartialRow)> {
    let operation = |(k, l, n): &(i8, String, i16)| {
        let mut row = PartialRow::new(schema);
        row.set_at(0, *k).unwrap().set_at(1, l.clone()).unwrap();
        let cells = [Value::Int16(*n), Value::String(n.to_string()), Value::Double(f64::from(*n))];
        for (index, (cell, set)) in (2..).zip(cells.into_iter().zip(sets)) {
            if *set && !kind.is_delete() {
                row.set_at(index, cell).unwrap();
            }
        }
        (*kind, row)
    };
    rows.iter().map(operation).collect()
}

fn scan(tablet: &Tablet, snapshot: Option<Timestamp>) -> Vec<Vec<Option<Value>>> {
    let spec = ScanSpec { projection: (0..5).collect(), snapshot, ordered: true, ..ScanSpec::default() };
    let mut scanner = tablet.scan(spec, NOW).unwrap();
    let mut rows = Vec::new();
    while let Some(block) = scanner.next_block(1 << 20).unwrap() {
        rows.extend(rows_of(&tablet.schema(), &block));
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_batch_is_the_same_with_one_operation_that_is_not_alike(batches in batches()) {
        let open = || Tablet::open(options(table()), Arc::new(HybridClock::default())).unwrap();
        let (alike, mixed) = (open(), open());
        let mut at = Vec::new();
        for one in &batches {
            let mut operations = operations(&alike.schema(), one);
            let outcome = batch(&alike, &operations).unwrap();
            let mut absent = PartialRow::new(&mixed.schema());
            absent.set_at(0, 100i8).unwrap().set_at(1, "absent".to_owned()).unwrap();
            let other =
                if one.0 == OpKind::DeleteIgnore { OpKind::UpdateIgnore } else { OpKind::DeleteIgnore };
            if other == OpKind::UpdateIgnore {
                absent.set_at(2, 1i16).unwrap();
            }
            operations.push((other, absent));
            let mut expected = batch(&mixed, &operations).unwrap();
            match other {
                OpKind::UpdateIgnore => expected.metrics.update_ignore_errors -= 1,
                _ => expected.metrics.delete_ignore_errors -= 1,
            }
            prop_assert_eq!(outcome.row_errors, expected.row_errors);
            prop_assert_eq!(outcome.metrics, expected.metrics);
            at.push((outcome.timestamp.next(), expected.timestamp.next()));
        }
        for (one, other) in at {
            prop_assert_eq!(scan(&alike, Some(one)), scan(&mixed, Some(other)));
        }
        prop_assert_eq!(alike.statistics().live_rows, mixed.statistics().live_rows);
    }
}

#[test]
fn a_large_batch_with_keys_that_are_there_is_decided_row_by_row() {
    let tablet = Tablet::open(options(table()), Arc::new(HybridClock::default())).unwrap();
    let insert = |kind: OpKind, keys: &[i16]| {
        let rows: Vec<_> = keys.iter().map(|n| (0, n.to_string(), *n)).collect();
        let operations = operations(&tablet.schema(), &(kind, [true; 3], rows));
        let outcome = batch(&tablet, &operations).unwrap();
        let failed: Vec<u32> = outcome.row_errors.iter().map(|error| error.index).collect();
        (failed, outcome.metrics.successful_inserts)
    };
    let keys: Vec<i16> = (0..2000).collect();
    assert_eq!(insert(OpKind::Insert, &keys), (vec![], 2000));
    let keys: Vec<i16> = (1999..4000).chain([3000, 0]).collect();
    assert_eq!(insert(OpKind::Insert, &keys), (vec![0, 2001, 2002], 2000));
    assert_eq!(insert(OpKind::InsertIgnore, &keys), (vec![], 0));
    let rows = scan(&tablet, None);
    assert_eq!(rows.len(), 4000);
    for row in rows {
        let [_, Some(Value::String(l)), Some(Value::Int16(n)), ..] = &row[..] else { panic!("{row:?}") };
        assert_eq!(*l, n.to_string());
    }
}
