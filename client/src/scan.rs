//! Scans: rows on their way from the cluster.

mod batch;
mod builder;
mod errors;
mod fetch;
mod local;
pub(crate) mod memory;
mod metrics;
pub(crate) mod plan;
mod task;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use meta_cache::Selection;
use schema::{Schema, Timestamp, Value};
use tokio::sync::mpsc;

pub use batch::{Batch, BatchRow, ColumnError, ColumnKey, Fixed, FixedColumn, VarlenColumn};
pub use builder::ScanBuilder;
pub use errors::ScanError;
pub use memory::SharedMemoryError;
pub use metrics::ScanMetrics;

use metrics::Tally;

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

/// A running scan: a [`Stream`] of batches. One more batch is fetched while the reader works on one.
///
/// After an error nothing more comes. Dropped, it closes its scanner at the server as well as it can.
#[derive(Debug)]
pub struct Scan {
    batches: mpsc::Receiver<Result<Batch, ScanError>>,
    projection: Schema,
    query_id: String,
    tally: Arc<Tally>,
}

impl Scan {
    /// The columns of its batches.
    pub fn schema(&self) -> &Schema {
        &self.projection
    }

    /// Under which id servers log it; see [`ScanBuilder::query_id`].
    pub fn query_id(&self) -> &str {
        &self.query_id
    }

    /// What it has cost the servers so far, over all tablets. It may be a batch ahead of the reader.
    pub fn metrics(&self) -> ScanMetrics {
        self.tally.total()
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
    /// [`ScanError`]. Cancelled, the scan is dropped with what was read of it.
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
    /// [`ScanError`]. Cancelled, the scan is dropped with what was read of it.
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
