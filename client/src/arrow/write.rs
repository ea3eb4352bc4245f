//! Record batches on their way into a table.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType as ArrowType, TimeUnit};
use bytes::Bytes;
use schema::{Column, DataType, OpKind, RowError, Value};
use thiserror::Error;

use crate::op::Operation;
use crate::session::{ApplyError, Session};
use crate::table::Table;

/// A record batch that does not fit its table; nothing of it was applied.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum RecordBatchError {
    /// The table does not have the column.
    #[error("table '{table}' has no column '{column}'")]
    NoSuchColumn {
        /// The table.
        table: String,
        /// The column of the record batch.
        column: String,
    },
    /// The values cannot be cells of the column.
    #[error("column '{column}' of table '{table}' is {expected}, the record batch has {given}")]
    Type {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Its type.
        expected: DataType,
        /// The type in the record batch.
        given: Box<ArrowType>,
    },
}

/// A record batch that was applied in part, or not at all.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ApplyRecordBatchError {
    /// It does not fit the table; nothing was applied.
    #[error(transparent)]
    Batch(#[from] RecordBatchError),
    /// A value cannot be a cell; the rows before were applied.
    #[error("row {row} of the record batch: {source}")]
    Cell {
        /// Counted from 0.
        row: usize,
        /// What is wrong.
        source: RowError,
    },
    /// The session did not take a row; the rows before were applied.
    #[error("row {row} of the record batch: {source}")]
    Apply {
        /// Counted from 0.
        row: usize,
        /// What happened.
        source: ApplyError,
    },
}

impl RecordBatchError {
    /// Always false: the record batch itself is wrong.
    pub fn is_retriable(&self) -> bool {
        false
    }
}

impl ApplyRecordBatchError {
    /// Whether applying the rows from the named one on may work later.
    pub fn is_retriable(&self) -> bool {
        matches!(self, ApplyRecordBatchError::Apply { source, .. } if source.is_retriable())
    }
}

impl Session {
    /// Applies one operation for each row of a record batch, in order.
    ///
    /// Columns are found by name; those of the table that the batch lacks stay unset. Types must be those of
    /// [the table above](super), or LargeUtf8, LargeBinary, Utf8View and BinaryView for text and bytes; timestamps in
    /// microseconds of any zone; decimals of any width and precision, but of the column's scale. Values are copied.
    ///
    /// Takes as long as [`apply`](Self::apply) does for each row: with [`FlushMode::AutoBackground`](crate::FlushMode) it
    /// waits for room, with [`FlushMode::Manual`](crate::FlushMode) a full buffer is an error.
    ///
    /// # Errors
    /// [`ApplyRecordBatchError`], with the row at which it stopped. Cancelled, some first rows are applied.
    pub async fn apply_record_batch(
        &self,
        table: &Table,
        kind: OpKind,
        batch: &RecordBatch,
    ) -> Result<(), ApplyRecordBatchError> {
        let columns = columns(table, batch)?;
        for row in 0..batch.num_rows() {
            let operation = operation(table, kind, &columns, row)
                .map_err(|source| ApplyRecordBatchError::Cell { row, source })?;
            let applied = self.apply(operation).await;
            applied.map_err(|source| ApplyRecordBatchError::Apply { row, source })?;
        }
        Ok(())
    }
}

/// An array and the column of the table that it is for.
struct Source<'a> {
    index: usize,
    array: &'a ArrayRef,
    read: Read,
}

fn columns<'a>(table: &Table, batch: &'a RecordBatch) -> Result<Vec<Source<'a>>, RecordBatchError> {
    let schema = batch.schema_ref();
    let one = |(field, array): (&std::sync::Arc<arrow_schema::Field>, &'a ArrayRef)| {
        let name = field.name();
        let missing =
            || RecordBatchError::NoSuchColumn { table: table.name().to_owned(), column: name.clone() };
        let index = table.schema().index_of(name).ok_or_else(missing)?;
        let column = table.schema().columns().get(index).ok_or_else(missing)?;
        let read = reader(column, array.data_type()).ok_or_else(|| RecordBatchError::Type {
            table: table.name().to_owned(),
            column: name.clone(),
            expected: column.data_type,
            given: Box::new(array.data_type().clone()),
        })?;
        Ok(Source { index, array, read })
    };
    schema.fields().iter().zip(batch.columns()).map(one).collect()
}

fn operation(table: &Table, kind: OpKind, columns: &[Source<'_>], row: usize) -> Result<Operation, RowError> {
    let mut operation = Operation::new(table, kind);
    for Source { index, array, read } in columns {
        if array.is_null(row) {
            operation.row_mut().set_null_at(*index)?;
        } else {
            operation.row_mut().set_at(*index, read(array, row))?;
        }
    }
    Ok(operation)
}

/// Reads a value that is there.
type Read = fn(&ArrayRef, usize) -> Value;

/// How to read the values of an Arrow type as cells of a column, if they can be.
fn reader(column: &Column, given: &ArrowType) -> Option<Read> {
    fn text(text: &str) -> Value {
        Value::String(text.to_owned())
    }
    fn bytes(bytes: &[u8]) -> Value {
        Value::Binary(Bytes::copy_from_slice(bytes))
    }
    let same_scale = |scale: &i8| u8::try_from(*scale) == Ok(column.scale);
    Some(match (column.data_type, given) {
        (DataType::Int8, ArrowType::Int8) => {
            |array, row| Value::Int8(array.as_primitive::<Int8Type>().value(row))
        }
        (DataType::Int16, ArrowType::Int16) => {
            |array, row| Value::Int16(array.as_primitive::<Int16Type>().value(row))
        }
        (DataType::Int32, ArrowType::Int32) => {
            |array, row| Value::Int32(array.as_primitive::<Int32Type>().value(row))
        }
        (DataType::Int64, ArrowType::Int64) => {
            |array, row| Value::Int64(array.as_primitive::<Int64Type>().value(row))
        }
        (DataType::Bool, ArrowType::Boolean) => |array, row| Value::Bool(array.as_boolean().value(row)),
        (DataType::Float, ArrowType::Float32) => {
            |array, row| Value::Float(array.as_primitive::<Float32Type>().value(row))
        }
        (DataType::Double, ArrowType::Float64) => {
            |array, row| Value::Double(array.as_primitive::<Float64Type>().value(row))
        }
        (DataType::UnixtimeMicros, ArrowType::Timestamp(TimeUnit::Microsecond, _)) => {
            |array, row| Value::UnixtimeMicros(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        (DataType::Date, ArrowType::Date32) => {
            |array, row| Value::Date(array.as_primitive::<Date32Type>().value(row))
        }
        (data_type, ArrowType::Decimal32(_, scale)) if data_type.is_decimal() && same_scale(scale) => {
            |array, row| Value::Decimal32(array.as_primitive::<Decimal32Type>().value(row))
        }
        (data_type, ArrowType::Decimal64(_, scale)) if data_type.is_decimal() && same_scale(scale) => {
            |array, row| Value::Decimal64(array.as_primitive::<Decimal64Type>().value(row))
        }
        (data_type, ArrowType::Decimal128(_, scale)) if data_type.is_decimal() && same_scale(scale) => {
            |array, row| Value::Decimal128(array.as_primitive::<Decimal128Type>().value(row))
        }
        (data_type, ArrowType::Utf8) if data_type.is_varlen() => {
            |array, row| text(array.as_string::<i32>().value(row))
        }
        (data_type, ArrowType::LargeUtf8) if data_type.is_varlen() => {
            |array, row| text(array.as_string::<i64>().value(row))
        }
        (data_type, ArrowType::Utf8View) if data_type.is_varlen() => {
            |array, row| text(array.as_string_view().value(row))
        }
        (DataType::Binary, ArrowType::Binary) => |array, row| bytes(array.as_binary::<i32>().value(row)),
        (DataType::Binary, ArrowType::LargeBinary) => |array, row| bytes(array.as_binary::<i64>().value(row)),
        (DataType::Binary, ArrowType::BinaryView) => |array, row| bytes(array.as_binary_view().value(row)),
        _ => return None,
    })
}
