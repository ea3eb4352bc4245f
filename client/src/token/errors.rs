//! What can be wrong with a token.

use std::sync::Arc;

use schema::wire::WireError;
use schema::{DataType, PredicateError};
use thiserror::Error;

use crate::error::OpenTableError;

/// A token that cannot be opened.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ScanTokenError {
    /// These are not the bytes of a token.
    #[error("this is no scan token: {source}")]
    Malformed {
        /// What is wrong.
        source: Arc<prost::DecodeError>,
    },
    /// It was made by a newer client and asks for something that this one does not know.
    #[error("the scan token needs feature {feature}, which this client does not have")]
    Feature {
        /// The feature's number.
        feature: i32,
    },
    /// It does not say which table it is for.
    #[error("the scan token names no table")]
    NoTable,
    /// The table cannot be opened.
    #[error("the table of a scan token: {source}")]
    Table {
        /// What happened.
        source: Box<OpenTableError>,
    },
    /// What it says about the table cannot be.
    #[error("the scan token describes table '{table}' wrongly: {source}")]
    Metadata {
        /// The table.
        table: String,
        /// What is wrong.
        source: WireError,
    },
    /// It names a column that the table does not have (any more).
    #[error("the scan token asks for column {column}, which table '{table}' does not have")]
    NoSuchColumn {
        /// The table.
        table: String,
        /// The column's name or number.
        column: String,
    },
    /// A column is another than when the token was made.
    #[error(
        "the scan token takes column '{column}' of table '{table}' for {}{given}, it is {}{expected}",
        nullable(*.given_nullable), nullable(*.expected_nullable)
    )]
    ColumnType {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Its type.
        expected: DataType,
        /// Whether it may be NULL.
        expected_nullable: bool,
        /// Its type in the token.
        given: DataType,
        /// Whether it may be NULL by the token.
        given_nullable: bool,
    },
    /// One of its conditions cannot be.
    #[error("the scan token for table '{table}': {source}")]
    Predicate {
        /// The table.
        table: String,
        /// What is wrong.
        source: PredicateError,
    },
    /// A field holds a number that this client does not know, or one that is missing beside others.
    #[error("the scan token for table '{table}' has no known {field}")]
    Field {
        /// The table.
        table: String,
        /// The field's name.
        field: &'static str,
    },
}

impl ScanTokenError {
    /// Whether opening it again may work.
    pub fn is_retriable(&self) -> bool {
        matches!(self, ScanTokenError::Table { source } if source.is_retriable())
    }

    /// Whether time ran out.
    pub fn is_timeout(&self) -> bool {
        matches!(self, ScanTokenError::Table { source } if source.is_timeout())
    }

    /// Whether the table is gone.
    pub fn is_table_not_found(&self) -> bool {
        matches!(self, ScanTokenError::Table { source } if source.is_table_not_found())
    }
}

fn nullable(nullable: bool) -> &'static str {
    if nullable { "nullable " } else { "not-null " }
}
