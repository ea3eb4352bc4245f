//! The tablet: its description, writes, scans and figures.

use std::hash::{BuildHasher, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use foldhash::quality::RandomState;
use parking_lot::{Mutex, RwLock};
use schema::row_ops::{Alike, AlikeCells};
use schema::{Cell, HybridClock, Ops, Partition, PartitionSchema, Schema, Timestamp};

use crate::answers::Answers;
use crate::backend::Memory;
use crate::durability::{Durability, Storage};
use crate::flush::{Files, Position};
use crate::layer::{Layer, Layers};
use crate::maintenance::Load;
use crate::manifest::Manifest;
use crate::memory::index::{KeyIndex, RowId};
use crate::memory::rows::{MemRows, Source};
use crate::rowset::{BlockCache, RowsetError};
use crate::shape::Shape;
use crate::write::outcome::WriteOutcome;
use crate::write::plan::{Base, Plan, ReadOnce, plan};
use crate::write::request::RequestKey;
use crate::write::summary::Summary;
use crate::{Alteration, OpenError, WriteError};

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
    /// How long snapshots of this table can be read, in seconds; below 0: for ever; `None`: as long as those of others. For
    /// who calls [`Tablet::flush`] and [`Tablet::compact`], which drop what is older.
    pub history_max_age_sec: Option<i32>,
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
    layer_bytes: AtomicUsize,
    file_bytes: AtomicU64,
    /// Of layers that are still in memory.
    frozen_bytes: AtomicUsize,
    rowsets: AtomicUsize,
    /// The first write since the last flush, a timestamp; 0 for none.
    unflushed_since: AtomicU64,
}

/// The rows of a tablet: those of the memrowset, which grows, and layers of older ones.
#[derive(Debug)]
pub(crate) struct Rows {
    /// Of the memrowset.
    pub(crate) schema: Schema,
    pub(crate) active: MemRows,
    /// Oldest first. Changed only by who holds the index.
    pub(crate) layers: Vec<Arc<Layer>>,
    pub(crate) live: u64,
    /// The timestamp of the newest batch.
    pub(crate) last_commit: u64,
}

/// One replica of one tablet, shared by threads.
///
/// Writes follow each other; scans read a snapshot and wait for writers only while one appends a decided batch.
#[derive(Debug)]
pub struct Tablet {
    /// Changed only by who holds the index.
    pub(crate) shape: RwLock<Arc<Shape>>,
    pub(crate) clock: Arc<HybridClock>,
    hasher: RandomState,
    /// Of the memrowset. Held while a batch is decided and appended.
    pub(crate) index: Mutex<KeyIndex>,
    pub(crate) rows: RwLock<Rows>,
    figures: Figures,
    /// Snapshots before this time have lost rows.
    oldest: AtomicU64,
    /// A file that cannot be read, once that was noticed.
    unreadable: OnceLock<RowsetError>,
    pub(crate) answers: Mutex<Answers>,
    pub(crate) files: Files,
    /// What a start would find. Held by a flush or a compaction, one at a time.
    pub(crate) kept: Mutex<Manifest>,
    pub(crate) closed: AtomicBool,
    /// The last entry of the log that was read, while it is.
    pub(crate) replayed: AtomicU64,
    /// `None` for a tablet that lives in memory only.
    pub(crate) durability: Option<Durability>,
}

impl Tablet {
    /// Opens an empty tablet that lives in memory only. Timestamps come from `clock`, which the tablets of a server share.
    ///
    /// # Errors
    /// The description is wrong: no column ids, no key, or impossible partitions.
    pub fn open(options: TabletOptions, clock: Arc<HybridClock>) -> Result<Self, OpenError> {
        let cache = Arc::new(BlockCache::new(CACHE_BYTES));
        let files = Files { backend: Arc::new(Memory::new()), folder: PathBuf::new(), cache, lasting: false };
        Self::new(options, clock, files)
    }

    fn new(options: TabletOptions, clock: Arc<HybridClock>, files: Files) -> Result<Self, OpenError> {
        let kept = Mutex::new(Manifest::new(Alteration::of(&options)));
        let shape = Shape::new(options)?;
        let rows = Rows {
            schema: shape.schema().clone(),
            active: MemRows::new(Arc::clone(&shape.layouts)),
            layers: Vec::new(),
            live: 0,
            last_commit: 0,
        };
        Ok(Self {
            shape: RwLock::new(Arc::new(shape)),
            clock,
            hasher: RandomState::default(),
            index: Mutex::new(KeyIndex::new()),
            rows: RwLock::new(rows),
            figures: Figures::default(),
            oldest: AtomicU64::new(0),
            unreadable: OnceLock::new(),
            answers: Mutex::default(),
            files,
            kept,
            closed: AtomicBool::new(false),
            replayed: AtomicU64::new(0),
            durability: None,
        })
    }

    /// Opens the tablet whose files are in `storage`, with all that they hold; an empty folder is an empty tablet. Blocks
    /// while it reads.
    ///
    /// # Errors
    /// As [`Tablet::open`], or files that are corrupt or cannot be read.
    pub fn open_in(
        storage: Storage,
        options: TabletOptions,
        clock: Arc<HybridClock>,
    ) -> Result<Self, OpenError> {
        let Storage { backend, folder, cache, .. } = storage.clone();
        let files = Files { backend, folder, cache, lasting: true };
        let mut tablet = Self::new(options, clock, files)?;
        tablet.restore()?;
        tablet.durability = Some(Durability::recover(&storage, &tablet)?);
        Ok(tablet)
    }

    /// Writes a batch in order. Rows fail alone; an error means that nothing was written. Blocks until the log has it.
    ///
    /// `propagated` is the newest timestamp the writer has seen: the batch gets a later one. `now_micros` is the
    /// physical time since the Unix epoch.
    ///
    /// # Errors
    /// A row of another partition, a propagated timestamp too far ahead, a tablet that is full, operations that were decoded
    /// for another schema, or files that cannot be read or take no more.
    pub fn write(
        &self,
        ops: &Ops<'_>,
        propagated: Option<Timestamp>,
        now_micros: u64,
    ) -> Result<WriteOutcome, WriteError> {
        self.write_for(None, ops, propagated, now_micros)
    }

    /// As [`Tablet::write`], and notes in the log which call it was. Calls that may have been done before are to be looked
    /// up first, by [`Tablet::answered`].
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
        let shape = self.shape();
        if ops.schema() != shape.schema() {
            return Err(WriteError::SchemaChanged);
        }
        let alike = ops.alike();
        let read = self.read_once(&shape, ops, alike.clone(), true)?;
        let mut staged = match &self.durability {
            Some(durability) if !ops.is_empty() => Some(durability.stage(ops, request)),
            _ => None,
        };
        let mut index = self.index.lock();
        if let Some(staged) = &staged {
            staged.check()?;
        }
        if let Some(error) = self.unreadable.get() {
            return Err(error.clone().into());
        }
        if !Arc::ptr_eq(&shape, &self.shape()) {
            return Err(WriteError::SchemaChanged);
        }
        let plan = self.plan(&shape, &mut index, ops, read)?;
        let mut rows = self.rows.write();
        // Under the lock: who reads at a snapshot after this timestamp sees the batch.
        let timestamp = self.clock.now(now_micros);
        if let Some(staged) = &mut staged {
            staged.append(timestamp, plan.errors.len())?;
        }
        self.publish(&mut rows, &index, ops, alike, &plan, timestamp);
        drop(rows);
        let outcome = WriteOutcome { timestamp, row_errors: plan.errors, metrics: plan.metrics };
        if let (Some(request), Some(_)) = (request, &staged) {
            self.answers.lock().note(request, &outcome);
        }
        drop(index);
        if let Some(staged) = staged {
            staged.commit()?;
        }
        Ok(outcome)
    }

    /// What a call came to that is done already, in this process or one before it: it must not be done again. `None` if it is
    /// not known, of a tablet that lives in memory only, and while the log has failed: what it did not take counts as not done.
    pub fn answered(&self, request: RequestKey<'_>) -> Option<WriteOutcome> {
        self.durability.as_ref()?;
        let outcome = self.answers.lock().find(request).cloned();
        outcome.filter(|_| self.log_failure().is_none())
    }

    /// Does again what was done at `timestamp`, before the tablet is in use.
    pub(crate) fn replay(&self, ops: &Ops<'_>, timestamp: Timestamp) -> Result<WriteOutcome, WriteError> {
        let shape = self.shape();
        let alike = ops.alike();
        let read = self.read_once(&shape, ops, alike.clone(), false)?;
        let mut index = self.index.lock();
        let plan = self.plan(&shape, &mut index, ops, read)?;
        // Its own time is never too far ahead of it.
        self.clock.update(timestamp, timestamp.physical_micros())?;
        self.publish(&mut self.rows.write(), &index, ops, alike, &plan, timestamp);
        Ok(WriteOutcome { timestamp, row_errors: plan.errors, metrics: plan.metrics })
    }

    /// Figures of this moment. Waits for nobody: during a write they are those of before.
    pub fn statistics(&self) -> Statistics {
        let Figures { live_rows, row_bytes, index_bytes, layer_bytes, file_bytes, .. } = &self.figures;
        let memory = [row_bytes, index_bytes, layer_bytes];
        let memory_bytes: usize = memory.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
        Statistics {
            live_rows: live_rows.load(Ordering::Relaxed),
            memory_bytes: memory_bytes as u64,
            on_disk_bytes: file_bytes.load(Ordering::Relaxed)
                + self.durability.as_ref().map_or(0, Durability::bytes),
        }
    }

    /// Figures for [`next_work`](crate::maintenance::next_work), as cheap. When it was compacted is for the caller to know.
    pub fn load(&self) -> Load {
        let Figures { row_bytes, index_bytes, frozen_bytes, rowsets, unflushed_since, .. } = &self.figures;
        let bytes: usize =
            [row_bytes, index_bytes, frozen_bytes].map(|bytes| bytes.load(Ordering::Relaxed)).iter().sum();
        let since = Timestamp(unflushed_since.load(Ordering::Relaxed));
        Load {
            unflushed_bytes: bytes as u64,
            unflushed_since: (since > Timestamp::MIN).then(|| since.physical_micros()),
            log_bytes: self.durability.as_ref().map_or(0, Durability::bytes),
            rowsets: rowsets.load(Ordering::Relaxed),
            compact_at: None,
        }
    }

    /// What the tablet is now: as it was opened, or as it was altered to.
    pub fn options(&self) -> Arc<TabletOptions> {
        Arc::clone(&self.shape.read().about)
    }

    /// The tablet's columns now.
    pub fn schema(&self) -> Schema {
        self.shape.read().schema().clone()
    }

    fn plan(
        &self,
        shape: &Shape,
        index: &mut KeyIndex,
        ops: &Ops<'_>,
        read: ReadOnce<'_>,
    ) -> Result<Plan, WriteError> {
        let rows = self.rows.read();
        if (RowId::MAX - rows.active.next_row()) as usize <= ops.len() {
            return Err(WriteError::Full);
        }
        let layers = Layers { schema: shape.schema(), layers: &rows.layers };
        // The index may name rows then that are never appended.
        let failed = |error: &RowsetError| drop(self.unreadable.set(error.clone()));
        Ok(plan(&rows.active, layers, &shape.layouts, index, &|key| self.hash(key), ops, read)
            .inspect_err(failed)?)
    }

    /// Reads all operations once and, if wanted, checks that their rows belong here.
    fn read_once<'a>(
        &self,
        shape: &Shape,
        ops: &Ops<'_>,
        alike: Option<Alike<'a>>,
        check: bool,
    ) -> Result<ReadOnce<'a>, WriteError> {
        let schema = shape.schema();
        let mut key = Vec::new();
        if let Some(alike) = alike {
            if !check || shape.holds_all() {
                return Ok(ReadOnce::Alike(alike));
            }
            let columns = &alike.columns()[..schema.key_columns()];
            let mut cells = vec![Cell::Unset; columns.len()];
            for op in 0..ops.len() {
                cells.iter_mut().zip(columns).for_each(|(cell, column)| *cell = column.cell(op));
                // Rows are placed by key columns only.
                if !shape.is_here(&cells, &mut key) {
                    return Err(WriteError::RowNotInPartition { index: op as u32 });
                }
            }
            return Ok(ReadOnce::Alike(alike));
        }
        let mut cursor = ops.cursor();
        let mut summaries = Vec::with_capacity(ops.len());
        while let Some(op) = cursor.next_op() {
            let summary = Summary::of(schema, &op, |key| self.hash(key));
            if check && summary.error.is_none() && !shape.is_here(op.cells, &mut key) {
                return Err(WriteError::RowNotInPartition { index: summaries.len() as u32 });
            }
            summaries.push(summary);
        }
        Ok(ReadOnce::Each(summaries))
    }

    fn hash(&self, key: &[Cell<'_>]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        for cell in key.iter().filter_map(|cell| cell.value()) {
            match cell.first_chunk() {
                Some(bytes) if cell.len() == 8 => hasher.write_u64(u64::from_le_bytes(*bytes)),
                _ => {
                    hasher.write(cell);
                    hasher.write_usize(cell.len());
                }
            }
        }
        hasher.finish()
    }

    /// Appends what was decided and ends what it replaces, all at one timestamp.
    fn publish(
        &self,
        rows: &mut Rows,
        index: &KeyIndex,
        ops: &Ops<'_>,
        alike: Option<Alike<'_>>,
        plan: &Plan,
        timestamp: Timestamp,
    ) {
        let Rows { schema, active, layers, live, last_commit } = rows;
        let mut cells = Vec::with_capacity(schema.len());
        let mut rest = &plan.rows[..];
        // Whole new rows are taken over column by column.
        if let Some(alike) = alike.filter(|_| plan.rows.iter().all(|new| new.base.is_none())) {
            let mut columns = alike.columns().to_vec();
            for (index, column) in columns.iter_mut().enumerate() {
                if matches!(column, AlikeCells::Same(Cell::Unset)) {
                    *column = AlikeCells::Same(ops.default_cell(index));
                }
            }
            match plan.whole {
                true => active.append_alike(timestamp.0, &columns, 0..ops.len() as u32),
                false => active.append_alike(timestamp.0, &columns, plan.rows.iter().map(|new| new.op)),
            }
            rest = &[];
        }
        for new in rest {
            ops.read(new.op as usize, &mut cells);
            let kept = |column: usize, base| match base {
                Base::Active(row) => Source::Row(row),
                Base::Copied(row) => Source::Bytes(plan.copied[column].cells().cell(row as usize)),
            };
            active.append(timestamp.0, |column| match (cells[column], new.base) {
                (Cell::Unset, Some(base)) => kept(column, base),
                (Cell::Value(_) | Cell::Null, Some(base))
                    if new.keep_immutable && schema.columns()[column].immutable =>
                {
                    kept(column, base)
                }
                (Cell::Unset, None) => Source::Bytes(ops.default_cell(column).value()),
                (cell, _) => Source::Bytes(cell.value()),
            });
        }
        for &row in &plan.ended {
            active.end(row, timestamp.0);
        }
        for place in &plan.ended_in_layers {
            layers[place.layer as usize].end(place.row, timestamp.0);
        }
        *live = *live + plan.inserted - plan.deleted;
        *last_commit = timestamp.0;
        self.note_unflushed(timestamp);
        self.figures.live_rows.store(*live, Ordering::Relaxed);
        self.figures.index_bytes.store(index.bytes(), Ordering::Relaxed);
        self.note_bytes(rows);
    }

    pub(crate) fn note_bytes(&self, rows: &Rows) {
        self.figures.row_bytes.store(rows.active.bytes(), Ordering::Relaxed);
    }

    /// There are rows since this time that no file holds.
    pub(crate) fn note_unflushed(&self, since: Timestamp) {
        if self.figures.unflushed_since.load(Ordering::Relaxed) == 0 {
            self.figures.unflushed_since.store(since.0, Ordering::Relaxed);
        }
    }

    /// To be called when the layers have changed.
    pub(crate) fn note_layers(&self, rows: &Rows) {
        let memory: usize = rows.layers.iter().map(|layer| layer.bytes()).sum();
        let files: u64 =
            rows.layers.iter().filter_map(|layer| layer.stored_rows()).map(|s| s.file.bytes()).sum();
        let frozen = rows.layers.iter().filter(|layer| layer.stored_rows().is_none());
        self.figures.frozen_bytes.store(frozen.map(|layer| layer.bytes()).sum(), Ordering::Relaxed);
        self.figures
            .rowsets
            .store(rows.layers.iter().filter_map(|layer| layer.stored_rows()).count(), Ordering::Relaxed);
        self.figures.layer_bytes.store(memory, Ordering::Relaxed);
        self.figures.file_bytes.store(files, Ordering::Relaxed);
        self.figures.live_rows.store(rows.live, Ordering::Relaxed);
        self.note_bytes(rows);
    }

    /// Snapshots before this time have lost rows.
    pub(crate) fn oldest(&self) -> Timestamp {
        Timestamp(self.oldest.load(Ordering::Acquire))
    }

    pub(crate) fn forget_before(&self, oldest: Timestamp) {
        self.oldest.fetch_max(oldest.0, Ordering::AcqRel);
    }

    /// Where the history is now, for who holds the index.
    pub(crate) fn position(&self) -> Position {
        let time = Timestamp(self.rows.read().last_commit);
        let mut answers = self.answers.lock();
        answers.expire(time);
        let replayed = || self.replayed.load(Ordering::Relaxed);
        let entry = self.durability.as_ref().map_or_else(replayed, Durability::last_entry);
        Position { entry, time, about: self.options(), answers: answers.encode() }
    }

    /// Makes the memrowset a layer, if it has rows.
    pub(crate) fn freeze_now(&self) -> Position {
        let mut index = self.index.lock();
        let position = self.position();
        self.freeze(&mut self.rows.write(), &mut index, &self.shape(), position.clone());
        self.figures.unflushed_since.store(0, Ordering::Relaxed);
        position
    }

    pub(crate) fn shape(&self) -> Arc<Shape> {
        Arc::clone(&self.shape.read())
    }

    /// Starts a memrowset of another shape.
    pub(crate) fn reshape(&self, index: &mut KeyIndex, next: Shape, before: Position) {
        let mut rows = self.rows.write();
        self.freeze(&mut rows, index, &next, before);
        *self.shape.write() = Arc::new(next);
    }

    /// Makes the memrowset a layer and starts one of this shape.
    fn freeze(&self, rows: &mut Rows, index: &mut KeyIndex, next: &Shape, before: Position) {
        let active = std::mem::replace(&mut rows.active, MemRows::new(Arc::clone(&next.layouts)));
        let index = std::mem::replace(index, KeyIndex::new());
        let schema = std::mem::replace(&mut rows.schema, next.schema().clone());
        if active.next_row() > 0 {
            rows.layers.push(Arc::new(Layer::frozen(schema, active, index, before)));
        }
        self.figures.index_bytes.store(0, Ordering::Relaxed);
        self.note_layers(rows);
    }
}

/// For the packed columns of a tablet in memory.
const CACHE_BYTES: usize = 64 << 20;

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
            history_max_age_sec: None,
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
            let bytes = (rows.active.bytes() + index.bytes()) as u64;
            // Before the end of the scope, which waits for the thread.
            drop((index, rows));
            let expected = Statistics { live_rows: 3, memory_bytes: bytes, on_disk_bytes: 0 };
            assert_eq!(figures, Ok(expected));
        });
    }
}
