//! What fails a row, a batch, a scan, or the opening of a tablet.

mod common;

use std::sync::Arc;

use common::{NOW, batch, open, options};
use schema::row_ops::{Decoder, Encoder};
use schema::{
    Cell, Column, DataType, HashDimension, HybridClock, OpKind, PartialRow, PartitionSchema, Predicate,
    RowFault, Schema, Timestamp,
};
use tablet::{OpenError, RowErrorKind, ScanError, ScanSpec, Tablet, WriteError};

fn table() -> Schema {
    let columns = vec![
        Column::new("k", DataType::Int32),
        Column::varchar("v", 2).nullable(true),
        Column::decimal("m", 4, 2).nullable(true),
        Column::new("day", DataType::Date).nullable(true),
    ];
    Schema::new(columns, 1).unwrap().with_sequential_ids(10)
}

#[test]
fn values_out_of_bounds_fail_their_own_row() {
    let tablet = open(table());
    let schema = &tablet.schema();
    let cell = |column: usize, raw: &'static [u8]| {
        let key = &[7, 0, 0, 0];
        move |index: usize| match index {
            0 => Cell::Value(key),
            _ if index == column => Cell::Value(raw),
            _ => Cell::Unset,
        }
    };
    let mut encoder = Encoder::new(schema);
    encoder.push_cells(OpKind::Insert, cell(1, "abc".as_bytes())).unwrap();
    encoder.push_cells(OpKind::Insert, cell(2, &[0x10, 0x27, 0, 0])).unwrap();
    encoder.push_cells(OpKind::Insert, cell(3, &[0xff, 0xff, 0xff, 0x7f])).unwrap();
    encoder.push_cells(OpKind::Insert, cell(1, "äö".as_bytes())).unwrap();
    let (rows, indirect) = encoder.finish();
    let decoder = Decoder::new(schema, schema).unwrap();
    let outcome = tablet.write(&decoder.decode(&rows, &indirect).unwrap(), None, NOW).unwrap();
    let failed: Vec<_> = outcome.row_errors.iter().map(|error| error.index).collect();
    assert_eq!(failed, [0, 1, 2]);
    for error in outcome.row_errors {
        assert!(matches!(error.kind, RowErrorKind::InvalidArgument(RowFault::Bounds(_))), "{error:?}");
    }
    assert_eq!(tablet.statistics().live_rows, 1);
}

#[test]
fn one_row_of_another_partition_fails_the_whole_batch() {
    let schema = table();
    let hash = HashDimension { columns: vec![schema.id(0)], buckets: 2, seed: 0 };
    let partition_schema = PartitionSchema { hash_dimensions: vec![hash], ..Default::default() };
    let partitions = schema::partition::create_partitions(&schema, &partition_schema, &[], &[]).unwrap();
    let clock = Arc::new(HybridClock::default());
    let tablets: Vec<_> = partitions
        .into_iter()
        .map(|partition| {
            let mut options = options(schema.clone());
            (options.partition_schema, options.partition) = (partition_schema.clone(), partition);
            Tablet::open(options, Arc::clone(&clock)).unwrap()
        })
        .collect();
    let row = |key: i32| {
        let mut row = PartialRow::new(&schema);
        row.set("k", key).unwrap();
        (OpKind::Insert, row)
    };
    let mut here = 0;
    for key in 0..100 {
        let taken: Vec<_> = tablets.iter().map(|tablet| batch(tablet, &[row(key)]).is_ok()).collect();
        assert!(taken[0] != taken[1], "key {key} belongs to exactly one tablet");
        here += u64::from(taken[0]);
    }
    assert_eq!(tablets[0].statistics().live_rows, here);
    let all: Vec<_> = (100..200).map(row).collect();
    assert!(matches!(batch(&tablets[0], &all), Err(WriteError::RowNotInPartition { .. })));
    assert_eq!(tablets[0].statistics().live_rows, here);
}

#[test]
fn an_empty_batch_and_one_of_failures_still_get_later_and_later_timestamps() {
    let tablet = open(table());
    let mut delete = PartialRow::new(&tablet.schema());
    delete.set("k", 1).unwrap();
    let first = batch(&tablet, &[]).unwrap().timestamp;
    let second = batch(&tablet, &[(OpKind::Delete, delete)]).unwrap();
    assert_eq!(second.row_errors[0].kind, RowErrorKind::NotFound);
    assert!(first < second.timestamp);
}

#[test]
fn timestamps_far_ahead_are_refused_and_near_ones_are_overtaken() {
    let tablet = open(table());
    let schema = &tablet.schema();
    let decoder = Decoder::new(schema, schema).unwrap();
    let ops = decoder.decode(&[], &[]).unwrap();
    let near = Timestamp::new(NOW + 9_000_000, 5);
    assert!(tablet.write(&ops, Some(near), NOW).unwrap().timestamp > near);
    let far = Timestamp::new(NOW + 11_000_000, 0);
    assert!(matches!(tablet.write(&ops, Some(far), NOW), Err(WriteError::Clock(_))));
    let scan = |snapshot| tablet.scan(ScanSpec { snapshot: Some(snapshot), ..ScanSpec::default() }, NOW);
    assert!(matches!(scan(far), Err(ScanError::Clock(_))));
    let read = Timestamp::new(NOW + 9_500_000, 0);
    scan(read).unwrap();
    assert!(
        tablet.write(&ops, None, NOW).unwrap().timestamp >= read,
        "a snapshot that was read never changes"
    );
}

#[test]
fn scans_of_columns_that_are_not_there_are_refused() {
    let tablet = open(table());
    let projection = ScanSpec { projection: vec![4], ..ScanSpec::default() };
    assert!(matches!(tablet.scan(projection, NOW), Err(ScanError::NoSuchColumn { index: 4, columns: 4 })));
    let predicates = vec![Predicate::IsNull { column: 4 }];
    let predicate = ScanSpec { predicates, ..ScanSpec::default() };
    assert!(matches!(tablet.scan(predicate, NOW), Err(ScanError::Predicate(_))));
}

#[test]
fn a_tablet_needs_column_ids_and_a_key() {
    let error = |schema: Schema| Tablet::open(options(schema), Arc::default()).unwrap_err();
    let columns = || vec![Column::new("k", DataType::Int64)];
    assert_eq!(error(Schema::new(columns(), 1).unwrap()), OpenError::NoColumnIds);
    assert_eq!(error(Schema::new(columns(), 0).unwrap().with_sequential_ids(1)), OpenError::NoPrimaryKey);
}

#[test]
fn updates_that_would_copy_more_than_a_batch_may_fail_alone() {
    let columns = vec![
        Column::new("k", DataType::Int32),
        Column::new("n", DataType::Int8),
        Column::new("s", DataType::Binary),
    ];
    let tablet = open(Schema::new(columns, 1).unwrap().with_sequential_ids(10));
    let schema = &tablet.schema();
    let wide = vec![7; schema::bounds::MAX_CELL_SIZE];
    let key = 1i32.to_le_bytes();
    let insert = |index: usize| match index {
        0 => Cell::Value(&key),
        1 => Cell::Value(&[0]),
        _ => Cell::Value(&wide),
    };
    let update = |index: usize| match index {
        0 => Cell::Value(&key),
        1 => Cell::Value(&[1]),
        _ => Cell::Unset,
    };
    let mut encoder = Encoder::new(schema);
    encoder.push_cells(OpKind::Insert, insert).unwrap();
    let count = 20_000;
    (0..count).for_each(|_| encoder.push_cells(OpKind::Update, update).unwrap());
    let (rows, indirect) = encoder.finish();
    assert!(rows.len() < 1 << 20);
    let decoder = Decoder::new(schema, schema).unwrap();
    let outcome = tablet.write(&decoder.decode(&rows, &indirect).unwrap(), None, NOW).unwrap();
    let done = outcome.metrics.successful_updates as usize;
    assert!(done > 10_000 && outcome.row_errors.len() == count - done, "{done} of {count} were done");
    assert!(matches!(outcome.row_errors[0].kind, RowErrorKind::BatchTooLarge { .. }));
    assert!(tablet.statistics().memory_bytes < 3 << 30);
}
