//! Errors, one enum an operation.

use schema::timestamp::ClockError;
use schema::{PartitionError, PredicateError, Timestamp};

use crate::log::LogError;
use crate::rowset::RowsetError;

/// A tablet that cannot be opened as it is described.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Tables have column ids; a client's schema has none.
    #[error("the schema of a tablet needs column ids")]
    NoColumnIds,
    /// Rows are found by their key.
    #[error("the schema of a tablet needs a primary key")]
    NoPrimaryKey,
    /// The partitions do not fit the schema.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The flushed rows cannot be read.
    #[error(transparent)]
    Rowset(#[from] RowsetError),
}

impl OpenError {
    /// True if the system refused something that it may allow later; otherwise the description or a file is wrong.
    pub const fn is_retriable(&self) -> bool {
        match self {
            Self::Log(error) => error.is_retriable(),
            Self::Rowset(error) => error.is_retriable(),
            _ => false,
        }
    }
}

/// A batch of which nothing was written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The client's view of the partitions is wrong or old.
    #[error("Row not in tablet partition")]
    RowNotInPartition {
        /// Which operation of the batch, from 0.
        index: u32,
    },
    /// The client's propagated timestamp cannot be believed.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// The table was altered since the operations were decoded: decode them again for the tablet's schema.
    #[error("the operations were decoded for another schema than the tablet's")]
    SchemaChanged,
    /// The tablet has no numbers left for row versions.
    #[error("the tablet holds the most row versions it can (4294967295)")]
    Full,
    /// The log takes no writes (any more): the tablet can be read only until it is opened again. Of a batch that was on its
    /// way to the log all or nothing is there then.
    #[error("the tablet takes no writes: {0}")]
    Log(#[from] LogError),
    /// A row that the batch is about cannot be read. The tablet takes no writes until it is opened again.
    #[error("the tablet takes no writes: {0}")]
    Rowset(#[from] RowsetError),
}

impl WriteError {
    /// True once the tablet was opened again after [`WriteError::Log`] or [`WriteError::Rowset`], or the operations decoded again after
    /// [`WriteError::SchemaChanged`]; otherwise the same batch fails again. (After [`WriteError::RowNotInPartition`], look
    /// the row up anew.)
    pub const fn is_retriable(&self) -> bool {
        matches!(self, Self::Log(_) | Self::Rowset(_) | Self::SchemaChanged)
    }
}

/// A scan that cannot be opened or read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// The caller's fault.
    #[error("no column number {index}, the tablet has {columns}")]
    NoSuchColumn {
        /// The projected index.
        index: usize,
        /// Columns of the tablet.
        columns: usize,
    },
    /// A predicate does not fit its column.
    #[error(transparent)]
    Predicate(#[from] PredicateError),
    /// The snapshot is further ahead than clocks may differ.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// Rows that the snapshot showed have been dropped.
    #[error(
        "Snapshot timestamp is earlier than the ancient history mark: {snapshot}, rows are kept since {oldest}"
    )]
    TooOld {
        /// What was asked for.
        snapshot: Timestamp,
        /// The first snapshot that is whole.
        oldest: Timestamp,
    },
    /// The rows cannot be read.
    #[error(transparent)]
    Rowset(#[from] RowsetError),
}

impl ScanError {
    /// True if the system refused something that it may allow later; otherwise the same scan fails again.
    pub const fn is_retriable(&self) -> bool {
        matches!(self, Self::Rowset(error) if error.is_retriable())
    }
}
