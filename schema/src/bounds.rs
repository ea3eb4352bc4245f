//! What a cell of a type may hold beyond its width.

use crate::{Cell, Column, DataType};

/// Bytes of a cell at most (`max_cell_size_bytes`).
pub const MAX_CELL_SIZE: usize = 64 * 1024;
/// 0001-01-01 in days since the Unix epoch.
pub const MIN_DATE: i32 = -719_162;
/// 9999-12-31 in days since the Unix epoch.
pub const MAX_DATE: i32 = 2_932_896;

/// The largest unscaled DECIMAL of this many digits; precisions above 38 count as 38.
pub fn max_unscaled(precision: u8) -> i128 {
    10i128.pow(u32::from(precision.min(38))) - 1
}

/// Checks a cell that is about to be written: its width, 64 KiB at most, VARCHAR by characters, DECIMAL by
/// precision, DATE from 0001-01-01 to 9999-12-31. Unset and NULL cells pass: whether they may be is not a question
/// of bounds.
pub fn check_bounds(column: &Column, cell: Cell<'_>) -> Result<(), BoundsError> {
    let Some(raw) = cell.value() else { return Ok(()) };
    let name = || column.name.clone();
    if !column.data_type.fits(raw) {
        return Err(BoundsError::Width { column: name(), data_type: column.data_type, bytes: raw.len() });
    }
    match column.data_type {
        DataType::String | DataType::Binary | DataType::Varchar if raw.len() > MAX_CELL_SIZE => {
            Err(BoundsError::TooLarge { column: name(), bytes: raw.len() })
        }
        DataType::Varchar if raw.len() > usize::from(column.length) => {
            // Characters start at every byte that is not a UTF-8 continuation.
            let characters = raw.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
            if characters > usize::from(column.length) {
                return Err(BoundsError::TooLong { column: name(), characters, length: column.length });
            }
            Ok(())
        }
        DataType::Date => {
            let days = signed(raw) as i32;
            if (MIN_DATE..=MAX_DATE).contains(&days) {
                Ok(())
            } else {
                Err(BoundsError::Date { column: name(), days })
            }
        }
        DataType::Decimal32 | DataType::Decimal64 | DataType::Decimal128 => {
            let (unscaled, limit) = (signed(raw), max_unscaled(column.precision));
            if (-limit..=limit).contains(&unscaled) {
                Ok(())
            } else {
                Err(BoundsError::Decimal { column: name(), unscaled, precision: column.precision })
            }
        }
        _ => Ok(()),
    }
}

/// A little-endian signed number of 1 to 16 bytes.
pub(crate) fn signed(raw: &[u8]) -> i128 {
    let negative = raw.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut wide = [if negative { 0xff } else { 0 }; 16];
    for (to, from) in wide.iter_mut().zip(raw) {
        *to = *from;
    }
    i128::from_le_bytes(wide)
}

/// A cell out of bounds: the fault of whoever wrote the row.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BoundsError {
    /// The raw cell is not as wide as its type.
    #[error("a cell of {bytes} bytes for column '{column}' of type {data_type}")]
    Width {
        /// Name of the column.
        column: String,
        /// Type of the column.
        data_type: DataType,
        /// How wide it is.
        bytes: usize,
    },
    /// More bytes than any cell may have.
    #[error("value too large for column '{column}' ({bytes} bytes, maximum is {MAX_CELL_SIZE} bytes)")]
    TooLarge {
        /// Name of the column.
        column: String,
        /// How many bytes there are.
        bytes: usize,
    },
    /// More characters than the VARCHAR takes.
    #[error("value too long for column '{column}' ({characters} characters, maximum is {length})")]
    TooLong {
        /// Name of the column.
        column: String,
        /// How many characters there are.
        characters: usize,
        /// Characters that the column takes at most.
        length: u16,
    },
    /// A day before the year 1 or after 9999.
    #[error("value {days} is out of range for DATE column '{column}' ({MIN_DATE} to {MAX_DATE} days)")]
    Date {
        /// Name of the column.
        column: String,
        /// Days since the Unix epoch.
        days: i32,
    },
    /// More digits than the DECIMAL has.
    #[error("unscaled value {unscaled} has more than {precision} digits, the precision of column '{column}'")]
    Decimal {
        /// Name of the column.
        column: String,
        /// The value without its decimal point.
        unscaled: i128,
        /// Digits that the column takes.
        precision: u8,
    },
}

impl BoundsError {
    /// Always false: the value itself is wrong.
    pub const fn is_retriable(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    fn ok(column: &Column, value: Value) -> bool {
        check_bounds(column, Cell::Value(&value.to_raw())).is_ok()
    }

    #[test]
    fn varchar_counts_characters_not_bytes() {
        let column = Column::varchar("v", 3);
        assert!(ok(&column, Value::Varchar("äöü".into())));
        assert!(!ok(&column, Value::Varchar("abcd".into())));
    }

    #[test]
    fn decimals_are_bounded_by_their_precision() {
        assert!(ok(&Column::decimal("d", 5, 2), Value::Decimal32(-99_999)));
        assert!(!ok(&Column::decimal("d", 5, 2), Value::Decimal32(-100_000)));
        assert!(ok(&Column::decimal("d", 38, 0), Value::Decimal128(max_unscaled(38))));
        assert!(!ok(&Column::decimal("d", 38, 0), Value::Decimal128(max_unscaled(38) + 1)));
    }

    #[test]
    fn dates_end_with_the_year_9999() {
        let column = Column::new("d", DataType::Date);
        assert!(ok(&column, Value::Date(MIN_DATE)) && ok(&column, Value::Date(MAX_DATE)));
        assert!(!ok(&column, Value::Date(MIN_DATE - 1)) && !ok(&column, Value::Date(MAX_DATE + 1)));
    }

    #[test]
    fn a_cell_holds_64_kib() {
        let column = Column::new("b", DataType::Binary);
        assert!(ok(&column, Value::from(vec![0; MAX_CELL_SIZE])));
        assert!(!ok(&column, Value::from(vec![0; MAX_CELL_SIZE + 1])));
    }

    #[test]
    fn unset_and_null_pass_and_wrong_widths_do_not() {
        let column = Column::new("a", DataType::Int32);
        assert!(check_bounds(&column, Cell::Null).is_ok() && check_bounds(&column, Cell::Unset).is_ok());
        assert!(matches!(check_bounds(&column, Cell::Value(b"123")), Err(BoundsError::Width { .. })));
    }
}
