//! What changes when a table is altered, as bytes: columns, version and name.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

use schema::{Column, ColumnId, Compression, DataType, Encoding, Schema, SchemaError, Value};

use crate::Alteration;
use crate::binary::{Cut, Rest, put_bytes};

/// Bytes that describe no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoDescription;

impl From<Cut> for NoDescription {
    fn from(_: Cut) -> Self {
        Self
    }
}

impl From<SchemaError> for NoDescription {
    fn from(_: SchemaError) -> Self {
        Self
    }
}

pub(crate) fn encode(about: &Alteration, to: &mut Vec<u8>) {
    let schema = &about.schema;
    to.extend_from_slice(&about.schema_version.to_le_bytes());
    put_bytes(to, about.table_name.as_bytes());
    to.extend_from_slice(&(schema.key_columns() as u32).to_le_bytes());
    to.extend_from_slice(&(schema.len() as u32).to_le_bytes());
    for (index, column) in schema.columns().iter().enumerate() {
        to.extend_from_slice(&schema.id(index).0.to_le_bytes());
        put_bytes(to, column.name.as_bytes());
        to.push(number(TYPES, column.data_type));
        to.push(
            u8::from(column.nullable)
                | u8::from(column.immutable) << 1
                | u8::from(column.auto_incrementing) << 2,
        );
        to.extend_from_slice(&[column.precision, column.scale]);
        to.extend_from_slice(&column.length.to_le_bytes());
        to.push(number(ENCODINGS, column.encoding));
        to.push(number(COMPRESSIONS, column.compression));
        to.extend_from_slice(&column.block_size.to_le_bytes());
        put_bytes(to, column.comment.as_bytes());
        for default in [&column.read_default, &column.write_default] {
            to.push(u8::from(default.is_some()));
            if let Some(value) = default {
                put_bytes(to, &value.to_raw());
            }
        }
    }
    to.push(u8::from(about.history_max_age_sec.is_some()));
    to.extend_from_slice(&about.history_max_age_sec.unwrap_or_default().to_le_bytes());
}

pub(crate) fn decode(rest: &mut Rest<'_>) -> Result<Alteration, NoDescription> {
    let schema_version = rest.u32()?;
    let table_name = rest.text()?.to_owned();
    let (key_columns, count) = (rest.u32()? as usize, rest.u32()?);
    let (mut columns, mut ids) = (Vec::new(), Vec::new());
    for _ in 0..count {
        ids.push(ColumnId(rest.u32()?));
        let name = rest.text()?;
        let data_type = named(TYPES, rest.u8()?)?;
        let flags = rest.u8()?;
        let [precision, scale] = rest.take()?;
        let length = u16::from_le_bytes(rest.take()?);
        let encoding = named(ENCODINGS, rest.u8()?)?;
        let compression = named(COMPRESSIONS, rest.u8()?)?;
        let block_size = i32::from_le_bytes(rest.take()?);
        let comment = rest.text()?.to_owned();
        let mut default = || {
            if rest.u8()? == 0 {
                return Ok(None);
            }
            let raw = rest.bytes()?;
            let value = data_type.fits(raw).then(|| Value::from_raw(data_type, raw)).flatten();
            value.map(Some).ok_or(NoDescription)
        };
        let (read_default, write_default) = (default()?, default()?);
        columns.push(Column {
            precision,
            scale,
            length,
            read_default,
            write_default,
            encoding,
            compression,
            block_size,
            comment,
            nullable: flags & 1 != 0,
            immutable: flags & 2 != 0,
            auto_incrementing: flags & 4 != 0,
            ..Column::new(name, data_type)
        });
    }
    let schema = Schema::new(columns, key_columns)?.with_ids(ids)?;
    let has_age = rest.u8()? != 0;
    let age = i32::from_le_bytes(rest.take()?);
    let history_max_age_sec = has_age.then_some(age);
    Ok(Alteration { schema, schema_version, table_name, history_max_age_sec })
}

fn number<T: PartialEq>(all: &[T], one: T) -> u8 {
    all.iter().position(|other| *other == one).map_or(u8::MAX, |index| index as u8)
}

fn named<T: Copy>(all: &[T], number: u8) -> Result<T, NoDescription> {
    all.get(usize::from(number)).copied().ok_or(NoDescription)
}

/// In the order of their numbers, which never change.
const TYPES: &[DataType] = &[
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::Bool,
    DataType::Float,
    DataType::Double,
    DataType::String,
    DataType::Binary,
    DataType::UnixtimeMicros,
    DataType::Date,
    DataType::Varchar,
    DataType::Decimal32,
    DataType::Decimal64,
    DataType::Decimal128,
];
const ENCODINGS: &[Encoding] = &[
    Encoding::Auto,
    Encoding::Plain,
    Encoding::Prefix,
    Encoding::GroupVarint,
    Encoding::Rle,
    Encoding::Dict,
    Encoding::BitShuffle,
];
const COMPRESSIONS: &[Compression] =
    &[Compression::Default, Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zlib];

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> Alteration {
        let mut columns: Vec<Column> = TYPES
            .iter()
            .enumerate()
            .map(|(index, data_type)| match data_type {
                DataType::Varchar => Column::varchar("v", 7).nullable(true).comment("of seven"),
                data_type if data_type.is_decimal() => {
                    let precision = [9, 18, 38][index - 12];
                    Column::decimal(format!("d{index}"), precision, 2)
                }
                data_type => Column::new(format!("c{index}"), *data_type),
            })
            .collect();
        columns[2] =
            Column::new("i", DataType::Int32).default_value(5).encoding(Encoding::Rle).block_size(4096);
        columns[7] = Column::new("s", DataType::String).default_value("x".to_owned()).immutable(true);
        columns[7].write_default = None;
        columns[7].compression = Compression::Lz4;
        let schema = Schema::new(columns, 2).unwrap().with_sequential_ids(10);
        Alteration { schema, schema_version: 9, table_name: "täble".into(), history_max_age_sec: Some(-1) }
    }

    #[test]
    fn all_of_a_schema_comes_back_and_no_cut_goes_unnoticed() {
        let mut bytes = Vec::new();
        encode(&about(), &mut bytes);
        let mut rest = Rest(&bytes);
        assert_eq!(decode(&mut rest).unwrap(), about());
        assert!(rest.0.is_empty());
        (0..bytes.len()).for_each(|len| assert!(decode(&mut Rest(&bytes[..len])).is_err(), "{len}"));
    }

    proptest::proptest! {
        #[test]
        fn changed_bytes_never_panic(at in 0..500usize, to in proptest::prelude::any::<u8>()) {
            let mut bytes = Vec::new();
            encode(&about(), &mut bytes);
            let at = at % bytes.len();
            bytes[at] = to;
            let _ = decode(&mut Rest(&bytes));
        }
    }
}
