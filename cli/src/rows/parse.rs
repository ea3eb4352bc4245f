//! Cells of a CSV file as values.

use schema::{DataType, Value};

/// The value of a cell, if it is one of this type.
pub(super) fn value(cell: &str, data_type: DataType) -> Option<Value> {
    Some(match data_type {
        DataType::Bool => Value::Bool(bool(cell)?),
        DataType::Int32 => Value::Int32(i32::try_from(int(cell)?).ok()?),
        DataType::Int64 => Value::Int64(int(cell)?),
        DataType::Double => Value::Double(double(cell)?),
        DataType::Date => Value::Date(date(cell)?),
        DataType::UnixtimeMicros => Value::UnixtimeMicros(micros(cell)?),
        _ => Value::String(cell.to_owned()),
    })
}

pub(super) fn bool(cell: &str) -> Option<bool> {
    match cell {
        "true" | "TRUE" | "True" => Some(true),
        "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A whole number; one with leading zeros is a code (a postcode, an airport), whose zeros would be lost.
pub(super) fn int(cell: &str) -> Option<i64> {
    let digits = cell.strip_prefix('-').unwrap_or(cell);
    if digits.len() > 1 && digits.starts_with('0') || cell.starts_with('+') {
        return None;
    }
    cell.parse().ok()
}

pub(super) fn double(cell: &str) -> Option<f64> {
    let digits = cell.strip_prefix('-').unwrap_or(cell);
    let leading_zero = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    if leading_zero || !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    cell.parse().ok()
}

/// `YYYY-MM-DD` as days since 1970-01-01, years 0001 to 9999.
pub(super) fn date(cell: &str) -> Option<i32> {
    let bytes = cell.as_bytes();
    if bytes.len() != 10 || bytes.get(4) != Some(&b'-') || bytes.get(7) != Some(&b'-') {
        return None;
    }
    let year = digits(cell.get(0..4)?)?;
    let month = digits(cell.get(5..7)?)?;
    let day = digits(cell.get(8..10)?)?;
    if year == 0 || !(1..=12).contains(&month) || day == 0 || day > days_of_month(year, month) {
        return None;
    }
    Some(days_since_epoch(year, month, day))
}

/// `YYYY-MM-DDTHH:MM:SS[.ffffff][Z]`, a blank in place of `T` too, as microseconds since 1970-01-01 00:00 UTC.
pub(super) fn micros(cell: &str) -> Option<i64> {
    let days = date(cell.get(0..10)?)?;
    let rest = cell.get(10..)?;
    let rest = rest.strip_prefix(['T', ' '])?;
    let rest = rest.strip_suffix('Z').unwrap_or(rest);
    let (clock, fraction) = rest.split_once('.').unwrap_or((rest, "0"));
    let bytes = clock.as_bytes();
    if bytes.len() != 8 || bytes.get(2) != Some(&b':') || bytes.get(5) != Some(&b':') {
        return None;
    }
    let hour = digits(clock.get(0..2)?)?;
    let minute = digits(clock.get(3..5)?)?;
    let second = digits(clock.get(6..8)?)?;
    if hour > 23 || minute > 59 || second > 59 || fraction.is_empty() || fraction.len() > 6 {
        return None;
    }
    let fraction = i64::from(digits(&format!("{fraction:0<6}"))?);
    let seconds = i64::from(days) * 86_400 + i64::from(hour * 3600 + minute * 60 + second);
    Some(seconds * 1_000_000 + fraction)
}

fn digits(text: &str) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

fn days_of_month(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the Gregorian calendar, counted in years that begin with March, so that the leap day is last.
fn days_since_epoch(year: u32, month: u32, day: u32) -> i32 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    days as i32 - 719_469
}

/// The reverse of [`date`].
pub(super) fn date_text(days: i32) -> String {
    let days = i64::from(days) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (year_of_era * 365 + year_of_era / 4 - year_of_era / 100);
    let month = (day_of_year * 5 + 2) / 153;
    let day = day_of_year - (month * 153 + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year_of_era + next)
}

/// The reverse of [`micros`], without a fraction where there is none.
pub(super) fn time_text(micros: i64) -> String {
    let seconds = micros.div_euclid(1_000_000);
    let fraction = micros.rem_euclid(1_000_000);
    let day = i32::try_from(seconds.div_euclid(86_400)).unwrap_or(i32::MAX);
    let second = seconds.rem_euclid(86_400);
    let clock = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:06}") };
    format!("{}T{clock}{fraction}Z", date_text(day))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days_since_1970() {
        assert_eq!(date("1970-01-01"), Some(0));
        assert_eq!(date("1969-12-31"), Some(-1));
        assert_eq!(date("2000-02-29"), Some(11_016));
        assert_eq!(date("0001-01-01"), Some(-719_162));
        assert_eq!(date("9999-12-31"), Some(2_932_896));
        for wrong in ["2013-02-29", "2013-13-01", "2013-00-01", "0000-01-01", "2013-1-1", "+013-01-01"] {
            assert_eq!(date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_microseconds_since_1970() {
        assert_eq!(micros("2013-01-01T10:00:00Z"), Some(1_357_034_400_000_000));
        assert_eq!(micros("2013-01-01 10:00:00"), Some(1_357_034_400_000_000));
        assert_eq!(micros("1970-01-01T00:00:00.5Z"), Some(500_000));
        assert_eq!(micros("1969-12-31T23:59:59.999999Z"), Some(-1));
        for wrong in [
            "2013-01-01",
            "2013-01-01T24:00:00Z",
            "2013-01-01T10:00Z",
            "2013-01-01T10:00:00.Z",
            "é013-01-01T1",
        ] {
            assert_eq!(micros(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn dates_and_times_print_as_they_were_read() {
        for text in ["0001-01-01", "1969-12-31", "1970-01-01", "2000-02-29", "2013-03-01", "9999-12-31"] {
            assert_eq!(date_text(date(text).unwrap()), text);
        }
        for text in ["2013-01-01T10:00:00Z", "1969-12-31T23:59:59.999999Z", "2024-02-29T00:00:00.000001Z"] {
            assert_eq!(time_text(micros(text).unwrap()), text);
        }
    }

    #[test]
    fn numbers_are_plain_decimals() {
        assert_eq!(int("-5"), Some(-5));
        assert_eq!(int("+5"), None);
        assert_eq!(int("9223372036854775808"), None);
        assert_eq!(double("-0.5"), Some(-0.5));
        assert_eq!(double("1e3"), Some(1000.0));
        for wrong in ["nan", "inf", "infinity", "007", "-", ""] {
            assert_eq!(double(wrong), None, "{wrong}");
        }
    }
}
