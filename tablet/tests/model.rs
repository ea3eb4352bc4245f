//! A tablet against a map of versions: random batches, then scans at random snapshots.

mod common;

use std::collections::BTreeMap;

use common::{NOW, batch, open, rows_of};
use proptest::prelude::*;
use schema::{Column, DataType, OpKind, PartialRow, Predicate, Schema, Timestamp, Value};
use tablet::{RowErrorKind, ScanSpec, Tablet};

/// Cells behind the key: nullable, with a default, immutable.
type Cells = [Option<i32>; 3];
type Key = (i8, u8);

#[derive(Clone, Debug)]
struct Operation {
    kind: OpKind,
    key: Key,
    /// Outer `None`: not set. NULL only where the column is nullable.
    cells: [Option<Option<i32>>; 3],
}

#[derive(Default)]
struct Model {
    versions: BTreeMap<Key, Vec<(Timestamp, Option<Cells>)>>,
}

impl Model {
    fn live(&self, key: Key) -> Option<Cells> {
        self.versions.get(&key).and_then(|versions| versions.last()).and_then(|(_, row)| *row)
    }

    fn at(&self, snapshot: Timestamp) -> BTreeMap<Key, Cells> {
        let seen = |versions: &Vec<(Timestamp, Option<Cells>)>| {
            versions.iter().rev().find(|(at, _)| *at < snapshot).and_then(|(_, row)| *row)
        };
        self.versions.iter().filter_map(|(key, versions)| Some((*key, seen(versions)?))).collect()
    }

    /// What a scan of changes shows: rows as they are at the end, or as they were last, and whether they are gone.
    fn changes(&self, since: Timestamp, until: Timestamp) -> Vec<(Vec<Option<Value>>, bool)> {
        let change = |(key, versions): (&Key, &Vec<(Timestamp, Option<Cells>)>)| {
            let seen =
                |snapshot| versions.iter().rev().find(|(at, _)| *at < snapshot).and_then(|(_, row)| *row);
            let touched = versions.iter().any(|(at, _)| (since..until).contains(at));
            let last = versions.iter().rev().filter(|(at, _)| *at < until).find_map(|(_, row)| *row);
            match (touched, seen(since), seen(until)) {
                (true, _, Some(row)) => Some((expected_row((key, &row)), false)),
                (true, Some(_), None) => Some((expected_row((key, &last?)), true)),
                _ => None,
            }
        };
        self.versions.iter().filter_map(change).collect()
    }

    fn apply(&mut self, op: &Operation, at: Timestamp) -> Result<(), &'static str> {
        let before = self.live(op.key);
        let [a, d, im] = op.cells;
        let fresh = [a.flatten(), d.map_or(Some(42), |d| d), im.flatten()];
        let over = |old: Cells, keep: bool| {
            [a.unwrap_or(old[0]), d.unwrap_or(old[1]), if keep { old[2] } else { im.unwrap_or(old[2]) }]
        };
        let after = match (op.kind, before) {
            (OpKind::Update, _) if im.is_some() => return Err("immutable"),
            (OpKind::Update | OpKind::UpdateIgnore, _) if a.is_none() && d.is_none() => {
                return Err("invalid");
            }
            (OpKind::Insert, Some(_)) => return Err("present"),
            (OpKind::Update | OpKind::Delete, None) => return Err("missing"),
            (OpKind::InsertIgnore, Some(_)) | (OpKind::UpdateIgnore | OpKind::DeleteIgnore, None) => {
                return Ok(());
            }
            (OpKind::Delete | OpKind::DeleteIgnore, Some(_)) => None,
            (OpKind::Upsert, Some(_)) if im.is_some() => return Err("immutable"),
            // It sets nothing that may be set: no change is seen.
            (OpKind::Upsert | OpKind::UpsertIgnore, Some(_)) if a.is_none() && d.is_none() => return Ok(()),
            (OpKind::Update | OpKind::Upsert, Some(old)) => Some(over(old, false)),
            (OpKind::UpdateIgnore | OpKind::UpsertIgnore, Some(old)) => Some(over(old, true)),
            (_, None) => Some(fresh),
            (kind, _) => unreachable!("{kind:?}"),
        };
        self.versions.entry(op.key).or_default().push((at, after));
        Ok(())
    }
}

fn table() -> Schema {
    let columns = vec![
        Column::new("k", DataType::Int8),
        Column::new("s", DataType::String),
        Column::new("a", DataType::Int32).nullable(true),
        Column::new("d", DataType::Int32).default_value(42),
        Column::new("im", DataType::String).nullable(true).immutable(true),
    ];
    Schema::new(columns, 2).unwrap().with_sequential_ids(10)
}

fn text(number: u8) -> String {
    ["", "\0", "a", "a\0b", "bcd"][usize::from(number)].to_owned()
}

fn row(schema: &Schema, op: &Operation) -> PartialRow {
    let mut row = PartialRow::new(schema);
    row.set("k", op.key.0).unwrap().set("s", text(op.key.1)).unwrap();
    for (column, cell) in ["a", "d", "im"].into_iter().zip(op.cells) {
        match cell {
            None => {}
            Some(None) => {
                row.set_null(column).unwrap();
            }
            Some(Some(number)) if column == "im" => {
                row.set(column, number.to_string()).unwrap();
            }
            Some(Some(number)) => {
                row.set(column, number).unwrap();
            }
        }
    }
    row
}

fn expected_row((key, cells): (&Key, &Cells)) -> Vec<Option<Value>> {
    vec![
        Some(Value::Int8(key.0)),
        Some(Value::String(text(key.1))),
        cells[0].map(Value::Int32),
        cells[1].map(Value::Int32),
        cells[2].map(|number| Value::String(number.to_string())),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let kinds = [
        OpKind::Insert,
        OpKind::InsertIgnore,
        OpKind::Update,
        OpKind::UpdateIgnore,
        OpKind::Upsert,
        OpKind::UpsertIgnore,
        OpKind::Delete,
        OpKind::DeleteIgnore,
    ];
    let cell = proptest::option::of(proptest::option::of(-3..3i32));
    let not_null = proptest::option::of((-3..3i32).prop_map(Some));
    let immutable = proptest::option::weighted(0.3, proptest::option::of(0..3i32));
    (proptest::sample::select(kinds.to_vec()), (-2..3i8, 0..5u8), cell, not_null, immutable).prop_map(
        |(kind, key, a, d, im)| {
            let delete = matches!(kind, OpKind::Delete | OpKind::DeleteIgnore);
            Operation { kind, key, cells: if delete { [None; 3] } else { [a, d, im] } }
        },
    )
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Maintenance {
    None,
    Flush,
    Compaction,
}

fn maintenance() -> impl Strategy<Value = Maintenance> {
    proptest::sample::select(vec![
        Maintenance::None,
        Maintenance::None,
        Maintenance::Flush,
        Maintenance::Flush,
        Maintenance::Compaction,
    ])
}

/// Reads the whole scan in blocks of the given size.
fn read(tablet: &Tablet, spec: ScanSpec, max_bytes: usize) -> Vec<Vec<Option<Value>>> {
    let projection = tablet.schema().project(&spec.projection).unwrap();
    let mut scanner = tablet.scan(spec, NOW).unwrap();
    let mut rows = Vec::new();
    while let Some(block) = scanner.next_block(max_bytes).unwrap() {
        block.validate(&projection).unwrap();
        rows.extend(rows_of(&projection, &block));
    }
    assert!(!scanner.has_more());
    rows
}

fn changes(
    tablet: &Tablet,
    since: Timestamp,
    until: Timestamp,
    max_bytes: usize,
) -> Vec<(Vec<Option<Value>>, bool)> {
    let spec = ScanSpec {
        projection: vec![0, 1, 2, 3, 4, ScanSpec::IS_DELETED],
        since: Some(since),
        snapshot: Some(until),
        ..ScanSpec::default()
    };
    let projection = tablet.schema().project(&[0, 1, 2, 3, 4]).unwrap();
    let mut scanner = tablet.scan(spec, NOW).unwrap();
    let mut rows = Vec::new();
    while let Some(mut block) = scanner.next_block(max_bytes).unwrap() {
        let gone = block.columns.pop().unwrap().data;
        rows.extend(rows_of(&projection, &block).into_iter().zip(gone.iter().map(|gone| *gone == 1)));
    }
    rows
}

fn sorted(mut rows: Vec<Vec<Option<Value>>>) -> Vec<Vec<Option<Value>>> {
    rows.sort_by_key(|row| format!("{row:?}"));
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_snapshot_shows_what_the_model_says(
        batches in proptest::collection::vec(
            (proptest::collection::vec(operation(), 0..30), maintenance()), 1..12),
        bound in (-2..3i8, 0..5u8),
        value in -3..3i32,
        limit in 0..20u64,
        max_bytes in 1..4000usize,
    ) {
        let tablet = open(table());
        let schema = tablet.schema();
        let mut model = Model::default();
        let mut snapshots = vec![Timestamp(0), Timestamp::new(NOW, 0)];
        for (ops, maintenance) in &batches {
            let rows: Vec<_> = ops.iter().map(|op| (op.kind, row(&schema, op))).collect();
            let outcome = batch(&tablet, &rows).unwrap();
            let mut errors = Vec::new();
            for (index, op) in ops.iter().enumerate() {
                if let Err(error) = model.apply(op, outcome.timestamp) {
                    errors.push((index as u32, error));
                }
            }
            let got: Vec<_> = outcome.row_errors.iter().map(|error| (error.index, match error.kind {
                RowErrorKind::AlreadyPresent => "present",
                RowErrorKind::NotFound => "missing",
                RowErrorKind::Immutable { .. } => "immutable",
                RowErrorKind::InvalidArgument(_) => "invalid",
                _ => "other",
            })).collect();
            prop_assert_eq!(got, errors);
            snapshots.push(outcome.timestamp);
            snapshots.push(outcome.timestamp.next());
            if *maintenance != Maintenance::None {
                tablet.flush(Timestamp::MIN).unwrap();
            }
            if *maintenance == Maintenance::Compaction {
                tablet.compact(Timestamp::MIN).unwrap();
            }
        }
        let newest = model.at(Timestamp::MAX);
        prop_assert_eq!(tablet.statistics().live_rows, newest.len() as u64);

        let all = vec![0, 1, 2, 3, 4];
        let newest_rows: Vec<_> = newest.iter().map(expected_row).collect();
        let spec = ScanSpec { projection: all.clone(), ..ScanSpec::default() };
        prop_assert_eq!(sorted(read(&tablet, spec, max_bytes)), sorted(newest_rows));

        let ends = [bound.1, limit as u8].map(|pick| snapshots[usize::from(pick) % snapshots.len()]);
        let (since, until) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        prop_assert_eq!(changes(&tablet, since, until, max_bytes), model.changes(since, until));

        for snapshot in snapshots {
            let shown = model.at(snapshot);
            let expected: Vec<_> = shown.iter().map(expected_row).collect();
            let spec = ScanSpec { snapshot: Some(snapshot), projection: all.clone(), ..ScanSpec::default() };
            prop_assert_eq!(sorted(read(&tablet, spec.clone(), max_bytes)), sorted(expected.clone()));

            let ordered = ScanSpec { ordered: true, ..spec.clone() };
            prop_assert_eq!(read(&tablet, ordered.clone(), max_bytes), expected.clone());

            let predicates = vec![
                Predicate::Range { column: 2, lower: Some(value.to_le_bytes().to_vec().into()), upper: None },
                Predicate::IsNotNull { column: 3 },
            ];
            let matching: Vec<_> = shown.iter().filter(|(_, cells)| cells[0].is_some_and(|a| a >= value))
                .map(expected_row).collect();
            let filtered = ScanSpec { predicates, ..ordered.clone() };
            prop_assert_eq!(read(&tablet, filtered, max_bytes), matching);

            let key = common::encoded_key(&schema, bound.0, &text(bound.1));
            let after: Vec<_> = shown.range((std::ops::Bound::Excluded(bound), std::ops::Bound::Unbounded))
                .map(expected_row).take(limit as usize).collect();
            let resumed = ScanSpec { last_key: Some(key.clone()), limit: Some(limit), ..ordered.clone() };
            prop_assert_eq!(read(&tablet, resumed, max_bytes), after);

            let below: Vec<_> = shown.range(..bound).map(expected_row).collect();
            let upto = ScanSpec { upper_key: Some(key.clone()), ..ordered.clone() };
            prop_assert_eq!(read(&tablet, upto, max_bytes), below);

            let counted = ScanSpec { projection: Vec::new(), lower_key: Some(key), ..spec };
            prop_assert_eq!(read(&tablet, counted, max_bytes).len(), shown.range(bound..).count());
        }
    }
}
