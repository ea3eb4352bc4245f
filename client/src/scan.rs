//! Scans: rows on their way from the cluster.

mod batch;
mod errors;
mod fetch;
mod local;
pub(crate) mod memory;
mod task;

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use meta_cache::Selection;
use schema::{PartialRow, Predicate, Schema, Timestamp, Value, key, partition};
use tokio::sync::mpsc;

pub use batch::{Batch, BatchRow, ColumnError, ColumnKey, Fixed, FixedColumn, VarlenColumn};
pub use errors::ScanError;
pub use memory::SharedMemoryError;

use crate::filter::Filter;
use crate::table::Table;

/// Which replica of each tablet a scan reads.
pub type ReplicaSelection = Selection;

/// What state of the table a scan shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadMode {
    /// Whatever the replica has, each tablet at its own moment.
    #[default]
    Latest,
    /// All writes with a timestamp below this one, and no other, in all tablets.
    Snapshot(Timestamp),
    /// As `Snapshot` at the moment of the first answer.
    SnapshotNow,
    /// At least everything that this client has written or seen.
    ReadYourWrites,
}

/// How servers lay out their answers; what comes out of a [`Batch`] is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Column by column, handed out as received.
    #[default]
    Columnar,
    /// Row by row, turned into columns here. For servers before 1.12.
    RowWise,
}

/// The definition of a scan. Made by [`Table::scan`].
#[derive(Clone, Debug)]
#[must_use = "call start()"]
pub struct ScanBuilder {
    table: Table,
    projection: Option<Vec<String>>,
    filters: Vec<Filter>,
    limit: Option<u64>,
    read_mode: ReadMode,
    layout: Layout,
    batch_bytes: Option<u32>,
    selection: ReplicaSelection,
    is_fault_tolerant: bool,
    lower: Option<PartialRow>,
    upper: Option<PartialRow>,
    timeout: Duration,
    keep_alive: Duration,
    cache_blocks: bool,
}

impl ScanBuilder {
    pub(crate) fn new(table: Table) -> ScanBuilder {
        ScanBuilder {
            table,
            projection: None,
            filters: Vec::new(),
            limit: None,
            read_mode: ReadMode::default(),
            layout: Layout::default(),
            batch_bytes: None,
            selection: ReplicaSelection::default(),
            is_fault_tolerant: false,
            lower: None,
            upper: None,
            timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            cache_blocks: true,
        }
    }

    /// The columns to read, in this order; with none only the number of rows comes back. Default: all.
    pub fn project(mut self, columns: &[&str]) -> ScanBuilder {
        self.projection = Some(columns.iter().map(|column| (*column).to_owned()).collect());
        self
    }

    /// Adds a condition; see [`column()`](crate::column()).
    pub fn filter(mut self, filter: Filter) -> ScanBuilder {
        self.filters.push(filter);
        self
    }

    /// How many rows to read at most, over all tablets.
    pub fn limit(mut self, rows: u64) -> ScanBuilder {
        self.limit = Some(rows);
        self
    }

    /// What state of the table to read. Default: [`ReadMode::Latest`].
    pub fn read_mode(mut self, mode: ReadMode) -> ScanBuilder {
        self.read_mode = mode;
        self
    }

    /// How servers lay out their answers. Default: [`Layout::Columnar`].
    pub fn layout(mut self, layout: Layout) -> ScanBuilder {
        self.layout = layout;
        self
    }

    /// How many bytes an answer should have, up to 8 MiB, near enough. Default: the server's (1 MiB).
    pub fn batch_bytes(mut self, bytes: u32) -> ScanBuilder {
        // A server takes 0 for "only open the scanner".
        self.batch_bytes = Some(bytes.max(1));
        self
    }

    /// Which replicas to read. Default: the leaders.
    pub fn selection(mut self, selection: ReplicaSelection) -> ScanBuilder {
        self.selection = selection;
        self
    }

    /// Whether a scan goes on at another replica when one fails half-way. Rows then come in key order within a tablet,
    /// which costs time. Needs a snapshot, so [`ReadMode::Latest`] becomes [`ReadMode::SnapshotNow`]. Default: false.
    pub fn fault_tolerant(mut self, wanted: bool) -> ScanBuilder {
        self.is_fault_tolerant = wanted;
        self
    }

    /// The first primary key to read, inclusive. All key columns must be set.
    pub fn lower_bound(mut self, row: PartialRow) -> ScanBuilder {
        self.lower = Some(row);
        self
    }

    /// The primary key to stop at, exclusive. All key columns must be set.
    pub fn upper_bound(mut self, row: PartialRow) -> ScanBuilder {
        self.upper = Some(row);
        self
    }

    /// How long getting one batch may take, retries included. Default: 30 s.
    pub fn timeout(mut self, timeout: Duration) -> ScanBuilder {
        self.timeout = timeout;
        self
    }

    /// How often to tell the server that the scanner is still wanted while the reader is slow; below the server's limit
    /// of 60 s. Default: 15 s.
    pub fn keep_alive(mut self, interval: Duration) -> ScanBuilder {
        self.keep_alive = interval;
        self
    }

    /// Whether the server should keep the blocks that it reads in its cache. Default: true.
    pub fn cache_blocks(mut self, wanted: bool) -> ScanBuilder {
        self.cache_blocks = wanted;
        self
    }

    /// Starts reading.
    ///
    /// # Errors
    /// [`ScanError`] when the definition does not fit the table.
    ///
    /// # Panics
    /// Outside of a tokio runtime: the scan runs on it.
    pub fn start(self) -> Result<Scan, ScanError> {
        let plan = self.plan()?;
        let projection = plan.projection.clone();
        // One batch waits here while the next is fetched.
        let (sender, batches) = mpsc::channel(1);
        tokio::spawn(task::run(plan, sender));
        Ok(Scan { batches, projection })
    }

    fn plan(self) -> Result<Plan, ScanError> {
        let table_schema = self.table.schema();
        let index_of = |column: &String| {
            table_schema.index_of(column).ok_or_else(|| ScanError::NoSuchColumn { column: column.clone() })
        };
        let indexes: Vec<usize> = match &self.projection {
            Some(columns) => columns.iter().map(index_of).collect::<Result<_, _>>()?,
            None => (0..table_schema.len()).collect(),
        };
        let schema_error = |source| ScanError::Projection { table: self.table.name().to_owned(), source };
        let projection = table_schema.project(&indexes).map_err(schema_error)?;
        let predicates: Vec<Predicate> =
            self.filters.iter().map(|filter| filter.resolve(table_schema)).collect::<Result<_, _>>()?;
        let key = |row: &Option<PartialRow>| match row {
            Some(row) => {
                key::encode_key(table_schema, &row.cells()).map_err(|source| ScanError::Key { source })
            }
            None => Ok(Vec::new()),
        };
        let (lower_key, upper_key) = (key(&self.lower)?, key(&self.upper)?);
        let ranges = partition::prune(
            table_schema,
            self.table.partition_schema(),
            &predicates,
            &lower_key,
            &upper_key,
        );
        let messages = predicates
            .iter()
            .map(|predicate| schema::wire::predicate::predicate_to_pb(predicate, table_schema));
        let predicates =
            messages.collect::<Result<_, _>>().map_err(|source| ScanError::Predicate { source })?;
        let read_mode = match self.read_mode {
            // Servers scan in order on snapshots only; the timestamp sent along makes this one hold the own writes.
            ReadMode::Latest | ReadMode::ReadYourWrites if self.is_fault_tolerant => ReadMode::SnapshotNow,
            mode => mode,
        };
        Ok(Plan {
            table: self.table,
            projection,
            predicates,
            ranges,
            lower_key,
            upper_key,
            limit: self.limit,
            read_mode,
            layout: self.layout,
            batch_bytes: self.batch_bytes,
            selection: self.selection,
            is_fault_tolerant: self.is_fault_tolerant,
            timeout: self.timeout,
            keep_alive: self.keep_alive,
            cache_blocks: self.cache_blocks,
        })
    }
}

/// A scan that fits its table.
struct Plan {
    table: Table,
    projection: Schema,
    predicates: Vec<proto::kudu::ColumnPredicatePb>,
    ranges: Vec<partition::KeyRange>,
    lower_key: Vec<u8>,
    upper_key: Vec<u8>,
    limit: Option<u64>,
    read_mode: ReadMode,
    layout: Layout,
    batch_bytes: Option<u32>,
    selection: ReplicaSelection,
    is_fault_tolerant: bool,
    timeout: Duration,
    keep_alive: Duration,
    cache_blocks: bool,
}

/// A running scan: a [`Stream`] of batches. One more batch is fetched while the reader works on one.
///
/// After an error nothing more comes. Dropped, it closes its scanner at the server as well as it can.
#[derive(Debug)]
pub struct Scan {
    batches: mpsc::Receiver<Result<Batch, ScanError>>,
    projection: Schema,
}

impl Scan {
    /// The columns of its batches.
    pub fn schema(&self) -> &Schema {
        &self.projection
    }

    /// The next batch, `None` at the end. Batches have at least one row. **Cancel safe.**
    ///
    /// # Errors
    /// [`ScanError`]; it is the last item.
    pub async fn next(&mut self) -> Option<Result<Batch, ScanError>> {
        self.batches.recv().await
    }

    pub(crate) fn blocking_next(&mut self) -> Option<Result<Batch, ScanError>> {
        self.batches.blocking_recv()
    }

    /// Reads to the end and counts the rows.
    ///
    /// # Errors
    /// [`ScanError`].
    pub async fn count(mut self) -> Result<u64, ScanError> {
        let mut rows = 0;
        while let Some(batch) = self.next().await {
            rows += batch?.rows() as u64;
        }
        Ok(rows)
    }

    /// Reads to the end and gives every row as values, NULL as `None`. For small results.
    ///
    /// # Errors
    /// [`ScanError`].
    pub async fn collect_rows(mut self) -> Result<Vec<Vec<Option<Value>>>, ScanError> {
        let mut rows = Vec::new();
        while let Some(batch) = self.next().await {
            rows.extend(batch?.iter().map(|row| row.values()));
        }
        Ok(rows)
    }
}

impl Stream for Scan {
    type Item = Result<Batch, ScanError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.poll_recv(context)
    }
}
