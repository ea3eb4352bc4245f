//! One bad row must not fail the others, and each says why it is bad.

use bytes::Bytes;
use proptest::{collection, prelude::*, sample};
use schema::{
    Cell, Column, DataType, PartialRow, RowFault, Schema, Value,
    bounds::BoundsError,
    row_ops::{Decoder, Encoder, OpKind},
};

/// Key `k`, then nullable, defaulted, required, immutable.
fn table() -> Schema {
    let columns = vec![
        Column::new("k", DataType::Int32),
        Column::new("n", DataType::String).nullable(true),
        Column::new("d", DataType::Int32).default_value(42),
        Column::new("r", DataType::Int8),
        Column::new("i", DataType::Int32).nullable(true).immutable(true),
    ];
    Schema::new(columns, 1).unwrap()
}

struct Request {
    rows: Bytes,
    indirect: Bytes,
    decoder: Decoder,
}

fn request(client: &Schema, table: &Schema, ops: &[(OpKind, &PartialRow)]) -> Request {
    let mut encoder = Encoder::new(client);
    ops.iter().for_each(|(kind, row)| encoder.push(*kind, row).unwrap());
    let (rows, indirect) = encoder.finish();
    Request { rows, indirect, decoder: Decoder::new(client, table).unwrap() }
}

fn row(values: &[(&str, Option<Value>)]) -> PartialRow {
    let mut row = PartialRow::new(&table());
    for (name, value) in values {
        match value {
            Some(value) => row.set(name, value.clone()).unwrap(),
            None => row.set_null(name).unwrap(),
        };
    }
    row
}

fn fault(kind: OpKind, row: &PartialRow) -> Option<RowFault> {
    let request = request(row.schema(), &table(), &[(kind, row)]);
    let ops = request.decoder.decode(&request.rows, &request.indirect).unwrap();
    let mut cursor = ops.cursor();
    let fault = cursor.next_op().unwrap().fault;
    assert!(cursor.next_op().is_none());
    fault
}

fn k() -> (&'static str, Option<Value>) {
    ("k", Some(1.into()))
}

fn r() -> (&'static str, Option<Value>) {
    ("r", Some(1i8.into()))
}

#[test]
fn inserts_fill_in_defaults_and_upserts_leave_them_to_the_tablet() {
    let row = row(&[k(), r()]);
    let table = table();
    let request = request(&table, &table, &[(OpKind::Insert, &row), (OpKind::Upsert, &row)]);
    let ops = request.decoder.decode(&request.rows, &request.indirect).unwrap();
    let mut cells = Vec::new();
    let insert = ops.read(0, &mut cells).unwrap();
    assert_eq!(insert.fault, None);
    let default = 42i32.to_le_bytes();
    assert_eq!(insert.cells[1..3], [Cell::Null, Cell::Value(&default)]);
    let upsert = ops.read(1, &mut cells).unwrap();
    assert_eq!(upsert.fault, None);
    assert_eq!(upsert.cells[1..3], [Cell::Unset, Cell::Unset]);
    assert_eq!((ops.default_cell(1), ops.default_cell(2)), (Cell::Null, Cell::Value(&default)));
    assert_eq!(ops.default_cell(3), Cell::Unset);
    assert!(ops.read(2, &mut cells).is_none());
}

#[test]
fn inserts_need_every_required_column() {
    for kind in [OpKind::Insert, OpKind::InsertIgnore, OpKind::Upsert, OpKind::UpsertIgnore] {
        assert_eq!(fault(kind, &row(&[k(), r()])), None);
        let missing = |row| fault(kind, &row).map(|fault| fault.to_string());
        let words = |column| Some(format!("No value provided for required column: {column}"));
        assert_eq!(missing(row(&[k()])), words("r INT8 NOT NULL"));
        assert_eq!(missing(row(&[r()])), words("k INT32 NOT NULL"));
    }
}

#[test]
fn updates_need_the_key_and_a_field() {
    for kind in [OpKind::Update, OpKind::UpdateIgnore] {
        assert_eq!(fault(kind, &row(&[k(), r()])), None);
        assert_eq!(fault(kind, &row(&[k(), ("n", None)])), None);
        let nothing = fault(kind, &row(&[k()])).unwrap();
        assert_eq!(nothing.to_string(), "No fields updated, key is: (int32 k=<redacted>)");
        assert_eq!(fault(kind, &row(&[r()])), Some(RowFault::MissingKey { column: "k".into() }));
    }
}

#[test]
fn immutable_columns_are_refused_or_skipped() {
    let some = row(&[k(), r(), ("i", Some(1.into()))]);
    let told = fault(OpKind::Update, &some).unwrap().to_string();
    assert_eq!(told, "UPDATE not allowed for immutable column: i INT32 NULLABLE IMMUTABLE");
    let request = request(&table(), &table(), &[(OpKind::UpdateIgnore, &some)]);
    let ops = request.decoder.decode(&request.rows, &request.indirect).unwrap();
    let mut cells = Vec::new();
    let op = ops.read(0, &mut cells).unwrap();
    assert_eq!((op.fault, op.ignored_immutable, op.cells[4]), (None, true, Cell::Unset));
    let only = row(&[k(), ("i", Some(1.into()))]);
    assert!(matches!(fault(OpKind::UpdateIgnore, &only), Some(RowFault::NoFieldsUpdated { .. })));
}

#[test]
fn deletes_take_the_key_alone() {
    for kind in [OpKind::Delete, OpKind::DeleteIgnore] {
        assert_eq!(fault(kind, &row(&[k()])), None);
        assert_eq!(fault(kind, &row(&[k(), r()])), Some(RowFault::DeleteWithValue { column: "r".into() }));
        assert_eq!(fault(kind, &row(&[])), Some(RowFault::MissingKey { column: "k".into() }));
    }
}

#[test]
fn null_in_a_not_null_column_is_a_fault_of_the_row() {
    let client = table();
    let decoder = Decoder::new(&client, &client).unwrap();
    // k and r are set, and r is NULL, which the encoder would refuse.
    let rows = [1, 0b01001, 0b01000, 1, 0, 0, 0];
    let ops = decoder.decode(&rows, &[]).unwrap();
    let fault = ops.cursor().next_op().unwrap().fault;
    assert_eq!(fault, Some(RowFault::NullInNotNull { column: "r".into() }));
}

#[test]
fn a_cell_out_of_bounds_is_a_fault_of_the_row() {
    let columns = |length| vec![Column::new("k", DataType::Int32), Column::varchar("v", length)];
    let wide = Schema::new(columns(100), 1).unwrap();
    let narrow = Schema::new(columns(3), 1).unwrap();
    let mut row = PartialRow::new(&wide);
    row.set("k", 1).unwrap().set("v", "abcd").unwrap();
    let request = request(&wide, &narrow, &[(OpKind::Insert, &row)]);
    let ops = request.decoder.decode(&request.rows, &request.indirect).unwrap();
    let fault = ops.cursor().next_op().unwrap().fault;
    let expected = BoundsError::TooLong { column: "v".into(), characters: 4, length: 3 };
    assert_eq!(fault, Some(RowFault::Bounds(expected)));
}

#[test]
fn bitmaps_count_the_clients_columns_and_cells_land_in_the_tables() {
    let client =
        Schema::new(vec![Column::new("r", DataType::Int8), Column::new("k", DataType::Int32)], 0).unwrap();
    let mut row = PartialRow::new(&client);
    row.set("r", 7i8).unwrap().set("k", 9).unwrap();
    let request = request(&client, &table(), &[(OpKind::Insert, &row)]);
    // Without a nullable column there is no second bitmap.
    assert_eq!(request.rows[..], [1, 0b11, 7, 9, 0, 0, 0]);
    let ops = request.decoder.decode(&request.rows, &request.indirect).unwrap();
    let mut cells = Vec::new();
    let op = ops.read(0, &mut cells).unwrap();
    assert_eq!((op.cells[0], op.cells[3]), (Cell::Value(&[9, 0, 0, 0]), Cell::Value(&[7])));
    assert_eq!(op.fault, None);
}

#[test]
fn rows_of_a_table_that_counts_have_numbers_by_the_time_they_are_decoded() {
    let columns =
        vec![Column::new("k", DataType::Int32), Column::new("auto", DataType::Int64).auto_incrementing(true)];
    let schema = Schema::new(columns, 2).unwrap();
    let mut with = PartialRow::new(&schema);
    with.set("k", 1).unwrap().set("auto", 5i64).unwrap();
    let mut without = PartialRow::new(&schema);
    without.set("k", 1).unwrap();
    let fault = |kind, row: &PartialRow| {
        let request = request(&schema, &schema, &[(kind, row)]);
        request.decoder.decode(&request.rows, &request.indirect).unwrap().cursor().next_op().unwrap().fault
    };
    assert_eq!(fault(OpKind::Insert, &with), None);
    assert_eq!(fault(OpKind::Upsert, &with), None);
    assert!(matches!(fault(OpKind::Insert, &without), Some(RowFault::AutoIncrementing { .. })));
    assert!(matches!(fault(OpKind::Upsert, &without), Some(RowFault::AutoIncrementing { .. })));
}

proptest! {
    /// Operations that are alike are read column by column: nothing may differ from what reading them one by one gives.
    #[test]
    fn alike_operations_are_the_same_by_column(
        kind in sample::select(vec![
            OpKind::Insert, OpKind::InsertIgnore, OpKind::Upsert, OpKind::UpsertIgnore, OpKind::Update,
            OpKind::UpdateIgnore, OpKind::Delete, OpKind::DeleteIgnore,
        ]),
        shapes in collection::vec(collection::vec(0..3u8, 5), 1..3),
        values in collection::vec((any::<i32>(), "[a-z]{0,5}", 0..2usize), 1..40),
    ) {
        let table = table();
        let shape = |which: usize| &shapes[which % shapes.len()];
        let rows: Vec<PartialRow> = values.iter().map(|(number, text, which)| {
            let mut row = PartialRow::new(&table);
            for (index, cell) in shape(*which).iter().enumerate() {
                let nullable = table.columns()[index].nullable;
                match (cell, index) {
                    (0, _) => continue,
                    (1, _) if nullable => row.set_null_at(index),
                    (_, 1) => row.set_at(index, text.clone()),
                    (_, 3) => row.set_at(index, *number as i8),
                    _ => row.set_at(index, *number),
                }.unwrap();
            }
            row
        }).collect();
        let ops: Vec<(OpKind, &PartialRow)> = rows.iter().map(|row| (kind, row)).collect();
        let Request { rows: bytes, indirect, decoder } = request(&table, &table, &ops);
        let ops = decoder.decode(&bytes, &indirect).unwrap();
        prop_assert_eq!(ops.len(), rows.len());
        let same_shape = values.iter().all(|(.., which)| shape(*which) == shape(values[0].2));
        let mut faults = 0;
        let alike = ops.alike();
        let mut cursor = ops.cursor();
        for index in 0..rows.len() {
            let op = cursor.next_op().unwrap();
            faults += usize::from(op.fault.is_some());
            if let Some(alike) = &alike {
                let cells: Vec<Cell> = alike.columns().iter().map(|column| column.cell(index)).collect();
                prop_assert_eq!(&cells[..], op.cells);
                prop_assert_eq!((alike.kind(), alike.ignored_immutable()), (op.kind, op.ignored_immutable));
            }
        }
        prop_assert!(cursor.next_op().is_none());
        prop_assert!(alike.is_none() || faults == 0);
        prop_assert!(alike.is_some() || faults > 0 || !same_shape);
    }
}

#[test]
fn a_cell_out_of_bounds_is_a_fault_of_its_row_among_rows_alike() {
    let columns = vec![Column::new("k", DataType::Int32), Column::new("d", DataType::Date)];
    let table = Schema::new(columns, 1).unwrap();
    let decoder = Decoder::new(&table, &table).unwrap();
    // Kind, columns that are set, and the cells.
    let row = |days: i32| [&[1, 3, 0, 0, 0, 0][..], &days.to_le_bytes()].concat();
    for (count, alike) in [(2, true), (3, false)] {
        let rows = [row(0), row(5), row(i32::MAX)][..count].concat();
        let ops = decoder.decode(&rows, &[]).unwrap();
        assert_eq!(ops.alike().is_some(), alike);
        let mut cells = Vec::new();
        let faults: Vec<bool> =
            (0..count).map(|i| ops.read(i, &mut cells).unwrap().fault.is_some()).collect();
        assert_eq!(faults, [false, false, true][..count]);
    }
}
