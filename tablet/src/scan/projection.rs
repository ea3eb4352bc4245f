//! How the columns of one schema come out of rows that were written under another.

use bytes::Bytes;
use schema::{ColumnData, Schema, Value};

use crate::memory::column::Column;

/// For each column of the wanted schema, where its cells are in rows of a stored one.
#[derive(Clone, Debug)]
pub(crate) struct Projection {
    columns: Vec<From>,
}

#[derive(Clone, Debug)]
enum From {
    Unneeded,
    /// The column of this index.
    Stored(usize),
    /// The rows are older than the column.
    Constant(Option<Bytes>),
}

impl Projection {
    /// Columns are the same if they have the same id. `needed(column)` says of which columns cells are asked for.
    pub(crate) fn new(wanted: &Schema, stored: &Schema, needed: impl Fn(usize) -> bool) -> Self {
        let from = |index: usize| match stored.index_of_id(wanted.id(index)) {
            _ if !needed(index) => From::Unneeded,
            Some(stored) => From::Stored(stored),
            None => From::Constant(missing_cell(&wanted.columns()[index])),
        };
        Self { columns: (0..wanted.len()).map(from).collect() }
    }

    /// The wanted columns; `stored(column)` gives a stored one.
    pub(crate) fn apply(&self, mut stored: impl FnMut(usize) -> ColumnData) -> Vec<Column> {
        let column = |from: &From| match from {
            From::Unneeded => Column::Unneeded,
            From::Stored(column) => Column::Stored(stored(*column)),
            From::Constant(cell) => Column::Constant(cell.clone()),
        };
        self.columns.iter().map(column).collect()
    }

    /// One row's cell of a wanted column; `stored(column)` gives that of a stored one.
    pub(crate) fn cell<'a>(
        &'a self,
        column: usize,
        stored: impl FnOnce(usize) -> Option<&'a [u8]>,
    ) -> Option<&'a [u8]> {
        match &self.columns[column] {
            From::Unneeded => None,
            From::Stored(column) => stored(*column),
            From::Constant(cell) => cell.as_deref(),
        }
    }
}

/// What readers see in a column that came after the row.
pub(crate) fn missing_cell(column: &schema::Column) -> Option<Bytes> {
    match &column.read_default {
        Some(value) => Some(Value::to_raw(value)),
        None if column.nullable => None,
        // No master adds such a column; a reader must not fail over it.
        None if column.data_type.is_varlen() => Some(Bytes::new()),
        None => Some(vec![0; column.data_type.cell_size()].into()),
    }
}
