//! What a set of rows says, whatever their order: enough to tell that two ways brought the same.

use std::collections::BTreeMap;
use std::hash::Hasher;

use schema::{DataType, Schema, Value};
use siphasher::sip128::{Hasher128, SipHasher13};
use xtask::report::thousands;
use xtask::rows::{date_text, time_text};

/// Beyond so many different texts a column is no longer counted text by text.
const DISTINCT: usize = 64;
/// How many of the most frequent texts are shown.
const SHOWN: usize = 3;

/// Count, nulls, bounds, sums and a fingerprint of all cells.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) rows: u64,
    /// Sum of the rows' hashes: equal for equal rows in any order.
    fingerprint: u128,
    columns: Vec<ColumnSummary>,
}

#[derive(Clone, Debug, PartialEq)]
struct ColumnSummary {
    name: String,
    data_type: DataType,
    nulls: u64,
    content: Content,
}

#[derive(Clone, Debug, PartialEq)]
enum Content {
    Nothing,
    Whole { min: i128, max: i128, sum: i128 },
    Real { min: f64, max: f64 },
    Ordered { min: Value, max: Value },
    Texts(BTreeMap<String, u64>),
    ManyTexts,
}

impl Summary {
    pub(super) fn new(schema: &Schema) -> Self {
        let column = |column: &schema::Column| ColumnSummary {
            name: column.name.clone(),
            data_type: column.data_type,
            nulls: 0,
            content: Content::Nothing,
        };
        Self { rows: 0, fingerprint: 0, columns: schema.columns().iter().map(column).collect() }
    }

    /// Takes one row in; `values` in the order of the schema.
    pub(super) fn add(&mut self, values: impl Iterator<Item = Option<Value>>) {
        let mut hash = SipHasher13::new();
        for (column, value) in self.columns.iter_mut().zip(values) {
            match value {
                None => {
                    hash.write_u8(0);
                    column.nulls += 1;
                }
                Some(value) => {
                    let raw = value.to_raw();
                    hash.write_u32(raw.len() as u32 + 1);
                    hash.write(&raw);
                    column.content.add(value);
                }
            }
        }
        self.rows += 1;
        self.fingerprint = self.fingerprint.wrapping_add(hash.finish128().as_u128());
    }

    /// One line a column: name, type, nulls, least, greatest, sum or most frequent texts.
    pub(super) fn table(&self) -> Vec<Vec<String>> {
        self.columns
            .iter()
            .map(|column| {
                let (min, max, more) = column.content.texts();
                vec![
                    column.name.clone(),
                    column.data_type.to_string(),
                    thousands(column.nulls),
                    min,
                    max,
                    more,
                ]
            })
            .collect()
    }
}

impl Content {
    fn add(&mut self, value: Value) {
        let whole = match &value {
            Value::Int8(v) => Some(i128::from(*v)),
            Value::Int16(v) => Some(i128::from(*v)),
            Value::Int32(v) => Some(i128::from(*v)),
            Value::Int64(v) => Some(i128::from(*v)),
            _ => None,
        };
        if let Some(v) = whole {
            return self.add_whole(v);
        }
        match value {
            Value::Double(v) => self.add_real(v),
            Value::Float(v) => self.add_real(f64::from(v)),
            Value::String(text) | Value::Varchar(text) => self.add_text(text),
            other => self.add_ordered(other),
        }
    }

    fn add_whole(&mut self, v: i128) {
        match self {
            Self::Whole { min, max, sum } => {
                (*min, *max, *sum) = ((*min).min(v), (*max).max(v), *sum + v);
            }
            _ => *self = Self::Whole { min: v, max: v, sum: v },
        }
    }

    fn add_real(&mut self, v: f64) {
        match self {
            Self::Real { min, max } => (*min, *max) = (min.min(v), max.max(v)),
            _ => *self = Self::Real { min: v, max: v },
        }
    }

    fn add_text(&mut self, text: String) {
        match self {
            Self::ManyTexts => {}
            Self::Texts(counts) => {
                *counts.entry(text).or_default() += 1;
                if counts.len() > DISTINCT {
                    *self = Self::ManyTexts;
                }
            }
            _ => *self = Self::Texts(BTreeMap::from([(text, 1)])),
        }
    }

    /// Booleans, times, dates: whatever is printed with least and greatest only.
    fn add_ordered(&mut self, value: Value) {
        match self {
            Self::Ordered { min, max } => {
                if rank(&value) < rank(min) {
                    *min = value;
                } else if rank(&value) > rank(max) {
                    *max = value;
                }
            }
            _ => *self = Self::Ordered { min: value.clone(), max: value },
        }
    }

    fn texts(&self) -> (String, String, String) {
        match self {
            Self::Nothing => Default::default(),
            Self::Whole { min, max, sum } => (signed(*min), signed(*max), format!("sum {}", signed(*sum))),
            Self::Real { min, max } => (min.to_string(), max.to_string(), String::new()),
            Self::Ordered { min, max } => (shown(min), shown(max), String::new()),
            Self::Texts(counts) => (String::new(), String::new(), most_frequent(counts)),
            Self::ManyTexts => (String::new(), String::new(), format!("over {DISTINCT} different")),
        }
    }
}

/// Where a value stands among those of its type; 0 for types without an order that is shown.
fn rank(value: &Value) -> i64 {
    match value {
        Value::UnixtimeMicros(v) => *v,
        Value::Date(v) => i64::from(*v),
        Value::Bool(v) => i64::from(*v),
        _ => 0,
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::UnixtimeMicros(micros) => time_text(*micros),
        Value::Date(days) => date_text(*days),
        other => other.to_string(),
    }
}

fn most_frequent(counts: &BTreeMap<String, u64>) -> String {
    let mut sorted: Vec<(&String, &u64)> = counts.iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let mut parts: Vec<String> =
        sorted.iter().take(SHOWN).map(|(text, n)| format!("{text} {}", thousands(**n))).collect();
    if counts.len() > SHOWN {
        parts.push(format!("{} others", counts.len() - SHOWN));
    }
    parts.join(", ")
}

fn signed(v: i128) -> String {
    let sign = if v < 0 { "-" } else { "" };
    let digits = u64::try_from(v.unsigned_abs()).map_or_else(|_| v.unsigned_abs().to_string(), thousands);
    format!("{sign}{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::Column;

    fn schema() -> Schema {
        let mut number = Column::new("n", DataType::Int64);
        number.nullable = true;
        Schema::new(vec![Column::new("k", DataType::Int32), number, Column::new("t", DataType::String)], 1)
            .unwrap()
    }

    fn row(k: i32, n: Option<i64>, t: &str) -> Vec<Option<Value>> {
        vec![Some(Value::Int32(k)), n.map(Value::Int64), Some(Value::String(t.into()))]
    }

    #[test]
    fn the_order_of_rows_does_not_matter_but_each_cell_does() {
        let rows = [row(1, Some(-5), "a"), row(2, None, "b"), row(3, Some(1000), "a")];
        let summary = |rows: &[Vec<Option<Value>>]| {
            let mut summary = Summary::new(&schema());
            rows.iter().for_each(|row| summary.add(row.iter().cloned()));
            summary
        };
        let forward = summary(&rows);
        let mut turned = rows.clone();
        turned.reverse();
        assert_eq!(forward, summary(&turned));
        turned[1] = row(2, Some(0), "b");
        assert_ne!(forward, summary(&turned));
        assert_eq!(forward.table()[1], ["n", "INT64", "1", "-5", "1,000", "sum 995"]);
        assert_eq!(forward.table()[2][5], "a 2, b 1");
    }

    #[test]
    fn swapped_cells_of_two_rows_change_the_fingerprint() {
        let mut a = Summary::new(&schema());
        let mut b = Summary::new(&schema());
        for (k, t) in [(1, "x"), (2, "y")] {
            a.add(row(k, None, t).into_iter());
        }
        for (k, t) in [(1, "y"), (2, "x")] {
            b.add(row(k, None, t).into_iter());
        }
        assert_ne!(a, b);
    }
}
