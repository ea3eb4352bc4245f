//! Answers of a scan, row by row and in columns.

use bytes::Bytes;
use schema::{Cell, ColumnData, ColumnarBlock, Schema, row_block};

use crate::row_operations::{every_type, small};

/// One byte says which table and layout, one how many rows; the rest is cut into the parts of a block.
pub fn run(bytes: &[u8]) {
    let [kind, count, rest @ ..] = bytes else { return };
    let table = if kind & 1 == 0 { small() } else { every_type() };
    let count = usize::from(*count);
    match kind & 2 {
        0 => rows(&table, count, rest, kind & 4 != 0),
        _ => columns(&table, count, rest),
    }
}

fn rows(table: &Schema, count: usize, bytes: &[u8], padded: bool) {
    let length = bytes.len().min(count.saturating_mul(row_block::stride(table, padded)));
    let (rows, indirect) = bytes.split_at(length);
    let Ok(block) = row_block::decode(table, count, rows, indirect, padded) else { return };
    readable(table, &block);
    again(table, &block, padded);
}

/// A column has a byte of flags (content, bitmap), then the length of each part (u16) and the part.
fn columns(table: &Schema, rows: usize, mut bytes: &[u8]) {
    let mut part = |wanted: bool| {
        let length = bytes.split_first_chunk::<2>().filter(|_| wanted)?;
        let (part, rest) = length.1.split_at(length.1.len().min(usize::from(u16::from_le_bytes(*length.0))));
        bytes = rest;
        Some(Bytes::copy_from_slice(part))
    };
    let columns = table.columns().iter().map(|column| ColumnData {
        data: part(true).unwrap_or_default(),
        varlen: part(column.data_type.is_varlen()),
        non_null: part(column.nullable),
    });
    let block = ColumnarBlock { rows, columns: columns.collect() };
    let valid = block.validate(table).is_ok();
    for row in 0..=rows {
        for column in 0..=table.len() {
            // Also of a block that is not valid: no panic.
            let (cell, inside) = (block.cell(row, column), row < rows && column < table.len());
            assert!(!(valid && inside && cell == Cell::Unset));
        }
    }
    if valid {
        readable(table, &block);
        again(table, &block, false);
        again(table, &block, true);
    } else {
        assert!(row_block::encode(table, &block, false).is_err());
    }
}

fn readable(table: &Schema, block: &ColumnarBlock) {
    assert_eq!(block.validate(table), Ok(()));
    for row in 0..block.rows {
        for column in 0..table.len() {
            let (cell, value) = (block.cell(row, column), block.value(table, row, column));
            assert!(cell != Cell::Unset && (cell != Cell::Null || value.is_none()));
        }
    }
}

/// Written as rows and read again, each cell is the same.
fn again(table: &Schema, block: &ColumnarBlock, padded: bool) {
    let (rows, indirect) =
        row_block::encode(table, block, padded).unwrap_or_else(|error| panic!("a valid block: {error}"));
    let again = row_block::decode(table, block.rows, &rows, &indirect, padded)
        .unwrap_or_else(|error| panic!("what we write is refused: {error}"));
    for row in 0..block.rows {
        for column in 0..table.len() {
            assert_eq!(block.cell(row, column), again.cell(row, column), "{row} {column}");
        }
    }
}
