//! What can go wrong with writes, and where it is kept.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use net_addr::HostPort;
use schema::PartitionError;
use schema::row_ops::EncodeError;
use thiserror::Error;

use crate::code::StatusCode;
use crate::error::{AttemptError, MasterError, because};
use crate::op::Operation;

/// Why one operation was not written.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The server judged this very row: its key exists, is missing, a value is bad.
    #[error("table '{table}', tablet {tablet} on {host}: {status}: {message}")]
    Row {
        /// The table.
        table: String,
        /// The tablet.
        tablet: String,
        /// The tablet server.
        host: HostPort,
        /// The kind of the status.
        status: StatusCode,
        /// The server's words.
        message: String,
    },
    /// No range partition of the table covers the row.
    #[error("table '{table}' has no range partition for this row")]
    NonCovered {
        /// The table.
        table: String,
    },
    /// The key cannot be encoded; the caller's fault.
    #[error("table '{table}': {source}")]
    Key {
        /// The table.
        table: String,
        /// What is wrong.
        source: PartitionError,
    },
    /// The row cannot be encoded; the caller's fault.
    #[error("table '{table}': {source}")]
    Encode {
        /// The table.
        table: String,
        /// What is wrong.
        source: EncodeError,
    },
    /// The tablet server refused the whole request; nothing of it was written.
    #[error("table '{table}', tablet {tablet}: {source}")]
    Refused {
        /// The table.
        table: String,
        /// The tablet.
        tablet: String,
        /// What happened.
        source: AttemptError,
    },
    /// The master did not say where the row belongs.
    #[error("table '{table}': {source}")]
    Locate {
        /// The table.
        table: String,
        /// What happened.
        source: MasterError,
    },
    /// Time ran out. After a call that was sent the row may have been written.
    #[error("table '{table}', tablet {tablet}: not written within {after:?}{}", because(.last))]
    TimedOut {
        /// The table.
        table: String,
        /// The tablet.
        tablet: String,
        /// The time allowed.
        after: Duration,
        /// Why the last try failed.
        last: Option<Box<AttemptError>>,
    },
    /// The task that wrote it ended early: a bug of this client, or its runtime was shut down.
    #[error("table '{table}': the write was abandoned")]
    Abandoned {
        /// The table.
        table: String,
    },
}

impl WriteError {
    /// The server's status about this row or its request.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            WriteError::Row { status, .. } => Some(*status),
            WriteError::Refused { source: AttemptError::Tablet { refusal, .. }, .. } => Some(refusal.status),
            _ => None,
        }
    }

    /// Whether the key exists already.
    pub fn is_already_present(&self) -> bool {
        matches!(self, WriteError::Row { status: StatusCode::ALREADY_PRESENT, .. })
    }

    /// Whether no row has the key.
    pub fn is_not_found(&self) -> bool {
        matches!(self, WriteError::Row { status: StatusCode::NOT_FOUND, .. })
    }

    /// Whether the same operation may succeed later.
    pub fn is_retriable(&self) -> bool {
        match self {
            WriteError::Locate { source, .. } => source.is_retriable(),
            WriteError::TimedOut { .. } | WriteError::Abandoned { .. } => true,
            _ => false,
        }
    }

    /// Whether time ran out.
    pub fn is_timeout(&self) -> bool {
        match self {
            WriteError::Locate { source, .. } => source.is_timeout(),
            WriteError::TimedOut { .. } => true,
            _ => false,
        }
    }
}

/// An operation that was not written, and why.
#[derive(Clone, Debug)]
pub struct RowFailure {
    operation: Operation,
    error: Arc<WriteError>,
}

impl RowFailure {
    pub(crate) fn new(operation: Operation, error: Arc<WriteError>) -> RowFailure {
        RowFailure { operation, error }
    }

    /// The operation as it was applied.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Takes the operation back, to change it or apply it again.
    pub fn into_operation(self) -> Operation {
        self.operation
    }

    /// Why it failed.
    pub fn error(&self) -> &WriteError {
        &self.error
    }
}

impl fmt::Display for RowFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}: {}", self.operation.kind(), self.error)
    }
}

impl std::error::Error for RowFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.error)
    }
}

/// What [`Session::take_errors`](crate::Session::take_errors) gives.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RowErrors {
    /// The failed operations.
    pub errors: Vec<RowFailure>,
    /// How many more failed, and were not kept because the error buffer was full.
    pub dropped: u64,
}

impl RowErrors {
    /// Whether some failures were not kept.
    pub fn is_overflowed(&self) -> bool {
        self.dropped > 0
    }
}

/// An operation that was not taken. It comes back inside.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// It does not fit the session's buffer, however empty. Make the buffer larger.
    #[error("a row of {bytes} bytes is larger than the session's buffer of {limit} bytes")]
    RowTooLarge {
        /// The operation.
        operation: Box<Operation>,
        /// Its size.
        bytes: usize,
        /// The buffer's size.
        limit: usize,
    },
    /// The buffer is full, and only [`flush`](crate::Session::flush) empties it.
    #[error("no room for a row of {bytes} bytes in the session's buffer of {limit} bytes: flush first")]
    BufferFull {
        /// The operation.
        operation: Box<Operation>,
        /// Its size.
        bytes: usize,
        /// The buffer's size.
        limit: usize,
    },
    /// Not all key columns are set; the caller's fault.
    #[error("table '{}': the key is not set", .operation.table().name())]
    KeyNotSet {
        /// The operation.
        operation: Box<Operation>,
    },
    /// AutoSync mode: it was sent and not written.
    #[error(transparent)]
    Row(Box<RowFailure>),
    /// The session's runtime was shut down.
    #[error("the session's runtime is gone")]
    Stopped {
        /// The operation.
        operation: Box<Operation>,
    },
}

impl ApplyError {
    /// The operation as it was given.
    pub fn into_operation(self) -> Operation {
        match self {
            ApplyError::RowTooLarge { operation, .. }
            | ApplyError::BufferFull { operation, .. }
            | ApplyError::KeyNotSet { operation }
            | ApplyError::Stopped { operation } => *operation,
            ApplyError::Row(failure) => failure.into_operation(),
        }
    }

    /// The row's failure in AutoSync mode.
    pub fn row(&self) -> Option<&WriteError> {
        match self {
            ApplyError::Row(failure) => Some(failure.error()),
            _ => None,
        }
    }

    /// Whether the same operation may be taken later.
    pub fn is_retriable(&self) -> bool {
        match self {
            ApplyError::BufferFull { .. } => true,
            ApplyError::Row(failure) => failure.error().is_retriable(),
            _ => false,
        }
    }

    /// Whether time ran out.
    pub fn is_timeout(&self) -> bool {
        self.row().is_some_and(WriteError::is_timeout)
    }
}

/// A flush after which not everything is written.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum FlushError {
    /// Some operations failed; [`take_errors`](crate::Session::take_errors) gives each.
    #[error("{count} operations failed; the first: {first}")]
    Rows {
        /// How many.
        count: u64,
        /// The first of them.
        first: Box<RowFailure>,
    },
    /// The session's runtime was shut down.
    #[error("the session's runtime is gone")]
    Stopped,
}

impl FlushError {
    /// Whether the first failed operation may succeed later.
    pub fn is_retriable(&self) -> bool {
        matches!(self, FlushError::Rows { first, .. } if first.error().is_retriable())
    }

    /// Whether time ran out for the first failed operation.
    pub fn is_timeout(&self) -> bool {
        matches!(self, FlushError::Rows { first, .. } if first.error().is_timeout())
    }
}

/// Failed operations, up to a number of bytes.
#[derive(Default)]
pub(crate) struct ErrorBuffer {
    kept: RowErrors,
    bytes: usize,
    limit: usize,
}

impl ErrorBuffer {
    pub(crate) fn new(limit: usize) -> ErrorBuffer {
        ErrorBuffer { limit, ..ErrorBuffer::default() }
    }

    /// Keeps a failure if there is room, and the first in any case.
    pub(crate) fn push(&mut self, failure: RowFailure) {
        let bytes = failure.operation.wire_size() + OVERHEAD;
        let has_room = self.bytes.saturating_add(bytes) <= self.limit;
        if self.kept.errors.is_empty() || has_room && self.kept.dropped == 0 {
            self.bytes = self.bytes.saturating_add(bytes);
            self.kept.errors.push(failure);
        } else {
            self.kept.dropped += 1;
        }
    }

    pub(crate) fn first(&self) -> Option<(&RowFailure, u64)> {
        self.kept.errors.first().map(|first| (first, self.count()))
    }

    pub(crate) fn count(&self) -> u64 {
        self.kept.errors.len() as u64 + self.kept.dropped
    }

    pub(crate) fn take(&mut self) -> RowErrors {
        self.bytes = 0;
        std::mem::take(&mut self.kept)
    }
}

/// What a failure takes besides its row, near enough: slots of the row, names and words of the error.
const OVERHEAD: usize = 300;
