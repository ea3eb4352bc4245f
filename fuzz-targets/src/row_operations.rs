//! Operations of a Write, bounds of a range, encoded keys.

use schema::key;
use schema::partition::RangeSpec;
use schema::row_ops::{Decoder, Encoder};
use schema::{Cell, Column, DataType, Schema};

/// One byte says which table, two (little-endian) how many bytes the rows have; the rest is their indirect data.
pub fn run(bytes: &[u8]) {
    let [table, a, b, rest @ ..] = bytes else { return };
    let (rows, indirect) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([*a, *b]))));
    let table = if table % 2 == 0 { small() } else { every_type() };
    operations(&table, rows, indirect);
    let _ = RangeSpec::decode(&table, rows, indirect);
    for key in [rows, rest] {
        if let Ok(row) = key::decode_key(&table, key) {
            assert_eq!(key::encode_key(&table, &row.cells()).as_deref(), Ok(key));
        }
    }
}

/// Each operation without a fault is one that we can write, and it is read the same.
fn operations(table: &Schema, rows: &[u8], indirect: &[u8]) {
    let Ok(decoder) = Decoder::new(table, table) else { unreachable!("a table has its own columns") };
    let Ok(ops) = decoder.decode(rows, indirect) else { return };
    let mut encoder = Encoder::new(table);
    let (mut cursor, mut kept) = (ops.cursor(), Vec::new());
    for _ in 0..ops.len() {
        let Some(op) = cursor.next_op() else { panic!("fewer than {} operations", ops.len()) };
        assert_eq!(op.cells.len(), table.len());
        if op.fault.is_none() && encoder.push_cells(op.kind, |column| op.cells[column]).is_ok() {
            kept.push((op.kind, owned(op.cells)));
        }
    }
    assert!(cursor.next_op().is_none());
    let (rows, indirect) = encoder.finish();
    let again = match decoder.decode(&rows, &indirect) {
        Ok(again) => again,
        Err(error) => panic!("what we write is refused: {error}"),
    };
    let mut cursor = again.cursor();
    for (kind, cells) in kept {
        let op = cursor.next_op();
        let same = op.is_some_and(|op| op.kind == kind && op.fault.is_none() && owned(op.cells) == cells);
        assert!(same, "{kind:?} {cells:?}");
    }
    assert!(cursor.next_op().is_none());
}

/// Unset, NULL, or bytes.
fn owned(cells: &[Cell<'_>]) -> Vec<Option<Option<Vec<u8>>>> {
    cells.iter().map(|cell| cell.is_set().then(|| cell.value().map(<[u8]>::to_vec))).collect()
}

/// A key and two columns of variable length.
pub(crate) fn small() -> Schema {
    table(vec![
        Column::new("k", DataType::Int16),
        Column::new("s", DataType::String).nullable(true),
        Column::new("b", DataType::Binary),
    ])
}

/// A key and every type, not null and nullable.
pub(crate) fn every_type() -> Schema {
    let types = [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Bool,
        DataType::Float,
        DataType::Double,
        DataType::String,
        DataType::Binary,
        DataType::UnixtimeMicros,
        DataType::Date,
    ];
    let mut columns: Vec<_> =
        types.iter().map(|data_type| Column::new(data_type.name(), *data_type)).collect();
    columns.push(Column::varchar("VARCHAR", 10));
    columns.extend([9, 18, 38].map(|precision| Column::decimal(format!("DECIMAL{precision}"), precision, 2)));
    let nullable = columns
        .clone()
        .into_iter()
        .map(|column| Column { name: format!("{} NULLABLE", column.name), ..column.nullable(true) });
    table(columns.iter().cloned().chain(nullable).collect())
}

fn table(columns: Vec<Column>) -> Schema {
    Schema::new(columns, 1).unwrap_or_else(|error| unreachable!("{error}"))
}
