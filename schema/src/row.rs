//! Rows that a client fills in column by column.

use bytes::Bytes;

use crate::{
    Cell, DataType, Schema, Value,
    bounds::{BoundsError, check_bounds},
};

/// A row of a schema in which each column may be set, set to NULL, or left unset.
#[derive(Clone, Debug, PartialEq)]
pub struct PartialRow {
    schema: Schema,
    slots: Vec<Slot>,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum Slot {
    #[default]
    Unset,
    Null,
    Fixed {
        raw: [u8; 16],
        len: u8,
    },
    Varlen(Bytes),
}

impl Slot {
    fn fixed(cell: &[u8]) -> Self {
        let mut raw = [0; 16];
        raw.iter_mut().zip(cell).for_each(|(to, from)| *to = *from);
        Self::Fixed { raw, len: cell.len() as u8 }
    }

    fn cell(&self) -> Cell<'_> {
        match self {
            Self::Unset => Cell::Unset,
            Self::Null => Cell::Null,
            Self::Fixed { raw, len } => Cell::Value(&raw[..usize::from(*len)]),
            Self::Varlen(raw) => Cell::Value(raw),
        }
    }
}

impl PartialRow {
    /// A row with every column unset.
    pub fn new(schema: &Schema) -> Self {
        Self { schema: schema.clone(), slots: vec![Slot::Unset; schema.len()] }
    }

    /// The schema the row was made for.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Sets a column by name; see [`set_at`](Self::set_at).
    pub fn set(&mut self, name: &str, value: impl Into<Value>) -> Result<&mut Self, RowError> {
        let index = self.find(name)?;
        self.set_at(index, value)
    }

    /// Sets a column. The value may be of a type that [`Value::cast`] turns into the column's, and must be in bounds.
    pub fn set_at(&mut self, index: usize, value: impl Into<Value>) -> Result<&mut Self, RowError> {
        let column = self.schema.columns().get(index).ok_or(RowError::NoSuchIndex { index })?;
        let value: Value = value.into();
        let given = value.data_type();
        let wrong = || RowError::Type { column: column.name.clone(), expected: column.data_type, given };
        let slot = match value.cast(column.data_type).ok_or_else(wrong)? {
            Value::String(text) | Value::Varchar(text) => Slot::Varlen(text.into()),
            Value::Binary(content) => Slot::Varlen(content),
            number => {
                Slot::Fixed { raw: number.bits().to_le_bytes(), len: column.data_type.cell_size() as u8 }
            }
        };
        check_bounds(column, slot.cell())?;
        self.slots[index] = slot;
        Ok(self)
    }

    /// Sets a raw cell of the right width. Encoded keys may hold values that no row may, such as the step behind
    /// the last DATE, so nothing but the width is checked.
    pub(crate) fn set_raw_at(&mut self, index: usize, raw: &[u8]) -> Option<()> {
        let column = self.schema.columns().get(index).filter(|column| column.data_type.fits(raw))?;
        let varlen = column.data_type.is_varlen();
        *self.slots.get_mut(index)? =
            if varlen { Slot::Varlen(Bytes::copy_from_slice(raw)) } else { Slot::fixed(raw) };
        Some(())
    }

    /// Sets a nullable column to NULL.
    pub fn set_null(&mut self, name: &str) -> Result<&mut Self, RowError> {
        let index = self.find(name)?;
        self.set_null_at(index)
    }

    /// Sets a nullable column to NULL.
    pub fn set_null_at(&mut self, index: usize) -> Result<&mut Self, RowError> {
        let column = self.schema.columns().get(index).ok_or(RowError::NoSuchIndex { index })?;
        if !column.nullable {
            return Err(RowError::NotNullable { column: column.name.clone() });
        }
        self.slots[index] = Slot::Null;
        Ok(self)
    }

    /// Forgets a column's cell.
    pub fn unset(&mut self, name: &str) -> Result<&mut Self, RowError> {
        let index = self.find(name)?;
        self.slots[index] = Slot::Unset;
        Ok(self)
    }

    /// The cell of a column; unset for an index out of range.
    pub fn cell(&self, index: usize) -> Cell<'_> {
        self.slots.get(index).map_or(Cell::Unset, Slot::cell)
    }

    /// All cells in column order.
    pub fn cells(&self) -> Vec<Cell<'_>> {
        (0..self.slots.len()).map(|index| self.cell(index)).collect()
    }

    /// The value of a column, `None` if it is unset or NULL (tell them apart by [`cell`](Self::cell)).
    pub fn value(&self, index: usize) -> Option<Value> {
        let column = self.schema.columns().get(index)?;
        Value::from_raw(column.data_type, self.cell(index).value()?)
    }

    /// True if every key column is set, apart from one that the server counts.
    pub fn is_key_set(&self) -> bool {
        let key = self.schema.columns().iter().take(self.schema.key_columns());
        key.enumerate().all(|(index, column)| column.auto_incrementing || self.cell(index).value().is_some())
    }

    fn find(&self, name: &str) -> Result<usize, RowError> {
        self.schema.index_of(name).ok_or_else(|| RowError::NoSuchColumn { column: name.to_owned() })
    }
}

/// A cell that cannot be set; the fault of the caller.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// A name that the schema does not have.
    #[error("no column '{column}'")]
    NoSuchColumn {
        /// Name of the column.
        column: String,
    },
    /// An index that the schema does not have.
    #[error("no column number {index}")]
    NoSuchIndex {
        /// The index, from 0.
        index: usize,
    },
    /// A value of another type.
    #[error("column '{column}' has type {expected}, not {given}")]
    Type {
        /// Name of the column.
        column: String,
        /// Type of the column.
        expected: DataType,
        /// Type of the value.
        given: DataType,
    },
    /// NULL for a NOT NULL column.
    #[error("column '{column}' is not nullable")]
    NotNullable {
        /// Name of the column.
        column: String,
    },
    /// A value that no cell of the column may have.
    #[error(transparent)]
    Bounds(#[from] BoundsError),
}

impl RowError {
    /// Always false: the value itself is wrong.
    pub const fn is_retriable(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Column;

    fn row() -> PartialRow {
        let columns = vec![
            Column::new("k", DataType::Int64),
            Column::varchar("v", 2).nullable(true),
            Column::decimal("d", 20, 2),
        ];
        PartialRow::new(&Schema::new(columns, 1).unwrap())
    }

    #[test]
    fn cells_are_unset_null_or_set() {
        let mut row = row();
        assert!(!row.is_key_set());
        row.set("k", -1i64).unwrap().set_null("v").unwrap().set("d", Value::Decimal32(7)).unwrap();
        assert!(row.is_key_set());
        assert_eq!(row.cell(1), Cell::Null);
        assert_eq!((row.value(0), row.value(2)), (Some(Value::Int64(-1)), Some(Value::Decimal128(7))));
        row.unset("v").unwrap();
        assert_eq!(row.cell(1), Cell::Unset);
    }

    #[test]
    fn wrong_cells_are_refused_and_leave_the_row_alone() {
        let mut row = row();
        assert!(matches!(row.set("x", 1), Err(RowError::NoSuchColumn { .. })));
        assert!(matches!(row.set("k", 1), Err(RowError::Type { .. })));
        assert!(matches!(row.set_null("k"), Err(RowError::NotNullable { .. })));
        assert!(matches!(row.set("v", "abc"), Err(RowError::Bounds(_))));
        assert!(matches!(row.set_at(3, 1), Err(RowError::NoSuchIndex { .. })));
        assert_eq!(row.cells(), [Cell::Unset; 3]);
    }
}
