//! One tablet replica: rows in columnar form, many versions of them, batches of writes, and scans of snapshots.
//!
//! What it is not: durable yet (rows live in memory until the tablet is dropped, superseded versions too), replicated,
//! or aware of protobuf and sockets. Auto-incrementing columns are refused for now.
#![forbid(unsafe_code)]

mod error;
mod memory;
mod scan;
mod tablet;
mod write;

pub use error::{OpenError, ScanError, WriteError};
pub use scan::scanner::Scanner;
pub use scan::spec::ScanSpec;
pub use tablet::{Statistics, Tablet, TabletOptions};
pub use write::outcome::{RowError, RowErrorKind, WriteMetrics, WriteOutcome};
