//! Conditions as text: `a > 5 and b is not null and c in ('x', 'y') and d between 1 and 9`.
//!
//! Only `and` joins them, and each compares one column with values: that is what tablet servers evaluate. Names with other
//! characters than letters, digits and `_` stand in double quotes, texts and times in single ones, a quote inside is doubled.

use client::{Filter, column};
use schema::{Column, Schema, Value};
use thiserror::Error;

/// A text that is no condition on this table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// Something else should be at this place.
    #[error("expected {expected} at {found:?} (character {at})")]
    #[non_exhaustive]
    Unexpected {
        /// What would have been right.
        expected: &'static str,
        /// What is there; empty at the end.
        found: String,
        /// Where, from 1.
        at: usize,
    },
    /// No such column.
    #[error("no column {name:?}; the table has {known}")]
    #[non_exhaustive]
    NoColumn {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// The text is no value of the column.
    #[error("{text:?} is no value of column {column:?}, which is {data_type}")]
    #[non_exhaustive]
    BadValue {
        /// The column.
        column: String,
        /// Its type.
        data_type: String,
        /// The text.
        text: String,
    },
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
    let mut parser = Parser { text, at: 0, schema };
    let mut filters = vec![parser.comparison()?];
    while !parser.rest().is_empty() {
        if parser.keyword("or") {
            return Err(ConditionError::NotSupported { what: "or" });
        }
        if !parser.keyword("and") {
            return Err(parser.unexpected("and"));
        }
        filters.push(parser.comparison()?);
    }
    Ok(filters)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    schema: &'a Schema,
}

impl<'a> Parser<'a> {
    /// What is left, without blanks before it.
    fn rest(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn unexpected(&mut self, expected: &'static str) -> ConditionError {
        let found = self.rest().split_whitespace().next().unwrap_or_default().to_owned();
        ConditionError::Unexpected { expected, found, at: self.at + 1 }
    }

    /// Takes the symbol if it is next.
    fn symbol(&mut self, symbol: &str) -> bool {
        let is_next = self.rest().starts_with(symbol);
        if is_next {
            self.at += symbol.len();
        }
        is_next
    }

    /// Takes the word if it is next, in any case of letters.
    fn keyword(&mut self, word: &str) -> bool {
        let rest = self.rest();
        let is_next = rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
            && !rest.get(word.len()..).is_some_and(|tail| tail.starts_with(is_name));
        if is_next {
            self.at += word.len();
        }
        is_next
    }

    fn comparison(&mut self) -> Result<Filter, ConditionError> {
        let of = self.column()?;
        let filter = column(of.name.clone());
        if self.keyword("is") {
            let not = self.keyword("not");
            if !self.keyword("null") {
                return Err(self.unexpected("null"));
            }
            return Ok(if not { filter.is_not_null() } else { filter.is_null() });
        }
        if self.keyword("in") {
            return Ok(filter.is_in(self.list(&of)?));
        }
        if self.keyword("between") {
            let from = self.value(&of)?;
            if !self.keyword("and") {
                return Err(self.unexpected("and"));
            }
            return Ok(filter.within(from, self.value(&of)?));
        }
        if self.keyword("not") || self.symbol("!=") || self.symbol("<>") {
            return Err(ConditionError::NotSupported { what: "a negation" });
        }
        // The longer ones first.
        for (symbol, compare) in COMPARISONS {
            if self.symbol(symbol) {
                return Ok(compare(filter, self.value(&of)?));
            }
        }
        Err(self.unexpected("=, <, <=, >, >=, in, between or is"))
    }

    fn column(&mut self) -> Result<Column, ConditionError> {
        let name = match self.quoted('"')? {
            Some(name) => name,
            None => {
                let rest = self.rest();
                let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                let name = rest.get(..end).unwrap_or_default();
                if name.is_empty() {
                    return Err(self.unexpected("a column"));
                }
                self.at += end;
                name.to_owned()
            }
        };
        let known =
            || self.schema.columns().iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
        let index = self.schema.index_of(&name);
        let column = index.and_then(|index| self.schema.columns().get(index)).cloned();
        column.ok_or_else(|| ConditionError::NoColumn { known: known(), name })
    }

    fn list(&mut self, of: &Column) -> Result<Vec<Value>, ConditionError> {
        if !self.symbol("(") {
            return Err(self.unexpected("("));
        }
        let mut values = vec![self.value(of)?];
        while self.symbol(",") {
            values.push(self.value(of)?);
        }
        if !self.symbol(")") {
            return Err(self.unexpected(", or )"));
        }
        Ok(values)
    }

    fn value(&mut self, of: &Column) -> Result<Value, ConditionError> {
        let text = match self.quoted('\'')? {
            Some(text) => text,
            None => {
                let rest = self.rest();
                let end = rest.find(|c: char| !(is_name(c) || "+-.:".contains(c))).unwrap_or(rest.len());
                let text = rest.get(..end).unwrap_or_default();
                if text.is_empty() {
                    return Err(self.unexpected("a value"));
                }
                self.at += end;
                text.to_owned()
            }
        };
        crate::text::read(&text, of).ok_or_else(|| ConditionError::BadValue {
            column: of.name.clone(),
            data_type: of.data_type.to_string(),
            text,
        })
    }

    /// The text between two such quotes, if one is next.
    fn quoted(&mut self, quote: char) -> Result<Option<String>, ConditionError> {
        if !self.rest().starts_with(quote) {
            return Ok(None);
        }
        let mut text = String::new();
        let mut chars = self.rest().char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            if c != quote {
                text.push(c);
            } else if chars.next_if(|(_, next)| *next == quote).is_some() {
                text.push(quote);
            } else {
                self.at += at + 1;
                return Ok(Some(text));
            }
        }
        self.at = self.text.len();
        Err(self.unexpected("the closing quote"))
    }
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

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

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
