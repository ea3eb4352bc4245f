//! Rows to bytes.

use bytes::Bytes;

use super::OpKind;
use crate::{Cell, PartialRow, Schema};

/// Collects the operations of one request.
#[derive(Clone, Debug)]
pub struct Encoder {
    schema: Schema,
    has_nullable: bool,
    rows: Vec<u8>,
    indirect: Vec<u8>,
    count: usize,
}

impl Encoder {
    /// For rows of this schema, which must go along in the request.
    pub fn new(schema: &Schema) -> Self {
        Self {
            schema: schema.clone(),
            has_nullable: schema.has_nullable(),
            rows: Vec::new(),
            indirect: Vec::new(),
            count: 0,
        }
    }

    /// Adds an operation.
    pub fn push(&mut self, kind: OpKind, row: &PartialRow) -> Result<(), EncodeError> {
        self.push_cells(kind, |index| row.cell(index))
    }

    /// As [`push`](Self::push), with the cells from elsewhere. On an error nothing was added.
    pub fn push_cells<'a>(
        &mut self,
        kind: OpKind,
        cell: impl Fn(usize) -> Cell<'a>,
    ) -> Result<(), EncodeError> {
        let (rows, indirect) = (self.rows.len(), self.indirect.len());
        let result = self.try_push(kind, cell);
        match result {
            Ok(()) => self.count += 1,
            Err(_) => {
                self.rows.truncate(rows);
                self.indirect.truncate(indirect);
            }
        }
        result
    }

    fn try_push<'a>(&mut self, kind: OpKind, cell: impl Fn(usize) -> Cell<'a>) -> Result<(), EncodeError> {
        let width = self.schema.len().div_ceil(8);
        self.rows.push(kind as u8);
        let set = self.rows.len();
        let null = set + width;
        self.rows.resize(null + if self.has_nullable { width } else { 0 }, 0);
        for (index, column) in self.schema.columns().iter().enumerate() {
            let cell = cell(index);
            if cell.is_set() {
                self.rows[set + index / 8] |= 1 << (index % 8);
            }
            match cell {
                Cell::Unset => {}
                Cell::Null if column.nullable => self.rows[null + index / 8] |= 1 << (index % 8),
                Cell::Null => return Err(EncodeError::NotNullable { column: column.name.clone() }),
                Cell::Value(raw) if column.data_type.is_varlen() => {
                    self.rows.extend_from_slice(&(self.indirect.len() as u64).to_le_bytes());
                    self.rows.extend_from_slice(&(raw.len() as u64).to_le_bytes());
                    self.indirect.extend_from_slice(raw);
                }
                Cell::Value(raw) if column.data_type.fits(raw) => self.rows.extend_from_slice(raw),
                Cell::Value(_) => return Err(EncodeError::Width { column: column.name.clone() }),
            }
        }
        Ok(())
    }

    /// Number of operations so far.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True before the first operation.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes so far, rows and indirect data.
    pub fn byte_size(&self) -> usize {
        self.rows.len() + self.indirect.len()
    }

    /// The rows and their indirect data.
    pub fn finish(self) -> (Bytes, Bytes) {
        (self.rows.into(), self.indirect.into())
    }
}

/// A row that does not fit the encoder's schema; the fault of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// NULL for a NOT NULL column.
    #[error("column '{column}' is not nullable")]
    NotNullable {
        /// Name of the column.
        column: String,
    },
    /// The raw cell is not as wide as its type.
    #[error("the cell of column '{column}' has the wrong width")]
    Width {
        /// Name of the column.
        column: String,
    },
}

impl EncodeError {
    /// Always false: the row itself is wrong.
    pub const fn is_retriable(&self) -> bool {
        false
    }
}
