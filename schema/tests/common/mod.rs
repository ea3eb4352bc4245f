//! A table with every type, and rows of it.

use proptest::{option, prelude::*};
use schema::{Column, DataType, PartialRow, Schema, Value};

/// Every type twice, not null and nullable; the first column is the key.
pub(crate) fn every_type() -> Schema {
    let types = [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Bool,
        DataType::Float,
        DataType::Double,
        DataType::String,
        DataType::Binary,
        DataType::UnixtimeMicros,
        DataType::Date,
    ];
    let mut columns: Vec<_> = types.iter().map(|t| Column::new(t.name(), *t)).collect();
    columns.push(Column::varchar("VARCHAR", 100));
    columns.extend([9, 18, 38].map(|precision| Column::decimal(format!("DECIMAL{precision}"), precision, 2)));
    let nullable: Vec<_> = columns
        .iter()
        .map(|column| {
            let column = column.clone().nullable(true);
            Column { name: format!("{} NULLABLE", column.name), ..column }
        })
        .collect();
    columns.extend(nullable);
    Schema::new(columns, 1).unwrap()
}

/// A value that the column takes.
pub(crate) fn value(column: &Column) -> BoxedStrategy<Value> {
    match column.data_type {
        DataType::Int8 => any::<i8>().prop_map(Value::from).boxed(),
        DataType::Int16 => any::<i16>().prop_map(Value::from).boxed(),
        DataType::Int32 => any::<i32>().prop_map(Value::from).boxed(),
        DataType::Int64 => any::<i64>().prop_map(Value::from).boxed(),
        DataType::Bool | DataType::IsDeleted => any::<bool>().prop_map(Value::from).boxed(),
        DataType::Float => proptest::num::f32::ANY.prop_map(Value::from).boxed(),
        DataType::Double => proptest::num::f64::ANY.prop_map(Value::from).boxed(),
        DataType::String => ".{0,12}".prop_map(Value::from).boxed(),
        DataType::Binary => any::<Vec<u8>>().prop_map(Value::from).boxed(),
        DataType::UnixtimeMicros => any::<i64>().prop_map(Value::UnixtimeMicros).boxed(),
        DataType::Date => (-719_162..=2_932_896).prop_map(Value::Date).boxed(),
        DataType::Varchar => ".{0,12}".prop_map(Value::Varchar).boxed(),
        DataType::Decimal32 => (-999..999).prop_map(Value::Decimal32).boxed(),
        DataType::Decimal64 => (-999..999i64).prop_map(Value::Decimal64).boxed(),
        DataType::Decimal128 => any::<i64>().prop_map(|v| Value::Decimal128(v.into())).boxed(),
    }
}

/// A row with every column set, some to NULL.
pub(crate) fn row(schema: &Schema) -> BoxedStrategy<PartialRow> {
    let cells: Vec<_> = schema
        .columns()
        .iter()
        .map(|column| match column.nullable {
            true => option::of(value(column)).boxed(),
            false => value(column).prop_map(Some).boxed(),
        })
        .collect();
    let schema = schema.clone();
    cells
        .prop_map(move |cells| {
            let mut row = PartialRow::new(&schema);
            for (index, cell) in cells.into_iter().enumerate() {
                match cell {
                    Some(value) => row.set_at(index, value).unwrap(),
                    None => row.set_null_at(index).unwrap(),
                };
            }
            row
        })
        .boxed()
}
