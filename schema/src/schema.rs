//! Schemas: the columns of a table, of a projection, or of a client's request.

use std::{collections::HashMap, sync::Arc};

use crate::{Column, DataType, column::ColumnError};

/// The number that a table gives a column for ever; it survives renames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnId(pub u32);

/// An ordered list of columns, the first [`key_columns`](Self::key_columns) of which are the primary key.
///
/// Cheap to clone. A projection is a schema too, often with no key columns.
#[derive(Clone, Debug)]
pub struct Schema(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    columns: Vec<Column>,
    key_columns: usize,
    ids: Option<Vec<ColumnId>>,
    by_name: HashMap<String, usize>,
}

impl Schema {
    /// Checks the columns and builds a schema without column ids.
    pub fn new(columns: Vec<Column>, key_columns: usize) -> Result<Self, SchemaError> {
        if key_columns > columns.len() {
            return Err(SchemaError::KeyColumns { key_columns, columns: columns.len() });
        }
        let mut by_name = HashMap::with_capacity(columns.len());
        let mut auto_incrementing = 0;
        for (index, column) in columns.iter().enumerate() {
            let name = || column.name.clone();
            column.check()?;
            if by_name.insert(column.name.clone(), index).is_some() {
                return Err(SchemaError::DuplicateName { column: name() });
            }
            if index < key_columns {
                if column.nullable {
                    return Err(SchemaError::NullableKey { column: name() });
                }
                if !column.data_type.can_be_key() {
                    return Err(SchemaError::KeyType { column: name(), data_type: column.data_type });
                }
            }
            auto_incrementing += usize::from(column.auto_incrementing);
        }
        if auto_incrementing > 1 {
            return Err(SchemaError::SeveralAutoIncrementing);
        }
        Ok(Self(Arc::new(Inner { columns, key_columns, ids: None, by_name })))
    }

    /// The same columns under these ids, one a column and none twice.
    pub fn with_ids(&self, ids: Vec<ColumnId>) -> Result<Self, SchemaError> {
        let mut seen = std::collections::HashSet::with_capacity(ids.len());
        if ids.len() != self.len() || !ids.iter().all(|id| seen.insert(*id)) {
            return Err(SchemaError::Ids { ids: ids.len(), columns: self.len() });
        }
        let Inner { columns, key_columns, by_name, .. } = &*self.0;
        Ok(Self(Arc::new(Inner {
            columns: columns.clone(),
            key_columns: *key_columns,
            ids: Some(ids),
            by_name: by_name.clone(),
        })))
    }

    /// The same columns numbered from `first`, as a new table has them (Kudu starts at 10).
    pub fn with_sequential_ids(&self, first: u32) -> Self {
        let ids = (0..self.len()).map(|i| ColumnId(first.saturating_add(i as u32))).collect();
        self.with_ids(ids).unwrap_or_else(|_| self.clone())
    }

    /// All columns in order.
    pub fn columns(&self) -> &[Column] {
        &self.0.columns
    }

    /// How many of the first columns are the primary key.
    pub fn key_columns(&self) -> usize {
        self.0.key_columns
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.0.columns.len()
    }

    /// True for the projection of a count.
    pub fn is_empty(&self) -> bool {
        self.0.columns.is_empty()
    }

    /// The column ids, if the schema has any.
    pub fn ids(&self) -> Option<&[ColumnId]> {
        self.0.ids.as_deref()
    }

    /// The id of a column; without ids its index stands in, which keeps their order.
    pub fn id(&self, index: usize) -> ColumnId {
        self.ids().and_then(|ids| ids.get(index).copied()).unwrap_or(ColumnId(index as u32))
    }

    /// One past the highest id: what the next new column gets.
    pub fn next_id(&self) -> ColumnId {
        let highest = (0..self.len()).map(|i| self.id(i).0).max();
        ColumnId(highest.map_or(0, |id| id.saturating_add(1)))
    }

    /// Where the column of this name is; names are case-sensitive.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.0.by_name.get(name).copied()
    }

    /// Where the column of this id is (see [`id`](Self::id)).
    pub fn index_of_id(&self, id: ColumnId) -> Option<usize> {
        match self.ids() {
            Some(ids) => ids.iter().position(|other| *other == id),
            None => usize::try_from(id.0).ok().filter(|index| *index < self.len()),
        }
    }

    /// Whether any column is nullable, which is what decides over the null bitmap on the wire.
    pub fn has_nullable(&self) -> bool {
        self.0.columns.iter().any(|column| column.nullable)
    }

    /// The schema of these columns, in this order, without a key and without ids. Indexes out of range are errors, as
    /// are repeated ones.
    pub fn project(&self, indexes: &[usize]) -> Result<Self, SchemaError> {
        let column = |index: &usize| {
            let missing = SchemaError::NoSuchIndex { index: *index, columns: self.len() };
            self.columns().get(*index).cloned().ok_or(missing)
        };
        Self::new(indexes.iter().map(column).collect::<Result<_, _>>()?, 0)
    }
}

/// Equal columns, key and ids.
impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || self.columns() == other.columns()
                && self.key_columns() == other.key_columns()
                && self.ids() == other.ids()
    }
}

/// A schema that cannot be; the fault of whoever made it, trying again does not help.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A column that cannot be.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// Names are unique within a schema.
    #[error("two columns are named '{column}'")]
    DuplicateName {
        /// Name of the column.
        column: String,
    },
    /// More key columns than columns, or none.
    #[error("{key_columns} key columns, but only {columns} columns")]
    KeyColumns {
        /// How many key columns were asked for.
        key_columns: usize,
        /// How many columns there are.
        columns: usize,
    },
    /// A key column that could be NULL.
    #[error("key column '{column}' must not be nullable")]
    NullableKey {
        /// Name of the column.
        column: String,
    },
    /// A type that has no order for keys.
    #[error("key column may not have type of BOOL, FLOAT, or DOUBLE ('{column}' is {data_type})")]
    KeyType {
        /// Name of the column.
        column: String,
        /// Type of the column.
        data_type: DataType,
    },
    /// A table counts one column up.
    #[error("more than one auto-incrementing column")]
    SeveralAutoIncrementing,
    /// Each column has one id of its own.
    #[error("{ids} column ids for {columns} columns, or one of them twice")]
    Ids {
        /// How many ids there are.
        ids: usize,
        /// How many columns there are.
        columns: usize,
    },
    /// A column that is not there.
    #[error("no column number {index}, there are {columns}")]
    NoSuchIndex {
        /// The index, from 0.
        index: usize,
        /// How many columns there are.
        columns: usize,
    },
}

impl SchemaError {
    /// Always false: the definition itself is wrong.
    pub const fn is_retriable(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(name: &str) -> Column {
        Column::new(name, DataType::Int32)
    }

    #[test]
    fn key_rules_are_checked_with_the_column_named() {
        let error = |columns, keys| Schema::new(columns, keys).map(|_| ()).unwrap_err();
        assert_eq!(error(vec![int("a"), int("a")], 1), SchemaError::DuplicateName { column: "a".into() });
        assert!(matches!(error(vec![int("a").nullable(true)], 1), SchemaError::NullableKey { .. }));
        for data_type in [DataType::Bool, DataType::Float, DataType::Double] {
            assert!(matches!(error(vec![Column::new("a", data_type)], 1), SchemaError::KeyType { .. }));
        }
        assert!(matches!(error(vec![], 1), SchemaError::KeyColumns { .. }));
    }

    #[test]
    fn columns_are_found_by_name_and_by_id() {
        let schema = Schema::new(vec![int("a"), int("b")], 1).unwrap();
        assert_eq!(schema.index_of_id(ColumnId(1)), Some(1));
        assert_eq!(schema.index_of_id(ColumnId(2)), None);
        let schema = schema.with_ids(vec![ColumnId(20), ColumnId(10)]).unwrap();
        assert_eq!((schema.index_of("b"), schema.index_of("B")), (Some(1), None));
        assert_eq!((schema.index_of_id(ColumnId(10)), schema.index_of_id(ColumnId(1))), (Some(1), None));
        assert_eq!(schema.next_id(), ColumnId(21));
        assert!(schema.with_ids(vec![ColumnId(1), ColumnId(1)]).is_err());
    }
}
