//! Columns as text: `id int64, name string null comment 'who', price decimal(10, 2) default 1.50`.

use schema::{Column, Compression, DataType, Encoding, Schema, SchemaError};
use thiserror::Error;

use crate::reader::{BadValue, Reader, Unexpected};

/// A text that defines no table or column.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// Something else should be at some place.
    #[error(transparent)]
    Unexpected(#[from] Unexpected),
    /// A default that is no value of its column.
    #[error(transparent)]
    BadValue(#[from] BadValue),
    /// No such type.
    #[error(
        "{0:?} is no type: int8, int16, int32, int64, bool, float, double, string, varchar(N), binary, unixtime_micros, date, decimal(PRECISION, SCALE)"
    )]
    Type(String),
    /// The key names a column that is not defined.
    #[error("no column {0:?} for the key")]
    NoKeyColumn(String),
    /// The columns make no table.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// The schema of the columns, those of the key first.
///
/// # Errors
/// [`DefinitionError`], with the column.
pub fn parse(columns: &str, key: &[String]) -> Result<Schema, DefinitionError> {
    let mut reader = Reader::new(columns);
    let mut defined = vec![column(&mut reader)?];
    while reader.symbol(",") {
        defined.push(column(&mut reader)?);
    }
    if !reader.is_at_end() {
        return Err(reader.unexpected(ATTRIBUTES).into());
    }
    for (place, name) in key.iter().enumerate() {
        let at = defined.iter().position(|column| column.name == *name);
        let at = at.filter(|at| *at >= place).ok_or_else(|| DefinitionError::NoKeyColumn(name.clone()))?;
        let column = defined.remove(at);
        defined.insert(place, column);
    }
    Ok(Schema::new(defined, key.len())?)
}

/// What may follow the type of a column.
pub(crate) const ATTRIBUTES: &str =
    "null, not null, default, comment, encoding, compression, block size, immutable or a comma";

/// A name, a type, and what else there is to say of the column.
pub(crate) fn column(reader: &mut Reader<'_>) -> Result<Column, DefinitionError> {
    let name = reader.name("a column")?;
    let mut column = typed(reader, name)?;
    loop {
        if reader.keyword("null") || reader.keyword("nullable") {
            column.nullable = true;
        } else if reader.keywords(&["not", "null"]) {
            column.nullable = false;
        } else if reader.keyword("default") {
            let value = reader.value::<DefinitionError>(&column)?;
            column = column.default_value(value);
        } else if reader.keyword("comment") {
            column.comment = reader.text("a comment")?;
        } else if reader.keyword("encoding") {
            column.encoding = encoding(reader)?;
        } else if reader.keyword("compression") {
            column.compression = compression(reader)?;
        } else if reader.keywords(&["block", "size"]) {
            column.block_size = reader.number("a number of bytes")?;
        } else if reader.keyword("immutable") {
            column.immutable = true;
        } else {
            return Ok(column);
        }
    }
}

/// One of the encodings, by Kudu's name or a short one.
pub(crate) fn encoding(reader: &mut Reader<'_>) -> Result<Encoding, Unexpected> {
    one_of(reader, &ENCODINGS, "auto, plain, prefix, rle, dict or bit_shuffle")
}

/// One of the compressions, by Kudu's name or a short one.
pub(crate) fn compression(reader: &mut Reader<'_>) -> Result<Compression, Unexpected> {
    one_of(reader, &COMPRESSIONS, "default, none, snappy, lz4 or zlib")
}

fn one_of<T: Copy>(
    reader: &mut Reader<'_>,
    known: &[(&str, T)],
    expected: &'static str,
) -> Result<T, Unexpected> {
    let found = known.iter().find(|(word, _)| reader.keyword(word));
    found.map(|(_, meant)| *meant).ok_or_else(|| reader.unexpected(expected))
}

const ENCODINGS: [(&str, Encoding); 11] = [
    ("auto", Encoding::Auto),
    ("auto_encoding", Encoding::Auto),
    ("plain", Encoding::Plain),
    ("plain_encoding", Encoding::Plain),
    ("prefix", Encoding::Prefix),
    ("prefix_encoding", Encoding::Prefix),
    ("rle", Encoding::Rle),
    ("dict", Encoding::Dict),
    ("dict_encoding", Encoding::Dict),
    ("bit_shuffle", Encoding::BitShuffle),
    ("bitshuffle", Encoding::BitShuffle),
];

const COMPRESSIONS: [(&str, Compression); 6] = [
    ("default", Compression::Default),
    ("default_compression", Compression::Default),
    ("none", Compression::None),
    ("snappy", Compression::Snappy),
    ("lz4", Compression::Lz4),
    ("zlib", Compression::Zlib),
];

fn typed(reader: &mut Reader<'_>, name: String) -> Result<Column, DefinitionError> {
    let word = reader.name("a type")?;
    let wrong = |_: Unexpected| DefinitionError::Type(word.clone());
    let lower = word.to_ascii_lowercase();
    let data_type = match lower.as_str() {
        "varchar" => {
            reader.expect("(").map_err(wrong)?;
            let length = reader.number("a number of characters")?;
            reader.expect(")")?;
            return Ok(Column::varchar(name, length));
        }
        "decimal" => {
            reader.expect("(").map_err(wrong)?;
            let precision = reader.number("a number of digits")?;
            reader.expect(",")?;
            let scale = reader.number("a number of digits")?;
            reader.expect(")")?;
            return Ok(Column::decimal(name, precision, scale));
        }
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "bool" => DataType::Bool,
        "float" => DataType::Float,
        "double" => DataType::Double,
        "string" => DataType::String,
        "binary" => DataType::Binary,
        "unixtime_micros" | "timestamp" => DataType::UnixtimeMicros,
        "date" => DataType::Date,
        _ => return Err(DefinitionError::Type(word)),
    };
    Ok(Column::new(name, data_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_types_and_may_be_null() {
        let text = "name string null, id int64, price DECIMAL(10, 2) nullable, code varchar(3) not null, at timestamp";
        let schema = parse(text, &["id".to_owned(), "code".to_owned()]).unwrap();
        let shown: Vec<_> =
            schema.columns().iter().map(|c| (c.name.as_str(), c.data_type, c.nullable)).collect();
        assert_eq!(
            shown,
            [
                ("id", DataType::Int64, false),
                ("code", DataType::Varchar, false),
                ("name", DataType::String, true),
                ("price", DataType::Decimal64, true),
                ("at", DataType::UnixtimeMicros, false),
            ]
        );
        assert_eq!(schema.key_columns(), 2);
        assert_eq!((schema.columns()[3].precision, schema.columns()[3].scale), (10, 2));
    }

    #[test]
    fn what_is_said_of_a_column_is_kept() {
        let text = "id int64, \"a b\" string null default 'x, y' comment 'it''s' encoding dict compression LZ4, \
                    n decimal(5, 2) not null default 1.5 block size 4096 immutable";
        let schema = parse(text, &["id".to_owned()]).unwrap();
        let columns = schema.columns();
        let expected = Column::new("a b", DataType::String)
            .nullable(true)
            .default_value("x, y")
            .comment("it's")
            .encoding(Encoding::Dict)
            .compression(Compression::Lz4);
        assert_eq!(columns[1], expected);
        let expected =
            Column::decimal("n", 5, 2).default_value(schema::Value::Decimal32(150)).block_size(4096);
        assert_eq!(columns[2], expected.immutable(true));
    }

    #[test]
    fn what_is_no_definition_is_named() {
        let told = |text: &str| parse(text, &["id".to_owned()]).unwrap_err().to_string();
        assert_eq!(told("id"), "expected a type at \"\" (character 3)");
        assert!(told("id number").starts_with("\"number\" is no type"));
        assert!(told("id decimal").starts_with("\"decimal\" is no type"));
        assert!(told("id int64 maybe").starts_with("expected null, not null"), "{}", told("id int64 maybe"));
        assert_eq!(told("a int64"), "no column \"id\" for the key");
        assert_eq!(told("id varchar(x)"), "expected a number of characters at \"x)\" (character 12)");
        assert_eq!(told("id decimal(5"), "expected , at \"\" (character 13)");
        assert_eq!(told("id int8 default 300"), "\"300\" is no value of column \"id\", which is INT8");
        assert!(told("id int8 encoding fast").starts_with("expected auto, plain"));
    }
}
