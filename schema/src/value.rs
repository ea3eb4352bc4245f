//! Owned values.

use bytes::Bytes;

use crate::DataType;

/// A value that is not NULL (NULL is `Option::<Value>::None`).
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// INT8.
    Int8(i8),
    /// INT16.
    Int16(i16),
    /// INT32.
    Int32(i32),
    /// INT64.
    Int64(i64),
    /// BOOL.
    Bool(bool),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// STRING, UTF-8.
    String(String),
    /// BINARY.
    Binary(Bytes),
    /// Microseconds since the Unix epoch.
    UnixtimeMicros(i64),
    /// Days since the Unix epoch.
    Date(i32),
    /// VARCHAR, UTF-8; what is longer than the column's length is refused, not cut.
    Varchar(String),
    /// Unscaled.
    Decimal32(i32),
    /// Unscaled.
    Decimal64(i64),
    /// Unscaled.
    Decimal128(i128),
}

impl Value {
    /// The type whose cells this value makes.
    pub const fn data_type(&self) -> DataType {
        match self {
            Self::Int8(_) => DataType::Int8,
            Self::Int16(_) => DataType::Int16,
            Self::Int32(_) => DataType::Int32,
            Self::Int64(_) => DataType::Int64,
            Self::Bool(_) => DataType::Bool,
            Self::Float(_) => DataType::Float,
            Self::Double(_) => DataType::Double,
            Self::String(_) => DataType::String,
            Self::Binary(_) => DataType::Binary,
            Self::UnixtimeMicros(_) => DataType::UnixtimeMicros,
            Self::Date(_) => DataType::Date,
            Self::Varchar(_) => DataType::Varchar,
            Self::Decimal32(_) => DataType::Decimal32,
            Self::Decimal64(_) => DataType::Decimal64,
            Self::Decimal128(_) => DataType::Decimal128,
        }
    }

    /// Whether the raw bytes are a cell of `data_type`. BINARY stands for text that is not UTF-8 as well, and BOOL
    /// for IS_DELETED.
    pub fn is_of(&self, data_type: DataType) -> bool {
        self.data_type() == data_type
            || matches!(self, Self::Binary(_)) && data_type.is_varlen()
            || matches!(self, Self::Bool(_)) && data_type == DataType::IsDeleted
    }

    /// The same value as a cell of `data_type`, or `None` if that would change its meaning: text to VARCHAR and
    /// BINARY, INT64 to UNIXTIME_MICROS, INT32 to DATE, and DECIMALs of another width that hold the number.
    pub fn cast(self, data_type: DataType) -> Option<Self> {
        if self.is_of(data_type) {
            return Some(self);
        }
        let unscaled = match &self {
            Self::Decimal32(v) => Some(i128::from(*v)),
            Self::Decimal64(v) => Some(i128::from(*v)),
            Self::Decimal128(v) => Some(*v),
            _ => None,
        };
        match (self, data_type) {
            (Self::String(v), DataType::Varchar) => Some(Self::Varchar(v)),
            (Self::Varchar(v), DataType::String) => Some(Self::String(v)),
            (Self::String(v) | Self::Varchar(v), DataType::Binary) => Some(Self::Binary(v.into())),
            (Self::Int64(v), DataType::UnixtimeMicros) => Some(Self::UnixtimeMicros(v)),
            (Self::Int32(v), DataType::Date) => Some(Self::Date(v)),
            (_, DataType::Decimal32) => unscaled?.try_into().ok().map(Self::Decimal32),
            (_, DataType::Decimal64) => unscaled?.try_into().ok().map(Self::Decimal64),
            (_, DataType::Decimal128) => unscaled.map(Self::Decimal128),
            _ => None,
        }
    }

    /// Raw cell bytes: little endian, or the content of a variable-length value.
    pub fn to_raw(&self) -> Bytes {
        match self {
            Self::String(v) | Self::Varchar(v) => Bytes::copy_from_slice(v.as_bytes()),
            Self::Binary(v) => v.clone(),
            _ => Bytes::copy_from_slice(&self.bits().to_le_bytes()[..self.data_type().cell_size()]),
        }
    }

    /// The bits of a fixed-size value, in as many low bytes as its cell has; 0 for the others.
    pub(crate) fn bits(&self) -> u128 {
        match self {
            Self::Int8(v) => (*v as u8).into(),
            Self::Bool(v) => (*v).into(),
            Self::Int16(v) => (*v as u16).into(),
            Self::Int32(v) | Self::Date(v) | Self::Decimal32(v) => (*v as u32).into(),
            Self::Int64(v) | Self::UnixtimeMicros(v) | Self::Decimal64(v) => (*v as u64).into(),
            Self::Float(v) => v.to_bits().into(),
            Self::Double(v) => v.to_bits().into(),
            Self::Decimal128(v) => *v as u128,
            Self::String(_) | Self::Varchar(_) | Self::Binary(_) => 0,
        }
    }

    /// Reads a raw cell; `None` if its length is wrong. STRING and VARCHAR that are not UTF-8 come out as
    /// [`Value::Binary`], so that no byte is lost. Any BOOL byte but 0 is true.
    pub fn from_raw(data_type: DataType, raw: &[u8]) -> Option<Self> {
        let text = |make: fn(String) -> Self| match std::str::from_utf8(raw) {
            Ok(text) => make(text.to_owned()),
            Err(_) => Self::Binary(Bytes::copy_from_slice(raw)),
        };
        Some(match data_type {
            DataType::Int8 => Self::Int8(i8::from_le_bytes(raw.try_into().ok()?)),
            DataType::Int16 => Self::Int16(i16::from_le_bytes(raw.try_into().ok()?)),
            DataType::Int32 => Self::Int32(i32::from_le_bytes(raw.try_into().ok()?)),
            DataType::Int64 => Self::Int64(i64::from_le_bytes(raw.try_into().ok()?)),
            DataType::Bool | DataType::IsDeleted => {
                let [byte] = raw.try_into().ok()?;
                Self::Bool(byte != 0)
            }
            DataType::Float => Self::Float(f32::from_le_bytes(raw.try_into().ok()?)),
            DataType::Double => Self::Double(f64::from_le_bytes(raw.try_into().ok()?)),
            DataType::String => text(Self::String),
            DataType::Varchar => text(Self::Varchar),
            DataType::Binary => Self::Binary(Bytes::copy_from_slice(raw)),
            DataType::UnixtimeMicros => Self::UnixtimeMicros(i64::from_le_bytes(raw.try_into().ok()?)),
            DataType::Date => Self::Date(i32::from_le_bytes(raw.try_into().ok()?)),
            DataType::Decimal32 => Self::Decimal32(i32::from_le_bytes(raw.try_into().ok()?)),
            DataType::Decimal64 => Self::Decimal64(i64::from_le_bytes(raw.try_into().ok()?)),
            DataType::Decimal128 => Self::Decimal128(i128::from_le_bytes(raw.try_into().ok()?)),
        })
    }
}

/// Numbers as they are (DECIMALs unscaled), text quoted, BINARY as `0x..`.
impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int8(v) => v.fmt(f),
            Self::Int16(v) => v.fmt(f),
            Self::Int32(v) | Self::Date(v) | Self::Decimal32(v) => v.fmt(f),
            Self::Int64(v) | Self::UnixtimeMicros(v) | Self::Decimal64(v) => v.fmt(f),
            Self::Decimal128(v) => v.fmt(f),
            Self::Bool(v) => v.fmt(f),
            Self::Float(v) => v.fmt(f),
            Self::Double(v) => v.fmt(f),
            Self::String(v) | Self::Varchar(v) => write!(f, "{v:?}"),
            Self::Binary(v) => {
                f.write_str("0x")?;
                v.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

macro_rules! from {
    ($($source:ty => $variant:ident),* $(,)?) => {
        $(impl From<$source> for Value {
            fn from(value: $source) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

from! {
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, bool => Bool, f32 => Float, f64 => Double,
    &str => String, String => String, Bytes => Binary, Vec<u8> => Binary,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_bytes_round_trip_for_every_type() {
        for value in [
            Value::Int8(-1),
            Value::Int16(-2),
            Value::Int32(-3),
            Value::Int64(i64::MIN),
            Value::Bool(true),
            Value::Float(-0.5),
            Value::Double(2.5),
            Value::String("Zürich".into()),
            Value::Binary(vec![0, 255].into()),
            Value::UnixtimeMicros(7),
            Value::Date(-719_162),
            Value::Varchar("v".into()),
            Value::Decimal32(12),
            Value::Decimal64(13),
            Value::Decimal128(i128::MAX),
        ] {
            let data_type = value.data_type();
            let raw = value.to_raw();
            assert!(data_type.fits(&raw));
            assert_eq!(Value::from_raw(data_type, &raw), Some(value));
            if !data_type.is_varlen() {
                assert_eq!(Value::from_raw(data_type, &raw[1..]), None);
            }
        }
    }

    #[test]
    fn text_that_is_not_utf8_keeps_its_bytes() {
        assert_eq!(Value::from_raw(DataType::String, b"\xff"), Some(Value::Binary(vec![255].into())));
    }

    #[test]
    fn casts_never_change_the_meaning() {
        assert_eq!(Value::from("a").cast(DataType::Varchar), Some(Value::Varchar("a".into())));
        assert_eq!(Value::from(5i64).cast(DataType::UnixtimeMicros), Some(Value::UnixtimeMicros(5)));
        assert_eq!(Value::Decimal128(5).cast(DataType::Decimal32), Some(Value::Decimal32(5)));
        assert_eq!(Value::Decimal128(1 << 40).cast(DataType::Decimal32), None);
        assert_eq!(Value::from(5).cast(DataType::Int64), None);
        assert_eq!(Value::from(5).cast(DataType::Decimal32), None);
    }
}
