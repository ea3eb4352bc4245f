//! Finds the columns of a client's schema in the table's.

use crate::{Column, DataType, Schema};

/// For each column of a write's schema, its index in the table. Types and nullability must agree, no column may be
/// named that the table lacks, and the key and every not-null column without a write default must be there.
pub fn for_write(client: &Schema, table: &Schema) -> Result<Vec<usize>, ProjectionError> {
    let indexes = client.columns().iter().map(|column| find(column, table)).collect::<Result<Vec<_>, _>>()?;
    for (index, column) in table.columns().iter().enumerate() {
        let required = index < table.key_columns() || (!column.nullable && column.write_default.is_none());
        if required && !column.auto_incrementing && client.index_of(&column.name).is_none() {
            return Err(ProjectionError::Missing { column: column.name.clone() });
        }
    }
    Ok(indexes)
}

/// For each column of a scan's projection, its index in the table, `None` for the virtual IS_DELETED column. Types and
/// nullability must agree.
pub fn for_scan(projection: &Schema, table: &Schema) -> Result<Vec<Option<usize>>, ProjectionError> {
    let is_there =
        |column: &&Column| column.data_type == DataType::IsDeleted || table.index_of(&column.name).is_some();
    let unknown: Vec<&str> = projection
        .columns()
        .iter()
        .filter(|column| !is_there(column))
        .map(|column| column.name.as_str())
        .collect();
    if !unknown.is_empty() {
        return Err(ProjectionError::NotInTable { columns: unknown.join(", ") });
    }
    let one = |column: &Column| match column.data_type {
        DataType::IsDeleted => Ok(None),
        _ => find(column, table).map(Some),
    };
    projection.columns().iter().map(one).collect()
}

fn find(column: &Column, table: &Schema) -> Result<usize, ProjectionError> {
    let name = || column.name.clone();
    let index = table
        .index_of(&column.name)
        .ok_or_else(|| ProjectionError::Unknown { column: column.to_string() })?;
    let here = &table.columns()[index];
    if (column.data_type, column.nullable) != (here.data_type, here.nullable) {
        return Err(ProjectionError::Type {
            column: name(),
            expected: here.data_type,
            expected_nullable: here.nullable,
            given: column.data_type,
            given_nullable: column.nullable,
        });
    }
    Ok(index)
}

/// A client's schema that does not fit the table (MISMATCHED_SCHEMA). The client must open the table again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectionError {
    /// The client writes to a column that the table does not have.
    #[error("Client provided column {column} not present in tablet")]
    Unknown {
        /// The column with its type.
        column: String,
    },
    /// A scan is to give columns that the table does not have.
    #[error("Some columns are not present in the current schema: {columns}")]
    NotInTable {
        /// Their names.
        columns: String,
    },
    /// A column that every row must have is not in the client's schema.
    #[error("the required column '{column}' is missing")]
    Missing {
        /// Name of the column.
        column: String,
    },
    /// The column is of another type, or nullable where the table's is not, or the reverse.
    #[error(
        "column '{column}' is {expected}{}, not {given}{}",
        null(*.expected_nullable), null(*.given_nullable)
    )]
    Type {
        /// Name of the column.
        column: String,
        /// Type in the table.
        expected: DataType,
        /// Whether the table's may be NULL.
        expected_nullable: bool,
        /// Type in the client's schema.
        given: DataType,
        /// Whether the client's may be NULL.
        given_nullable: bool,
    },
}

impl ProjectionError {
    /// Always false: the same schema will not fit later; the table must be opened again.
    pub const fn is_retriable(&self) -> bool {
        false
    }
}

fn null(nullable: bool) -> &'static str {
    if nullable { " NULLABLE" } else { " NOT NULL" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(columns: Vec<Column>) -> Schema {
        Schema::new(columns, 0).unwrap()
    }

    #[test]
    fn a_write_may_leave_out_only_what_can_be_filled_in() {
        let table = Schema::new(
            vec![
                Column::new("k", DataType::Int32),
                Column::new("n", DataType::Int32).nullable(true),
                Column::new("d", DataType::Int32).default_value(1),
                Column::new("r", DataType::Int32),
            ],
            1,
        )
        .unwrap();
        let client = schema(vec![Column::new("r", DataType::Int32), Column::new("k", DataType::Int32)]);
        assert_eq!(for_write(&client, &table), Ok(vec![3, 0]));
        let client = schema(vec![Column::new("k", DataType::Int32)]);
        assert_eq!(for_write(&client, &table), Err(ProjectionError::Missing { column: "r".into() }));
    }

    #[test]
    fn names_types_and_nullability_must_agree() {
        let table = schema(vec![Column::new("k", DataType::Int32)]);
        for (name, data_type, nullable) in
            [("K", DataType::Int32, false), ("k", DataType::Int64, false), ("k", DataType::Int32, true)]
        {
            let column = Column::new(name, data_type).nullable(nullable);
            assert!(for_scan(&schema(vec![column]), &table).is_err());
        }
        let names = ["no", "k", "neither"].map(|name| Column::new(name, DataType::Int32));
        let error = for_scan(&schema(names.into()), &table).unwrap_err();
        assert_eq!(error.to_string(), "Some columns are not present in the current schema: no, neither");
        let deleted = schema(vec![Column::new("is_deleted", DataType::IsDeleted)]);
        assert_eq!(for_scan(&deleted, &table), Ok(vec![None]));
    }
}
