//! How the columns of one schema come out of rows that were written under another.

use std::convert::Infallible;

use bytes::Bytes;
use schema::{ColumnData, ColumnId, Schema, Value};

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
    /// `stored(id)` says where a column is in the rows, `needed(column)` of which columns cells are asked for.
    pub(crate) fn new(
        wanted: &Schema,
        stored: impl Fn(ColumnId) -> Option<usize>,
        needed: impl Fn(usize) -> bool,
    ) -> Self {
        let from = |index: usize| match stored(wanted.id(index)) {
            _ if !needed(index) => From::Unneeded,
            Some(stored) => From::Stored(stored),
            None => From::Constant(missing_cell(&wanted.columns()[index])),
        };
        Self { columns: (0..wanted.len()).map(from).collect() }
    }

    /// The wanted columns; `stored(column)` gives a stored one.
    pub(crate) fn apply(&self, mut stored: impl FnMut(usize) -> ColumnData) -> Vec<Column> {
        let columns: Result<_, Infallible> = self.try_apply(|column| Ok(stored(column)));
        match columns {
            Ok(columns) => columns,
        }
    }

    /// As [`Projection::apply`], with columns that may not be readable.
    pub(crate) fn try_apply<E>(
        &self,
        mut stored: impl FnMut(usize) -> Result<ColumnData, E>,
    ) -> Result<Vec<Column>, E> {
        let column = |from: &From| {
            Ok(match from {
                From::Unneeded => Column::Unneeded,
                From::Stored(column) => Column::Stored(stored(*column)?),
                From::Constant(cell) => Column::Constant(cell.clone()),
            })
        };
        self.columns.iter().map(column).collect()
    }

    /// Where the cells of a wanted column are, or what all of them are.
    pub(crate) fn source(&self, column: usize) -> Result<usize, Option<&[u8]>> {
        match &self.columns[column] {
            From::Unneeded => Err(None),
            From::Stored(column) => Ok(*column),
            From::Constant(cell) => Err(cell.as_deref()),
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
