//! Conversions to and from the messages of the crate `proto`.
//!
//! `TryFrom` and `From` where the message says it all; functions of [`partition`] and [`predicate`] where the table's
//! schema is needed as well.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

use proto::kudu::{ColumnSchemaPb, ColumnTypeAttributesPb, RowOperationsPb, SchemaPb};

use crate::{
    Column, ColumnId, Compression, DataType, Encoding, PartitionError, Schema, SchemaError, Value,
    row_ops::Encoder,
};

pub mod partition;
pub mod predicate;

impl From<DataType> for proto::kudu::DataType {
    fn from(data_type: DataType) -> Self {
        match data_type {
            DataType::Int8 => Self::Int8,
            DataType::Int16 => Self::Int16,
            DataType::Int32 => Self::Int32,
            DataType::Int64 => Self::Int64,
            DataType::Bool => Self::Bool,
            DataType::Float => Self::Float,
            DataType::Double => Self::Double,
            DataType::String => Self::String,
            DataType::Binary => Self::Binary,
            DataType::UnixtimeMicros => Self::UnixtimeMicros,
            DataType::Date => Self::Date,
            DataType::Varchar => Self::Varchar,
            DataType::Decimal32 => Self::Decimal32,
            DataType::Decimal64 => Self::Decimal64,
            DataType::Decimal128 => Self::Decimal128,
            DataType::IsDeleted => Self::IsDeleted,
        }
    }
}

/// The column type of this number, `None` for those that no table of 1.18 has.
pub fn data_type_from_number(number: i32) -> Option<DataType> {
    use proto::kudu::DataType as Pb;
    Some(match Pb::try_from(number).ok()? {
        Pb::Int8 => DataType::Int8,
        Pb::Int16 => DataType::Int16,
        Pb::Int32 => DataType::Int32,
        Pb::Int64 => DataType::Int64,
        Pb::Bool => DataType::Bool,
        Pb::Float => DataType::Float,
        Pb::Double => DataType::Double,
        Pb::String => DataType::String,
        Pb::Binary => DataType::Binary,
        Pb::UnixtimeMicros => DataType::UnixtimeMicros,
        Pb::Date => DataType::Date,
        Pb::Varchar => DataType::Varchar,
        Pb::Decimal32 => DataType::Decimal32,
        Pb::Decimal64 => DataType::Decimal64,
        Pb::Decimal128 => DataType::Decimal128,
        Pb::IsDeleted => DataType::IsDeleted,
        _ => return None,
    })
}

/// The encoding of this number; a hint, so unknown ones are `Auto`.
pub fn encoding_from_number(number: i32) -> Encoding {
    use proto::kudu::EncodingType as Pb;
    match Pb::try_from(number) {
        Ok(Pb::PlainEncoding) => Encoding::Plain,
        Ok(Pb::PrefixEncoding) => Encoding::Prefix,
        Ok(Pb::GroupVarint) => Encoding::GroupVarint,
        Ok(Pb::Rle) => Encoding::Rle,
        Ok(Pb::DictEncoding) => Encoding::Dict,
        Ok(Pb::BitShuffle) => Encoding::BitShuffle,
        _ => Encoding::Auto,
    }
}

/// The compression of this number; a hint, so unknown ones are `Default`.
pub fn compression_from_number(number: i32) -> Compression {
    use proto::kudu::CompressionType as Pb;
    match Pb::try_from(number) {
        Ok(Pb::NoCompression) => Compression::None,
        Ok(Pb::Snappy) => Compression::Snappy,
        Ok(Pb::Lz4) => Compression::Lz4,
        Ok(Pb::Zlib) => Compression::Zlib,
        _ => Compression::Default,
    }
}

impl From<Encoding> for proto::kudu::EncodingType {
    fn from(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Auto => Self::AutoEncoding,
            Encoding::Plain => Self::PlainEncoding,
            Encoding::Prefix => Self::PrefixEncoding,
            Encoding::GroupVarint => Self::GroupVarint,
            Encoding::Rle => Self::Rle,
            Encoding::Dict => Self::DictEncoding,
            Encoding::BitShuffle => Self::BitShuffle,
        }
    }
}

impl From<Compression> for proto::kudu::CompressionType {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::Default => Self::DefaultCompression,
            Compression::None => Self::NoCompression,
            Compression::Snappy => Self::Snappy,
            Compression::Lz4 => Self::Lz4,
            Compression::Zlib => Self::Zlib,
        }
    }
}

impl TryFrom<&ColumnSchemaPb> for Column {
    type Error = WireError;

    fn try_from(pb: &ColumnSchemaPb) -> Result<Self, WireError> {
        let name = || pb.name.clone();
        let data_type = data_type_from_number(pb.r#type)
            .ok_or_else(|| WireError::UnknownType { column: name(), number: pb.r#type })?;
        let default = |raw: &Option<bytes::Bytes>| match raw {
            None => Ok(None),
            Some(raw) => Value::from_raw(data_type, raw)
                .map(Some)
                .ok_or_else(|| WireError::Default { column: name(), bytes: raw.len() }),
        };
        let mut column = Self {
            nullable: pb.is_nullable(),
            read_default: default(&pb.read_default_value)?,
            write_default: default(&pb.write_default_value)?,
            encoding: encoding_from_number(pb.encoding.unwrap_or_default()),
            compression: compression_from_number(pb.compression.unwrap_or_default()),
            block_size: pb.cfile_block_size(),
            comment: pb.comment().to_owned(),
            immutable: pb.immutable(),
            auto_incrementing: pb.is_auto_incrementing(),
            ..Self::new(name(), data_type)
        };
        let attributes = pb.type_attributes.unwrap_or_default();
        let wrong = |value: i32| WireError::Attribute { column: name(), value };
        if data_type.is_decimal() {
            let small = |value: i32| u8::try_from(value).map_err(|_| wrong(value));
            (column.precision, column.scale) = (small(attributes.precision())?, small(attributes.scale())?);
        } else if data_type == DataType::Varchar {
            column.length = u16::try_from(attributes.length()).map_err(|_| wrong(attributes.length()))?;
        }
        Ok(column)
    }
}

impl From<&Column> for ColumnSchemaPb {
    /// Without id and key flag, which the schema knows.
    fn from(column: &Column) -> Self {
        let decimal = column.data_type.is_decimal();
        let varchar = column.data_type == DataType::Varchar;
        Self {
            id: None,
            name: column.name.clone(),
            r#type: proto::kudu::DataType::from(column.data_type).into(),
            is_key: Some(false),
            is_nullable: Some(column.nullable),
            read_default_value: column.read_default.as_ref().map(Value::to_raw),
            write_default_value: column.write_default.as_ref().map(Value::to_raw),
            encoding: Some(proto::kudu::EncodingType::from(column.encoding).into()),
            compression: Some(proto::kudu::CompressionType::from(column.compression).into()),
            cfile_block_size: Some(column.block_size),
            type_attributes: (decimal || varchar).then(|| ColumnTypeAttributesPb {
                precision: decimal.then(|| column.precision.into()),
                scale: decimal.then(|| column.scale.into()),
                length: varchar.then(|| column.length.into()),
            }),
            comment: (!column.comment.is_empty()).then(|| column.comment.clone()),
            immutable: Some(column.immutable),
            is_auto_incrementing: column.auto_incrementing.then_some(true),
        }
    }
}

impl TryFrom<&SchemaPb> for Schema {
    type Error = WireError;

    /// Column ids must be given for all columns or for none; key columns come first.
    fn try_from(pb: &SchemaPb) -> Result<Self, WireError> {
        let columns = pb.columns.iter().map(Column::try_from).collect::<Result<Vec<_>, _>>()?;
        let key_columns = pb.columns.iter().take_while(|column| column.is_key()).count();
        if let Some(late) = pb.columns.iter().skip(key_columns).find(|column| column.is_key()) {
            return Err(WireError::KeyNotFirst { column: late.name.clone() });
        }
        let schema = Self::new(columns, key_columns)?;
        let ids: Vec<_> = pb.columns.iter().filter_map(|column| column.id).map(ColumnId).collect();
        match ids.len() {
            0 => Ok(schema),
            count if count == schema.len() => Ok(schema.with_ids(ids)?),
            _ => Err(WireError::MixedIds),
        }
    }
}

impl From<&Schema> for SchemaPb {
    /// With ids if the schema has any; writes and projections must be sent without, see [`schema_without_ids`].
    fn from(schema: &Schema) -> Self {
        let mut pb = schema_without_ids(schema);
        for (column, id) in pb.columns.iter_mut().zip(schema.ids().unwrap_or_default()) {
            column.id = Some(id.0);
        }
        pb
    }
}

/// The form that requests carry.
pub fn schema_without_ids(schema: &Schema) -> SchemaPb {
    let column = |(index, column): (usize, &Column)| ColumnSchemaPb {
        is_key: Some(index < schema.key_columns()),
        ..ColumnSchemaPb::from(column)
    };
    SchemaPb { columns: schema.columns().iter().enumerate().map(column).collect() }
}

impl From<Encoder> for RowOperationsPb {
    fn from(encoder: Encoder) -> Self {
        let (rows, indirect) = encoder.finish();
        Self { rows: Some(rows), indirect_data: Some(indirect) }
    }
}

/// A message that makes no schema; the fault of whoever sent it (INVALID_SCHEMA).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// A type that is none, or that we do not know.
    #[error("column '{column}' has unknown type {number}")]
    UnknownType {
        /// Name of the column.
        column: String,
        /// The number on the wire.
        number: i32,
    },
    /// A default value whose raw bytes are not as wide as the type.
    #[error("column '{column}' has a default value of {bytes} bytes, which is not of its type")]
    Default {
        /// Name of the column.
        column: String,
        /// How many bytes there are.
        bytes: usize,
    },
    /// A precision, scale or length that no column can have.
    #[error("column '{column}': {value} is out of range for precision, scale or length")]
    Attribute {
        /// Name of the column.
        column: String,
        /// The value.
        value: i32,
    },
    /// A key column behind one that is none.
    #[error("got out-of-order key column '{column}': key columns come first")]
    KeyNotFirst {
        /// Name of the column.
        column: String,
    },
    /// Either all columns have ids or none has.
    #[error("some columns have ids and some have none")]
    MixedIds,
    /// The schema itself cannot be.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The partitioning itself cannot be.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// Rows can be hashed by one algorithm only.
    #[error("hash algorithm {number} is not supported for partitions")]
    HashAlgorithm {
        /// The number on the wire.
        number: i32,
    },
    /// A custom range that is not one range.
    #[error("{ranges} bounds in one custom range, exactly one is needed")]
    CustomBounds {
        /// How many bounds there are.
        ranges: usize,
    },
    /// A bucket that cannot be.
    #[error("hash bucket {bucket} of a partition is negative")]
    Bucket {
        /// Number of the bucket.
        bucket: i32,
    },
}

impl WireError {
    /// Always false: the message itself is wrong.
    pub const fn is_retriable(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
