//! What can be wrong with operations: with one row, and with a whole request.

use super::OpKind;
use crate::bounds::BoundsError;

/// What is wrong with one row: INVALID_ARGUMENT for the row, [`RowFault::Immutable`] is IMMUTABLE.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RowFault {
    /// A row to be inserted has neither a value nor a default for a NOT NULL column.
    #[error("No value provided for required column: {column}")]
    Missing {
        /// The column with its type.
        column: String,
    },
    /// A key column is unset.
    #[error("no value provided for key column '{column}'")]
    MissingKey {
        /// Name of the column.
        column: String,
    },
    /// NULL for a NOT NULL column.
    #[error("NULL value not allowed for not-null column '{column}'")]
    NullInNotNull {
        /// Name of the column.
        column: String,
    },
    /// A row to be deleted has more than its key.
    #[error("DELETE should not have a value for column '{column}'")]
    DeleteWithValue {
        /// Name of the column.
        column: String,
    },
    /// An update that updates nothing.
    #[error("No fields updated, key is: {key}")]
    NoFieldsUpdated {
        /// The columns of the key, without their values.
        key: String,
    },
    /// An update of a column that may be set by inserts only.
    #[error("UPDATE not allowed for immutable column: {column}")]
    Immutable {
        /// The column with its type.
        column: String,
    },
    /// Whoever inserts has the server number the rows; an upsert names its row.
    #[error("auto-incrementing column should be set for UPSERT/UPSERT_IGNORE operations: '{column}'")]
    AutoIncrementing {
        /// Name of the column.
        column: String,
    },
    /// A value that no cell of its column may have.
    #[error(transparent)]
    Bounds(#[from] BoundsError),
}

/// What fails a whole request (error code MISMATCHED_SCHEMA).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowOpError {
    /// CORRUPTION.
    #[error("row operation {index} is cut off")]
    Cut {
        /// Number of the operation, from 0.
        index: usize,
    },
    /// CORRUPTION.
    #[error("row operation {index}: the cell of column '{column}' leads outside of the indirect data")]
    Indirect {
        /// Number of the operation, from 0.
        index: usize,
        /// Name of the column.
        column: String,
    },
    /// CORRUPTION.
    #[error("row operation {index}: too many cells share their indirect data")]
    Shared {
        /// Number of the operation, from 0.
        index: usize,
    },
    /// NOT_SUPPORTED.
    #[error("row operation {index} has unknown type {number}")]
    UnknownKind {
        /// Number of the operation, from 0.
        index: usize,
        /// Its type on the wire.
        number: u8,
    },
    /// NOT_SUPPORTED.
    #[error("row operation {index}: {kind:?} has no place in this request")]
    WrongKind {
        /// Number of the operation, from 0.
        index: usize,
        /// The kind of operation.
        kind: OpKind,
    },
    /// INVALID_ARGUMENT.
    #[error("{bytes} bytes of row operations, less than 4 GiB are allowed")]
    TooLarge {
        /// How many bytes there are.
        bytes: usize,
    },
}

impl RowOpError {
    /// True if the bytes are damaged (status CORRUPTION).
    pub const fn is_corruption(&self) -> bool {
        matches!(self, Self::Cut { .. } | Self::Indirect { .. } | Self::Shared { .. })
    }

    /// True if the type of an operation is unknown or out of place (status NOT_SUPPORTED).
    pub const fn is_not_supported(&self) -> bool {
        matches!(self, Self::UnknownKind { .. } | Self::WrongKind { .. })
    }

    /// Always false: the same bytes will be as wrong.
    pub const fn is_retriable(&self) -> bool {
        false
    }
}
