//! What can go wrong with scans.

use std::time::Duration;

use net_addr::HostPort;
use rpc_core::CallError;
use schema::columnar::BlockError;
use schema::key::KeyError;
use schema::wire::WireError;
use schema::{DataType, PredicateError, SchemaError};
use thiserror::Error;

use super::memory::SharedMemoryError;
use crate::error::{AttemptError, MasterError, because};

/// A scan that cannot start, or does not come to its end.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ScanError {
    /// The scan names a column that the table does not have; the caller's fault.
    #[error("the table has no column '{column}'")]
    NoSuchColumn {
        /// The column.
        column: String,
    },
    /// The projection cannot be (a column twice); the caller's fault.
    #[error("table '{table}': {source}")]
    Projection {
        /// The table.
        table: String,
        /// What is wrong.
        source: SchemaError,
    },
    /// A condition's value is of another type than its column; the caller's fault.
    #[error("a condition on column '{column}' of type {expected} has a value of type {given}")]
    FilterType {
        /// The column.
        column: String,
        /// Its type.
        expected: DataType,
        /// The value's type.
        given: DataType,
    },
    /// A condition cannot be sent; the caller's fault.
    #[error(transparent)]
    Predicate {
        /// What is wrong.
        source: PredicateError,
    },
    /// A bound's key is not complete; the caller's fault.
    #[error("a bound of the scan: {source}")]
    Key {
        /// What is wrong.
        source: KeyError,
    },
    /// The table cannot be described in a token.
    #[error("table '{table}': {source}")]
    Table {
        /// The table.
        table: String,
        /// What is wrong.
        source: WireError,
    },
    /// The master did not say where the tablets are.
    #[error("table '{table}': {source}")]
    Locate {
        /// The table.
        table: String,
        /// What happened.
        source: Box<MasterError>,
    },
    /// A tablet server refused, or failed after part of a tablet was read. A fault tolerant scan goes on at another
    /// replica in the latter case.
    #[error("table '{table}', tablet {tablet}: {source}")]
    Refused {
        /// The table.
        table: String,
        /// The tablet.
        tablet: String,
        /// What happened.
        source: Box<AttemptError>,
    },
    /// Time ran out for a batch.
    #[error("table '{table}', tablet {tablet}: no batch within {after:?}{}", because(.last))]
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
    /// An answer's rows cannot be read: a bug of the server, or damage on the way.
    #[error("table '{table}', tablet {tablet}: {host} sent rows that cannot be read: {source}")]
    BadRows {
        /// The table.
        table: String,
        /// The tablet.
        tablet: String,
        /// The tablet server.
        host: HostPort,
        /// What is wrong.
        source: Box<BlockError>,
    },
    /// An answer names memory that cannot be read: a bug of the server, or this system allows no more maps.
    #[error("table '{table}', tablet {tablet}: {host} shares rows that cannot be read: {source}")]
    SharedMemory {
        /// The table.
        table: String,
        /// The tablet.
        tablet: String,
        /// The tablet server.
        host: HostPort,
        /// What is wrong.
        source: SharedMemoryError,
    },
}

impl ScanError {
    /// Whether the same scan may work later.
    pub fn is_retriable(&self) -> bool {
        match self {
            ScanError::Locate { source, .. } => source.is_retriable(),
            ScanError::Refused { source, .. } => {
                source.call_error().is_some_and(|error| error.is_retriable() || error.is_timeout())
            }
            ScanError::TimedOut { .. } => true,
            _ => false,
        }
    }

    /// Whether time ran out.
    pub fn is_timeout(&self) -> bool {
        match self {
            ScanError::Locate { source, .. } => source.is_timeout(),
            ScanError::Refused { source, .. } => source.call_error().is_some_and(CallError::is_timeout),
            ScanError::TimedOut { .. } => true,
            _ => false,
        }
    }
}
