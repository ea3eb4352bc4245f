//! One write to one row.

use schema::{Cell, OpKind, PartialRow, RowError, Value};

use crate::table::Table;

/// What to do with one row. Made by [`Table::insert`] and its siblings, given to
/// [`Session::apply`](crate::Session::apply).
#[derive(Clone, Debug)]
pub struct Operation {
    table: Table,
    kind: OpKind,
    row: PartialRow,
}

impl Operation {
    pub(crate) fn new(table: &Table, kind: OpKind) -> Operation {
        Operation { table: table.clone(), kind, row: table.row() }
    }

    /// Sets a column.
    ///
    /// # Errors
    /// [`RowError`]: no such column, another type, or a value out of the column's bounds.
    pub fn set(&mut self, column: &str, value: impl Into<Value>) -> Result<&mut Operation, RowError> {
        self.row.set(column, value)?;
        Ok(self)
    }

    /// Sets a column to NULL.
    ///
    /// # Errors
    /// [`RowError`]: no such column, or one that cannot be NULL.
    pub fn set_null(&mut self, column: &str) -> Result<&mut Operation, RowError> {
        self.row.set_null(column)?;
        Ok(self)
    }

    /// Sets a column, for chains: `table.insert().with("id", 1)?.with("name", "x")?`.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn with(mut self, column: &str, value: impl Into<Value>) -> Result<Operation, RowError> {
        self.row.set(column, value)?;
        Ok(self)
    }

    /// Sets a column to NULL, for chains.
    ///
    /// # Errors
    /// As [`set_null`](Self::set_null).
    pub fn with_null(mut self, column: &str) -> Result<Operation, RowError> {
        self.row.set_null(column)?;
        Ok(self)
    }

    /// The table it is for.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// What it does.
    pub fn kind(&self) -> OpKind {
        self.kind
    }

    /// The row's cells.
    pub fn row(&self) -> &PartialRow {
        &self.row
    }

    /// The row's cells, to change.
    pub fn row_mut(&mut self) -> &mut PartialRow {
        &mut self.row
    }

    /// Bytes it takes on the wire, near enough: what the session's buffer counts.
    pub fn wire_size(&self) -> usize {
        let columns = self.row.schema().len();
        let cells = self.row.schema().columns().iter().enumerate().map(|(index, column)| {
            match self.row.cell(index) {
                Cell::Value(raw) if column.data_type.is_varlen() => 16 + raw.len(),
                Cell::Value(raw) => raw.len(),
                _ => 0,
            }
        });
        1 + 2 * columns.div_ceil(8) + cells.sum::<usize>()
    }
}
