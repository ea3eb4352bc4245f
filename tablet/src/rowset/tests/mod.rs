//! Rowsets against their rows in a list, and what is found when their bytes are not what was written.

mod damage;
mod lookups;
mod merging;
mod others;
mod roundtrip;

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use schema::key::encode_component;
use schema::{Column, Compression, DataType, Schema};

use super::*;
use crate::backend::{Backend, Memory};
use crate::memory::column::{Cells, ColumnBuffer, Layout};
use crate::memory::tombstones::ALIVE;
use crate::rowset::meta::StoredColumn;
use crate::rowset::writer::Written;
use crate::sealed;

/// A row version: its cells, when it was inserted, when it ended.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    cells: Vec<Option<Vec<u8>>>,
    inserted: u64,
    ended: u64,
}

fn folder() -> &'static Path {
    Path::new("rowsets/7")
}

fn open(backend: &dyn Backend) -> Result<Rowset, RowsetError> {
    Rowset::open(backend, folder(), &Arc::new(BlockCache::new(10_000)))
}

fn key_of(schema: &Schema, cells: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut key = Vec::new();
    let columns = schema.columns().iter().zip(cells).take(schema.key_columns()).enumerate();
    for (index, (column, cell)) in columns {
        let cell = cell.as_deref().unwrap_or_default();
        encode_component(column.data_type, cell, index + 1 == schema.key_columns(), &mut key);
    }
    key
}

fn sort(schema: &Schema, rows: &mut [Row]) {
    rows.sort_by_cached_key(|row| (key_of(schema, &row.cells), row.inserted));
}

fn gather(schema: &Schema, rows: &[Row]) -> Vec<schema::ColumnData> {
    let column = |(index, column): (usize, &Column)| {
        let mut buffer = ColumnBuffer::new(Layout::of(column));
        rows.iter().for_each(|row| buffer.push(row.cells[index].as_deref()));
        buffer.finish()
    };
    schema.columns().iter().enumerate().map(column).collect()
}

/// Writes sorted rows in batches of `batch_rows`.
fn write(
    backend: &dyn Backend,
    schema: &Schema,
    text: bool,
    rows: &[Row],
    batch_rows: usize,
) -> Result<Written, RowsetError> {
    write_to(backend, folder(), schema, text, rows, batch_rows)
}

fn write_to(
    backend: &dyn Backend,
    folder: &Path,
    schema: &Schema,
    text: bool,
    rows: &[Row],
    batch_rows: usize,
) -> Result<Written, RowsetError> {
    let mut writer = Writer::create(backend, folder, schema, &vec![text; schema.len()])?;
    for batch in rows.chunks(batch_rows) {
        let inserted: Vec<u64> = batch.iter().map(|row| row.inserted).collect();
        let mut ended: Vec<u64> = batch.iter().map(|row| row.ended).collect();
        if ended.iter().all(|end| *end == ALIVE) {
            ended.clear();
        }
        writer.push(batch.len(), &gather(schema, batch), &inserted, &ended)?;
    }
    writer.finish()
}

/// All rows with their numbers.
fn read(rowset: &Rowset) -> Result<Vec<(u32, Row)>, RowsetError> {
    let mut rows = Vec::new();
    for (number, batch) in rowset.batches().iter().enumerate() {
        let columns = (0..rowset.columns().len()).map(|column| rowset.column(number, column));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let (inserted, ended) = (rowset.inserted(number)?, rowset.ended(number)?);
        for index in 0..batch.rows as usize {
            let cell = |(data, stored): (&schema::ColumnData, &StoredColumn)| {
                let layout = Layout { width: stored.width(), nullable: stored.nullable };
                Cells::of(layout, data).cell(index).map(<[u8]>::to_vec)
            };
            let cells = columns.iter().zip(rowset.columns()).map(cell).collect();
            let ended = ended.as_ref().map_or(ALIVE, |ended| ended.at(index));
            rows.push((row_number(number, index), Row { cells, inserted: inserted.at(index), ended }));
        }
    }
    Ok(rows)
}

/// All types, as keys and as values.
fn any_column(key: bool) -> impl Strategy<Value = Column> {
    let types = [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::String,
        DataType::Binary,
        DataType::UnixtimeMicros,
        DataType::Date,
        DataType::Varchar,
        DataType::Decimal32,
        DataType::Decimal64,
        DataType::Decimal128,
        DataType::Bool,
        DataType::Float,
        DataType::Double,
    ];
    let count = if key { 12 } else { types.len() };
    let compressions = [Compression::None, Compression::None, Compression::Lz4, Compression::Zlib];
    let attributes = (any::<bool>(), proptest::sample::select(compressions.to_vec()));
    (proptest::sample::select(types[..count].to_vec()), attributes).prop_map(
        move |(data_type, (nullable, compression))| {
            let column = match data_type {
                DataType::Varchar => Column::varchar("", 20),
                DataType::Decimal32 => Column::decimal("", 7, 2),
                DataType::Decimal64 => Column::decimal("", 15, 2),
                DataType::Decimal128 => Column::decimal("", 30, 2),
                other => Column::new("", other),
            };
            column.nullable(nullable && !key).compression(compression)
        },
    )
}

fn any_schema() -> impl Strategy<Value = Schema> {
    let keys = proptest::collection::vec(any_column(true), 1..4);
    let values = proptest::collection::vec(any_column(false), 0..6);
    (keys, values).prop_map(|(keys, values)| {
        let key_columns = keys.len();
        let name = |(index, column): (usize, Column)| Column { name: format!("column {index}"), ..column };
        let columns = keys.into_iter().chain(values).enumerate().map(name).collect();
        Schema::new(columns, key_columns).unwrap().with_sequential_ids(10)
    })
}

/// Cells with few distinct values, so that keys meet again.
fn any_cell(column: &Column) -> BoxedStrategy<Option<Vec<u8>>> {
    let width = column.data_type.cell_size();
    let cell = if column.data_type.is_varlen() {
        proptest::collection::vec(proptest::sample::select(vec![0, 1, b'a', 0xc3, 0xff]), 0..12).boxed()
    } else if column.data_type == DataType::Bool {
        (0..2u8).prop_map(|byte| vec![byte]).boxed()
    } else {
        let number = any::<(i8, bool)>();
        let bytes = move |(number, wide): (i8, bool)| {
            let number = i128::from(number) << if wide { width * 4 } else { 0 };
            number.to_le_bytes()[..width].to_vec()
        };
        number.prop_map(bytes).boxed()
    };
    let nullable = column.nullable;
    (0..4u8, cell).prop_map(move |(die, cell)| (!nullable || die > 0).then_some(cell)).boxed()
}

/// A schema and rows of it, sorted.
fn any_rows(most: usize) -> impl Strategy<Value = (Schema, Vec<Row>)> {
    any_schema().prop_flat_map(move |schema| {
        let cells: Vec<_> = schema.columns().iter().map(any_cell).collect();
        let ended = prop_oneof![4 => Just(ALIVE), 1 => 1_000..1_010u64];
        let row = (cells, 1..100u64, ended);
        let row = row.prop_map(|(cells, inserted, ended)| Row { cells, inserted, ended });
        proptest::collection::vec(row, 1..most).prop_map(move |mut rows| {
            sort(&schema, &mut rows);
            (schema.clone(), rows)
        })
    })
}
