//! Predicates against a look at each cell.

use bytes::Bytes;
use proptest::{collection::vec, option, prelude::*};
use schema::{
    Cell, Column, ColumnBuilder, ColumnData, DataType, Predicate, PredicateError, Schema, Selection, Value,
    bloom::BlockBloomFilter,
};

fn table(data_type: DataType) -> Schema {
    Schema::new(vec![Column::new("c", data_type).nullable(true)], 0).unwrap()
}

fn column(schema: &Schema, cells: &[Option<Bytes>]) -> ColumnData {
    let mut builder = ColumnBuilder::new(&schema.columns()[0]);
    for cell in cells {
        builder.push(cell.as_deref().map_or(Cell::Null, Cell::Value)).unwrap();
    }
    builder.finish()
}

fn selected(schema: &Schema, cells: &[Option<Bytes>], predicates: &[Predicate]) -> Vec<usize> {
    let data = column(schema, cells);
    let mut selection = Selection::all(cells.len());
    for predicate in predicates {
        predicate.prepare(schema).unwrap().evaluate(data.as_slice(cells.len()), &mut selection);
    }
    selection.iter().collect()
}

/// A small world of values, so that they meet.
fn raw(data_type: DataType) -> BoxedStrategy<Bytes> {
    let pick =
        |values: &[Value]| prop::sample::select(values.iter().map(Value::to_raw).collect::<Vec<_>>()).boxed();
    match data_type {
        DataType::Int8 => (-3..3i8).prop_map(|v| Value::from(v).to_raw()).boxed(),
        DataType::Int64 => {
            pick(&[i64::MIN.into(), (-1i64).into(), 0i64.into(), 7i64.into(), i64::MAX.into()])
        }
        DataType::Double => {
            pick(&[(-1.5).into(), (-0.0).into(), 0.0.into(), 2.0.into(), f64::INFINITY.into()])
        }
        DataType::Bool => pick(&[false.into(), true.into()]),
        _ => pick(&["".into(), "a".into(), "a\0".into(), "b".into(), "ba".into(), "ü".into()]),
    }
}

fn order(data_type: DataType, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    match (Value::from_raw(data_type, a).unwrap(), Value::from_raw(data_type, b).unwrap()) {
        (Value::Int8(a), Value::Int8(b)) => a.cmp(&b),
        (Value::Int64(a), Value::Int64(b)) => a.cmp(&b),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(&b).unwrap(),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(&b),
        _ => a.cmp(b),
    }
}

fn predicates(data_type: DataType) -> impl Strategy<Value = Vec<Predicate>> {
    let value = || raw(data_type);
    let one = prop_oneof![
        (value(), option::of(value())).prop_map(|(lower, upper)| Predicate::Range {
            column: 0,
            lower: Some(lower),
            upper
        }),
        value().prop_map(|upper| Predicate::Range { column: 0, lower: None, upper: Some(upper) }),
        value().prop_map(|value| Predicate::Equality { column: 0, value }),
        vec(value(), 0..4).prop_map(|values| Predicate::InList { column: 0, values }),
        Just(Predicate::IsNull { column: 0 }),
        Just(Predicate::IsNotNull { column: 0 }),
    ];
    vec(one, 0..4)
}

fn holds(data_type: DataType, predicate: &Predicate, cell: Option<&Bytes>) -> bool {
    let Some(cell) = cell else { return matches!(predicate, Predicate::IsNull { .. }) };
    let order = |a: &[u8]| order(data_type, cell, a);
    match predicate {
        Predicate::Range { lower, upper, .. } => {
            lower.as_ref().is_none_or(|lower| order(lower).is_ge())
                && upper.as_ref().is_none_or(|upper| order(upper).is_lt())
        }
        Predicate::Equality { value, .. } => order(value).is_eq(),
        Predicate::InList { values, .. } => values.iter().any(|value| order(value).is_eq()),
        Predicate::IsNull { .. } => false,
        _ => true,
    }
}

fn case() -> impl Strategy<Value = (DataType, Vec<Option<Bytes>>, Vec<Predicate>)> {
    let types = vec![DataType::Int8, DataType::Int64, DataType::Double, DataType::Bool, DataType::String];
    prop::sample::select(types).prop_flat_map(|data_type| {
        let cells = vec(option::of(raw(data_type)), 0..150);
        (Just(data_type), cells, predicates(data_type))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn the_same_rows_as_a_look_at_each_cell((data_type, cells, predicates) in case()) {
        let schema = table(data_type);
        let expected: Vec<_> = (0..cells.len())
            .filter(|row| predicates.iter().all(|p| holds(data_type, p, cells[*row].as_ref())))
            .collect();
        prop_assert_eq!(selected(&schema, &cells, &predicates), expected);
    }

    #[test]
    fn selected_rows_are_put_together(
        (data_type, cells, _) in case(),
        picks in vec((any::<bool>(), vec(any::<bool>(), 150)), 3),
    ) {
        let schema = table(data_type);
        let data = column(&schema, &cells);
        let mut builder = ColumnBuilder::new(&schema.columns()[0]);
        let mut expected = Vec::new();
        for (all, picks) in picks {
            let mut selection = Selection::all(cells.len());
            (0..cells.len()).filter(|row| !all && !picks[*row]).for_each(|row| selection.clear(row));
            builder.append(data.as_slice(cells.len()), &selection).unwrap();
            expected.extend(selection.iter().map(|row| cells[row].clone()));
        }
        prop_assert_eq!(builder.rows(), expected.len());
        prop_assert_eq!(builder.finish(), column(&schema, &expected));
    }
}

fn doubles(values: &[f64]) -> Vec<Option<Bytes>> {
    values.iter().map(|v| Some(Value::from(*v).to_raw())).collect()
}

fn double(value: f64) -> Bytes {
    Value::from(value).to_raw()
}

#[test]
fn floats_compare_as_less_than_does() {
    let schema = table(DataType::Double);
    let cells = doubles(&[f64::NAN, -0.0, 0.0, 1.0]);
    let rows = |predicate: Predicate| selected(&schema, &cells, &[predicate]);
    let equal = |value: f64| Predicate::Equality { column: 0, value: double(value) };
    assert_eq!(rows(equal(0.0)), [0, 1, 2], "neither less nor greater is equal");
    assert_eq!(rows(equal(-0.0)), [0, 1, 2]);
    assert_eq!(rows(equal(f64::NAN)), [0, 1, 2, 3]);
    let range = |lower: Option<f64>, upper: Option<f64>| Predicate::Range {
        column: 0,
        lower: lower.map(double),
        upper: upper.map(double),
    };
    assert_eq!(rows(range(Some(1.0), None)), [0, 3]);
    assert_eq!(rows(range(None, Some(1.0))), [1, 2]);
    let list = |values: &[f64]| Predicate::InList {
        column: 0,
        values: values.iter().copied().map(double).collect(),
    };
    assert_eq!(rows(list(&[1.0, 0.0])), [0, 1, 2, 3]);
    assert_eq!(rows(list(&[f64::NAN, 5.0])), [0, 1, 2, 3]);
    assert_eq!(rows(list(&[])), Vec::<usize>::new());
}

#[test]
fn long_lists_that_are_unsorted_and_repeat_themselves_are_fine() {
    let schema = table(DataType::Int64);
    let raw = |v: i64| Value::from(v).to_raw();
    let cells: Vec<_> = (0..10_000).map(|v| Some(raw(v))).collect();
    let values = (0..30_000i64).rev().map(|v| raw((v * 7919) % 15_000 * 2)).collect();
    let rows = selected(&schema, &cells, &[Predicate::InList { column: 0, values }]);
    assert!(rows.into_iter().eq((0..10_000).step_by(2)));

    let schema = table(DataType::String);
    let text = |v: usize| Bytes::from(format!("value {v}"));
    let cells: Vec<_> = (0..10_000).map(|v| (v % 5 != 0).then(|| text(v))).collect();
    let values = (0..5_140).rev().map(text).collect();
    let rows = selected(&schema, &cells, &[Predicate::InList { column: 0, values }]);
    assert!(rows.into_iter().eq((0..5_140).filter(|v| v % 5 != 0)));
}

#[test]
fn null_predicates_on_a_not_null_column_take_all_or_nothing() {
    let schema = Schema::new(vec![Column::new("c", DataType::Int8)], 0).unwrap();
    let data = ColumnData { data: Bytes::from_static(&[1, 2, 3]), varlen: None, non_null: None };
    for (predicate, count) in [(Predicate::IsNull { column: 0 }, 0), (Predicate::IsNotNull { column: 0 }, 3)]
    {
        let mut selection = Selection::all(3);
        predicate.prepare(&schema).unwrap().evaluate(data.as_slice(3), &mut selection);
        assert_eq!(selection.count(), count);
    }
}

#[test]
fn bloom_filters_never_match_null_and_keep_to_their_bounds() {
    let schema = table(DataType::String);
    let mut builder = BlockBloomFilter::builder(8, 0);
    ["", "a", "b"].iter().for_each(|text| builder.insert(text.as_bytes()));
    let filters = vec![builder.build()];
    let cells: Vec<_> =
        ["", "a", "b"].map(|text| Some(Bytes::from(text))).into_iter().chain([None]).collect();
    let rows = |lower: Option<&'static str>| {
        let lower = lower.map(Bytes::from);
        let predicate = Predicate::InBloomFilter { column: 0, filters: filters.clone(), lower, upper: None };
        selected(&schema, &cells, &[predicate])
    };
    assert_eq!(rows(None), [0, 1, 2]);
    assert_eq!(rows(Some("b")), [2]);
}

#[test]
fn predicates_that_do_not_fit_are_refused_with_the_columns_name() {
    let schema = table(DataType::Int64);
    let error = |predicate: Predicate| predicate.prepare(&schema).unwrap_err();
    let short = Bytes::from_static(&[1; 7]);
    let width = PredicateError::Width { column: "c".into(), bytes: 7, expected: 8 };
    assert_eq!(error(Predicate::Equality { column: 0, value: short.clone() }), width);
    assert_eq!(error(Predicate::InList { column: 0, values: vec![short.clone()] }), width);
    assert_eq!(error(Predicate::Range { column: 0, lower: None, upper: Some(short) }), width);
    let bare = Predicate::Range { column: 0, lower: None, upper: None };
    assert_eq!(error(bare), PredicateError::NoBounds { column: "c".into() });
    let none = Predicate::InBloomFilter { column: 0, filters: vec![], lower: None, upper: None };
    assert_eq!(error(none), PredicateError::NoFilters { column: "c".into() });
    assert_eq!(error(Predicate::IsNull { column: 1 }), PredicateError::NoSuchIndex { column: 1, columns: 1 });
}

#[test]
fn part_of_a_longer_column_is_a_column() {
    let schema = table(DataType::String);
    let cells: Vec<_> = (0..24).map(|v| (v % 3 != 0).then(|| Bytes::from(format!("{v}")))).collect();
    let data = column(&schema, &cells);
    let whole = data.as_slice(24);
    let slice = schema::ColumnSlice {
        rows: 9,
        data: &whole.data[8 * 4..18 * 4],
        varlen: whole.varlen,
        non_null: whole.non_null.map(|bitmap| &bitmap[1..]),
    };
    for row in 0..9 {
        assert_eq!(slice.cell(row), whole.cell(row + 8));
    }
    let mut builder = ColumnBuilder::new(&schema.columns()[0]);
    builder.append(slice, &Selection::all(9)).unwrap();
    assert_eq!(builder.finish(), column(&schema, &cells[8..17]));
}
