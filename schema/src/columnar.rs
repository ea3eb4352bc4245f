//! Blocks of rows, column by column, laid out as the wire has them.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

use bytes::Bytes;

pub use self::builder::ColumnBuilder;
use crate::{Cell, Column, Schema, Value};

mod builder;

/// Rows of a projection, column by column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnarBlock {
    /// Number of rows; what counts when there are no columns.
    pub rows: usize,
    /// One entry a projected column.
    pub columns: Vec<ColumnData>,
}

/// The cells of one column. What is read through it is bounds-checked, so a block that was never validated gives
/// wrong cells, not panics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnData {
    /// Fixed-size cells, NULL as zeros; or rows + 1 offsets (u32, little endian) into `varlen`, no bytes if there are
    /// no rows.
    pub data: Bytes,
    /// The content of a variable-length column, `None` for the others.
    pub varlen: Option<Bytes>,
    /// For nullable columns only: bit i, least significant first, is 1 if row i is **not** NULL.
    pub non_null: Option<Bytes>,
}

impl ColumnData {
    /// Borrows the column as one of `rows` rows.
    pub fn as_slice(&self, rows: usize) -> ColumnSlice<'_> {
        ColumnSlice {
            rows,
            data: &self.data,
            varlen: self.varlen.as_deref(),
            non_null: self.non_null.as_deref(),
        }
    }
}

/// A borrowed column of a block, laid out as [`ColumnData`]. Offsets need not start at 0, so that part of a longer
/// column can be one, from a row that is a multiple of 8 because of the bitmap.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSlice<'a> {
    /// Number of rows.
    pub rows: usize,
    /// Fixed-size cells or rows + 1 offsets.
    pub data: &'a [u8],
    /// The content of a variable-length column.
    pub varlen: Option<&'a [u8]>,
    /// Bit i is 1 if row i is not NULL; `None` if no row is.
    pub non_null: Option<&'a [u8]>,
}

impl<'a> ColumnSlice<'a> {
    /// The cell of a row; [`Cell::Unset`] behind the last row or where the layout does not hold.
    pub fn cell(&self, row: usize) -> Cell<'a> {
        if row >= self.rows {
            return Cell::Unset;
        }
        let byte = |bitmap: &[u8]| bitmap.get(row / 8).copied().unwrap_or(0);
        if self.non_null.is_some_and(|bitmap| byte(bitmap) >> (row % 8) & 1 == 0) {
            return Cell::Null;
        }
        let raw = match self.varlen {
            Some(varlen) => self.range(row).and_then(|range| varlen.get(range)),
            None => {
                let size = self.data.len().checked_div(self.rows).unwrap_or(0);
                let start = row.saturating_mul(size);
                self.data.get(start..start.saturating_add(size))
            }
        };
        raw.map_or(Cell::Unset, Cell::Value)
    }

    fn range(&self, row: usize) -> Option<std::ops::Range<usize>> {
        let (offsets, _) = self.data.as_chunks::<4>();
        let start = u32::from_le_bytes(*offsets.get(row)?);
        let end = u32::from_le_bytes(*offsets.get(row.checked_add(1)?)?);
        Some(start as usize..end as usize)
    }

    /// The content of each row, in order; empty where the layout does not hold. For variable-length columns.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (offsets, _) = self.data.as_chunks::<4>();
        let varlen = self.varlen.unwrap_or_default();
        let at = |offset: &[u8; 4]| u32::from_le_bytes(*offset) as usize;
        let ends = offsets.get(1..).unwrap_or_default();
        offsets
            .iter()
            .zip(ends)
            .take(self.rows)
            .map(move |(start, end)| varlen.get(at(start)..at(end)).unwrap_or_default())
    }
}

impl ColumnarBlock {
    /// Checks every length and offset against the projection, so that all cells can be read.
    pub fn validate(&self, projection: &Schema) -> Result<(), BlockError> {
        if self.columns.len() != projection.len() {
            return Err(BlockError::Columns { expected: projection.len(), given: self.columns.len() });
        }
        for (data, column) in self.columns.iter().zip(projection.columns()) {
            validate_column(self.rows, data, column)?;
        }
        Ok(())
    }

    /// The cell of a row and column; [`Cell::Unset`] outside of the block.
    pub fn cell(&self, row: usize, column: usize) -> Cell<'_> {
        self.columns.get(column).map_or(Cell::Unset, |data| data.as_slice(self.rows).cell(row))
    }

    /// The value of a row and column, `None` for NULL and outside of the block.
    pub fn value(&self, projection: &Schema, row: usize, column: usize) -> Option<Value> {
        Value::from_raw(projection.columns().get(column)?.data_type, self.cell(row, column).value()?)
    }

    /// Bytes of all parts, what the block takes on the wire.
    pub fn byte_size(&self) -> usize {
        let part = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
        let column =
            |c: &ColumnData| c.data.len().saturating_add(part(&c.varlen)).saturating_add(part(&c.non_null));
        self.columns.iter().map(column).fold(0, usize::saturating_add)
    }
}

fn validate_column(rows: usize, data: &ColumnData, column: &Column) -> Result<(), BlockError> {
    let name = || column.name.clone();
    let varlen = column.data_type.is_varlen();
    let bytes = match (varlen, rows) {
        (true, 0) => Some(0),
        (true, _) => rows.checked_add(1).and_then(|offsets| offsets.checked_mul(4)),
        (false, _) => rows.checked_mul(column.data_type.cell_size()),
    };
    if bytes != Some(data.data.len()) {
        return Err(BlockError::DataSize { column: name(), rows, bytes: data.data.len() });
    }
    match (&data.varlen, varlen) {
        (None, false) => {}
        (Some(content), true) => {
            let (offsets, _) = data.data.as_chunks::<4>();
            let mut previous = 0;
            for offset in offsets {
                let offset = u32::from_le_bytes(*offset);
                if offset < previous {
                    return Err(BlockError::Offsets { column: name() });
                }
                previous = offset;
            }
            if previous as usize > content.len() {
                return Err(BlockError::Offsets { column: name() });
            }
        }
        _ => return Err(BlockError::Varlen { column: name() }),
    }
    match (&data.non_null, column.nullable) {
        (None, false) => Ok(()),
        (Some(bitmap), true) if bitmap.len() >= rows.div_ceil(8) => Ok(()),
        (Some(bitmap), true) => Err(BlockError::BitmapSize { column: name(), rows, bytes: bitmap.len() }),
        _ => Err(BlockError::Bitmap { column: name() }),
    }
}

/// A block whose parts do not fit together, or one that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// More or fewer columns than the projection.
    #[error("a block of {given} columns for a projection of {expected}")]
    Columns {
        /// Columns of the projection.
        expected: usize,
        /// Columns of the block.
        given: usize,
    },
    /// Cells or offsets do not fill their bytes.
    #[error("{bytes} bytes of cells or offsets for {rows} rows of column '{column}'")]
    DataSize {
        /// Name of the column.
        column: String,
        /// How many rows there are.
        rows: usize,
        /// Bytes of cells or offsets.
        bytes: usize,
    },
    /// An offset that is less than the one before, or beyond the content.
    #[error("the offsets of column '{column}' go back or lead outside of its content")]
    Offsets {
        /// Name of the column.
        column: String,
    },
    /// Content of variable length in a column of fixed width, or the reverse.
    #[error("content is missing from, or has no place in, column '{column}'")]
    Varlen {
        /// Name of the column.
        column: String,
    },
    /// A bitmap in a NOT NULL column, or none in a nullable one.
    #[error("a bitmap is missing from, or has no place in, column '{column}'")]
    Bitmap {
        /// Name of the column.
        column: String,
    },
    /// A bitmap of more or fewer bits than rows.
    #[error("a bitmap of {bytes} bytes for {rows} rows of column '{column}'")]
    BitmapSize {
        /// Name of the column.
        column: String,
        /// How many rows there are.
        rows: usize,
        /// How many bytes there are.
        bytes: usize,
    },
    /// Row-wise bytes that are no whole number of rows.
    #[error("{bytes} bytes for {rows} rows of {stride} bytes")]
    RowsSize {
        /// How many rows there are.
        rows: usize,
        /// Bytes of one row.
        stride: usize,
        /// How many bytes there are.
        bytes: usize,
    },
    /// A reference that leads nowhere.
    #[error("a cell of column '{column}' leads outside of the indirect data, or over what others use")]
    Indirect {
        /// Name of the column.
        column: String,
    },
    /// A cell that cannot be in the column.
    #[error("the cell of column '{column}' is unset, NULL in a not-null column, or of the wrong width")]
    Cell {
        /// Name of the column.
        column: String,
    },
    /// Offsets have 32 bits.
    #[error("more than 4 GiB of content in column '{column}'")]
    TooLarge {
        /// Name of the column.
        column: String,
    },
}

impl BlockError {
    /// Always false: the same bytes will be as wrong.
    pub const fn is_retriable(&self) -> bool {
        false
    }
}
