//! Conditions on the rows of a scan.

use bytes::Bytes;
use schema::bloom::BlockBloomFilter;
use schema::{Column, DataType, Predicate, Schema, Value};

use crate::scan::ScanError;

/// Starts a condition on a column: `column("price").at_least(10)`.
pub fn column(name: impl Into<String>) -> FilterColumn {
    FilterColumn(name.into())
}

/// A column that a condition is about. Made by [`column()`].
#[derive(Clone, Debug)]
pub struct FilterColumn(String);

/// A condition on one column. All conditions of a scan must hold; NULL meets none but [`FilterColumn::is_null`].
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    column: String,
    condition: Condition,
}

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    Equal(Value),
    AtLeast(Value),
    MoreThan(Value),
    AtMost(Value),
    LessThan(Value),
    Within(Value, Value),
    In(Vec<Value>),
    InBloomFilters(Vec<BlockBloomFilter>),
    Null,
    NotNull,
}

impl FilterColumn {
    /// Equal to the value.
    pub fn eq(self, value: impl Into<Value>) -> Filter {
        self.filter(Condition::Equal(value.into()))
    }

    /// The value or more.
    pub fn at_least(self, value: impl Into<Value>) -> Filter {
        self.filter(Condition::AtLeast(value.into()))
    }

    /// More than the value.
    pub fn more_than(self, value: impl Into<Value>) -> Filter {
        self.filter(Condition::MoreThan(value.into()))
    }

    /// The value or less.
    pub fn at_most(self, value: impl Into<Value>) -> Filter {
        self.filter(Condition::AtMost(value.into()))
    }

    /// Less than the value.
    pub fn less_than(self, value: impl Into<Value>) -> Filter {
        self.filter(Condition::LessThan(value.into()))
    }

    /// At least `from`, and less than `to`.
    pub fn within(self, from: impl Into<Value>, to: impl Into<Value>) -> Filter {
        self.filter(Condition::Within(from.into(), to.into()))
    }

    /// Equal to one of the values, in any order and with repetitions; no row with none.
    pub fn is_in<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Filter {
        self.filter(Condition::In(values.into_iter().map(Into::into).collect()))
    }

    /// Perhaps among the values that each of the filters was made of: no row is lost, a small share of others comes along.
    /// For sets too large for [`is_in`](Self::is_in); see [`Table::bloom_filter`](crate::Table::bloom_filter). Servers from
    /// 1.15 on know it.
    pub fn in_bloom_filters(self, filters: impl IntoIterator<Item = BlockBloomFilter>) -> Filter {
        self.filter(Condition::InBloomFilters(filters.into_iter().collect()))
    }

    /// NULL.
    pub fn is_null(self) -> Filter {
        self.filter(Condition::Null)
    }

    /// Not NULL.
    pub fn is_not_null(self) -> Filter {
        self.filter(Condition::NotNull)
    }

    fn filter(self, condition: Condition) -> Filter {
        Filter { column: self.0, condition }
    }
}

impl Filter {
    /// As the table can answer it. Kudu's ranges include their lower end and leave out the upper one, so the other two
    /// kinds of bound move one step up.
    pub(crate) fn resolve(&self, schema: &Schema) -> Result<Predicate, ScanError> {
        let missing = || ScanError::NoSuchColumn { column: self.column.clone() };
        let index = schema.index_of(&self.column).ok_or_else(missing)?;
        let of = schema.columns().get(index).ok_or_else(missing)?;
        let range = |lower, upper| Predicate::Range { column: index, lower, upper };
        let nothing = Predicate::InList { column: index, values: Vec::new() };
        let anything = Predicate::IsNotNull { column: index };
        Ok(match &self.condition {
            Condition::Equal(value) => Predicate::Equality { column: index, value: raw(of, value)? },
            Condition::AtLeast(value) => range(Some(raw(of, value)?), None),
            Condition::LessThan(value) => range(None, Some(raw(of, value)?)),
            Condition::Within(from, to) => range(Some(raw(of, from)?), Some(raw(of, to)?)),
            Condition::MoreThan(value) => {
                step_up(of.data_type, &raw(of, value)?).map_or(nothing, |lower| range(Some(lower), None))
            }
            Condition::AtMost(value) => {
                step_up(of.data_type, &raw(of, value)?).map_or(anything, |upper| range(None, Some(upper)))
            }
            Condition::In(values) => {
                let values = values.iter().map(|value| raw(of, value)).collect::<Result<_, _>>()?;
                Predicate::InList { column: index, values }
            }
            Condition::InBloomFilters(filters) => {
                let filters = filters.clone();
                Predicate::InBloomFilter { column: index, filters, lower: None, upper: None }
            }
            Condition::Null => Predicate::IsNull { column: index },
            Condition::NotNull => anything,
        })
    }
}

fn raw(column: &Column, value: &Value) -> Result<Bytes, ScanError> {
    let given = value.data_type();
    let cast = value.clone().cast(column.data_type);
    cast.map(|value| value.to_raw()).ok_or_else(|| ScanError::FilterType {
        column: column.name.clone(),
        expected: column.data_type,
        given,
    })
}

/// The next larger cell, `None` behind the largest.
fn step_up(data_type: DataType, raw: &[u8]) -> Option<Bytes> {
    if data_type.is_varlen() {
        return Some([raw, b"\0"].concat().into());
    }
    let next = match Value::from_raw(data_type, raw)? {
        Value::Int8(v) => Value::Int8(v.checked_add(1)?),
        Value::Int16(v) => Value::Int16(v.checked_add(1)?),
        Value::Int32(v) => Value::Int32(v.checked_add(1)?),
        Value::Int64(v) => Value::Int64(v.checked_add(1)?),
        Value::UnixtimeMicros(v) => Value::UnixtimeMicros(v.checked_add(1)?),
        Value::Date(v) => Value::Date(v.checked_add(1)?),
        Value::Decimal32(v) => Value::Decimal32(v.checked_add(1)?),
        Value::Decimal64(v) => Value::Decimal64(v.checked_add(1)?),
        Value::Decimal128(v) => Value::Decimal128(v.checked_add(1)?),
        Value::Bool(v) => (!v).then_some(Value::Bool(true))?,
        Value::Float(v) => (v < f32::INFINITY).then(|| Value::Float(v.next_up()))?,
        Value::Double(v) => (v < f64::INFINITY).then(|| Value::Double(v.next_up()))?,
        Value::String(_) | Value::Varchar(_) | Value::Binary(_) => return None,
    };
    Some(next.to_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Schema {
        let columns = vec![
            Column::new("i", DataType::Int8),
            Column::new("s", DataType::String).nullable(true),
            Column::new("f", DataType::Double),
        ];
        Schema::new(columns, 1).expect("a good schema")
    }

    fn range(filter: Filter) -> (Option<Bytes>, Option<Bytes>) {
        match filter.resolve(&table()).expect("resolves") {
            Predicate::Range { lower, upper, .. } => (lower, upper),
            other => panic!("a range was expected, not {other:?}"),
        }
    }

    #[test]
    fn bounds_of_the_other_kind_move_one_step_up() {
        assert_eq!(range(column("i").more_than(5i8)), (Some(Bytes::from_static(&[6])), None));
        assert_eq!(range(column("i").at_most(5i8)), (None, Some(Bytes::from_static(&[6]))));
        assert_eq!(range(column("s").at_most("ab")), (None, Some(Bytes::from_static(b"ab\0"))));
        let (lower, _) = range(column("f").more_than(1.0f64));
        assert_eq!(lower.as_deref(), Some(&1.0f64.next_up().to_le_bytes()[..]));
    }

    #[test]
    fn nothing_is_more_than_the_largest_and_all_is_at_most_it() {
        let resolve = |filter: Filter| filter.resolve(&table()).expect("resolves");
        assert_eq!(resolve(column("i").more_than(127i8)), Predicate::InList { column: 0, values: vec![] });
        assert_eq!(resolve(column("i").at_most(127i8)), Predicate::IsNotNull { column: 0 });
    }

    #[test]
    fn a_wrong_column_or_type_is_named() {
        let error = |filter: Filter| filter.resolve(&table()).expect_err("wrong").to_string();
        assert!(error(column("x").is_null()).contains("'x'"));
        assert!(error(column("i").eq("text")).contains("'i'"));
    }
}
