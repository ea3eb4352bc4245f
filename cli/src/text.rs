//! Values as people read and write them.

use bytes::Bytes;
use schema::{Column, DataType, Value};

use crate::rows;

/// The value as text, without quotes: times and dates in ISO 8601, decimals with their point, bytes that are no text in hex.
pub fn show(value: &Value, column: &Column) -> String {
    match value {
        Value::UnixtimeMicros(micros) => rows::time_text(*micros),
        Value::Date(days) => rows::date_text(*days),
        Value::Decimal32(unscaled) => decimal(i128::from(*unscaled), column.scale),
        Value::Decimal64(unscaled) => decimal(i128::from(*unscaled), column.scale),
        Value::Decimal128(unscaled) => decimal(*unscaled, column.scale),
        Value::String(text) | Value::Varchar(text) => text.clone(),
        Value::Binary(bytes) => std::str::from_utf8(bytes).map_or_else(|_| hex(bytes), str::to_owned),
        Value::Int8(number) => number.to_string(),
        Value::Int16(number) => number.to_string(),
        Value::Int32(number) => number.to_string(),
        Value::Int64(number) => number.to_string(),
        Value::Bool(is) => is.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
    }
}

/// The value for a machine: numbers and booleans as such, all else as [`show`] has it; a number JSON has no word for (NaN, the
/// infinities) as text.
pub fn json(value: &Value, column: &Column) -> serde_json::Value {
    match value {
        Value::Int8(number) => (*number).into(),
        Value::Int16(number) => (*number).into(),
        Value::Int32(number) => (*number).into(),
        Value::Int64(number) => (*number).into(),
        Value::Bool(is) => (*is).into(),
        Value::Float(number) if number.is_finite() => (*number).into(),
        Value::Double(number) if number.is_finite() => (*number).into(),
        _ => show(value, column).into(),
    }
}

/// The value that a text stands for in this column; `None` if it stands for none.
pub fn read(text: &str, column: &Column) -> Option<Value> {
    Some(match column.data_type {
        DataType::Int8 => Value::Int8(text.parse().ok()?),
        DataType::Int16 => Value::Int16(text.parse().ok()?),
        DataType::Int32 => Value::Int32(text.parse().ok()?),
        DataType::Int64 => Value::Int64(text.parse().ok()?),
        DataType::Bool | DataType::IsDeleted => Value::Bool(text.to_ascii_lowercase().parse().ok()?),
        DataType::Float => Value::Float(text.parse().ok()?),
        DataType::Double => Value::Double(text.parse().ok()?),
        DataType::String => Value::String(text.to_owned()),
        DataType::Varchar => Value::Varchar(text.to_owned()),
        DataType::Binary => Value::Binary(Bytes::copy_from_slice(text.as_bytes())),
        DataType::UnixtimeMicros => Value::UnixtimeMicros(rows::time(text)?),
        DataType::Date => Value::Date(rows::date(text)?),
        DataType::Decimal32 => Value::Decimal32(unscaled(text, column.scale)?.try_into().ok()?),
        DataType::Decimal64 => Value::Decimal64(unscaled(text, column.scale)?.try_into().ok()?),
        DataType::Decimal128 => Value::Decimal128(unscaled(text, column.scale)?),
    })
}

fn decimal(unscaled: i128, scale: u8) -> String {
    let scale = usize::from(scale);
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if unscaled < 0 { "-" } else { "" };
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// `12.5` in hundredths is 1250; more digits than the scale has are no value of the column.
fn unscaled(text: &str, scale: u8) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let missing = usize::from(scale).checked_sub(fraction.len())?;
    let has_digits = !text.trim_start_matches(['+', '-', '.']).is_empty();
    if !has_digits || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    format!("{whole}{fraction}{}", "0".repeat(missing)).parse().ok()
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_as_the_same_value() {
        let plain = |data_type| Column::new("c", data_type);
        let values = [
            (plain(DataType::Int8), Value::Int8(-128), "-128"),
            (plain(DataType::Bool), Value::Bool(true), "true"),
            (plain(DataType::Double), Value::Double(0.5), "0.5"),
            (plain(DataType::Date), Value::Date(15706), "2013-01-01"),
            (plain(DataType::String), Value::String("a b".into()), "a b"),
            (Column::decimal("c", 9, 2), Value::Decimal32(-5), "-0.05"),
            (Column::decimal("c", 18, 0), Value::Decimal64(70), "70"),
            (Column::decimal("c", 38, 3), Value::Decimal128(12_345), "12.345"),
        ];
        for (column, value, text) in values {
            assert_eq!(show(&value, &column), text);
            assert_eq!(read(text, &column).as_ref(), Some(&value), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_value_of_the_column_are_none() {
        let column = Column::decimal("c", 9, 2);
        for text in ["1.234", "a", "", "1.-2", "99999999999"] {
            assert_eq!(read(text, &column), None, "{text}");
        }
        assert_eq!(read("300", &Column::new("c", DataType::Int8)), None);
        assert_eq!(read("2013-02-30", &Column::new("c", DataType::Date)), None);
    }

    #[test]
    fn numbers_that_json_lacks_are_text() {
        let column = Column::new("c", DataType::Double);
        assert_eq!(json(&Value::Double(f64::NAN), &column), serde_json::json!("NaN"));
        assert_eq!(json(&Value::Double(1.5), &column), serde_json::json!(1.5));
        let bytes = Value::Binary(Bytes::from_static(&[0xff, 0]));
        assert_eq!(json(&bytes, &Column::new("c", DataType::Binary)), serde_json::json!("0xff00"));
    }
}
