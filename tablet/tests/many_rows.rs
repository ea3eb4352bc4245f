//! Many rows: blocks, chunks, lists of thousands of values, readers beside a writer.

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use common::{NOW, batch, open};
use schema::{Column, DataType, OpKind, PartialRow, Predicate, Schema, Timestamp};
use tablet::{ScanSpec, Tablet};

fn table() -> Schema {
    let columns = vec![
        Column::new("k", DataType::Int32),
        Column::new("v", DataType::Int32).nullable(true),
        Column::new("s", DataType::String),
    ];
    Schema::new(columns, 1).unwrap().with_sequential_ids(10)
}

/// `v` is the key modulo 1000, NULL for multiples of 7; `s` is the key as text.
fn row(schema: &Schema, key: i32) -> PartialRow {
    let mut row = PartialRow::new(schema);
    row.set_at(0, key).unwrap().set_at(2, key.to_string()).unwrap();
    if key % 7 == 0 {
        row.set_null_at(1).unwrap();
    } else {
        row.set_at(1, key % 1000).unwrap();
    }
    row
}

fn insert(tablet: &Tablet, keys: impl Iterator<Item = i32>) {
    let rows: Vec<_> = keys.map(|key| (OpKind::Insert, row(&tablet.schema(), key))).collect();
    assert!(batch(tablet, &rows).unwrap().row_errors.is_empty());
}

fn int(value: i32) -> Bytes {
    Bytes::copy_from_slice(&value.to_le_bytes())
}

/// Keys of all rows, each row's text checked against its key.
fn keys(tablet: &Tablet, spec: ScanSpec, max_bytes: usize) -> Vec<i32> {
    let projection = tablet.schema().project(&[0, 2]).unwrap();
    let mut scanner = tablet.scan(ScanSpec { projection: vec![0, 2], ..spec }, NOW).unwrap();
    let mut keys = Vec::new();
    while let Some(block) = scanner.next_block(max_bytes).unwrap() {
        block.validate(&projection).unwrap();
        for row in 0..block.rows {
            let key = i32::from_le_bytes(block.cell(row, 0).value().unwrap().try_into().unwrap());
            assert_eq!(block.cell(row, 1).value().unwrap(), key.to_string().as_bytes());
            keys.push(key);
        }
    }
    keys
}

#[test]
fn rows_of_several_chunks_come_out_once_each_whatever_the_block_size() {
    let tablet = open(table());
    let count = 70_000;
    // 7919 is prime to 70,000: all keys, in a shuffled order.
    for start in (0..count).step_by(5_000) {
        insert(&tablet, (start..start + 5_000).map(|i| (i * 7919) % count));
        if start % 20_000 == 0 {
            assert_eq!(keys(&tablet, ScanSpec::default(), 1 << 20).len() as i32, start + 5_000);
        }
    }
    for max_bytes in [1, 10_000, 1 << 20] {
        let mut all = keys(&tablet, ScanSpec::default(), max_bytes);
        all.sort_unstable();
        assert!(all.into_iter().eq(0..count));
    }
    let ordered = ScanSpec { ordered: true, ..ScanSpec::default() };
    assert!(keys(&tablet, ordered, 100_000).into_iter().eq(0..count));
    assert_eq!(tablet.statistics().live_rows, count as u64);
}

#[test]
fn deletes_and_updates_anywhere_leave_exactly_the_others() {
    let tablet = open(table());
    insert(&tablet, 0..9_000);
    keys(&tablet, ScanSpec::default(), 1 << 20);
    insert(&tablet, 9_000..10_000);
    let schema = tablet.schema();
    let change = |key: i32| {
        let mut row = PartialRow::new(&schema);
        row.set_at(0, key).unwrap();
        if key % 3 == 0 {
            return (OpKind::Delete, row);
        }
        row.set_at(1, -1).unwrap();
        (OpKind::Update, row)
    };
    let changes: Vec<_> = (0..10_000).filter(|key| key % 3 == 0 || key % 100 == 1).map(change).collect();
    let outcome = batch(&tablet, &changes).unwrap();
    assert!(outcome.row_errors.is_empty());
    let left = (0..10_000).filter(|key| key % 3 != 0);
    let ordered = ScanSpec { ordered: true, ..ScanSpec::default() };
    assert!(keys(&tablet, ordered.clone(), 5_000).into_iter().eq(left.clone()));
    let mut stored = keys(&tablet, ScanSpec::default(), 5_000);
    stored.sort_unstable();
    assert!(stored.into_iter().eq(left.clone()));
    let changed = Predicate::Equality { column: 1, value: int(-1) };
    let changed = ScanSpec { predicates: vec![changed], ..ordered.clone() };
    assert!(keys(&tablet, changed, 5_000).into_iter().eq(left.filter(|key| key % 100 == 1)));
    let before = ScanSpec { snapshot: Some(outcome.timestamp), ..ordered };
    assert!(keys(&tablet, before, 1 << 20).into_iter().eq(0..10_000));
}

#[test]
fn a_block_goes_over_its_limit_by_at_most_128_rows() {
    let tablet = open(table());
    insert(&tablet, 0..1_000);
    let rows = |spec: ScanSpec, max_bytes| {
        tablet.scan(spec, NOW).unwrap().next_block(max_bytes).unwrap().unwrap().rows
    };
    let fixed = ScanSpec { projection: vec![0], ..ScanSpec::default() };
    assert_eq!(rows(fixed.clone(), 1), 128);
    assert_eq!(rows(fixed.clone(), 512), 128);
    assert_eq!(rows(fixed.clone(), 513), 256);
    assert_eq!(rows(ScanSpec { limit: Some(5), ..fixed.clone() }, 1), 5);
    assert_eq!(rows(ScanSpec { ordered: true, ..fixed }, 1), 128);
    assert_eq!(rows(ScanSpec::default(), 1), 1_000, "a count has no bytes");
    let none = ScanSpec { limit: Some(0), ..ScanSpec::default() };
    assert!(tablet.scan(none, NOW).unwrap().next_block(1).unwrap().is_none());
}

#[test]
fn blocks_of_neighbouring_rows_are_shared_and_not_copied() {
    let tablet = open(table());
    insert(&tablet, 0..5_000);
    let block = || {
        let spec = ScanSpec { projection: vec![0, 1, 2], ..ScanSpec::default() };
        let mut scanner = tablet.scan(spec, NOW).unwrap();
        scanner.next_block(1 << 20).unwrap().unwrap()
    };
    let (first, second) = (block(), block());
    assert_eq!(first.rows, 5_000);
    for (a, b) in first.columns.iter().zip(&second.columns) {
        let (cells, content) = (&a.data, a.varlen.as_ref());
        assert!(content.is_some() || cells.as_ptr() == b.data.as_ptr());
        assert_eq!(content.map(|c| c.as_ptr()), b.varlen.as_ref().map(|c| c.as_ptr()));
        assert_eq!(a.non_null.as_ref().map(|c| c.as_ptr()), b.non_null.as_ref().map(|c| c.as_ptr()));
    }
}

#[test]
fn long_in_lists_find_the_same_rows_as_a_row_by_row_test() {
    let tablet = open(table());
    insert(&tablet, 0..10_000);
    check_long_in_lists(&tablet);
    // In files, and with some in memory.
    tablet.flush(Timestamp::MIN).unwrap();
    check_long_in_lists(&tablet);
    let again = (0..10_000).step_by(3).map(|key| (OpKind::Upsert, row(&tablet.schema(), key)));
    batch(&tablet, &again.collect::<Vec<_>>()).unwrap();
    check_long_in_lists(&tablet);
    tablet.flush(Timestamp::MIN).unwrap();
    check_long_in_lists(&tablet);
}

fn check_long_in_lists(tablet: &Tablet) {
    let numbers: Vec<i32> = (0..30_000).map(|i| (i * 7919) % 20_011 - 5_000).collect();
    let set: BTreeSet<i32> = numbers.iter().copied().collect();
    let texts: Vec<Bytes> = (0..5_140).map(|i| Bytes::from(((i * 31) % 12_000).to_string())).collect();
    let text_set: BTreeSet<Bytes> = texts.iter().cloned().collect();
    let list = Predicate::InList { column: 0, values: numbers.iter().map(|v| int(*v)).collect() };
    let nullable = Predicate::InList { column: 1, values: numbers.iter().map(|v| int(*v)).collect() };
    let range = Predicate::Range { column: 0, lower: Some(int(100)), upper: Some(int(5_000)) };
    let matches = |predicates: Vec<Predicate>, keep: &dyn Fn(i32) -> bool| {
        let spec = ScanSpec { predicates, ordered: true, ..ScanSpec::default() };
        let expected: Vec<i32> = (0..10_000).filter(|key| keep(*key)).collect();
        assert_eq!(keys(tablet, spec, 1 << 20), expected);
        expected.len()
    };
    let found = matches(vec![list.clone()], &|key| set.contains(&key));
    assert!(found > 1_000, "the test needs rows to find, there are {found}");
    matches(vec![nullable], &|key| key % 7 != 0 && set.contains(&(key % 1000)));
    matches(vec![list, range], &|key| (100..5_000).contains(&key) && set.contains(&key));
    matches(vec![Predicate::InList { column: 2, values: texts }], &|key| {
        text_set.contains(&Bytes::from(key.to_string()))
    });
    matches(vec![Predicate::InList { column: 0, values: Vec::new() }], &|_| false);
}

#[test]
fn readers_see_whole_batches_while_a_writer_writes() {
    let tablet = open(table());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for start in (0..30_000).step_by(100) {
                insert(&tablet, start..start + 100);
            }
            done.store(true, Ordering::Release);
        });
        let mut last = 0;
        while !done.load(Ordering::Acquire) {
            let mut all = keys(&tablet, ScanSpec::default(), 1 << 20);
            all.sort_unstable();
            assert!(all.len() >= last && all.len().is_multiple_of(100));
            last = all.len();
            assert!(all.into_iter().eq(0..last as i32));
        }
    });
    assert_eq!(keys(&tablet, ScanSpec::default(), 1 << 20).len(), 30_000);
}
