//! A client for Apache Kudu and Nyala clusters: tables, sessions, scans.
//!
//! ```
//! use client::{Client, column, schema::{Column, DataType, Schema}};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let cluster = mini_cluster::MiniCluster::builder().start().await?;
//! # let masters = cluster.master_address();
//! let client = Client::connect(masters).await?; // "127.0.0.1:7051", or several with commas
//! let columns = vec![Column::new("id", DataType::Int64), Column::new("name", DataType::String).nullable(true)];
//! let table = client.create_table("people", Schema::new(columns, 1)?).hash_partition(&["id"], 4).replicas(1).create().await?;
//! let session = client.session().build();
//! session.apply(table.insert().with("id", 1i64)?.with("name", "Ada")?).await?;
//! let mut scan = table.scan().project(&["name"]).filter(column("id").less_than(10i64)).start()?;
//! while let Some(batch) = scan.next().await {
//!     assert_eq!(batch?.varlen("name")?.text(0), Some("Ada"));
//! }
//! # Ok(()) }
//! ```
//!
//! It runs on tokio, any flavour; [`blocking`] needs no runtime. Tablet servers on the same machine are reached by the unix
//! socket that they advertise. What fails is tried again within the operation's own time, elsewhere if that helps, and a
//! write that is tried twice happens once.
//!
//! Besides: [scan tokens](ScanToken) that the Java and C++ clients open and make, [scans of what changed](ScanBuilder::diff_scan)
//! between two snapshots, [bloom filters](Table::bloom_filter), [partition lists](Table::tablets) and the
//! [placement of rows](Partitioner), and with the feature `arrow` batches as Arrow's record batches, both ways.
//!
//! What it is not (yet): no transactions, no TLS, Kerberos or tokens; it authenticates by SASL PLAIN,
//! which Kudu servers take from trusted networks unless told otherwise.
//!
//! **Cancel safety** is said at each method. **Errors** are an enum an operation, with `is_retriable()` and `is_timeout()`,
//! and name host, tablet and table.
#![forbid(unsafe_code)]

mod alter;
#[cfg(feature = "arrow")]
pub mod arrow;
pub mod blocking;
mod bloom;
mod builder;
mod client;
mod code;
mod connect;
mod create;
mod error;
mod filter;
mod locate;
mod names;
mod op;
mod partitioner;
mod range;
mod requests;
mod retry;
mod scan;
mod session;
mod table;
mod tablet_server;
mod token;

pub use alter::TableAlterer;
pub use bloom::BloomFilterBuilder;
pub use builder::ClientBuilder;
pub use client::{Client, TableInfo, TableStatistics, TabletServerInfo};
pub use code::{MasterCode, Refusal, StatusCode, TabletCode};
pub use create::TableCreator;
pub use error::{AlterTableError, AttemptError, ConnectError, CreateTableError, MasterError, OpenTableError};
pub use filter::{Filter, FilterColumn, column};
pub use meta_cache::StatsSnapshot;
pub use net_addr;
pub use op::Operation;
pub use partitioner::Partitioner;
pub use range::{RangeBound, RangePartition};
pub use scan::{
    Batch, BatchRow, ColumnError, ColumnKey, Fixed, FixedColumn, Layout, ReadMode, ReplicaSelection, Scan,
    ScanBuilder, ScanError, ScanMetrics, SharedMemoryError, VarlenColumn,
};
pub use schema;
pub use session::{
    ApplyError, FlushError, FlushMode, RowErrors, RowFailure, Session, SessionBuilder, WriteError,
};
pub use table::{ReplicaLocation, Table, TabletLocation};
pub use token::{ScanToken, ScanTokenError, TokenBuilder};
