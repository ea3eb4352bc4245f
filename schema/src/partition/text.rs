//! Partitions as Kudu's commands print them.

use super::range::{End, decode_range_key, encode_end, minimum, step_up};
use super::{HashDimension, Partition, PartitionError, PartitionSchema, name, resolve};
use crate::{ColumnId, PartialRow, Schema, Value};

impl PartitionSchema {
    /// The bucket of each hash dimension in which the tablet lies that starts at this partition key.
    pub fn hash_buckets(&self, start: &[u8]) -> Vec<u32> {
        let (buckets, _) = start.as_chunks::<4>();
        // Of a key that stops short the lowest are meant.
        let bucket = |index: usize| buckets.get(index).map_or(0, |bucket| u32::from_be_bytes(*bucket));
        (0..self.hash_dimensions.len()).map(bucket).collect()
    }

    /// A tablet's place as `kudu table list` prints it: `HASH (a) PARTITION 0, RANGE (b) PARTITION "f" <= VALUES < "m"`;
    /// empty for the one tablet of a table that is not partitioned.
    pub fn describe(&self, schema: &Schema, partition: &Partition) -> Result<String, PartitionError> {
        let mut parts = Vec::new();
        let dimensions = self.dimensions_of(partition.range_start());
        for (dimension, bucket) in dimensions.iter().zip(&partition.hash_buckets) {
            let mut columns = dimension.columns.clone();
            columns.sort_unstable();
            parts.push(format!("HASH ({}) PARTITION {bucket}", names(schema, &columns)));
        }
        if !self.range_columns.is_empty() {
            let columns = names(schema, &self.range_columns);
            let (lower, upper) = (partition.range_start(), partition.range_end());
            let values = describe_bounds(schema, &self.range_columns, lower, upper)?;
            parts.push(format!("RANGE ({columns}) PARTITION {values}"));
        }
        Ok(parts.join(", "))
    }

    /// How the range that starts at this range key is hashed.
    fn dimensions_of(&self, range_start: &[u8]) -> &[HashDimension] {
        let own = self.custom_ranges.iter().find(|range| {
            range.lower.as_slice() <= range_start
                && (range.upper.is_empty() || range_start < range.upper.as_slice())
        });
        own.map_or(&self.hash_dimensions, |range| &range.hash_dimensions)
    }
}

/// A range as lists of partitions have it, e.g. `10 <= VALUES < 20`, `VALUES < "m"` or `UNBOUNDED`; several columns stand
/// in parentheses. The bounds are encoded range keys `[lower, upper)`, empty where unbounded.
pub fn describe_bounds(
    schema: &Schema,
    columns: &[ColumnId],
    lower: &[u8],
    upper: &[u8],
) -> Result<String, PartitionError> {
    let text = |key: &[u8]| -> Result<String, PartitionError> {
        Ok(row_text(schema, columns, &decode_range_key(schema, columns, key)?))
    };
    Ok(match (lower.is_empty(), upper.is_empty()) {
        (true, true) => "UNBOUNDED".to_owned(),
        (true, false) => format!("VALUES < {}", text(upper)?),
        (false, true) => format!("{} <= VALUES", text(lower)?),
        (false, false) => format!("{} <= VALUES < {}", text(lower)?, text(upper)?),
    })
}

/// As [`describe_bounds`], but with `VALUE = 5` for a range of one value, as messages of Kudu's masters have it.
pub fn describe_range(
    schema: &Schema,
    columns: &[ColumnId],
    lower: &[u8],
    upper: &[u8],
) -> Result<String, PartitionError> {
    let sources = resolve(columns, schema)?;
    let wanted: Vec<_> = sources.iter().filter_map(|source| schema.columns().get(source.index)).collect();
    if !lower.is_empty() && !upper.is_empty() {
        let low = decode_range_key(schema, columns, lower)?;
        let mut cells: Vec<_> =
            sources.iter().map(|source| low.cell(source.index).value().map(<[u8]>::to_vec)).collect();
        let next = step_up(&wanted, &mut cells).then(|| encode_end(&wanted, cells, false));
        if matches!(next, Some(End::At(key)) if key == upper) {
            return Ok(format!("VALUE = {}", row_text(schema, columns, &low)));
        }
    }
    describe_bounds(schema, columns, lower, upper)
}

fn names(schema: &Schema, columns: &[ColumnId]) -> String {
    let names = columns.iter().filter_map(|id| schema.index_of_id(*id)).map(|index| name(schema, index));
    names.collect::<Vec<_>>().join(", ")
}

fn row_text(schema: &Schema, columns: &[ColumnId], row: &PartialRow) -> String {
    let cell = |id: &ColumnId| {
        let index = schema.index_of_id(*id)?;
        let column = schema.columns().get(index)?;
        let value =
            row.value(index).or_else(|| Value::from_raw(column.data_type, &minimum(column.data_type)))?;
        Some(value_text(&value))
    };
    let values: Vec<_> = columns.iter().filter_map(cell).collect();
    if columns.len() == 1 { values.concat() } else { format!("({})", values.join(", ")) }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Date(days) => date_text((*days).into()),
        Value::UnixtimeMicros(micros) => time_text(*micros),
        // Unscaled, with the width.
        Value::Decimal32(unscaled) => format!("{unscaled}_D32"),
        Value::Decimal64(unscaled) => format!("{unscaled}_D64"),
        Value::Decimal128(unscaled) => format!("{unscaled}_D128"),
        Value::String(text) | Value::Varchar(text) => quoted_text(text),
        Value::Binary(bytes) => quoted_bytes(bytes),
        number => number.to_string(),
    }
}

/// In quotes, with escapes as in C for control characters.
fn quoted_text(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            character if push_short_escape(&mut out, character) => {}
            '\0'..='\x1f' | '\x7f' => out.push_str(&format!("\\{:03o}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

/// In quotes, in hex what is no visible ASCII, and what could be taken for more digits of that.
fn quoted_bytes(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    let mut is_behind_hex = false;
    for byte in bytes {
        let character = char::from(*byte);
        if push_short_escape(&mut out, character) {
            is_behind_hex = false;
            continue;
        }
        is_behind_hex = !matches!(byte, b' '..=b'~') || is_behind_hex && byte.is_ascii_hexdigit();
        if is_behind_hex {
            out.push_str(&format!("\\x{byte:02x}"));
        } else {
            out.push(character);
        }
    }
    out.push('"');
    out
}

fn push_short_escape(out: &mut String, character: char) -> bool {
    let letter = match character {
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '"' | '\'' | '\\' => character,
        _ => return false,
    };
    out.extend(['\\', letter]);
    true
}

fn time_text(micros: i64) -> String {
    let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z", date_text(days))
}

/// Days since 1970-01-01 in the calendar of today, whenever that was.
fn date_text(days: i64) -> String {
    // Years that begin in March have their odd day at the end; 400 of them always have as many days.
    let days = days.saturating_add(719_468);
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leap_days = day / 1460 - day / 36_524 + day / 146_096;
    let year = (day - leap_days) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era.saturating_mul(400).saturating_add(year).saturating_add(next_year);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, DataType};

    #[test]
    fn dates_follow_the_calendar() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (-25_509, "1900-02-28"),
            (-25_508, "1900-03-01"),
            (-719_162, "0001-01-01"),
            (2_932_896, "9999-12-31"),
        ] {
            assert_eq!(date_text(days), text);
        }
        // Day after day without a jump: every day differs from the one before, in order.
        let texts: Vec<_> = (0..2_932_896).step_by(1).map(date_text).collect();
        assert!(texts.is_sorted() && texts.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn values_read_as_in_kudus_lists() {
        assert_eq!(time_text(-1), "1969-12-31T23:59:59.999999Z");
        assert_eq!(value_text(&Value::Decimal128(-5)), "-5_D128");
        assert_eq!(quoted_text("ä\"\n\0 \x7f"), r#""ä\"\n\000 \177""#);
        assert_eq!(quoted_bytes(b"\0a\xffg\tb'"), r#""\x00\x61\xffg\tb\'""#);
    }

    #[test]
    fn a_tablet_is_described_by_its_buckets_and_its_range() {
        let columns = vec![Column::new("a", DataType::Int32), Column::new("b", DataType::String)];
        let schema = Schema::new(columns, 2).unwrap().with_sequential_ids(10);
        let hash = |buckets| vec![HashDimension { columns: vec![ColumnId(10)], buckets, seed: 0 }];
        let partitioning = PartitionSchema {
            hash_dimensions: hash(2),
            range_columns: vec![ColumnId(11)],
            custom_ranges: Vec::new(),
        };
        let describe = |start: &[u8], end: &[u8]| {
            let hash_buckets = partitioning.hash_buckets(start);
            let partition = Partition { hash_buckets, start: start.to_vec(), end: end.to_vec() };
            partitioning.describe(&schema, &partition).unwrap()
        };
        assert_eq!(
            describe(b"\0\0\0\x01f", b"\0\0\0\x01m"),
            r#"HASH (a) PARTITION 1, RANGE (b) PARTITION "f" <= VALUES < "m""#
        );
        assert_eq!(describe(b"", b"\0\0\0\0f"), r#"HASH (a) PARTITION 0, RANGE (b) PARTITION VALUES < "f""#);
        assert_eq!(
            describe(b"\0\0\0\x01m", b"\0\0\0\x02"),
            r#"HASH (a) PARTITION 1, RANGE (b) PARTITION "m" <= VALUES"#
        );
        assert_eq!(
            describe(b"\0\0\0\0", b"\0\0\0\x01"),
            "HASH (a) PARTITION 0, RANGE (b) PARTITION UNBOUNDED"
        );
        let plain = PartitionSchema::default();
        assert_eq!(plain.describe(&schema, &Partition::default()).unwrap(), "");
    }
}
