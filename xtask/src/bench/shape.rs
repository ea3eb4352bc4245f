//! The tables that benchmarks fill, and what their cells add up to.

use anyhow::Result;
use schema::{Column, DataType, PartialRow, Schema};

/// What a row of a table is made of. Numbers are the row's own, strings have 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// As `kudu perf loadgen` makes it: INT64 key, INT32, STRING.
    Loadgen,
    /// The same, but the INT32 cells are in no order: a row of many numbers is anywhere.
    Scattered,
    /// Twenty columns: INT64 key, ten INT32, five INT64, four STRING.
    Wide,
}

impl Shape {
    pub(super) fn schema(self) -> Result<Schema> {
        let mut columns = vec![Column::new("key", DataType::Int64)];
        let mut add = |name: String, kind| columns.push(Column::new(name, kind).nullable(true));
        match self {
            Shape::Loadgen | Shape::Scattered => {
                add("int_val".to_owned(), DataType::Int32);
                add("string_val".to_owned(), DataType::String);
            }
            Shape::Wide => {
                (0..10).for_each(|number| add(format!("int_{number}"), DataType::Int32));
                (0..5).for_each(|number| add(format!("long_{number}"), DataType::Int64));
                (0..4).for_each(|number| add(format!("string_{number}"), DataType::String));
            }
        }
        Ok(Schema::new(columns, 1)?)
    }

    /// Sets the cells of row `row` of `rows`.
    pub(super) fn fill(self, row: u64, rows: u64, cells: &mut PartialRow) -> Result<()> {
        for index in 0..cells.schema().len() {
            match cells.schema().columns()[index].data_type {
                DataType::Int64 => cells.set_at(index, row as i64)?,
                DataType::Int32 => cells.set_at(index, self.int(row, rows))?,
                _ => cells.set_at(index, format!("{row:x>width$}", width = STRING_BYTES))?,
            };
        }
        Ok(())
    }

    fn int(self, row: u64, rows: u64) -> i32 {
        match self {
            // A prime that is larger than the number of rows: each number comes once.
            Shape::Scattered => (u128::from(row) * SCATTER % u128::from(rows)) as i32,
            Shape::Loadgen | Shape::Wide => row as i32,
        }
    }

    /// How many of `rows` rows have an INT32 cell below `below`, and what the cells of these columns add up to in them: numbers as
    /// they are, strings by their length.
    pub(super) fn sum(self, kinds: &[DataType], rows: u64, below: Option<u64>) -> (u64, u128) {
        let all = |rows: u64| u128::from(rows) * u128::from(rows.saturating_sub(1)) / 2;
        let Some(below) = below else {
            let column = |kind: &DataType| match kind {
                DataType::Int32 | DataType::Int64 => all(rows),
                _ => u128::from(rows) * STRING_BYTES as u128,
            };
            return (rows, kinds.iter().map(column).sum());
        };
        let found = (0..rows).filter(|row| (self.int(*row, rows) as u64) < below);
        let keys: u128 = found.map(u128::from).sum();
        let column = |kind: &DataType| match kind {
            DataType::Int32 => all(below),
            DataType::Int64 => keys,
            _ => u128::from(below) * STRING_BYTES as u128,
        };
        (below, kinds.iter().map(column).sum())
    }
}

const STRING_BYTES: usize = 32;
const SCATTER: u128 = 2_654_435_761;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_rows() {
        for shape in [Shape::Loadgen, Shape::Scattered, Shape::Wide] {
            let schema = shape.schema().unwrap();
            let kinds: Vec<DataType> = schema.columns().iter().map(|column| column.data_type).collect();
            let rows = 1000;
            for below in [None, Some(10)] {
                let (mut count, mut sum) = (0, 0);
                for row in 0..rows {
                    let mut cells = PartialRow::new(&schema);
                    shape.fill(row, rows, &mut cells).unwrap();
                    let number = |index| match cells.value(index) {
                        Some(schema::Value::Int32(value)) => value as u128,
                        Some(schema::Value::Int64(value)) => value as u128,
                        Some(schema::Value::String(text)) => text.len() as u128,
                        other => panic!("{other:?}"),
                    };
                    if below.is_none_or(|below| number(1) < u128::from(below)) {
                        count += 1;
                        sum += (0..schema.len()).map(number).sum::<u128>();
                    }
                }
                assert_eq!(shape.sum(&kinds, rows, below), (count, sum), "{shape:?} {below:?}");
            }
        }
    }
}
