//! The rows of `cargo xtask bench scan` by Arrow Flight, in two streams.

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
    /// INT64 key, INT32 and STRING.
    Three,
    /// INT64 key, ten INT32, five INT64, four STRING.
    Wide,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int32,
    Int64,
    String,
}

impl Columns {
    fn kinds(self) -> Vec<Kind> {
        match self {
            Columns::Int32 => vec![Kind::Int32],
            Columns::Three => vec![Kind::Int64, Kind::Int32, Kind::String],
            Columns::Wide => {
                let groups = [(Kind::Int64, 1), (Kind::Int32, 10), (Kind::Int64, 5), (Kind::String, 4)];
                groups.into_iter().flat_map(|(kind, count)| std::iter::repeat_n(kind, count)).collect()
            }
        }
    }
}

impl Kind {
    fn bytes(self) -> u64 {
        match self {
            Kind::Int32 => 4,
            Kind::Int64 => 8,
            Kind::String => 4 + STRING_BYTES as u64,
        }
    }
}

/// As many as the table has tablets.
const STREAMS: u64 = 2;
/// Batches are of about so many bytes.
const BATCH_BYTES: u64 = 1 << 20;
const STRING_BYTES: usize = 32;

/// What the server holds in memory for one stream: every second row, so that both streams are of one size.
fn batches(rows: u64, stream: u64, columns: Columns) -> Result<Vec<RecordBatch>> {
    let bytes_a_row: u64 = columns.kinds().iter().map(|kind| kind.bytes()).sum();
    let numbers: Vec<u64> = (stream..rows).step_by(STREAMS as usize).collect();
    numbers.chunks((BATCH_BYTES / bytes_a_row) as usize).map(|numbers| batch(numbers, columns)).collect()
}

fn batch(numbers: &[u64], columns: Columns) -> Result<RecordBatch> {
    let column = |(index, kind): (usize, Kind)| -> (Field, ArrayRef) {
        let (data_type, cells): (DataType, ArrayRef) = match kind {
            Kind::Int32 => {
                let cells = numbers.iter().map(|&row| Some(row as i32));
                (DataType::Int32, Arc::new(cells.collect::<Int32Array>()))
            }
            Kind::Int64 => {
                let cells = numbers.iter().map(|&row| row as i64);
                (DataType::Int64, Arc::new(cells.collect::<Int64Array>()))
            }
            Kind::String => {
                let cells = numbers.iter().map(|row| Some(format!("{row:x>STRING_BYTES$}")));
                (DataType::Utf8, Arc::new(cells.collect::<StringArray>()))
            }
        };
        // The key is the first of several.
        let nullable = index > 0 || kind == Kind::Int32;
        (Field::new(format!("column_{index}"), data_type, nullable), cells)
    };
    let (fields, cells): (Vec<Field>, Vec<ArrayRef>) =
        columns.kinds().into_iter().enumerate().map(column).unzip();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), cells)?)
}
