//! Columns as text: `id int64, name string null, price decimal(10, 2) null`.

use schema::{Column, DataType, Schema, SchemaError};
use thiserror::Error;

/// A text that defines no table.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// A column without a type, or with words behind it that mean nothing.
    #[error("{0:?}: a column is a name, a type, and `null` if it may be null")]
    Column(String),
    /// No such type.
    #[error(
        "{0:?} is no type: int8, int16, int32, int64, bool, float, double, string, varchar(N), binary, unixtime_micros, date, decimal(PRECISION, SCALE)"
    )]
    Type(String),
    /// The key names a column that is not defined.
    #[error("no column {0:?} for the key")]
    NoKeyColumn(String),
    /// The columns make no table.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// The schema of the columns, those of the key first.
///
/// # Errors
/// [`DefinitionError`], with the column.
pub fn parse(columns: &str, key: &[String]) -> Result<Schema, DefinitionError> {
    let mut defined = split(columns).into_iter().map(column).collect::<Result<Vec<_>, _>>()?;
    for (place, name) in key.iter().enumerate() {
        let at = defined.iter().position(|column| column.name == *name);
        let at = at.filter(|at| *at >= place).ok_or_else(|| DefinitionError::NoKeyColumn(name.clone()))?;
        let column = defined.remove(at);
        defined.insert(place, column);
    }
    Ok(Schema::new(defined, key.len())?)
}

/// At commas that are not inside brackets.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

fn column(text: &str) -> Result<Column, DefinitionError> {
    let wrong = || DefinitionError::Column(text.trim().to_owned());
    let (name, rest) = text.trim().split_once(char::is_whitespace).ok_or_else(wrong)?;
    let rest = rest.trim();
    let end = match rest.find('(') {
        Some(open) if !rest.get(..open).is_some_and(|head| head.trim_end().contains(char::is_whitespace)) => {
            rest.find(')').map(|close| close + 1).ok_or_else(wrong)?
        }
        _ => rest.find(char::is_whitespace).unwrap_or(rest.len()),
    };
    let (data_type, more) = rest.split_at(end);
    let nullable = match more.trim().to_ascii_lowercase().as_str() {
        "" | "not null" => false,
        "null" | "nullable" => true,
        _ => return Err(wrong()),
    };
    Ok(typed(name, data_type)?.nullable(nullable))
}

fn typed(name: &str, text: &str) -> Result<Column, DefinitionError> {
    let wrong = || DefinitionError::Type(text.to_owned());
    let lower = text.to_ascii_lowercase();
    let (word, arguments) =
        lower.split_once('(').map_or((lower.as_str(), None), |(word, rest)| (word, Some(rest)));
    let arguments: Vec<&str> = arguments
        .map(|rest| rest.trim_end_matches(')').split(',').map(str::trim).collect())
        .unwrap_or_default();
    let data_type = match (word.trim(), arguments.as_slice()) {
        ("varchar", [length]) => return Ok(Column::varchar(name, length.parse().map_err(|_| wrong())?)),
        ("decimal", [precision, scale]) => {
            let (precision, scale) = (precision.parse(), scale.parse());
            return Ok(Column::decimal(name, precision.map_err(|_| wrong())?, scale.map_err(|_| wrong())?));
        }
        ("int8", []) => DataType::Int8,
        ("int16", []) => DataType::Int16,
        ("int32", []) => DataType::Int32,
        ("int64", []) => DataType::Int64,
        ("bool", []) => DataType::Bool,
        ("float", []) => DataType::Float,
        ("double", []) => DataType::Double,
        ("string", []) => DataType::String,
        ("binary", []) => DataType::Binary,
        ("unixtime_micros" | "timestamp", []) => DataType::UnixtimeMicros,
        ("date", []) => DataType::Date,
        _ => return Err(wrong()),
    };
    Ok(Column::new(name, data_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_types_and_may_be_null() {
        let text = "name string null, id int64, price DECIMAL(10, 2) nullable, code varchar(3) not null, at timestamp";
        let schema = parse(text, &["id".to_owned(), "code".to_owned()]).unwrap();
        let shown: Vec<_> =
            schema.columns().iter().map(|c| (c.name.as_str(), c.data_type, c.nullable)).collect();
        assert_eq!(
            shown,
            [
                ("id", DataType::Int64, false),
                ("code", DataType::Varchar, false),
                ("name", DataType::String, true),
                ("price", DataType::Decimal64, true),
                ("at", DataType::UnixtimeMicros, false),
            ]
        );
        assert_eq!(schema.key_columns(), 2);
        assert_eq!((schema.columns()[3].precision, schema.columns()[3].scale), (10, 2));
    }

    #[test]
    fn what_is_no_definition_is_named() {
        let key = ["id".to_owned()];
        assert_eq!(parse("id", &key), Err(DefinitionError::Column("id".to_owned())));
        assert_eq!(parse("id number", &key), Err(DefinitionError::Type("number".to_owned())));
        assert_eq!(parse("id int64 maybe", &key), Err(DefinitionError::Column("id int64 maybe".to_owned())));
        assert_eq!(parse("a int64", &key), Err(DefinitionError::NoKeyColumn("id".to_owned())));
        assert!(matches!(parse("id varchar(x)", &key), Err(DefinitionError::Type(_))));
        assert!(matches!(parse("id decimal(5", &key), Err(DefinitionError::Column(_))));
    }
}
