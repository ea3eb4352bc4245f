//! Pruning against a look at every row.

use bytes::Bytes;
use proptest::{collection::vec, option, prelude::*, sample::select};
use schema::{
    Cell, Column, ColumnId, DataType, HashDimension, PartialRow, PartitionSchema, Predicate, RangeWithHash,
    Schema, Value, key,
    partition::{KeyRange, RangeBound, create_partitions, prune},
};

/// Key (INT8, STRING, INT16) and one more column.
fn table() -> Schema {
    let columns = vec![
        Column::new("a", DataType::Int8),
        Column::new("b", DataType::String),
        Column::new("c", DataType::Int16),
        Column::new("v", DataType::Int8).nullable(true),
    ];
    Schema::new(columns, 3).unwrap().with_sequential_ids(10)
}

fn row(schema: &Schema, (a, b, c, v): &(i8, String, i16, Option<i8>)) -> PartialRow {
    let mut row = PartialRow::new(schema);
    row.set("a", *a).unwrap().set("b", b.as_str()).unwrap().set("c", *c).unwrap();
    match v {
        Some(v) => row.set("v", *v).unwrap(),
        None => row.set_null("v").unwrap(),
    };
    row
}

fn a() -> impl Strategy<Value = i8> {
    select(vec![i8::MIN, -2, -1, 0, 1, 2, i8::MAX])
}

fn b() -> impl Strategy<Value = String> {
    select(vec!["", "\0", "a", "a\0", "a\0b", "b", "zz"]).prop_map(str::to_owned)
}

fn c() -> impl Strategy<Value = i16> {
    select(vec![i16::MIN, -1, 0, 1, 256, i16::MAX])
}

fn rows() -> impl Strategy<Value = Vec<(i8, String, i16, Option<i8>)>> {
    vec((a(), b(), c(), option::of(a())), 1..40)
}

/// A raw value for the column of this index.
fn raw(column: usize) -> BoxedStrategy<Bytes> {
    match column {
        1 => b().prop_map(Bytes::from).boxed(),
        2 => c().prop_map(|v| Value::from(v).to_raw()).boxed(),
        _ => a().prop_map(|v| Value::from(v).to_raw()).boxed(),
    }
}

fn predicate() -> impl Strategy<Value = Predicate> {
    (0..4usize).prop_flat_map(|column| {
        prop_oneof![
            4 => (option::of(raw(column)), raw(column))
                .prop_map(move |(lower, upper)| Predicate::Range { column, lower, upper: Some(upper) }),
            2 => raw(column).prop_map(move |lower| Predicate::Range { column, lower: Some(lower), upper: None }),
            5 => raw(column).prop_map(move |value| Predicate::Equality { column, value }),
            5 => vec(raw(column), 0..5).prop_map(move |values| Predicate::InList { column, values }),
            1 => Just(Predicate::IsNull { column }),
            1 => Just(Predicate::IsNotNull { column }),
        ]
    })
}

fn dimensions(buckets: Vec<u32>, pattern: usize) -> Vec<HashDimension> {
    let columns: &[&[u32]] = match pattern {
        0 => &[&[10]],
        1 => &[&[11, 10]],
        2 => &[&[12], &[11]],
        3 => &[&[12, 10], &[11]],
        _ => &[],
    };
    columns
        .iter()
        .zip(buckets)
        .map(|(ids, buckets)| HashDimension {
            columns: ids.iter().copied().map(ColumnId).collect(),
            buckets,
            seed: buckets,
        })
        .collect()
}

fn partitioning() -> impl Strategy<Value = (PartitionSchema, Vec<i8>)> {
    let ids = select(vec![vec![], vec![10], vec![10, 11], vec![10, 11, 12], vec![11], vec![12, 11]]);
    let buckets = || vec(2..5u32, 2);
    (ids, 0..5usize, buckets(), vec((a(), buckets()), 0..4)).prop_map(|(ids, pattern, buckets, customs)| {
        let range_columns: Vec<_> = ids.into_iter().map(ColumnId).collect();
        let mut partitioning = PartitionSchema {
            hash_dimensions: dimensions(buckets, pattern),
            range_columns,
            custom_ranges: vec![],
        };
        let mut cuts: Vec<_> = customs.iter().map(|(cut, _)| *cut).collect();
        cuts.sort_unstable();
        cuts.dedup();
        if partitioning.range_columns.first() == Some(&ColumnId(10))
            && !partitioning.hash_dimensions.is_empty()
        {
            // Every other piece between the cuts is hashed in its own way.
            let schema = table();
            let at = |cut: i8| {
                let mut row = PartialRow::new(&schema);
                row.set("a", cut).unwrap();
                row
            };
            for (pair, (_, buckets)) in cuts.windows(2).step_by(2).zip(&customs) {
                let bound = RangeBound::new(at(pair[0]), at(pair[1]));
                let (lower, upper) = bound.encode(&schema, &partitioning).unwrap();
                let hash_dimensions = dimensions(buckets.clone(), pattern);
                partitioning.custom_ranges.push(RangeWithHash { lower, upper, hash_dimensions });
            }
        }
        (partitioning, cuts)
    })
}

fn covers(ranges: &[KeyRange], key: &[u8]) -> bool {
    ranges.iter().any(|range| range.contains(key))
}

fn matches(schema: &Schema, predicates: &[Predicate], row: &PartialRow) -> bool {
    predicates.iter().all(|predicate| match (predicate, row.cell(predicate.column())) {
        (Predicate::IsNull { .. }, cell) => cell == Cell::Null,
        (Predicate::IsNotNull { .. }, cell) => cell != Cell::Null,
        (_, Cell::Value(raw)) => predicate.prepare(schema).unwrap().matches(raw),
        _ => false,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn no_row_that_matches_is_pruned(
        (partitioning, _) in partitioning(),
        rows in rows(),
        predicates in vec(predicate(), 0..4),
        bounds in option::of((0..40usize, 0..40usize)),
    ) {
        let schema = table();
        let rows: Vec<_> = rows.iter().map(|values| row(&schema, values)).collect();
        let keys: Vec<_> = rows.iter().map(|row| key::encode_key(&schema, &row.cells()).unwrap()).collect();
        let bound = |at: usize| keys[at % keys.len()].as_slice();
        let (lower, upper) = bounds.map_or((&[][..], &[][..]), |(lower, upper)| (bound(lower), bound(upper)));
        let ranges = prune(&schema, &partitioning, &predicates, lower, upper);
        for pair in ranges.windows(2) {
            prop_assert!(!pair[0].end.is_empty() && pair[0].end < pair[1].start, "{ranges:?}");
        }
        for (row, key) in rows.iter().zip(&keys) {
            let inside = lower <= key.as_slice() && (upper.is_empty() || key.as_slice() < upper);
            if inside && matches(&schema, &predicates, row) {
                let at = partitioning.partition_key(&schema, &row.cells()).unwrap();
                prop_assert!(covers(&ranges, &at), "{row:?} at {at:?} is not in {ranges:?}");
            }
        }
    }

    #[test]
    fn every_row_has_exactly_one_tablet((partitioning, cuts) in partitioning(), rows in rows()) {
        let schema = table();
        let mut splits = Vec::new();
        if partitioning.custom_ranges.is_empty() && partitioning.range_columns.contains(&ColumnId(10)) {
            for cut in cuts {
                let mut row = PartialRow::new(&schema);
                row.set("a", cut).unwrap();
                splits.push(row);
            }
        }
        let tablets = create_partitions(&schema, &partitioning, &splits, &[]).unwrap();
        for values in &rows {
            let row = row(&schema, values);
            let key = partitioning.partition_key(&schema, &row.cells()).unwrap();
            let homes = tablets.iter().filter(|tablet| tablet.contains(&key)).count();
            let covered = partitioning.custom_ranges.is_empty();
            prop_assert!(homes == 1 || (homes == 0 && !covered), "{homes} tablets for {row:?} in {tablets:?}");
        }
    }
}

fn hash_table() -> (Schema, PartitionSchema) {
    let partitioning = PartitionSchema {
        hash_dimensions: vec![HashDimension { columns: vec![ColumnId(10)], buckets: 4, seed: 0 }],
        range_columns: vec![ColumnId(12)],
        custom_ranges: vec![],
    };
    (table(), partitioning)
}

#[test]
fn an_equality_leaves_one_bucket_and_a_range_narrows_it() {
    let (schema, partitioning) = hash_table();
    let equal = Predicate::Equality { column: 0, value: Value::from(1i8).to_raw() };
    let ranges = prune(&schema, &partitioning, std::slice::from_ref(&equal), &[], &[]);
    assert_eq!(ranges.len(), 1);
    assert_eq!((ranges[0].start.len(), ranges[0].end.len()), (4, 4));
    let below = Predicate::Range { column: 2, lower: None, upper: Some(Value::from(5i16).to_raw()) };
    let ranges = prune(&schema, &partitioning, &[equal, below], &[], &[]);
    assert_eq!(ranges.len(), 1);
    assert_eq!(ranges[0].end[4..], [0x80, 5]);
}

#[test]
fn a_range_alone_is_looked_for_in_every_bucket() {
    let (schema, partitioning) = hash_table();
    let value = |v: i16| Some(Value::from(v).to_raw());
    let range = Predicate::Range { column: 2, lower: value(0), upper: value(9) };
    let ranges = prune(&schema, &partitioning, &[range], &[], &[]);
    assert_eq!(ranges.len(), 4);
    assert!(ranges.iter().all(|range| range.start[4..] == [0x80, 0] && range.end[4..] == [0x80, 9]));
}

#[test]
fn a_long_list_is_hashed_whatever_its_length() {
    let (schema, partitioning) = hash_table();
    let bucket = |v: i8| {
        let cells = row(&schema, &(v, String::new(), 0, None));
        partitioning.partition_key(&schema, &cells.cells()).unwrap()[3]
    };
    let values: Vec<_> = (i8::MIN..=i8::MAX)
        .filter(|v| bucket(*v) == 2)
        .cycle()
        .take(30_000)
        .map(|v| Value::from(v).to_raw())
        .collect();
    let ranges = prune(&schema, &partitioning, &[Predicate::InList { column: 0, values }], &[], &[]);
    assert_eq!(ranges, [KeyRange { start: vec![0, 0, 0, 2], end: vec![0, 0, 0, 3] }]);
}

#[test]
fn contradictions_leave_nothing_and_no_condition_leaves_everything() {
    let (schema, partitioning) = hash_table();
    let value = |v: i8| Value::from(v).to_raw();
    let equal = |v| Predicate::Equality { column: 0, value: value(v) };
    assert!(prune(&schema, &partitioning, &[equal(1), equal(2)], &[], &[]).is_empty());
    assert!(
        prune(&schema, &partitioning, &[Predicate::InList { column: 0, values: vec![] }], &[], &[])
            .is_empty()
    );
    assert!(prune(&schema, &partitioning, &[Predicate::IsNull { column: 0 }], &[], &[]).is_empty());
    assert!(prune(&schema, &partitioning, &[], &[2], &[1]).is_empty());
    assert_eq!(prune(&schema, &partitioning, &[], &[], &[]), [KeyRange::default()]);
    let short = Predicate::Equality { column: 2, value: value(1) };
    assert_eq!(prune(&schema, &partitioning, &[short], &[1], &[2]), [KeyRange::default()]);
}
