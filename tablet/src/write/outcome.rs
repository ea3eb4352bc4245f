//! What a write gives back.

use schema::{RowFault, Timestamp};

/// A batch that was written, as far as its rows allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteOutcome {
    /// When it was committed; also if all rows failed.
    pub timestamp: Timestamp,
    /// The rows that failed, in order.
    pub row_errors: Vec<RowError>,
    /// What the others did.
    pub metrics: WriteMetrics,
}

/// A row of a batch that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct RowError {
    /// Which operation of the batch, from 0.
    pub index: u32,
    /// Why.
    pub kind: RowErrorKind,
}

/// Why a row failed: mostly the fault of the row or of what the table holds, so that it fails again.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RowErrorKind {
    /// An insert of a key that lives.
    #[error("key already present")]
    AlreadyPresent,
    /// An update or delete of a key that does not live.
    #[error("key not found")]
    NotFound,
    /// An update of an immutable cell.
    #[error("UPDATE not allowed for immutable column: {column}")]
    Immutable {
        /// The column with its type.
        column: String,
    },
    /// The row itself is wrong.
    #[error(transparent)]
    InvalidArgument(RowFault),
    /// The row itself was wrong, as a client was told before the tablet was opened again.
    #[error("{message}")]
    Remembered {
        /// What the client was told.
        message: String,
    },
    /// The batch would take more memory than one may: its last rows were left out. Send them in a batch of their own.
    #[error("the rows of one batch, with the cells they keep, would take more than {limit} bytes")]
    BatchTooLarge {
        /// In bytes.
        limit: u64,
    },
}

impl From<RowFault> for RowErrorKind {
    fn from(fault: RowFault) -> Self {
        match fault {
            RowFault::Immutable { column } => Self::Immutable { column },
            other => Self::InvalidArgument(other),
        }
    }
}

impl RowErrorKind {
    /// True if the same row may succeed in a smaller batch.
    pub const fn is_retriable(&self) -> bool {
        matches!(self, Self::BatchTooLarge { .. })
    }
}

/// What the operations of a batch did, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteMetrics {
    /// INSERT and INSERT_IGNORE that added a row.
    pub successful_inserts: u64,
    /// INSERT_IGNORE of a key that lives.
    pub insert_ignore_errors: u64,
    /// UPSERT and UPSERT_IGNORE that wrote all they said.
    pub successful_upserts: u64,
    /// UPSERT_IGNORE that passed over immutable cells.
    pub upsert_ignore_errors: u64,
    /// UPDATE and UPDATE_IGNORE that wrote all they said.
    pub successful_updates: u64,
    /// UPDATE_IGNORE of a key that does not live, or that passed over immutable cells.
    pub update_ignore_errors: u64,
    /// DELETE and DELETE_IGNORE that removed a row.
    pub successful_deletes: u64,
    /// DELETE_IGNORE of a key that does not live.
    pub delete_ignore_errors: u64,
}
