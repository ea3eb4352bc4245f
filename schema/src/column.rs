//! Column types and what a table says about a column.

use crate::Value;

/// A column type of Kudu 1.18.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// Signed 8 bits.
    Int8,
    /// Signed 16 bits.
    Int16,
    /// Signed 32 bits.
    Int32,
    /// Signed 64 bits.
    Int64,
    /// One byte, 0 or 1.
    Bool,
    /// IEEE 754, 32 bits.
    Float,
    /// IEEE 754, 64 bits.
    Double,
    /// UTF-8 text; the servers do not check that it is.
    String,
    /// Any bytes.
    Binary,
    /// Microseconds since the Unix epoch, 64 bits.
    UnixtimeMicros,
    /// Days since the Unix epoch, 32 bits.
    Date,
    /// Text of at most [`Column::length`] characters.
    Varchar,
    /// Unscaled decimal of precision 1 to 9.
    Decimal32,
    /// Unscaled decimal of precision 10 to 18.
    Decimal64,
    /// Unscaled decimal of precision 19 to 38.
    Decimal128,
    /// Virtual column of a scan's projection: was the row deleted between the two snapshots.
    IsDeleted,
}

impl DataType {
    /// Bytes of a cell in row operations and row-wise blocks; 16 (offset and length) for variable-length types.
    pub const fn cell_size(self) -> usize {
        match self {
            Self::Int8 | Self::Bool | Self::IsDeleted => 1,
            Self::Int16 => 2,
            Self::Int32 | Self::Float | Self::Date | Self::Decimal32 => 4,
            Self::Int64 | Self::Double | Self::UnixtimeMicros | Self::Decimal64 => 8,
            Self::String | Self::Binary | Self::Varchar | Self::Decimal128 => 16,
        }
    }

    /// True for STRING, BINARY and VARCHAR.
    pub const fn is_varlen(self) -> bool {
        matches!(self, Self::String | Self::Binary | Self::Varchar)
    }

    /// True for DECIMAL of any width.
    pub const fn is_decimal(self) -> bool {
        matches!(self, Self::Decimal32 | Self::Decimal64 | Self::Decimal128)
    }

    /// False for BOOL, FLOAT, DOUBLE and the virtual IS_DELETED.
    pub const fn can_be_key(self) -> bool {
        !matches!(self, Self::Bool | Self::Float | Self::Double | Self::IsDeleted)
    }

    /// True if `raw` has the length of a cell of this type (any length for variable-length types).
    pub const fn fits(self, raw: &[u8]) -> bool {
        self.is_varlen() || raw.len() == self.cell_size()
    }

    /// The name that Kudu prints, e.g. `UNIXTIME_MICROS`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int8 => "INT8",
            Self::Int16 => "INT16",
            Self::Int32 => "INT32",
            Self::Int64 => "INT64",
            Self::Bool => "BOOL",
            Self::Float => "FLOAT",
            Self::Double => "DOUBLE",
            Self::String => "STRING",
            Self::Binary => "BINARY",
            Self::UnixtimeMicros => "UNIXTIME_MICROS",
            Self::Date => "DATE",
            Self::Varchar => "VARCHAR",
            Self::Decimal32 => "DECIMAL32",
            Self::Decimal64 => "DECIMAL64",
            Self::Decimal128 => "DECIMAL128",
            Self::IsDeleted => "IS_DELETED",
        }
    }
}

impl std::fmt::Display for DataType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// As Kudu shows columns: `price DECIMAL(9, 2) NULLABLE`, `id INT64 NOT NULL`, with IMMUTABLE behind it where that is so.
impl std::fmt::Display for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.name)?;
        match self.data_type {
            DataType::Varchar => write!(f, "VARCHAR({})", self.length)?,
            decimal if decimal.is_decimal() => write!(f, "DECIMAL({}, {})", self.precision, self.scale)?,
            other => write!(f, "{other}")?,
        }
        f.write_str(if self.nullable { " NULLABLE" } else { " NOT NULL" })?;
        f.write_str(if self.immutable { " IMMUTABLE" } else { "" })
    }
}

/// How a column is to be stored; a hint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// The server chooses.
    #[default]
    Auto,
    /// As they are.
    Plain,
    /// Common beginnings of sorted strings once.
    Prefix,
    /// Small integers in few bytes.
    GroupVarint,
    /// Runs of equal cells once.
    Rle,
    /// Distinct values once, cells as numbers of them.
    Dict,
    /// Bits of equal weight side by side, then compressed.
    BitShuffle,
}

impl Encoding {
    /// Whether cells of this type can be stored so.
    pub const fn suits(self, data_type: DataType) -> bool {
        match self {
            Self::Auto | Self::Plain => true,
            Self::Prefix | Self::Dict => data_type.is_varlen(),
            // For unsigned integers only, which no column has.
            Self::GroupVarint => false,
            Self::Rle => !matches!(
                data_type,
                DataType::String
                    | DataType::Binary
                    | DataType::Varchar
                    | DataType::Float
                    | DataType::Double
                    | DataType::Decimal128
            ),
            Self::BitShuffle => !data_type.is_varlen() && !matches!(data_type, DataType::Bool),
        }
    }
}

/// How a column is to be compressed; a hint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// The server chooses.
    #[default]
    Default,
    /// Not at all.
    None,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// zlib.
    Zlib,
}

/// One column of a table or of a projection.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Unique within its schema.
    pub name: String,
    /// Type of the cells.
    pub data_type: DataType,
    /// Whether cells may be NULL.
    pub nullable: bool,
    /// Digits of a DECIMAL, 0 for other types.
    pub precision: u8,
    /// Digits behind the point of a DECIMAL, 0 for other types.
    pub scale: u8,
    /// Characters of a VARCHAR at most, 0 for other types.
    pub length: u16,
    /// What readers see in rows older than the column.
    pub read_default: Option<Value>,
    /// What an insert that leaves the column unset writes.
    pub write_default: Option<Value>,
    /// Storage hint.
    pub encoding: Encoding,
    /// Storage hint.
    pub compression: Compression,
    /// Bytes of a storage block, 0 for the server's own choice; a hint.
    pub block_size: i32,
    /// Free text.
    pub comment: String,
    /// Updates of the cell are refused.
    pub immutable: bool,
    /// The tablet fills the cell in.
    pub auto_incrementing: bool,
}

impl Column {
    /// A not-null column without defaults, comment or hints. DECIMAL and VARCHAR need
    /// [`decimal`](Self::decimal) and [`varchar`](Self::varchar).
    pub fn new(name: impl Into<String>, data_type: DataType) -> Self {
        Self {
            name: name.into(),
            data_type,
            nullable: false,
            precision: 0,
            scale: 0,
            length: 0,
            read_default: None,
            write_default: None,
            encoding: Encoding::Auto,
            compression: Compression::Default,
            block_size: 0,
            comment: String::new(),
            immutable: false,
            auto_incrementing: false,
        }
    }

    /// A DECIMAL column; the width follows from the precision (1 to 38, checked by [`check`](Self::check)).
    pub fn decimal(name: impl Into<String>, precision: u8, scale: u8) -> Self {
        let data_type = match precision {
            0..=9 => DataType::Decimal32,
            10..=18 => DataType::Decimal64,
            _ => DataType::Decimal128,
        };
        Self { precision, scale, ..Self::new(name, data_type) }
    }

    /// A VARCHAR column of at most `length` characters (1 to 65535).
    pub fn varchar(name: impl Into<String>, length: u16) -> Self {
        Self { length, ..Self::new(name, DataType::Varchar) }
    }

    /// Allows or forbids NULL.
    pub fn nullable(self, nullable: bool) -> Self {
        Self { nullable, ..self }
    }

    /// Sets both defaults, as clients do when they create a table.
    pub fn default_value(self, value: impl Into<Value>) -> Self {
        let value = value.into();
        Self { read_default: Some(value.clone()), write_default: Some(value), ..self }
    }

    /// Sets the storage hint.
    pub fn encoding(self, encoding: Encoding) -> Self {
        Self { encoding, ..self }
    }

    /// Sets the storage hint.
    pub fn compression(self, compression: Compression) -> Self {
        Self { compression, ..self }
    }

    /// Sets the block size in bytes, a hint.
    pub fn block_size(self, block_size: i32) -> Self {
        Self { block_size, ..self }
    }

    /// Sets the comment.
    pub fn comment(self, comment: impl Into<String>) -> Self {
        Self { comment: comment.into(), ..self }
    }

    /// Makes cells refuse updates.
    pub fn immutable(self, immutable: bool) -> Self {
        Self { immutable, ..self }
    }

    /// Makes the tablet fill the cell in.
    pub fn auto_incrementing(self, auto_incrementing: bool) -> Self {
        Self { auto_incrementing, ..self }
    }

    /// Checks what can be said of the column alone: type attributes in range, defaults of its type and in bounds.
    pub fn check(&self) -> Result<(), ColumnError> {
        let name = || self.name.clone();
        if self.data_type.is_decimal() {
            let (least, most) = match self.data_type {
                DataType::Decimal32 => (1, 9),
                DataType::Decimal64 => (10, 18),
                _ => (19, 38),
            };
            // A narrower precision in a wider cell is legal on the wire, a wider one would not fit.
            if !(1..=most).contains(&self.precision) {
                return Err(ColumnError::Precision {
                    column: name(),
                    precision: self.precision,
                    least,
                    most,
                });
            }
            if self.scale > self.precision {
                return Err(ColumnError::Scale {
                    column: name(),
                    scale: self.scale,
                    precision: self.precision,
                });
            }
        }
        if self.data_type == DataType::Varchar && self.length == 0 {
            return Err(ColumnError::Length { column: name() });
        }
        if self.auto_incrementing && (self.data_type != DataType::Int64 || self.nullable) {
            return Err(ColumnError::AutoIncrementing { column: name() });
        }
        for value in [&self.read_default, &self.write_default].into_iter().flatten() {
            if self.auto_incrementing || !value.is_of(self.data_type) {
                return Err(ColumnError::Default { column: name(), data_type: self.data_type });
            }
            let raw = value.to_raw();
            crate::bounds::check_bounds(self, crate::Cell::Value(&raw))?;
        }
        Ok(())
    }
}

/// A column definition that cannot be; the fault of whoever made it, trying again does not help.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnError {
    /// More or fewer digits than the DECIMAL type has room for.
    #[error("column '{column}': decimal precision {precision} is not in {least}..={most}")]
    Precision {
        /// Name of the column.
        column: String,
        /// Digits asked for.
        precision: u8,
        /// The fewest that are allowed.
        least: u8,
        /// The most that is allowed.
        most: u8,
    },
    /// More digits behind the point than there are digits.
    #[error("column '{column}': decimal scale {scale} exceeds the precision {precision}")]
    Scale {
        /// Name of the column.
        column: String,
        /// Digits behind the point.
        scale: u8,
        /// Digits of the DECIMAL.
        precision: u8,
    },
    /// A VARCHAR of no characters.
    #[error("column '{column}': a VARCHAR needs a length of 1 to 65535 characters")]
    Length {
        /// Name of the column.
        column: String,
    },
    /// An auto-incrementing column of another type, nullable, or with a default.
    #[error("column '{column}': an auto-incrementing column must be INT64 NOT NULL without a default")]
    AutoIncrementing {
        /// Name of the column.
        column: String,
    },
    /// A default value of another type.
    #[error("column '{column}': the default value is no {data_type}")]
    Default {
        /// Name of the column.
        column: String,
        /// Type of the column.
        data_type: DataType,
    },
    /// A default value that no cell of the column may have.
    #[error("default value: {0}")]
    Bounds(#[from] crate::bounds::BoundsError),
}

impl ColumnError {
    /// Always false: the definition itself is wrong.
    pub const fn is_retriable(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_precision_and_scale_are_checked() {
        assert!(Column::decimal("d", 38, 38).check().is_ok());
        assert!(matches!(Column::decimal("d", 39, 0).check(), Err(ColumnError::Precision { .. })));
        assert!(matches!(Column::decimal("d", 0, 0).check(), Err(ColumnError::Precision { .. })));
        assert!(matches!(Column::decimal("d", 5, 6).check(), Err(ColumnError::Scale { .. })));
        assert!(matches!(Column::new("d", DataType::Decimal32).check(), Err(ColumnError::Precision { .. })));
    }

    #[test]
    fn varchar_needs_a_length() {
        assert!(Column::varchar("v", 65535).check().is_ok());
        assert!(matches!(Column::varchar("v", 0).check(), Err(ColumnError::Length { .. })));
    }

    #[test]
    fn a_default_must_be_of_the_columns_type_and_in_its_bounds() {
        assert!(Column::new("a", DataType::Int32).default_value(1).check().is_ok());
        assert!(matches!(
            Column::new("a", DataType::Int32).default_value(1i64).check(),
            Err(ColumnError::Default { .. })
        ));
        let long = Column::varchar("v", 2).default_value(Value::Varchar("abc".into()));
        assert!(matches!(long.check(), Err(ColumnError::Bounds(_))));
    }
}
