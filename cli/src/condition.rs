//! Conditions as text: `a > 5 and b is not null and c in ('x', 'y') and d between 1 and 9`.
//!
//! Only `and` joins them, and each compares one column with values: that is what tablet servers evaluate. Names and values are
//! quoted as in [`reader`](crate::reader).

use client::{Filter, column};
use schema::{Column, Schema, Value};
use thiserror::Error;

use crate::reader::{BadValue, Reader, Unexpected};

/// A text that is no condition on this table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// Something else should be at some place.
    #[error(transparent)]
    Unexpected(#[from] Unexpected),
    /// No such column.
    #[error("no column {name:?}; the table has {known}")]
    #[non_exhaustive]
    NoColumn {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// A text that is no value of the column.
    #[error(transparent)]
    BadValue(#[from] BadValue),
    /// Servers cannot evaluate it.
    #[error("{what} cannot be asked of the servers: scan with a wider condition")]
    #[non_exhaustive]
    NotSupported {
        /// What.
        what: &'static str,
    },
}

/// The filters whose conjunction the text is.
///
/// # Errors
/// [`ConditionError`], with the place.
pub fn parse(text: &str, schema: &Schema) -> Result<Vec<Filter>, ConditionError> {
    let mut reader = Reader::new(text);
    let mut filters = vec![comparison(&mut reader, schema)?];
    while !reader.is_at_end() {
        if reader.keyword("or") {
            return Err(ConditionError::NotSupported { what: "or" });
        }
        reader.expect_keyword("and")?;
        filters.push(comparison(&mut reader, schema)?);
    }
    Ok(filters)
}

fn comparison(reader: &mut Reader<'_>, schema: &Schema) -> Result<Filter, ConditionError> {
    let of = named(reader, schema)?;
    let filter = column(of.name.clone());
    if reader.keyword("is") {
        let not = reader.keyword("not");
        reader.expect_keyword("null")?;
        return Ok(if not { filter.is_not_null() } else { filter.is_null() });
    }
    if reader.keyword("in") {
        return Ok(filter.is_in(list(reader, of)?));
    }
    if reader.keyword("between") {
        let from = reader.value::<ConditionError>(of)?;
        reader.expect_keyword("and")?;
        return Ok(filter.within(from, reader.value::<ConditionError>(of)?));
    }
    if reader.keyword("not") || reader.symbol("!=") || reader.symbol("<>") {
        return Err(ConditionError::NotSupported { what: "a negation" });
    }
    // The longer ones first.
    for (symbol, compare) in COMPARISONS {
        if reader.symbol(symbol) {
            return Ok(compare(filter, reader.value::<ConditionError>(of)?));
        }
    }
    Err(reader.unexpected("=, <, <=, >, >=, in, between or is").into())
}

fn named<'s>(reader: &mut Reader<'_>, schema: &'s Schema) -> Result<&'s Column, ConditionError> {
    let name = reader.name("a column")?;
    let known = || schema.columns().iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
    let column = schema.index_of(&name).and_then(|index| schema.columns().get(index));
    column.ok_or_else(|| ConditionError::NoColumn { known: known(), name })
}

fn list(reader: &mut Reader<'_>, of: &Column) -> Result<Vec<Value>, ConditionError> {
    reader.expect("(")?;
    let mut values = vec![reader.value::<ConditionError>(of)?];
    while reader.symbol(",") {
        values.push(reader.value::<ConditionError>(of)?);
    }
    if !reader.symbol(")") {
        return Err(reader.unexpected(", or )").into());
    }
    Ok(values)
}

type Compare = fn(client::FilterColumn, Value) -> Filter;

const COMPARISONS: [(&str, Compare); 6] = [
    ("<=", |filter, value| filter.at_most(value)),
    (">=", |filter, value| filter.at_least(value)),
    ("==", |filter, value| filter.eq(value)),
    ("=", |filter, value| filter.eq(value)),
    ("<", |filter, value| filter.less_than(value)),
    (">", |filter, value| filter.more_than(value)),
];

#[cfg(test)]
mod tests {
    use schema::DataType;

    use super::*;

    fn schema() -> Schema {
        let columns = vec![
            Column::new("a", DataType::Int32),
            Column::new("b", DataType::String).nullable(true),
            Column::new("at day", DataType::Date).nullable(true),
            Column::decimal("price", 9, 2).nullable(true),
        ];
        Schema::new(columns, 1).unwrap()
    }

    fn told(text: &str) -> String {
        parse(text, &schema()).unwrap_err().to_string()
    }

    #[test]
    fn every_comparison_is_one_filter() {
        let text = "a > 5 AND a<=9 and b is not null and b in ('x', 'it''s') and \"at day\" between 2013-01-01 and \
                    '2013-12-31' and price = 1.5 and b is null and a >= -1 and a < 7 and a == 3";
        assert_eq!(parse(text, &schema()).unwrap().len(), 10);
        let filters = parse("a = 5", &schema()).unwrap();
        assert_eq!(format!("{:?}", filters[0]), format!("{:?}", column("a").eq(Value::Int32(5))));
    }

    #[test]
    fn a_mistake_is_named_with_its_place() {
        assert_eq!(told("c = 1"), "no column \"c\"; the table has a, b, at day, price");
        assert_eq!(told("a = x"), "\"x\" is no value of column \"a\", which is INT32");
        assert_eq!(told("a 5"), "expected =, <, <=, >, >=, in, between or is at \"5\" (character 3)");
        assert_eq!(told("a = 5 a = 6"), "expected and at \"a\" (character 7)");
        assert_eq!(told("b = 'x"), "expected the closing quote at \"\" (character 7)");
        assert_eq!(told("a in (1, 2"), "expected , or ) at \"\" (character 11)");
        assert!(told("").starts_with("expected a column"));
        assert!(told("a = 1 or a = 2").starts_with("or cannot be asked"));
        assert!(told("a != 1").starts_with("a negation cannot be asked"));
    }

    #[test]
    fn any_text_is_a_condition_or_an_error() {
        let mut random = 7_u64;
        let words = [
            "a", "b", " ", "'", "\"", "and", "in", "(", ")", "is", "not", "null", "<", "=", "5", "é", ",",
            "between",
        ];
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..8 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text += words[(random >> 33) as usize % words.len()];
            }
            let _ = parse(&text, &schema());
        }
    }
}
