//! Long batches in the order of their keys are their own index: whatever comes before, between and after them, nothing may come
//! out otherwise than from a map.

mod common;

use std::collections::BTreeMap;

use common::storage::{content, reopen, row, table};
use common::{NOW, batch, open, rows_of};
use proptest::prelude::*;
use schema::{Column, DataType, OpKind, PartialRow, Schema, Timestamp, Value};
use tablet::backend::Memory;
use tablet::{RowErrorKind, ScanSpec, SyncPolicy, Tablet};

#[derive(Clone, Debug)]
enum Step {
    /// Keys from the first on, so many, so far apart.
    Ascending(OpKind, i32, i32, i32),
    /// The same, back to front.
    Descending(OpKind, i32, i32, i32),
    Few(Vec<(OpKind, i32)>),
    Flush,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kinds = vec![OpKind::Insert, OpKind::InsertIgnore, OpKind::Upsert, OpKind::Update, OpKind::Delete];
    let kind = || proptest::sample::select(kinds.clone());
    let loads = vec![OpKind::Insert, OpKind::Insert, OpKind::InsertIgnore, OpKind::Upsert, OpKind::Delete];
    let range = || (proptest::sample::select(loads.clone()), 0..6000, 200..500, 1..3);
    let few = proptest::collection::vec((kind(), 0..7000), 1..20);
    let step = prop_oneof![
        6 => range().prop_map(|(kind, first, count, apart)| Step::Ascending(kind, first, count, apart)),
        1 => range().prop_map(|(kind, first, count, apart)| Step::Descending(kind, first, count, apart)),
        3 => few.prop_map(Step::Few),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ];
    proptest::collection::vec(step, 1..25)
}

fn operations(step: &Step) -> Vec<(OpKind, i32)> {
    let keys = |kind: &OpKind, first: i32, count: i32, apart: i32| {
        (0..count).map(|i| (*kind, first + i * apart)).collect::<Vec<_>>()
    };
    match step {
        Step::Ascending(kind, first, count, apart) => keys(kind, *first, *count, *apart),
        Step::Descending(kind, first, count, apart) => {
            keys(kind, *first, *count, *apart).into_iter().rev().collect()
        }
        Step::Few(operations) => operations.clone(),
        Step::Flush | Step::Reopen => Vec::new(),
    }
}

/// The operations that fail.
fn apply(map: &mut BTreeMap<i32, i32>, operations: &[(OpKind, i32)], value: i32) -> Vec<u32> {
    let mut failed = Vec::new();
    for (number, (kind, key)) in (0..).zip(operations) {
        match (kind, map.contains_key(key)) {
            (OpKind::Insert, true) | (OpKind::Update | OpKind::Delete, false) => failed.push(number),
            (OpKind::InsertIgnore, true) => {}
            (OpKind::Delete, true) => drop(map.remove(key)),
            _ => drop(map.insert(*key, value)),
        }
    }
    failed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn runs_answer_as_a_map_does(steps in steps()) {
        let memory = Memory::new();
        let open = || reopen(memory.clone(), SyncPolicy::Always).unwrap();
        let (mut tablet, mut map, mut seen) = (open(), BTreeMap::new(), Vec::new());
        for (value, step) in (0..).zip(&steps) {
            match step {
                Step::Flush => tablet.flush(Timestamp::MIN).unwrap(),
                Step::Reopen => {
                    drop(tablet);
                    tablet = open();
                }
                _ => {
                    let operations = operations(step);
                    let schema = table();
                    let rows: Vec<_> = operations
                        .iter()
                        .map(|(kind, key)| row(&schema, *kind, *key, Some(value), Some("text")))
                        .collect();
                    let outcome = batch(&tablet, &rows).unwrap();
                    let failed: Vec<u32> = outcome.row_errors.iter().map(|error| error.index).collect();
                    prop_assert_eq!(failed, apply(&mut map, &operations, value));
                    seen.push((outcome.timestamp.next(), map.clone()));
                }
            }
        }
        for (snapshot, map) in seen {
            let rows = content(&tablet, Some(snapshot));
            let expected = map.iter().map(|(key, value)| (Some(Value::Int32(*key)), Some(Value::Int32(*value))));
            prop_assert!(rows.iter().map(|row| (row[0].clone(), row[1].clone())).eq(expected));
        }
        prop_assert_eq!(tablet.statistics().live_rows, map.len() as u64);
    }
}

#[test]
fn a_load_in_order_needs_no_entry_a_key_beside_files_either() {
    let tablet = reopen(Memory::new(), SyncPolicy::Always).unwrap();
    let insert = |keys: std::ops::Range<i32>| {
        let schema = table();
        let rows: Vec<_> =
            keys.map(|key| row(&schema, OpKind::Insert, key, Some(key), Some("text"))).collect();
        batch(&tablet, &rows).unwrap().row_errors.len()
    };
    // Two INT32, a bit that says which are not NULL, an offset and four bytes of text; an offset more, and a list of four runs.
    let bytes = |rows: u64| rows * (4 + 4 + 4 + 4) + rows.div_ceil(8) + 4 + 4 * 8;
    assert_eq!((insert(0..1000), tablet.statistics().memory_bytes), (0, bytes(1000)));
    tablet.flush(Timestamp::MIN).unwrap();
    assert_eq!((insert(1000..2000), tablet.statistics().memory_bytes), (0, bytes(1000)));
    assert_eq!(insert(1999..2999), 1, "it is in the run");
    tablet.flush(Timestamp::MIN).unwrap();
    assert_eq!(insert(999..1999), 1000, "they are in files");
}

fn two_columns() -> Schema {
    let columns = vec![Column::new("k", DataType::Int16), Column::new("s", DataType::String)];
    Schema::new(columns, 2).unwrap().with_sequential_ids(10)
}

fn insert(tablet: &Tablet, keys: impl Iterator<Item = (i16, String)>) -> Vec<(u32, RowErrorKind)> {
    let rows: Vec<_> = keys
        .map(|(k, s)| {
            let mut row = PartialRow::new(&tablet.schema());
            row.set_at(0, k).unwrap().set_at(1, s).unwrap();
            (OpKind::Insert, row)
        })
        .collect();
    let errors = batch(tablet, &rows).unwrap().row_errors;
    errors.into_iter().map(|error| (error.index, error.kind)).collect()
}

#[test]
fn keys_of_several_columns_ascend_as_they_are_scanned() {
    let tablet = open(two_columns());
    let keys = |k: i16| (0..400).map(move |i| (k, format!("{i:03}\0")));
    assert_eq!(insert(&tablet, keys(-1)), []);
    assert_eq!(insert(&tablet, keys(5)), []);
    assert_eq!(insert(&tablet, keys(3)), []);
    assert_eq!(tablet.statistics().memory_bytes, {
        let chunk = 1200 * (2 + 4 + 4) + 4;
        // Three runs of eight bytes, in a list that has grown to four.
        chunk + 4 * 8
    });
    let twice = insert(&tablet, keys(4).take(300).chain([(5, "007\0".to_owned())]));
    assert_eq!(twice, [(300, RowErrorKind::AlreadyPresent)]);
    let spec = ScanSpec { projection: vec![0, 1], ordered: true, ..ScanSpec::default() };
    let mut scanner = tablet.scan(spec, NOW).unwrap();
    let mut rows = Vec::new();
    while let Some(block) = scanner.next_block(1 << 20).unwrap() {
        rows.extend(rows_of(&tablet.schema(), &block));
    }
    let expected = keys(-1).chain(keys(3)).chain(keys(4).take(300)).chain(keys(5));
    let expected = expected.map(|(k, s)| vec![Some(Value::Int16(k)), Some(Value::String(s))]);
    assert!(rows.into_iter().eq(expected));
}
