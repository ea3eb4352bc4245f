//! One tablet replica: rows in columnar form, many versions of them, batches of writes, and scans of snapshots.
//!
//! ```
//! # use {schema::{row_ops::*, *}, std::sync::Arc, tablet::*};
//! let schema = Schema::new(vec![Column::new("id", DataType::Int32)], 1)?.with_sequential_ids(10);
//! let (id, table) = ("b72a...".to_owned(), "t".to_owned());
//! let (partition_schema, partition) = Default::default();
//! let options = TabletOptions {
//!     id, table_id: table.clone(), table_name: table, schema: schema.clone(), partition_schema, partition, schema_version: 0,
//!     history_max_age_sec: None,
//! };
//! let tablet = Tablet::open(options, Arc::new(HybridClock::default()))?;
//! let decoder = Decoder::new(&schema, &schema)?;
//! let written = tablet.write(&decoder.decode(&[1, 1, 7, 0, 0, 0], &[])?, None, 1_700_000_000_000_000)?;
//! let spec = ScanSpec { projection: vec![0], ..ScanSpec::default() };
//! let block = tablet.scan(spec, 1_700_000_000_000_000)?.next_block(1 << 20)?;
//! assert_eq!((written.metrics.successful_inserts, block.map(|b| b.rows)), (1, Some(1)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A write is a [`schema::Ops`], as `schema`'s decoder makes it: decided op by op against an index of the living keys,
//! then appended as new row versions at one timestamp. Updates and deletes end the version they find. A snapshot at T
//! shows what was written before T and not ended before T; once it was read, no later write gets a timestamp below T.
//!
//! With [`Tablet::open_in`] every write is in a log before it is acknowledged or seen, and what the log holds is there again
//! when the tablet is opened the next time. [`Tablet::flush`] moves rows to files, sorted by key and mapped, so that their
//! memory and log are free; [`Tablet::compact`] merges files and drops rows that no snapshot shows any more. Both run beside
//! readers and writers; [`maintenance::next_work`] says which is due.
//!
//! A table may be altered ([`Tablet::alter`]): columns are known by their ids, and rows from before show the defaults of
//! columns that they lack.
//!
//! Limits: 2^32 - 1 row versions between two flushes. Timestamps and `now_micros` are microseconds since the Unix epoch.
//!
//! What it is not: replicated, or aware of protobuf and sockets. Auto-incrementing columns get their numbers from the caller.
#![forbid(unsafe_code)]

mod alter;
mod answers;
pub mod backend;
mod binary;
mod compact;
mod description;
mod durability;
mod error;
mod file_error;
mod flush;
mod layer;
mod log;
pub mod maintenance;
mod manifest;
mod memory;
mod read;
mod restore;
mod rowset;
mod scan;
pub mod sealed;
mod shape;
mod tablet;
mod write;

pub use alter::{AlterError, Alteration};
pub use durability::Storage;
pub use error::{OpenError, ScanError, WriteError};
pub use file_error::FileError;
pub use flush::MaintenanceError;
pub use log::{EntryError, LogError, LogOptions, Problem, SyncPolicy};
pub use rowset::{BlockCache, RowsetError};
pub use scan::part::ReadBytes;
pub use scan::scanner::Scanner;
pub use scan::spec::ScanSpec;
pub use scan::split::KeyRange;
pub use tablet::{Statistics, Tablet, TabletOptions};
pub use write::outcome::{RowError, RowErrorKind, WriteMetrics, WriteOutcome};
pub use write::request::RequestKey;
