//! The rows of `cargo xtask bench scan` by Arrow Flight: INT64 key, INT32 and STRING of 32 bytes, in two streams.

pub(crate) mod client;
pub(crate) mod server;

use std::sync::Arc;

use anyhow::Result;
use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Columns {
    /// One INT32 column.
    Int32,
    /// All three.
    All,
}

/// As many as the table has tablets.
const STREAMS: u64 = 2;
/// Batches are of about so many bytes.
const BATCH_BYTES: u64 = 1 << 20;
const STRING_BYTES: usize = 32;

/// What the server holds in memory for one stream: every second row, so that both streams are of one size.
fn batches(rows: u64, stream: u64, columns: Columns) -> Result<Vec<RecordBatch>> {
    let bytes_a_row = if columns == Columns::Int32 { 4 } else { 8 + 4 + 4 + STRING_BYTES as u64 };
    let numbers: Vec<u64> = (stream..rows).step_by(STREAMS as usize).collect();
    numbers.chunks((BATCH_BYTES / bytes_a_row) as usize).map(|numbers| batch(numbers, columns)).collect()
}

fn batch(numbers: &[u64], columns: Columns) -> Result<RecordBatch> {
    let ints: ArrayRef = Arc::new(numbers.iter().map(|&row| Some(row as i32)).collect::<Int32Array>());
    let int_field = Field::new("int_val", DataType::Int32, true);
    if columns == Columns::Int32 {
        return Ok(RecordBatch::try_new(Arc::new(Schema::new(vec![int_field])), vec![ints])?);
    }
    let keys: ArrayRef = Arc::new(numbers.iter().map(|&row| row as i64).collect::<Int64Array>());
    let texts = numbers.iter().map(|row| Some(format!("{row:x>STRING_BYTES$}")));
    let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
    let key_field = Field::new("key", DataType::Int64, false);
    let schema = Schema::new(vec![key_field, int_field, Field::new("string_val", DataType::Utf8, true)]);
    Ok(RecordBatch::try_new(Arc::new(schema), vec![keys, ints, texts])?)
}
