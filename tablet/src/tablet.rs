//! The tablet: its description, writes, scans and figures.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use foldhash::quality::RandomState;
use parking_lot::{Mutex, RwLock};
use schema::partition::Partitioner;
use schema::{Cell, HybridClock, Ops, Partition, PartitionSchema, Schema, Timestamp};

use crate::durability::{Durability, Storage};
use crate::memory::column::Layout;
use crate::memory::index::{KeyIndex, RowId};
use crate::memory::rows::{Rows, Source};
use crate::scan::filter::Filter;
use crate::scan::scanner::Scanner;
use crate::write::outcome::WriteOutcome;
use crate::write::plan::{Plan, plan};
use crate::write::request::RequestKey;
use crate::write::summary::Summary;
use crate::{OpenError, ScanError, ScanSpec, WriteError};

/// What a tablet is.
#[derive(Clone, Debug)]
pub struct TabletOptions {
    /// 32 hex characters in a cluster; any text here.
    pub id: String,
    /// The table it belongs to.
    pub table_id: String,
    /// For messages.
    pub table_name: String,
    /// With column ids.
    pub schema: Schema,
    /// How the table is cut into tablets.
    pub partition_schema: PartitionSchema,
    /// Which of its rows are here.
    pub partition: Partition,
    /// Raised by each alteration of the table.
    pub schema_version: u32,
}

/// Figures of a tablet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Rows that a scan of the newest snapshot shows.
    pub live_rows: u64,
    /// Bytes of rows and of the key index in memory, superseded row versions included.
    pub memory_bytes: u64,
    /// Bytes in files.
    pub on_disk_bytes: u64,
}

/// What [`Tablet::statistics`] tells without a lock: who reports must not wait for a large write.
#[derive(Debug, Default)]
struct Figures {
    live_rows: AtomicU64,
    row_bytes: AtomicUsize,
    index_bytes: AtomicUsize,
}

/// One replica of one tablet, shared by threads.
///
/// Writes follow each other; scans read a snapshot and wait for writers only while one appends a decided batch.
#[derive(Debug)]
pub struct Tablet {
    options: TabletOptions,
    layouts: Arc<[Layout]>,
    clock: Arc<HybridClock>,
    partitioner: Partitioner,
    hasher: RandomState,
    /// Held while a batch is decided and appended.
    index: Mutex<KeyIndex>,
    rows: RwLock<Rows>,
    figures: Figures,
    /// `None` for a tablet that lives in memory only.
    pub(crate) durability: Option<Durability>,
}

impl Tablet {
    /// Opens an empty tablet that lives in memory only. Timestamps come from `clock`, which the tablets of a server share.
    ///
    /// # Errors
    /// The description is wrong: no column ids, no key, an auto-incrementing column, or impossible partitions.
    pub fn open(options: TabletOptions, clock: Arc<HybridClock>) -> Result<Self, OpenError> {
        let schema = &options.schema;
        if schema.ids().is_none() {
            return Err(OpenError::NoColumnIds);
        }
        if schema.key_columns() == 0 {
            return Err(OpenError::NoPrimaryKey);
        }
        if let Some(column) = schema.columns().iter().find(|column| column.auto_incrementing) {
            return Err(OpenError::AutoIncrementing { column: column.name.clone() });
        }
        let partitioner = options.partition_schema.partitioner(schema)?;
        let layouts: Arc<[Layout]> = schema.columns().iter().map(Layout::of).collect();
        Ok(Self {
            rows: RwLock::new(Rows::new(Arc::clone(&layouts))),
            layouts,
            clock,
            partitioner,
            hasher: RandomState::default(),
            index: Mutex::new(KeyIndex::new()),
            options,
            figures: Figures::default(),
            durability: None,
        })
    }

    /// Opens the tablet whose log is in `storage`, with all that the log holds; an empty folder is an empty tablet. Blocks
    /// while it reads. `seen` is told of each write of a client that named its calls, in order.
    ///
    /// # Errors
    /// As [`Tablet::open`], or a log that is corrupt or cannot be read.
    pub fn open_in(
        storage: Storage,
        options: TabletOptions,
        clock: Arc<HybridClock>,
        seen: &mut dyn FnMut(RequestKey<'_>, WriteOutcome),
    ) -> Result<Self, OpenError> {
        let mut tablet = Self::open(options, clock)?;
        tablet.durability = Some(Durability::recover(&storage, &tablet, seen)?);
        Ok(tablet)
    }

    /// Writes a batch in order. Rows fail alone; an error means that nothing was written. Blocks until the log has it.
    ///
    /// `propagated` is the newest timestamp the writer has seen: the batch gets a later one. `now_micros` is the
    /// physical time since the Unix epoch.
    ///
    /// # Errors
    /// A row of another partition, a propagated timestamp too far ahead, a tablet that is full, or a log that takes no more.
    pub fn write(
        &self,
        ops: &Ops<'_>,
        propagated: Option<Timestamp>,
        now_micros: u64,
    ) -> Result<WriteOutcome, WriteError> {
        self.write_for(None, ops, propagated, now_micros)
    }

    /// As [`Tablet::write`], and notes in the log which call it was.
    ///
    /// # Errors
    /// As [`Tablet::write`].
    pub fn write_for(
        &self,
        request: Option<RequestKey<'_>>,
        ops: &Ops<'_>,
        propagated: Option<Timestamp>,
        now_micros: u64,
    ) -> Result<WriteOutcome, WriteError> {
        if let Some(seen) = propagated {
            self.clock.update(seen, now_micros)?;
        }
        let summaries = self.summaries(ops, true)?;
        let mut staged = match &self.durability {
            Some(durability) if !ops.is_empty() => Some(durability.stage(ops, request)),
            _ => None,
        };
        let mut index = self.index.lock();
        if let Some(staged) = &staged {
            staged.check()?;
        }
        let plan = self.plan(&mut index, ops, summaries)?;
        let mut rows = self.rows.write();
        // Under the lock: who reads at a snapshot after this timestamp sees the batch.
        let timestamp = self.clock.now(now_micros);
        if let Some(staged) = &mut staged {
            staged.append(timestamp, plan.errors.len())?;
        }
        self.publish(&mut rows, &index, ops, &plan, timestamp);
        drop((rows, index));
        if let Some(staged) = staged {
            staged.commit()?;
        }
        Ok(WriteOutcome { timestamp, row_errors: plan.errors, metrics: plan.metrics })
    }

    /// Does again what was done at `timestamp`, before the tablet is in use.
    pub(crate) fn replay(&self, ops: &Ops<'_>, timestamp: Timestamp) -> Result<WriteOutcome, WriteError> {
        let summaries = self.summaries(ops, false)?;
        let mut index = self.index.lock();
        let plan = self.plan(&mut index, ops, summaries)?;
        // Its own time is never too far ahead of it.
        self.clock.update(timestamp, timestamp.physical_micros())?;
        self.publish(&mut self.rows.write(), &index, ops, &plan, timestamp);
        Ok(WriteOutcome { timestamp, row_errors: plan.errors, metrics: plan.metrics })
    }

    /// Opens a scan of one snapshot. `now_micros` is the physical time since the Unix epoch.
    ///
    /// # Errors
    /// A column that is not there, a predicate that does not fit its column, or a snapshot too far ahead.
    pub fn scan(&self, spec: ScanSpec, now_micros: u64) -> Result<Scanner, ScanError> {
        let schema = &self.options.schema;
        if let Some(&index) = spec.projection.iter().find(|&&index| index >= schema.len()) {
            return Err(ScanError::NoSuchColumn { index, columns: schema.len() });
        }
        let mut filter = Filter::new(schema, &spec)?;
        let mut needed = vec![false; schema.len()];
        needed[..schema.key_columns()].fill(true);
        spec.projection.iter().copied().chain(filter.columns()).for_each(|column| needed[column] = true);

        if let Some(at) = spec.snapshot {
            // Under the lock: a batch that is appended later gets a later timestamp.
            let rows = self.rows.read();
            self.clock.update(Timestamp(at.0.saturating_sub(1)), now_micros)?;
            let appended = Timestamp(rows.last_commit.min(at.0.saturating_sub(1)));
            drop(rows);
            if let Some(durability) = &self.durability {
                durability.wait_for(appended);
            }
        }
        let view = {
            let rows = self.rows_for_reading();
            let wanted = spec.snapshot.map_or(rows.last_commit + 1, |at| at.0);
            // What the log does not have yet may never be acknowledged.
            let logged = self.durability.as_ref().map_or(u64::MAX, Durability::logged_before);
            let snapshot = wanted.min(logged);
            filter.snapshot = snapshot;
            rows.view(snapshot, |column| needed[column])
        };
        let (schema, layouts) = (schema.clone(), Arc::clone(&self.layouts));
        Ok(Scanner::new(schema, layouts, spec.projection, view, filter, spec.limit, spec.ordered))
    }

    /// Moves rows out of the part of the memory that grows. Once tablets have files, this writes one.
    ///
    /// # Errors
    /// None for now.
    pub fn flush(&self) -> std::io::Result<()> {
        self.seal(&mut self.rows.write());
        Ok(())
    }

    /// Figures of this moment. Waits for nobody: during a write they are those of before.
    pub fn statistics(&self) -> Statistics {
        let Figures { live_rows, row_bytes, index_bytes } = &self.figures;
        let memory_bytes = row_bytes.load(Ordering::Relaxed) + index_bytes.load(Ordering::Relaxed);
        Statistics {
            live_rows: live_rows.load(Ordering::Relaxed),
            memory_bytes: memory_bytes as u64,
            on_disk_bytes: self.durability.as_ref().map_or(0, Durability::bytes),
        }
    }

    /// The description the tablet was opened with.
    pub fn options(&self) -> &TabletOptions {
        &self.options
    }

    /// The tablet's columns.
    pub fn schema(&self) -> &Schema {
        &self.options.schema
    }

    /// Which rows are here.
    pub fn partition(&self) -> &Partition {
        &self.options.partition
    }

    fn plan(&self, index: &mut KeyIndex, ops: &Ops<'_>, summaries: Vec<Summary>) -> Result<Plan, WriteError> {
        let rows = self.rows.read();
        if (RowId::MAX - rows.next_row()) as usize <= ops.len() {
            return Err(WriteError::Full);
        }
        Ok(plan(&self.options.schema, &rows, index, ops, summaries))
    }

    /// Reads all operations once and, if wanted, checks that their rows belong here.
    fn summaries(&self, ops: &Ops<'_>, check: bool) -> Result<Vec<Summary>, WriteError> {
        let schema = &self.options.schema;
        let mut cursor = ops.cursor();
        let mut summaries = Vec::with_capacity(ops.len());
        let mut key = Vec::new();
        while let Some(op) = cursor.next_op() {
            let summary = Summary::of(schema, &op, |key| self.hash(key));
            if check && summary.error.is_none() && !self.is_here(op.cells, &mut key) {
                return Err(WriteError::RowNotInPartition { index: summaries.len() as u32 });
            }
            summaries.push(summary);
        }
        Ok(summaries)
    }

    fn hash(&self, key: &[Cell<'_>]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        for cell in key.iter().filter_map(|cell| cell.value()) {
            hasher.write(cell);
            hasher.write_usize(cell.len());
        }
        hasher.finish()
    }

    fn is_here(&self, cells: &[Cell<'_>], key: &mut Vec<u8>) -> bool {
        let partition = &self.options.partition;
        if partition.start.is_empty() && partition.end.is_empty() {
            return true;
        }
        key.clear();
        self.partitioner.encode(cells, key).is_ok() && partition.contains(key)
    }

    /// Appends what was decided and ends what it replaces, all at one timestamp.
    fn publish(&self, rows: &mut Rows, index: &KeyIndex, ops: &Ops<'_>, plan: &Plan, timestamp: Timestamp) {
        let schema = &self.options.schema;
        let mut cells = Vec::with_capacity(schema.len());
        for new in &plan.rows {
            ops.read(new.op as usize, &mut cells);
            rows.append(timestamp.0, |column| match (cells[column], new.base) {
                (Cell::Unset, Some(base)) => Source::Row(base),
                (Cell::Value(_) | Cell::Null, Some(base))
                    if new.keep_immutable && schema.columns()[column].immutable =>
                {
                    Source::Row(base)
                }
                (Cell::Unset, None) => Source::Bytes(ops.default_cell(column).value()),
                (cell, _) => Source::Bytes(cell.value()),
            });
        }
        for &row in &plan.ended {
            rows.end(row, timestamp.0);
        }
        rows.live = rows.live + plan.inserted - plan.deleted;
        rows.last_commit = timestamp.0;
        self.figures.live_rows.store(rows.live, Ordering::Relaxed);
        self.figures.row_bytes.store(rows.bytes(), Ordering::Relaxed);
        self.figures.index_bytes.store(index.bytes(), Ordering::Relaxed);
    }

    fn seal(&self, rows: &mut Rows) {
        rows.seal();
        self.figures.row_bytes.store(rows.bytes(), Ordering::Relaxed);
    }

    /// A tail that has grown is made a chunk that readers share, unless a writer is at work.
    fn rows_for_reading(&self) -> parking_lot::RwLockReadGuard<'_, Rows> {
        let rows = self.rows.read();
        if !rows.worth_sealing() {
            return rows;
        }
        drop(rows);
        if let Some(mut rows) = self.rows.try_write() {
            if rows.worth_sealing() {
                self.seal(&mut rows);
            }
            return parking_lot::RwLockWriteGuard::downgrade(rows);
        }
        self.rows.read()
    }
}

#[cfg(test)]
mod tests {
    use schema::row_ops::{Decoder, Encoder};
    use schema::{Column, DataType, OpKind, PartialRow};

    use super::*;

    #[test]
    fn figures_do_not_wait_for_a_write() {
        let schema = Schema::new(vec![Column::new("k", DataType::Int32)], 1).unwrap().with_sequential_ids(0);
        let options = TabletOptions {
            id: "t".into(),
            table_id: "table".into(),
            table_name: "table".into(),
            schema: schema.clone(),
            partition_schema: PartitionSchema::default(),
            partition: Partition::default(),
            schema_version: 0,
        };
        let tablet = Tablet::open(options, Arc::default()).unwrap();
        assert_eq!(tablet.statistics(), Statistics::default());
        let client = Schema::new(vec![Column::new("k", DataType::Int32)], 1).unwrap();
        let mut encoder = Encoder::new(&client);
        for key in 0..3 {
            let mut row = PartialRow::new(&client);
            row.set_at(0, key).unwrap();
            encoder.push(OpKind::Insert, &row).unwrap();
        }
        let (rows, indirect) = encoder.finish();
        let decoder = Decoder::new(&client, &schema).unwrap();
        tablet.write(&decoder.decode(&rows, &indirect).unwrap(), None, 1).unwrap();
        let (index, rows) = (tablet.index.lock(), tablet.rows.write());
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| tell.send(tablet.statistics()));
            let figures = told.recv_timeout(std::time::Duration::from_secs(10));
            let bytes = (rows.bytes() + index.bytes()) as u64;
            // Before the end of the scope, which waits for the thread.
            drop((index, rows));
            let expected = Statistics { live_rows: 3, memory_bytes: bytes, on_disk_bytes: 0 };
            assert_eq!(figures, Ok(expected));
        });
    }
}
