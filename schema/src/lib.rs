//! Kudu's columns, keys, partitions, row operations, result blocks and predicates, without any IO.
//!
//! ```
//! use schema::{Column, DataType, PartialRow, Schema, key};
//!
//! let columns = vec![Column::new("id", DataType::Int32), Column::new("name", DataType::String).nullable(true)];
//! let table = Schema::new(columns, 1)?;
//! let mut row = PartialRow::new(&table);
//! row.set("id", 1)?;
//! row.set("name", "ada")?;
//! assert_eq!(key::encode_key(&table, &row.cells())?, [0x80, 0, 0, 1]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it is not: no sockets, threads or clocks (`now` is an argument), no storage, and no protobuf unless the
//! feature `wire` is on, which adds the conversions to and from the messages of the crate `proto`.
//! All bytes that come from a peer are checked before they are believed: decoders return errors and never panic.
#![forbid(unsafe_code)]

pub mod bloom;
pub mod bounds;
pub mod cell;
pub mod column;
pub mod columnar;
pub mod key;
pub mod partition;
pub mod predicate;
pub mod projection;
pub mod row;
pub mod row_block;
pub mod row_ops;
mod schema;
pub mod selection;
pub mod timestamp;
mod value;
#[cfg(feature = "wire")]
pub mod wire;

pub use cell::Cell;
pub use column::{Column, Compression, DataType, Encoding};
pub use columnar::{ColumnBuilder, ColumnData, ColumnSlice, ColumnarBlock};
pub use partition::{HashDimension, Partition, PartitionError, PartitionSchema, RangeWithHash};
pub use predicate::{Predicate, PredicateError};
pub use row::{PartialRow, RowError};
pub use row_ops::{Op, OpKind, Ops, RowFault, RowOpError};
pub use schema::{ColumnId, Schema, SchemaError};
pub use selection::Selection;
pub use timestamp::{HybridClock, Timestamp};
pub use value::Value;
