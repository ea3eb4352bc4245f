//! Rows of a scan, with typed access to their columns.

use std::fmt;
use std::marker::PhantomData;

use schema::{Cell, ColumnSlice, ColumnarBlock, DataType, Schema, Value};
use thiserror::Error;

/// Some rows of a scan, at least one, kept column by column as the server sent them.
#[derive(Clone, Debug)]
pub struct Batch {
    schema: Schema,
    block: ColumnarBlock,
}

impl Batch {
    pub(super) fn new(schema: Schema, block: ColumnarBlock) -> Batch {
        Batch { schema, block }
    }

    /// The columns.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.block.rows
    }

    /// The columns as raw bytes, in the layout of the wire.
    pub fn block(&self) -> &ColumnarBlock {
        &self.block
    }

    /// Takes the raw columns out.
    pub fn into_block(self) -> ColumnarBlock {
        self.block
    }

    /// One row; reads as all NULL behind the last one.
    pub fn row(&self, row: usize) -> BatchRow<'_> {
        BatchRow { batch: self, row }
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = BatchRow<'_>> {
        (0..self.rows()).map(|row| self.row(row))
    }

    /// The value of a row and column, `None` for NULL.
    ///
    /// # Errors
    /// [`ColumnError::NoSuchColumn`].
    pub fn value<'k>(
        &self,
        row: usize,
        column: impl Into<ColumnKey<'k>>,
    ) -> Result<Option<Value>, ColumnError> {
        let index = self.find(column.into())?;
        Ok(self.block.value(&self.schema, row, index))
    }

    /// A column of numbers, dates, times, decimals (unscaled) or booleans, as the Rust type of its cells: `i32` for INT32,
    /// DATE and DECIMAL32, `i64` for INT64, UNIXTIME_MICROS and DECIMAL64, and so on.
    ///
    /// # Errors
    /// [`ColumnError`]: no such column, or cells of another type.
    pub fn fixed<'k, T: Fixed>(
        &self,
        column: impl Into<ColumnKey<'k>>,
    ) -> Result<FixedColumn<'_, T>, ColumnError> {
        let (slice, data_type, key) = self.slice(column.into())?;
        if !T::is_cell_of(data_type) {
            return Err(ColumnError::Type { column: key, data_type });
        }
        Ok(FixedColumn { slice, cells: PhantomData })
    }

    /// A column of STRING, VARCHAR or BINARY.
    ///
    /// # Errors
    /// [`ColumnError`]: no such column, or cells of another type.
    pub fn varlen<'k>(&self, column: impl Into<ColumnKey<'k>>) -> Result<VarlenColumn<'_>, ColumnError> {
        let (slice, data_type, key) = self.slice(column.into())?;
        if !data_type.is_varlen() {
            return Err(ColumnError::Type { column: key, data_type });
        }
        Ok(VarlenColumn { slice })
    }

    fn slice(&self, key: ColumnKey<'_>) -> Result<(ColumnSlice<'_>, DataType, String), ColumnError> {
        let index = self.find(key)?;
        let missing = || ColumnError::NoSuchColumn { column: key.to_string() };
        let column = self.schema.columns().get(index).ok_or_else(missing)?;
        let data = self.block.columns.get(index).ok_or_else(missing)?;
        Ok((data.as_slice(self.rows()), column.data_type, column.name.clone()))
    }

    fn find(&self, key: ColumnKey<'_>) -> Result<usize, ColumnError> {
        let found = match key {
            ColumnKey::Index(index) => Some(index).filter(|index| *index < self.schema.len()),
            ColumnKey::Name(name) => self.schema.index_of(name),
        };
        found.ok_or_else(|| ColumnError::NoSuchColumn { column: key.to_string() })
    }
}

/// A column by its place in the projection, or by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKey<'a> {
    /// Counted from 0.
    Index(usize),
    /// As the table names it.
    Name(&'a str),
}

impl From<usize> for ColumnKey<'_> {
    fn from(index: usize) -> Self {
        ColumnKey::Index(index)
    }
}

impl<'a> From<&'a str> for ColumnKey<'a> {
    fn from(name: &'a str) -> Self {
        ColumnKey::Name(name)
    }
}

impl fmt::Display for ColumnKey<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnKey::Index(index) => write!(formatter, "number {index}"),
            ColumnKey::Name(name) => write!(formatter, "'{name}'"),
        }
    }
}

/// A column that the batch cannot give like this; the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ColumnError {
    /// It is not in the projection.
    #[error("the scan has no column {column}")]
    NoSuchColumn {
        /// What was asked for.
        column: String,
    },
    /// Its cells are of another type.
    #[error("the cells of column '{column}' are {data_type}")]
    Type {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
}

impl ColumnError {
    /// Always false: the scan has what it has.
    pub fn is_retriable(&self) -> bool {
        false
    }
}

/// One row of a [`Batch`].
#[derive(Clone, Copy, Debug)]
pub struct BatchRow<'a> {
    batch: &'a Batch,
    row: usize,
}

impl BatchRow<'_> {
    /// The value of a column, `None` for NULL.
    ///
    /// # Errors
    /// [`ColumnError::NoSuchColumn`].
    pub fn get<'k>(&self, column: impl Into<ColumnKey<'k>>) -> Result<Option<Value>, ColumnError> {
        self.batch.value(self.row, column)
    }

    /// All values in the projection's order.
    pub fn values(&self) -> Vec<Option<Value>> {
        let value = |column| self.batch.block.value(&self.batch.schema, self.row, column);
        (0..self.batch.schema.len()).map(value).collect()
    }
}

/// A column of cells of one size.
#[derive(Clone, Copy, Debug)]
pub struct FixedColumn<'a, T> {
    slice: ColumnSlice<'a>,
    cells: PhantomData<T>,
}

impl<'a, T: Fixed> FixedColumn<'a, T> {
    /// The cell of a row, `None` for NULL and behind the last row.
    pub fn get(&self, row: usize) -> Option<T> {
        self.slice.cell(row).value().and_then(T::read)
    }

    /// All cells, `None` for NULL.
    pub fn iter(&self) -> impl Iterator<Item = Option<T>> + use<'a, T> {
        let slice = self.slice;
        (0..slice.rows).map(move |row| slice.cell(row).value().and_then(T::read))
    }

    /// All cells, whatever stands for NULL (zeros) included: the fast way for columns without NULL.
    pub fn values(&self) -> impl Iterator<Item = T> + use<'a, T> {
        self.slice.data.chunks_exact(size_of::<T>()).filter_map(T::read)
    }

    /// The cells as they lie in memory, NULL as zeros; `None` if they do not lie as Rust wants a `[T]` (then use
    /// [`values`](Self::values)).
    pub fn as_slice(&self) -> Option<&'a [T]>
    where
        T: bytemuck::AnyBitPattern,
    {
        if cfg!(target_endian = "big") { None } else { bytemuck::try_cast_slice(self.slice.data).ok() }
    }

    /// Whether a row is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        matches!(self.slice.cell(row), Cell::Null)
    }
}

/// A column of STRING, VARCHAR or BINARY.
#[derive(Clone, Copy, Debug)]
pub struct VarlenColumn<'a> {
    slice: ColumnSlice<'a>,
}

impl<'a> VarlenColumn<'a> {
    /// The bytes of a row, `None` for NULL and behind the last row.
    pub fn get(&self, row: usize) -> Option<&'a [u8]> {
        self.slice.cell(row).value()
    }

    /// The text of a row, `None` for NULL, behind the last row, and for bytes that are not UTF-8.
    pub fn text(&self, row: usize) -> Option<&'a str> {
        self.get(row).and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// All cells, `None` for NULL.
    pub fn iter(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let slice = self.slice;
        (0..slice.rows).map(move |row| slice.cell(row).value())
    }

    /// Whether a row is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        matches!(self.slice.cell(row), Cell::Null)
    }
}

/// A Rust type that is the cell of some column types.
pub trait Fixed: Copy + sealed::Sealed {
    /// Whether it is the cell of this type.
    fn is_cell_of(data_type: DataType) -> bool;
    /// Reads a cell; `None` if its length is wrong.
    fn read(cell: &[u8]) -> Option<Self>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! fixed {
    ($($type:ty: $($data_type:ident)|+;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Fixed for $type {
            fn is_cell_of(data_type: DataType) -> bool {
                matches!(data_type, $(DataType::$data_type)|+)
            }
            fn read(cell: &[u8]) -> Option<Self> {
                Some(<$type>::from_le_bytes(cell.try_into().ok()?))
            }
        }
    )*};
}
fixed! {
    i8: Int8;
    i16: Int16;
    i32: Int32 | Date | Decimal32;
    i64: Int64 | UnixtimeMicros | Decimal64;
    i128: Decimal128;
    f32: Float;
    f64: Double;
}

impl sealed::Sealed for bool {}
impl Fixed for bool {
    fn is_cell_of(data_type: DataType) -> bool {
        matches!(data_type, DataType::Bool | DataType::IsDeleted)
    }

    fn read(cell: &[u8]) -> Option<bool> {
        match cell {
            [byte] => Some(*byte != 0),
            _ => None,
        }
    }
}
