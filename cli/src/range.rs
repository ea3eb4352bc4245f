//! Range partitions as text: `[2024-01-01, 2024-02-01)`, `(5, ]`, `[(a, 1), (b, 2)) hash id:4`.
//!
//! A square bracket takes the bound in, a round one leaves it out; no value is no bound. With several range columns a bound
//! stands in brackets of its own.

use client::{RangeBound, RangePartition};
use schema::{PartialRow, RowError, Schema};
use thiserror::Error;

use crate::reader::{BadValue, Reader, Unexpected};

/// A text that is no range of the table.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum RangeError {
    /// Something else should be at some place.
    #[error(transparent)]
    Unexpected(#[from] Unexpected),
    /// A text that is no value of the range column.
    #[error(transparent)]
    BadValue(#[from] BadValue),
    /// A value that the range column cannot hold.
    #[error(transparent)]
    OutOfBounds(#[from] RowError),
    /// There is nothing to part.
    #[error("the table has no range partitions")]
    NoRangeColumns,
}

/// The range that the whole text is.
///
/// # Errors
/// [`RangeError`], with the place.
pub fn parse(text: &str, schema: &Schema, columns: &[usize]) -> Result<RangePartition, RangeError> {
    let mut reader = Reader::new(text);
    let range = range(&mut reader, schema, columns)?;
    if reader.is_at_end() { Ok(range) } else { Err(reader.unexpected("hash or the end").into()) }
}

/// A range over these columns of the schema, in their order.
pub(crate) fn range(
    reader: &mut Reader<'_>,
    schema: &Schema,
    columns: &[usize],
) -> Result<RangePartition, RangeError> {
    if columns.is_empty() {
        return Err(RangeError::NoRangeColumns);
    }
    let inclusive = reader.symbol("[");
    if !inclusive && !reader.symbol("(") {
        return Err(reader.unexpected("[ or (").into());
    }
    let lower = match bound(reader, schema, columns)? {
        None => RangeBound::Unbounded,
        Some(row) if inclusive => RangeBound::Inclusive(row),
        Some(row) => RangeBound::Exclusive(row),
    };
    reader.expect(",")?;
    let upper = bound(reader, schema, columns)?;
    let inclusive = reader.symbol("]");
    if !inclusive && !reader.symbol(")") {
        return Err(reader.unexpected("] or )").into());
    }
    let upper = match upper {
        None => RangeBound::Unbounded,
        Some(row) if inclusive => RangeBound::Inclusive(row),
        Some(row) => RangeBound::Exclusive(row),
    };
    let mut range = RangePartition::new(lower, upper);
    while reader.keyword("hash") {
        let (columns, buckets) = hash(reader)?;
        range = range.hash(&columns.iter().map(String::as_str).collect::<Vec<_>>(), buckets);
    }
    Ok(range)
}

/// Columns and buckets of hash partitions: `COLUMN[+COLUMN..]:BUCKETS`, as `id:4`.
///
/// # Errors
/// [`Unexpected`], with the place.
pub fn parse_hash(text: &str) -> Result<(Vec<String>, u32), Unexpected> {
    let mut reader = Reader::new(text);
    let hash = hash(&mut reader)?;
    if reader.is_at_end() { Ok(hash) } else { Err(reader.unexpected("the end")) }
}

fn hash(reader: &mut Reader<'_>) -> Result<(Vec<String>, u32), Unexpected> {
    let mut columns = vec![reader.name("a column")?];
    while reader.symbol("+") {
        columns.push(reader.name("a column")?);
    }
    reader.expect(":")?;
    Ok((columns, reader.number("a number of buckets")?))
}

fn bound(
    reader: &mut Reader<'_>,
    schema: &Schema,
    columns: &[usize],
) -> Result<Option<PartialRow>, RangeError> {
    if reader.rest().starts_with([',', ']', ')']) {
        return Ok(None);
    }
    let bracketed = reader.symbol("(");
    let mut row = PartialRow::new(schema);
    for (place, &index) in columns.iter().enumerate() {
        if place > 0 && !(bracketed && reader.symbol(",")) {
            // What is not said counts as the lowest value.
            break;
        }
        if let Some(column) = schema.columns().get(index) {
            row.set_at(index, reader.value::<RangeError>(column)?)?;
        }
    }
    if bracketed {
        reader.expect(")")?;
    }
    Ok(Some(row))
}

#[cfg(test)]
mod tests {
    use schema::{Column, DataType};

    use super::*;

    fn schema() -> Schema {
        let columns = vec![
            Column::new("id", DataType::Int8),
            Column::new("day", DataType::Date),
            Column::new("who", DataType::String),
        ];
        Schema::new(columns, 3).unwrap()
    }

    fn row(day: i32, who: Option<&str>) -> PartialRow {
        let mut row = PartialRow::new(&schema());
        row.set_at(1, schema::Value::Date(day)).unwrap();
        if let Some(who) = who {
            row.set_at(2, who).unwrap();
        }
        row
    }

    #[test]
    fn brackets_say_which_bounds_belong_to_the_range() {
        let day = |text: &str| parse(text, &schema(), &[1]).unwrap();
        let (first, second) = (row(0, None), row(31, None));
        assert_eq!(day("[1970-01-01, 1970-02-01)"), RangePartition::between(first.clone(), second.clone()));
        assert_eq!(
            day("(1970-01-01,1970-02-01]"),
            RangePartition::new(RangeBound::Exclusive(first.clone()), RangeBound::Inclusive(second))
        );
        let open = RangePartition::new(RangeBound::Inclusive(first), RangeBound::Unbounded);
        assert_eq!(day("[ 1970-01-01 , ]"), open);
        assert_eq!(
            day("[1970-01-01, ) hash id:4 hash who+day:2"),
            open.hash(&["id"], 4).hash(&["who", "day"], 2)
        );
        assert_eq!(day("( , )"), RangePartition::new(RangeBound::Unbounded, RangeBound::Unbounded));
    }

    #[test]
    fn a_bound_of_several_columns_has_brackets_of_its_own() {
        let both = parse("[(1970-01-01, 'a, b'), (1970-02-01))", &schema(), &[1, 2]).unwrap();
        assert_eq!(both, RangePartition::between(row(0, Some("a, b")), row(31, None)));
    }

    #[test]
    fn what_is_no_range_is_named() {
        let told = |text: &str| parse(text, &schema(), &[0]).unwrap_err().to_string();
        assert_eq!(told("5, 6"), "expected [ or ( at \"5,\" (character 1)");
        assert_eq!(told("[5)"), "expected , at \")\" (character 3)");
        assert_eq!(told("[5, 6"), "expected ] or ) at \"\" (character 6)");
        assert_eq!(told("[5, 600)"), "\"600\" is no value of column \"id\", which is INT8");
        assert_eq!(told("[5, 6) hash id"), "expected : at \"\" (character 15)");
        assert_eq!(told("[5, 6) more"), "expected hash or the end at \"more\" (character 8)");
        assert_eq!(parse("[5, 6)", &schema(), &[]), Err(RangeError::NoRangeColumns));
        assert_eq!(parse_hash("a+b:4").unwrap(), (vec!["a".to_owned(), "b".to_owned()], 4));
        for wrong in ["a", "a:", "a:x", "", "a:4 b"] {
            assert!(parse_hash(wrong).is_err(), "{wrong}");
        }
    }
}
