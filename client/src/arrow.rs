//! Batches as Arrow's record batches, and back (feature `arrow`).
//!
//! | Kudu | Arrow | of a scan's batch |
//! |---|---|---|
//! | INT8 to INT64 | Int8 to Int64 | no copy |
//! | FLOAT, DOUBLE | Float32, Float64 | no copy |
//! | DATE | Date32 | no copy |
//! | UNIXTIME_MICROS | Timestamp(Microsecond, "UTC") | no copy |
//! | DECIMAL | Decimal32, Decimal64, Decimal128 by precision | no copy |
//! | BINARY | Binary | no copy |
//! | STRING, VARCHAR | Utf8 | no copy; the text is checked to be UTF-8 |
//! | BOOL, IS_DELETED | Boolean | packed into bits |
//!
//! "No copy" holds where the bytes lie as Arrow wants them, aligned to the cell: as they do when received column by column
//! ([`Layout::Columnar`](crate::Layout::Columnar), the default) in answers of 64 KiB and more, or by shared memory. In smaller
//! answers columns lie anyhow, and those that lie badly are copied. The bitmap of a nullable column is taken as it is. Such
//! arrays keep the received column alive.
//!
//! ```
//! # use client::{Client, FlushMode, schema::{Column, DataType, OpKind, Schema}};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let cluster = mini_cluster::MiniCluster::builder().start().await?;
//! # let client = Client::connect(cluster.master_address()).await?;
//! # let schema = Schema::new(vec![Column::new("id", DataType::Int64)], 1)?;
//! # let table = client.create_table("t", schema).hash_partition(&["id"], 2).replicas(1).create().await?;
//! use arrow_array::{Int64Array, RecordBatch, cast::AsArray, types::Int64Type};
//! let ids = Int64Array::from(vec![1, 2, 3]);
//! let session = client.session().mode(FlushMode::AutoBackground).build();
//! session.apply_record_batch(&table, OpKind::Upsert, &RecordBatch::try_from_iter([("id", std::sync::Arc::new(ids) as _)])?).await?;
//! session.flush().await?;
//! let mut scan = table.scan().start()?;
//! while let Some(batch) = scan.next().await {
//!     let batch: RecordBatch = batch?.to_record_batch()?;
//!     println!("{:?}", batch["id"].as_primitive::<Int64Type>());
//! }
//! # Ok(()) }
//! ```

mod write;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::{BooleanBufferBuilder, Buffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType as ArrowType, Field, Schema as ArrowSchema, TimeUnit};
use schema::{Column, ColumnData, DataType, Schema};

use crate::scan::{Batch, Scan};

pub use arrow_array;
pub use arrow_schema;
pub use write::{ApplyRecordBatchError, RecordBatchError};

impl Batch {
    /// The rows as a record batch, without a copy where [that is possible](self).
    ///
    /// # Errors
    /// [`ArrowError`]: a STRING or VARCHAR holds bytes that are no UTF-8, which Kudu does not forbid; the column is named.
    pub fn to_record_batch(&self) -> Result<RecordBatch, ArrowError> {
        let columns = self.schema().columns().iter().zip(&self.block().columns);
        let arrays =
            columns.map(|(column, data)| array(column, data, self.rows())).collect::<Result<_, _>>()?;
        // Without columns the number of rows says it all.
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows()));
        RecordBatch::try_new_with_options(Arc::new(to_arrow_schema(self.schema())), arrays, &options)
    }
}

impl Scan {
    /// The schema of its batches as record batches.
    pub fn arrow_schema(&self) -> ArrowSchema {
        to_arrow_schema(self.schema())
    }
}

/// The columns of a table or a projection as Arrow has them.
pub fn to_arrow_schema(schema: &Schema) -> ArrowSchema {
    let field = |column: &Column| Field::new(&column.name, to_arrow_type(column), column.nullable);
    ArrowSchema::new(schema.columns().iter().map(field).collect::<Vec<_>>())
}

/// The type of a column's cells in Arrow.
pub fn to_arrow_type(column: &Column) -> ArrowType {
    // At most 38 digits.
    let scale = i8::try_from(column.scale).unwrap_or(i8::MAX);
    match column.data_type {
        DataType::Int8 => ArrowType::Int8,
        DataType::Int16 => ArrowType::Int16,
        DataType::Int32 => ArrowType::Int32,
        DataType::Int64 => ArrowType::Int64,
        DataType::Bool | DataType::IsDeleted => ArrowType::Boolean,
        DataType::Float => ArrowType::Float32,
        DataType::Double => ArrowType::Float64,
        DataType::String | DataType::Varchar => ArrowType::Utf8,
        DataType::Binary => ArrowType::Binary,
        DataType::UnixtimeMicros => ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Date => ArrowType::Date32,
        DataType::Decimal32 => ArrowType::Decimal32(column.precision, scale),
        DataType::Decimal64 => ArrowType::Decimal64(column.precision, scale),
        DataType::Decimal128 => ArrowType::Decimal128(column.precision, scale),
    }
}

fn array(column: &Column, data: &ColumnData, rows: usize) -> Result<ArrayRef, ArrowError> {
    let wrong = |error| ArrowError::InvalidArgumentError(format!("column '{}': {error}", column.name));
    let valid = data.non_null.as_ref().map(|bits| Buffer::from(bits.clone()));
    let cells = match column.data_type {
        DataType::Bool | DataType::IsDeleted => packed(&data.data),
        _ => Buffer::from(data.data.clone()),
    };
    let mut array =
        ArrayData::builder(to_arrow_type(column)).len(rows).null_bit_buffer(valid).add_buffer(cells);
    if column.data_type.is_varlen() {
        array = array.add_buffer(Buffer::from(data.varlen.clone().unwrap_or_default()));
    }
    // Checked: offsets, sizes, text.
    Ok(make_array(array.align_buffers(true).build().map_err(wrong)?))
}

/// A bit for each byte.
fn packed(bytes: &[u8]) -> Buffer {
    let mut bits = BooleanBufferBuilder::new(bytes.len());
    bytes.iter().for_each(|byte| bits.append(*byte != 0));
    bits.finish().into_inner()
}
