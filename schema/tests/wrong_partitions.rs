//! Partitions that cannot be, and bounds at the edges of their types.

use schema::{
    Cell, Column, ColumnId, DataType, HashDimension, PartialRow, Partition, PartitionError, PartitionSchema,
    RangeWithHash, Schema, Value,
    partition::{RangeBound, RangeSpec, create_partitions},
    row_ops::{Encoder, OpKind},
};

fn table() -> Schema {
    let columns = vec![
        Column::new("a", DataType::Int8),
        Column::new("s", DataType::String),
        Column::new("v", DataType::Int8),
    ];
    Schema::new(columns, 2).unwrap().with_sequential_ids(10)
}

fn by_range(ids: &[u32]) -> PartitionSchema {
    PartitionSchema { range_columns: ids.iter().copied().map(ColumnId).collect(), ..Default::default() }
}

fn row(cells: &[(&str, Value)]) -> PartialRow {
    let mut row = PartialRow::new(&table());
    cells.iter().for_each(|(name, value)| {
        row.set(name, value.clone()).unwrap();
    });
    row
}

fn a(value: i8) -> PartialRow {
    row(&[("a", value.into())])
}

fn none() -> PartialRow {
    row(&[])
}

fn range(lower: PartialRow, upper: PartialRow) -> RangeBound {
    RangeBound::new(lower, upper)
}

fn create(splits: &[PartialRow], bounds: &[RangeBound]) -> Result<Vec<Partition>, PartitionError> {
    create_partitions(&table(), &by_range(&[10]), splits, bounds)
}

fn hash(columns: &[u32], buckets: u32) -> HashDimension {
    HashDimension { columns: columns.iter().copied().map(ColumnId).collect(), buckets, seed: 0 }
}

#[test]
fn ranges_that_overlap_are_refused_and_those_that_touch_are_not() {
    assert_eq!(create(&[], &[range(a(5), a(9)), range(a(0), a(5))]).unwrap().len(), 2);
    for second in [range(a(4), a(6)), range(a(0), a(5)), range(none(), a(1)), range(a(4), none())] {
        let error = create(&[], &[range(a(0), a(5)), second]).unwrap_err();
        assert!(matches!(error, PartitionError::Overlap { .. }), "{error}");
    }
}

#[test]
fn ranges_without_rows_are_refused() {
    for (lower, upper) in [(a(5), a(5)), (a(6), a(5)), (none(), a(i8::MIN))] {
        let result = create(&[], &[range(lower.clone(), upper)]);
        // From below everything to the minimum holds no row, but Kudu allows it.
        match result {
            Err(error) => assert!(matches!(error, PartitionError::EmptyRange { .. }), "{error}"),
            Ok(_) => assert_eq!(lower, none()),
        }
    }
}

#[test]
fn an_upper_bound_of_the_empty_string_is_unbounded_as_on_a_real_master() {
    let text = |s: &str| row(&[("s", s.into())]);
    let bound = range(text("a"), text(""));
    assert_eq!(bound.encode(&table(), &by_range(&[11])), Ok((b"a".to_vec(), vec![])));
}

#[test]
fn splits_must_be_apart_and_inside_of_the_bounds() {
    assert_eq!(create(&[a(5), a(3)], &[]).unwrap().len(), 3);
    assert_eq!(create(&[a(3)], &[range(a(0), a(5))]).unwrap().len(), 2);
    assert_eq!(create(&[a(5), a(5)], &[]), Err(PartitionError::DuplicateSplit));
    assert_eq!(create(&[none()], &[]), Err(PartitionError::EmptySplit));
    for out in [-1, 0, 5, 7] {
        assert_eq!(create(&[a(out)], &[range(a(0), a(5))]), Err(PartitionError::SplitOutOfBounds), "{out}");
    }
    let other = row(&[("s", "x".into())]);
    assert_eq!(create(&[other], &[]), Err(PartitionError::NotRangeColumn { column: "s".into() }));
    let without = |splits: &[PartialRow], bounds: &[RangeBound]| {
        create_partitions(&table(), &by_range(&[]), splits, bounds)
    };
    let no_column = PartitionError::NotRangeColumn { column: "a".into() };
    assert_eq!(without(&[a(1)], &[]), Err(no_column.clone()));
    assert_eq!(without(&[], &[range(a(1), a(2))]), Err(no_column));
    // So says `kudu table copy` that there are no ranges.
    assert_eq!(without(&[], &[range(none(), none())]).unwrap().len(), 1);
}

#[test]
fn steps_carry_and_stop_at_the_maximum() {
    let partitioning = by_range(&[10]);
    let stepped = |lower, upper| {
        let bound =
            RangeBound { lower: a(lower), lower_exclusive: true, upper: a(upper), upper_inclusive: true };
        bound.encode(&table(), &partitioning)
    };
    assert_eq!(stepped(0, 5), Ok((vec![0x81], vec![0x86])));
    assert_eq!(stepped(0, i8::MAX), Ok((vec![0x81], vec![])), "up to the maximum is unbounded");
    assert_eq!(stepped(i8::MAX, i8::MAX), Err(PartitionError::LowerAtMaximum));

    // The last column steps first; text always has a next.
    let both = by_range(&[10, 11]);
    let row = row(&[("a", 1i8.into()), ("s", "x".into())]);
    let bound = RangeBound { lower: row.clone(), lower_exclusive: true, upper: row, upper_inclusive: true };
    assert!(matches!(bound.encode(&table(), &both), Err(PartitionError::EmptyRange { .. })));
    let bound = RangeBound { lower: none(), lower_exclusive: true, ..bound };
    assert_eq!(bound.encode(&table(), &both), Ok((vec![], b"\x81x\0".to_vec())));

    // a at its maximum carries over s, which starts again.
    let swapped = by_range(&[11, 10]);
    let row = self::row(&[("a", i8::MAX.into()), ("s", "x".into())]);
    let bound = RangeBound { upper: row, upper_inclusive: true, ..bound };
    assert_eq!(bound.encode(&table(), &swapped), Ok((vec![], b"x\0\x01\0\0\x00".to_vec())));
}

#[test]
fn dates_and_decimals_step_within_their_own_bounds() {
    let columns = vec![Column::decimal("d", 3, 0), Column::new("t", DataType::Date)];
    let schema = Schema::new(columns, 2).unwrap().with_sequential_ids(10);
    let upper = |id: u32, name: &str, value: Value| {
        let mut row = PartialRow::new(&schema);
        row.set(name, value).unwrap();
        let lower = PartialRow::new(&schema);
        let bound = RangeBound { lower, lower_exclusive: false, upper: row, upper_inclusive: true };
        bound.encode(&schema, &by_range(&[id])).unwrap().1
    };
    assert_eq!(upper(10, "d", Value::Decimal32(998)), [0x80, 0, 3, 0xe7]);
    assert_eq!(upper(10, "d", Value::Decimal32(999)), []);
    assert_eq!(upper(11, "t", Value::Date(2_932_895)), [0x80, 0x2c, 0xc0, 0xa0]);
    assert_eq!(upper(11, "t", Value::Date(2_932_896)), []);
}

#[test]
fn hash_dimensions_are_checked() {
    let check = |dimensions: Vec<HashDimension>| {
        PartitionSchema { hash_dimensions: dimensions, ..Default::default() }.check(&table())
    };
    assert_eq!(check(vec![hash(&[10], 2), hash(&[11], 2)]), Ok(()));
    assert_eq!(check(vec![hash(&[10], 1)]), Err(PartitionError::TooFewBuckets { buckets: 1 }));
    assert_eq!(check(vec![hash(&[], 2)]), Err(PartitionError::EmptyDimension));
    assert_eq!(check(vec![hash(&[12], 2)]), Err(PartitionError::NotKey { column: "v".into() }));
    assert_eq!(check(vec![hash(&[9], 2)]), Err(PartitionError::NoSuchId { id: 9 }));
    let twice = Err(PartitionError::RepeatedColumn { column: "a".into() });
    assert_eq!(check(vec![hash(&[10], 2), hash(&[11, 10], 2)]), twice);
    assert_eq!(by_range(&[10, 10]).check(&table()), twice);
}

#[test]
fn custom_ranges_need_as_many_dimensions_and_exclude_plain_bounds() {
    let custom =
        |dimensions| RangeWithHash { lower: vec![0x80], upper: vec![0x85], hash_dimensions: dimensions };
    let with = |custom| PartitionSchema {
        hash_dimensions: vec![hash(&[10], 2)],
        custom_ranges: vec![custom],
        ..by_range(&[10])
    };
    let error = with(custom(vec![])).check(&table()).unwrap_err();
    assert_eq!(error, PartitionError::DimensionCount { expected: 1, given: 0 });
    assert!(error.is_not_supported());
    let partitioning = with(custom(vec![hash(&[11], 3)]));
    assert_eq!(create_partitions(&table(), &partitioning, &[], &[]).unwrap().len(), 3);
    let error = create_partitions(&table(), &partitioning, &[a(3)], &[]).unwrap_err();
    assert_eq!(error, PartitionError::CustomAndPlain);
    let mut twice = partitioning.clone();
    twice.custom_ranges.push(RangeWithHash {
        lower: vec![0x84],
        upper: vec![],
        ..custom(vec![hash(&[10], 2)])
    });
    let error = create_partitions(&table(), &twice, &[], &[]).unwrap_err();
    assert!(matches!(error, PartitionError::Overlap { .. }));
}

#[test]
fn a_request_for_billions_of_tablets_is_refused_at_once() {
    let hash_dimensions = vec![hash(&[10], u32::MAX), hash(&[11], u32::MAX)];
    let partitioning = PartitionSchema { hash_dimensions, ..Default::default() };
    let error = create_partitions(&table(), &partitioning, &[], &[]).unwrap_err();
    assert!(matches!(error, PartitionError::TooManyPartitions { .. }));
}

#[test]
fn bounds_come_in_pairs_lower_first() {
    let decode = |kinds: &[OpKind]| {
        let mut encoder = Encoder::new(&table());
        kinds.iter().for_each(|kind| encoder.push(*kind, &a(1)).unwrap());
        let (rows, indirect) = encoder.finish();
        RangeSpec::decode(&table(), &rows, &indirect)
    };
    use OpKind::{
        ExclusiveRangeLowerBound, InclusiveRangeUpperBound, RangeLowerBound, RangeUpperBound, SplitRow,
    };
    let spec = decode(&[SplitRow, ExclusiveRangeLowerBound, InclusiveRangeUpperBound]).unwrap();
    assert_eq!((spec.splits.len(), spec.bounds.len()), (1, 1));
    assert!(spec.bounds[0].lower_exclusive && spec.bounds[0].upper_inclusive);
    for kinds in [
        &[RangeLowerBound][..],
        &[RangeUpperBound],
        &[RangeUpperBound, RangeLowerBound],
        &[RangeLowerBound, RangeLowerBound],
        &[RangeLowerBound, SplitRow],
    ] {
        assert_eq!(decode(kinds), Err(PartitionError::UnpairedBound), "{kinds:?}");
    }
}

#[test]
fn a_partition_key_starts_with_the_bucket_of_a_single_hash() {
    use DataType::{Binary, Date, Int8, Int16, Int32, Int64, String, UnixtimeMicros};
    for data_type in [Int8, Int16, Int32, Int64, UnixtimeMicros, Date, String, Binary] {
        let schema = Schema::new(vec![Column::new("k", data_type)], 1).unwrap().with_sequential_ids(10);
        for buckets in [2, 3, 64, 1000] {
            let hash_dimensions = vec![HashDimension { seed: buckets, ..hash(&[10], buckets) }];
            let table = PartitionSchema { hash_dimensions, ..Default::default() };
            let partitioner = table.partitioner(&schema).unwrap();
            let single = partitioner.single_hash().unwrap();
            assert_eq!((single.column(), single.buckets()), (0, buckets));
            for number in 0..200_u64 {
                let mut raw = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().to_vec();
                raw.truncate(if data_type.is_varlen() { number as usize % 9 } else { data_type.cell_size() });
                let mut key = Vec::new();
                partitioner.encode(&[Cell::Value(&raw)], &mut key).unwrap();
                assert_eq!(
                    single.bucket(&raw).map(u32::to_be_bytes).as_ref().map(|b| &b[..]),
                    Some(&key[..])
                );
            }
            assert!(data_type.is_varlen() || single.bucket(&[0; 3]).is_none());
        }
    }
    let ranged = PartitionSchema { hash_dimensions: vec![hash(&[11], 4)], ..by_range(&[10]) };
    let partitioner = ranged.partitioner(&table()).unwrap();
    let cells: Vec<Cell<'_>> = vec![Cell::Value(&[7]), Cell::Value(b"text")];
    let mut key = Vec::new();
    partitioner.encode(&cells, &mut key).unwrap();
    let bucket = partitioner.single_hash().unwrap().bucket(b"text").unwrap();
    assert!(key.starts_with(&bucket.to_be_bytes()) && key.len() == 5);
    let of_two = PartitionSchema { hash_dimensions: vec![hash(&[10, 11], 4)], ..Default::default() };
    for table_of in [by_range(&[10]), of_two] {
        assert!(table_of.partitioner(&table()).unwrap().single_hash().is_none());
    }
}
