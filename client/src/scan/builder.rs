//! The definition of a scan.

use std::sync::Arc;
use std::time::Duration;

use schema::{PartialRow, Predicate, Timestamp};
use tokio::sync::mpsc;

use super::metrics::Tally;
use super::plan::Part;
use super::{Layout, ReadMode, ReplicaSelection, Scan, ScanError, task};
use crate::filter::Filter;
use crate::table::Table;
use crate::token::TokenBuilder;

/// The definition of a scan. Made by [`Table::scan`], or by [`Client::open_token`](crate::Client::open_token).
#[derive(Clone, Debug)]
#[must_use = "call start()"]
pub struct ScanBuilder {
    pub(super) table: Table,
    pub(super) projection: Projection,
    pub(super) filters: Vec<Filter>,
    /// Those that came with a token.
    pub(super) predicates: Vec<Predicate>,
    pub(super) limit: Option<u64>,
    pub(super) read_mode: ReadMode,
    /// Start and end.
    pub(super) diff: Option<(Timestamp, Timestamp)>,
    pub(super) layout: Layout,
    pub(super) batch_bytes: Option<u32>,
    pub(super) selection: ReplicaSelection,
    pub(super) is_fault_tolerant: bool,
    pub(super) lower: Option<PartialRow>,
    pub(super) upper: Option<PartialRow>,
    pub(super) part: Part,
    pub(super) timeout: Duration,
    pub(super) keep_alive: Duration,
    pub(super) cache_blocks: bool,
    pub(super) query_id: Option<String>,
}

/// The wanted columns.
#[derive(Clone, Debug)]
pub(crate) enum Projection {
    All,
    Names(Vec<String>),
    /// Of the table's schema.
    Indexes(Vec<usize>),
}

impl ScanBuilder {
    pub(crate) fn new(table: Table) -> ScanBuilder {
        ScanBuilder {
            table,
            projection: Projection::All,
            filters: Vec::new(),
            predicates: Vec::new(),
            limit: None,
            read_mode: ReadMode::default(),
            diff: None,
            layout: Layout::default(),
            batch_bytes: None,
            selection: ReplicaSelection::default(),
            is_fault_tolerant: false,
            lower: None,
            upper: None,
            part: Part::default(),
            timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            cache_blocks: true,
            query_id: None,
        }
    }

    /// The table that is read.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The columns to read, in this order; with none only the number of rows comes back. Default: all.
    pub fn project(mut self, columns: &[&str]) -> ScanBuilder {
        self.projection = Projection::Names(columns.iter().map(|column| (*column).to_owned()).collect());
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

    /// Reads what changed from the snapshot `start` to the snapshot `end`, in place of a state of the table: each row that
    /// was written in between once, as it is at `end`, and each row that was there at `start` and is gone at `end` with the
    /// values that it had last. What came and went in between is left out.
    ///
    /// The projection gets one more column behind the others, BOOL cells of type IS_DELETED: whether the row is gone. It is
    /// called `is_deleted`, with as many `_` behind it as make it unlike the table's columns. The scan is on a snapshot and
    /// [`fault_tolerant`](Self::fault_tolerant), whatever else was asked for. Servers keep history for a limited time (7 days
    /// by default) and refuse a `start` before that.
    pub fn diff_scan(mut self, start: Timestamp, end: Timestamp) -> ScanBuilder {
        self.diff = Some((start, end));
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

    /// Under which id servers log the scan, so that it can be found in the logs of all of them. Default: 32 random hex
    /// digits for each [`start`](Self::start); tokens of one scan share one.
    pub fn query_id(mut self, id: impl Into<String>) -> ScanBuilder {
        self.query_id = Some(id.into()).filter(|id| !id.is_empty());
        self
    }

    pub(crate) fn with_columns(mut self, indexes: Vec<usize>) -> ScanBuilder {
        self.projection = Projection::Indexes(indexes);
        self
    }

    pub(crate) fn with_predicates(mut self, predicates: Vec<Predicate>) -> ScanBuilder {
        self.predicates = predicates;
        self
    }

    pub(crate) fn within(mut self, part: Part) -> ScanBuilder {
        self.part = part;
        self
    }

    /// Cuts the scan into [tokens](crate::ScanToken), which other tasks, processes and machines can open, in any language.
    pub fn tokens(self) -> TokenBuilder {
        TokenBuilder::new(self)
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
        let (projection, query_id) = (plan.projection.clone(), plan.query_id.clone());
        let tally = Arc::new(Tally::default());
        // One batch waits here while the next is fetched.
        let (sender, batches) = mpsc::channel(1);
        tokio::spawn(task::run(plan, tally.clone(), sender));
        Ok(Scan { batches, projection, query_id, tally })
    }
}
