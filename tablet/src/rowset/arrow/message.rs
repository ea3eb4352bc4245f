//! The flatbuffers of an Arrow IPC file, as far as rowsets need them: schema, record batch, footer.
//!
//! Only written: where the buffers are, `meta` knows. Numbers of slots and enums are those of Arrow's format, version 5.

use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, Vector, WIPOffset};
use schema::{Column, ColumnId, DataType};

type Builder = FlatBufferBuilder<'static>;
type Table = WIPOffset<TableFinishedWIPOffset>;

const VERSION_5: i16 = 4;
const SCHEMA: u8 = 1;
const RECORD_BATCH: u8 = 3;

/// A column as other programs see it.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) column: Column,
    pub(crate) id: ColumnId,
    /// All cells are valid UTF-8.
    pub(crate) text: bool,
}

/// How the buffers of a file are packed, the weaker first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Codec {
    Lz4,
    Zstd,
}

/// Where a record batch is in its file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchPlace {
    pub(crate) offset: u64,
    /// Bytes before the body.
    pub(crate) head: u32,
    pub(crate) body: u64,
}

/// What a record batch holds: length and nulls of each column, offset in the body and length of each buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) rows: u64,
    pub(crate) nodes: Vec<[u64; 2]>,
    pub(crate) buffers: Vec<[u64; 2]>,
    pub(crate) codec: Option<Codec>,
}

/// The message that starts a file.
pub(crate) fn schema(fields: &[Field]) -> Vec<u8> {
    let mut builder = Builder::new();
    let schema = build_schema(&mut builder, fields);
    finish_message(builder, SCHEMA, schema, 0)
}

/// The message before the body of a record batch.
pub(crate) fn record_batch(shape: &Shape, body: u64) -> Vec<u8> {
    let mut builder = Builder::new();
    let compression = shape.codec.map(|codec| {
        let table = builder.start_table();
        builder.push_slot_always(slot(0), if codec == Codec::Lz4 { 0i8 } else { 1 });
        builder.push_slot_always(slot(1), 0i8);
        builder.end_table(table)
    });
    let buffers = structs(&mut builder, &shape.buffers);
    let nodes = structs(&mut builder, &shape.nodes);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), shape.rows as i64);
    builder.push_slot_always(slot(1), nodes);
    builder.push_slot_always(slot(2), buffers);
    if let Some(compression) = compression {
        builder.push_slot_always(slot(3), compression);
    }
    let batch = builder.end_table(table);
    finish_message(builder, RECORD_BATCH, batch, body)
}

/// What ends a file.
pub(crate) fn footer(fields: &[Field], batches: &[BatchPlace]) -> Vec<u8> {
    let mut builder = Builder::new();
    let schema = build_schema(&mut builder, fields);
    let places: Vec<[u64; 3]> =
        batches.iter().map(|batch| [batch.offset, u64::from(batch.head), batch.body]).collect();
    let batches = structs(&mut builder, &places);
    let dictionaries = structs::<3>(&mut builder, &[]);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), VERSION_5);
    builder.push_slot_always(slot(1), schema);
    builder.push_slot_always(slot(2), dictionaries);
    builder.push_slot_always(slot(3), batches);
    let footer = builder.end_table(table);
    builder.finish_minimal(footer);
    builder.finished_data().to_vec()
}

const fn slot(number: u16) -> u16 {
    4 + 2 * number
}

fn finish_message(mut builder: Builder, kind: u8, header: Table, body: u64) -> Vec<u8> {
    let table = builder.start_table();
    builder.push_slot_always(slot(0), VERSION_5);
    builder.push_slot_always(slot(1), kind);
    builder.push_slot_always(slot(2), header);
    builder.push_slot_always(slot(3), body as i64);
    let message = builder.end_table(table);
    builder.finish_minimal(message);
    builder.finished_data().to_vec()
}

/// A vector of structs whose members take 8 bytes each. (The builder has safe methods for numbers only.)
fn structs<const N: usize>(builder: &mut Builder, all: &[[u64; N]]) -> WIPOffset<Vector<'static, u64>> {
    builder.start_vector::<u64>(all.len() * N);
    for number in all.iter().rev().flat_map(|members| members.iter().rev()) {
        builder.push(*number);
    }
    builder.end_vector(all.len())
}

fn build_schema(builder: &mut Builder, fields: &[Field]) -> Table {
    let fields: Vec<Table> = fields.iter().map(|field| build_field(builder, field)).collect();
    let fields = builder.create_vector(&fields);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), 0i16);
    builder.push_slot_always(slot(1), fields);
    builder.end_table(table)
}

fn build_field(builder: &mut Builder, field: &Field) -> Table {
    let Field { column, id, text } = field;
    let kudu_type = match column.data_type {
        DataType::Varchar => format!("VARCHAR({})", column.length),
        other => other.name().to_owned(),
    };
    let metadata = [("kudu.id", id.0.to_string()), ("kudu.type", kudu_type)]
        .map(|(key, value)| build_pair(builder, key, &value));
    let metadata = builder.create_vector(&metadata);
    let children = builder.create_vector::<Table>(&[]);
    let name = builder.create_string(&column.name);
    let (type_number, type_table) = build_type(builder, column, *text);
    let table = builder.start_table();
    builder.push_slot_always(slot(0), name);
    builder.push_slot_always(slot(1), column.nullable);
    builder.push_slot_always(slot(2), type_number);
    builder.push_slot_always(slot(3), type_table);
    builder.push_slot_always(slot(5), children);
    builder.push_slot_always(slot(6), metadata);
    builder.end_table(table)
}

fn build_pair(builder: &mut Builder, key: &str, value: &str) -> Table {
    let (key, value) = (builder.create_string(key), builder.create_string(value));
    let table = builder.start_table();
    builder.push_slot_always(slot(0), key);
    builder.push_slot_always(slot(1), value);
    builder.end_table(table)
}

/// The number of the type in Arrow's union, and its table.
fn build_type(builder: &mut Builder, column: &Column, text: bool) -> (u8, Table) {
    let bits = column.data_type.cell_size() as i32 * 8;
    let zone = (column.data_type == DataType::UnixtimeMicros).then(|| builder.create_string("UTC"));
    let table = builder.start_table();
    let number = match column.data_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            builder.push_slot_always(slot(0), bits);
            builder.push_slot_always(slot(1), true);
            2
        }
        DataType::Bool | DataType::IsDeleted => {
            builder.push_slot_always(slot(0), bits);
            builder.push_slot_always(slot(1), false);
            2
        }
        DataType::Float | DataType::Double => {
            builder.push_slot_always(slot(0), if column.data_type == DataType::Float { 1i16 } else { 2 });
            3
        }
        DataType::Binary => 4,
        DataType::String | DataType::Varchar => {
            if text {
                5
            } else {
                4
            }
        }
        DataType::Decimal32 | DataType::Decimal64 | DataType::Decimal128 => {
            builder.push_slot_always(slot(0), i32::from(column.precision));
            builder.push_slot_always(slot(1), i32::from(column.scale));
            builder.push_slot_always(slot(2), bits);
            7
        }
        DataType::Date => {
            builder.push_slot_always(slot(0), 0i16);
            8
        }
        DataType::UnixtimeMicros => {
            builder.push_slot_always(slot(0), 2i16);
            if let Some(zone) = zone {
                builder.push_slot_always(slot(1), zone);
            }
            10
        }
    };
    (number, builder.end_table(table))
}
