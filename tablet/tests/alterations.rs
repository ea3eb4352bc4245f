//! Tables that are altered while they have rows: what old and new rows show, in scans, writes and after a start.

mod common;

use common::storage::{content, reopen, row, table};
use common::{NOW, batch, open, rows_of};
use schema::row_ops::{Decoder, Encoder};
use schema::{Column, ColumnId, DataType, OpKind, PartialRow, Predicate, Schema, Timestamp, Value};
use tablet::backend::{Fault, Faulty, Memory};
use tablet::{AlterError, Alteration, ScanSpec, SyncPolicy, Tablet, WriteError};

/// The table without `s`, `v` renamed to `w`, and new columns: `n` NULLABLE, `d` with a default of 5, `t` with one of "new".
fn altered() -> Alteration {
    let columns = vec![
        Column::new("k", DataType::Int32),
        Column::new("w", DataType::Int32).nullable(true),
        Column::new("n", DataType::String).nullable(true),
        Column::new("d", DataType::Int32).default_value(5),
        Column::new("t", DataType::String).default_value("new".to_owned()),
    ];
    let ids = [10, 11, 13, 14, 15].map(ColumnId).to_vec();
    let schema = Schema::new(columns, 1).unwrap().with_ids(ids).unwrap();
    Alteration { schema, schema_version: 1, table_name: "renamed".into(), history_max_age_sec: None }
}

fn rows(tablet: &Tablet, spec: ScanSpec) -> Vec<Vec<Option<Value>>> {
    let schema = spec.schema.clone().unwrap_or_else(|| tablet.schema());
    let projection = schema.project(&spec.projection).unwrap();
    let mut scanner = tablet.scan(spec, NOW).unwrap();
    let mut rows = Vec::new();
    while let Some(block) = scanner.next_block(1 << 20).unwrap() {
        block.validate(&projection).unwrap();
        rows.extend(rows_of(&projection, &block));
    }
    rows
}

fn all(tablet: &Tablet) -> Vec<Vec<Option<Value>>> {
    let projection = (0..tablet.schema().len()).collect();
    rows(tablet, ScanSpec { projection, ordered: true, ..ScanSpec::default() })
}

fn set(schema: &Schema, kind: OpKind, key: i32, cells: &[(&str, Value)]) -> (OpKind, PartialRow) {
    let mut row = PartialRow::new(schema);
    row.set_at(0, key).unwrap();
    for (name, value) in cells {
        row.set(name, value.clone()).unwrap();
    }
    (kind, row)
}

fn text(text: &str) -> Option<Value> {
    Some(Value::String(text.to_owned()))
}

fn int(value: i32) -> Option<Value> {
    Some(Value::Int32(value))
}

/// Three rows before, then the alteration.
fn filled(tablet: &Tablet) {
    let old = table();
    let before = [1, 2, 3].map(|key| row(&old, OpKind::Insert, key, Some(key * 10), Some("old")));
    batch(tablet, &before).unwrap();
    tablet.alter(altered()).unwrap();
}

/// One new row, one old row changed, one ended.
fn changed(tablet: &Tablet) -> Vec<Vec<Option<Value>>> {
    let new = tablet.schema();
    let after = [
        set(&new, OpKind::Insert, 4, &[("n", Value::String("four".into()))]),
        set(&new, OpKind::Update, 2, &[("d", Value::Int32(7))]),
        set(&new, OpKind::Delete, 3, &[]),
        set(&new, OpKind::Insert, 1, &[]),
    ];
    let outcome = batch(tablet, &after).unwrap();
    assert_eq!(outcome.row_errors.len(), 1, "key 1 lives in the rows from before");
    vec![
        vec![int(1), int(10), None, int(5), text("new")],
        vec![int(2), int(20), None, int(7), text("new")],
        vec![int(4), None, text("four"), int(5), text("new")],
    ]
}

#[test]
fn rows_from_before_show_defaults_and_are_found_by_writes() {
    let tablet = open(table());
    filled(&tablet);
    assert_eq!(tablet.options().table_name, "renamed");
    let expected = changed(&tablet);
    assert_eq!(all(&tablet), expected);
    assert_eq!(tablet.statistics().live_rows, 3);

    let only = |predicate| {
        rows(
            &tablet,
            ScanSpec {
                projection: vec![0],
                predicates: vec![predicate],
                ordered: true,
                ..Default::default()
            },
        )
    };
    let seven = 7_i32.to_le_bytes().to_vec();
    assert_eq!(only(Predicate::Equality { column: 3, value: seven.into() }), [[int(2)]]);
    let five = 5_i32.to_le_bytes().to_vec();
    assert_eq!(only(Predicate::Equality { column: 3, value: five.into() }), [[int(1)], [int(4)]]);
    assert_eq!(only(Predicate::IsNull { column: 2 }), [[int(1)], [int(2)]]);
    assert_eq!(
        rows(&tablet, ScanSpec { projection: vec![4], limit: Some(1), ..Default::default() }),
        [[text("new")]]
    );
}

#[test]
fn rows_of_several_schemas_are_flushed_merged_and_found_again() {
    let memory = Memory::new();
    let tablet = reopen(memory.clone(), SyncPolicy::Always).unwrap();
    filled(&tablet);
    let expected = changed(&tablet);
    let is_as_it_was = |tablet: &Tablet| {
        assert_eq!(all(tablet), expected);
        assert_eq!(all(&reopen(memory.after_kill(), SyncPolicy::Always).unwrap()), expected);
    };
    is_as_it_was(&tablet);
    tablet.flush(Timestamp::MIN).unwrap();
    is_as_it_was(&tablet);
    for _ in 0..3 {
        let again = set(&tablet.schema(), OpKind::Update, 4, &[("n", Value::String("four".into()))]);
        batch(&tablet, &[again]).unwrap();
        tablet.flush(Timestamp::MIN).unwrap();
    }
    is_as_it_was(&tablet);
    assert!(tablet.compact(Timestamp::MIN).unwrap());
    is_as_it_was(&tablet);
}

#[test]
fn who_knows_the_old_schema_reads_on_and_must_decode_anew() {
    let tablet = open(table());
    let old = tablet.schema();
    filled(&tablet);
    let spec =
        ScanSpec { schema: Some(old.clone()), projection: vec![0, 2], ordered: true, ..ScanSpec::default() };
    batch(&tablet, &[set(&tablet.schema(), OpKind::Insert, 9, &[])]).unwrap();
    let got = rows(&tablet, spec);
    let seen: Vec<_> = [1, 2, 3].map(|key| vec![int(key), text("old")]).into();
    assert_eq!(got, [seen, vec![vec![int(9), text("none")]]].concat(), "the new row lacks `s`");

    let mut encoder = Encoder::new(&old);
    let (kind, one) = row(&old, OpKind::Insert, 5, None, None);
    encoder.push(kind, &one).unwrap();
    let (bytes, indirect) = encoder.finish();
    let decoder = Decoder::new(&old, &old).unwrap();
    let error = tablet.write(&decoder.decode(&bytes, &indirect).unwrap(), None, NOW).unwrap_err();
    assert_eq!((&error, error.is_retriable()), (&WriteError::SchemaChanged, true));
}

#[test]
fn keys_and_types_stay_and_an_alteration_that_comes_again_does_nothing() {
    let tablet = open(table());
    filled(&tablet);
    tablet.alter(Alteration { table_name: "too late".into(), ..altered() }).unwrap();
    assert_eq!((tablet.options().schema_version, &*tablet.options().table_name), (1, "renamed"));
    let other = |column: Column, id| {
        let columns = vec![Column::new("k", DataType::Int32), column];
        let schema = Schema::new(columns, 1).unwrap().with_ids(vec![ColumnId(10), ColumnId(id)]).unwrap();
        tablet.alter(Alteration {
            schema,
            schema_version: 2,
            table_name: "t".into(),
            history_max_age_sec: None,
        })
    };
    let wrong = other(Column::new("w", DataType::Int64).nullable(true), 11).unwrap_err();
    assert_eq!(wrong, AlterError::Type { column: "w".into() });
    assert_eq!(other(Column::new("w", DataType::Int32), 11).unwrap_err(), wrong);
    let columns = vec![Column::new("k", DataType::Int64)];
    let schema = Schema::new(columns, 1).unwrap().with_ids(vec![ColumnId(10)]).unwrap();
    let keys = Alteration { schema, schema_version: 2, table_name: "t".into(), history_max_age_sec: None };
    assert_eq!(tablet.alter(keys), Err(AlterError::KeyColumns));
    // A column of the same name as one that was dropped is another one.
    other(Column::new("d", DataType::Int64).default_value(1_i64), 20).unwrap();
    assert_eq!(all(&tablet)[0], [int(1), Some(Value::Int64(1))]);
}

#[test]
fn a_start_finds_the_altered_table_and_no_fault_leaves_half_of_it() {
    for fault in [Fault::Error, Fault::Death, Fault::Torn(100)] {
        for at in 0.. {
            let memory = Memory::new();
            let faulty = Faulty::new(memory.clone(), at, fault);
            let tablet = reopen(faulty.clone(), SyncPolicy::Always).unwrap();
            let old = table();
            let before =
                [row(&old, OpKind::Insert, 1, Some(10), None), row(&old, OpKind::Insert, 2, Some(20), None)];
            let written = batch(&tablet, &before).is_ok();
            let altered_ok = tablet.alter(altered()).is_ok();
            let mut expected = None;
            if altered_ok {
                let update = set(&tablet.schema(), OpKind::Upsert, 2, &[("d", Value::Int32(6))]);
                if batch(&tablet, &[update]).is_ok() {
                    expected = Some(all(&tablet));
                }
            }
            let again = reopen(memory.after_power_cut(|most| most / 2), SyncPolicy::Always).unwrap();
            match expected {
                Some(expected) => {
                    assert_eq!(all(&again), expected);
                    assert_eq!(all(&again)[1][3], int(6));
                }
                None if altered_ok => assert_eq!(again.options().schema_version, 1),
                None if written => assert_eq!(all(&again).len(), 2),
                None => {}
            }
            if again.options().schema_version == 0 {
                assert!(content(&again, None).len() == 2 || !written);
            }
            if faulty.operations() <= at {
                assert!(altered_ok);
                break;
            }
        }
    }
}
