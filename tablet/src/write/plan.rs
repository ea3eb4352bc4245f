//! What a batch does to each row, decided before anything is written.

mod whole;

use std::collections::HashSet;

use schema::row_ops::Alike;
use schema::{Cell, Column, OpKind, Ops, Schema};

use super::outcome::{RowError, RowErrorKind, WriteMetrics};
use super::summary::Summary;
use crate::layer::{Layers, Place};
use crate::memory::column::{ColumnBuffer, Layout};
use crate::memory::index::{KeyIndex, RowId, TOUCHED_AT_ONCE};
use crate::memory::rows::MemRows;
use crate::rowset::RowsetError;

/// A row version to append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRow {
    /// The operation that gives the cells.
    pub(crate) op: u32,
    /// The version it replaces, which gives the others.
    pub(crate) base: Option<Base>,
    /// Whether immutable cells stay as they are although the operation sets them.
    pub(crate) keep_immutable: bool,
    /// At most; what the version will take.
    bytes: u64,
}

/// A version that is replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    /// In the memrowset, or new in the same batch.
    Active(RowId),
    /// Of a layer: its number in [`Plan::copied`].
    Copied(u32),
}

/// The version of a key that lives.
#[derive(Clone, Copy, Debug)]
enum Found {
    Active(RowId),
    Layer(Place),
}

/// The effect of a batch.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The versions that are new, unless `whole`.
    pub(crate) rows: Vec<NewRow>,
    /// Each operation is a new row, none of them replaces one.
    pub(crate) whole: bool,
    pub(crate) ended: Vec<RowId>,
    pub(crate) ended_in_layers: HashSet<Place>,
    /// The rows of layers that are replaced, in the columns of the schema.
    pub(crate) copied: Vec<ColumnBuffer>,
    copied_rows: u32,
    pub(crate) inserted: u64,
    pub(crate) deleted: u64,
    pub(crate) errors: Vec<RowError>,
    pub(crate) metrics: WriteMetrics,
    bytes: u64,
}

/// The operations of a batch, once read.
pub(crate) enum ReadOnce<'a> {
    /// Column by column.
    Alike(Alike<'a>),
    Each(Vec<Summary>),
}

/// Decides the operations in order. The index is brought up to date on the way: what a later operation of the batch
/// finds there is what the earlier ones left.
pub(crate) fn plan(
    stored: &MemRows,
    layers: Layers<'_>,
    layouts: &[Layout],
    index: &mut KeyIndex,
    hash: &dyn Fn(&[Cell<'_>]) -> u64,
    ops: &Ops<'_>,
    read: ReadOnce<'_>,
) -> Result<Plan, RowsetError> {
    let schema = layers.schema;
    let first_new = stored.next_row();
    let fresh = |(index, column): (usize, &Column)| {
        let default = ops.default_cell(index).value().map_or(0, <[u8]>::len);
        if column.data_type.is_varlen() { default + 4 } else { column.data_type.cell_size() }
    };
    let fresh_bytes = schema.columns().iter().enumerate().map(fresh).sum::<usize>() as u64;
    let mut planner = Planner {
        schema,
        stored,
        layers,
        layouts,
        index,
        ops,
        first_new,
        fresh_bytes,
        plan: Plan::default(),
        unreadable: None,
    };
    if let ReadOnce::Alike(alike) = &read
        && planner.insert_run(alike)
    {
        return Ok(planner.plan);
    }
    // Who writes out of order goes on doing so: a few rows with each operation leave the runs.
    if !planner.index.runs.is_empty() {
        let mut key = Vec::new();
        planner.index.absorb(ops.len().saturating_mul(ABSORBED), |row| {
            let cells = (0..schema.key_columns()).map(|column| stored.cell(row, column));
            key.clear();
            key.extend(cells.map(|cell| cell.map_or(Cell::Null, Cell::Value)));
            hash(&key)
        });
    }
    let summaries = match read {
        ReadOnce::Each(summaries) => summaries,
        ReadOnce::Alike(alike) => {
            let hashes = whole::hashes(schema, &alike, ops.len(), hash);
            if planner.insert_all(&alike, &hashes) {
                return Ok(planner.plan);
            }
            Summary::of_alike(schema, &alike, &hashes)
        }
    };
    let hashes: Vec<u64> = summaries.iter().map(|summary| summary.hash).collect();
    let mut cells = (Vec::new(), Vec::new());
    // What a batch is about to need of the index is read together, some operations ahead.
    let mut ahead = hashes.chunks(TOUCHED_AT_ONCE);
    let mut touch = |index: &KeyIndex| index.touch(ahead.next().unwrap_or_default().iter().copied());
    touch(planner.index);
    for (number, summary) in summaries.into_iter().enumerate() {
        if number.is_multiple_of(TOUCHED_AT_ONCE) {
            touch(planner.index);
        }
        let number = number as u32;
        let done = match summary.error {
            None => planner.apply(number, &summary, &mut cells),
            Some(kind) => Err(*kind),
        };
        if let Err(kind) = done {
            planner.plan.errors.push(RowError { index: number, kind });
        }
        if let Some(error) = planner.unreadable {
            return Err(error);
        }
    }
    Ok(planner.plan)
}

struct Planner<'p, 'a> {
    schema: &'p Schema,
    stored: &'p MemRows,
    layers: Layers<'p>,
    layouts: &'p [Layout],
    index: &'p mut KeyIndex,
    ops: &'p Ops<'a>,
    /// The first row version of this batch.
    first_new: RowId,
    /// What an inserted row takes besides the strings it brings.
    fresh_bytes: u64,
    plan: Plan,
    /// A row that had to be looked at.
    unreadable: Option<RowsetError>,
}

/// Cells of the operation at hand, and of an earlier one of the batch.
type Scratch<'a> = (Vec<Cell<'a>>, Vec<Cell<'a>>);

impl<'a> Planner<'_, 'a> {
    fn apply(&mut self, number: u32, op: &Summary, cells: &mut Scratch<'a>) -> Result<(), RowErrorKind> {
        let found = self.find(number, op.hash, cells);
        let metrics = &mut self.plan.metrics;
        match (op.kind, found) {
            (OpKind::Insert, Some(_)) => return Err(RowErrorKind::AlreadyPresent),
            (OpKind::InsertIgnore, Some(_)) => metrics.insert_ignore_errors += 1,
            (OpKind::Insert | OpKind::InsertIgnore, None) => {
                self.insert(number, op)?;
                self.plan.metrics.successful_inserts += 1;
            }
            (OpKind::Update | OpKind::Delete, None) => return Err(RowErrorKind::NotFound),
            (OpKind::UpdateIgnore, None) => metrics.update_ignore_errors += 1,
            (OpKind::DeleteIgnore, None) => metrics.delete_ignore_errors += 1,
            (OpKind::Update | OpKind::UpdateIgnore, Some(row)) => {
                self.replace(number, op, row, false)?;
                let metrics = &mut self.plan.metrics;
                if op.passed_over {
                    metrics.update_ignore_errors += 1;
                } else {
                    metrics.successful_updates += 1;
                }
            }
            (OpKind::Upsert | OpKind::UpsertIgnore, None) => {
                self.insert(number, op)?;
                self.plan.metrics.successful_upserts += 1;
            }
            (OpKind::Upsert | OpKind::UpsertIgnore, Some(row)) => {
                if let (Some(column), OpKind::Upsert) = (op.sets_immutable, op.kind) {
                    let column = self.schema.columns()[column as usize].to_string();
                    return Err(RowErrorKind::Immutable { column });
                }
                if op.sets {
                    self.replace(number, op, row, op.kind == OpKind::UpsertIgnore)?;
                }
                let metrics = &mut self.plan.metrics;
                match op.sets_immutable {
                    Some(_) => metrics.upsert_ignore_errors += 1,
                    None => metrics.successful_upserts += 1,
                }
            }
            (OpKind::Delete | OpKind::DeleteIgnore, Some(row)) => {
                metrics.successful_deletes += 1;
                self.plan.deleted += 1;
                match row {
                    Found::Active(row) => {
                        self.plan.ended.push(row);
                        self.index.remove(op.hash, row);
                    }
                    Found::Layer(place) => drop(self.plan.ended_in_layers.insert(place)),
                }
            }
            // The decoder lets no other kind into a write.
            (
                OpKind::SplitRow
                | OpKind::RangeLowerBound
                | OpKind::RangeUpperBound
                | OpKind::ExclusiveRangeLowerBound
                | OpKind::InclusiveRangeUpperBound,
                _,
            ) => {}
        }
        Ok(())
    }

    /// The live version of the operation's key.
    fn find(&mut self, number: u32, hash: u64, cells: &mut Scratch<'a>) -> Option<Found> {
        let active = self.find_active(number, hash, cells).map(Found::Active);
        if active.is_some() || self.layers.layers.is_empty() {
            return active;
        }
        self.ops.read(number as usize, &mut cells.0)?;
        let key = &cells.0[..self.schema.key_columns()];
        let lives = |place| !self.plan.ended_in_layers.contains(&place);
        let found = self.layers.find(hash, key, lives);
        self.readable(found).flatten().map(Found::Layer)
    }

    /// The batch fails if something is not.
    fn readable<T>(&mut self, read: Result<T, RowsetError>) -> Option<T> {
        read.map_err(|error| self.unreadable = Some(error)).ok()
    }

    fn find_active(&self, number: u32, hash: u64, (cells, earlier): &mut Scratch<'a>) -> Option<RowId> {
        let mut read = false;
        let found = self.index.find(hash, |row| {
            if !read {
                read = self.ops.read(number as usize, cells).is_some();
            }
            let staged = row.checked_sub(self.first_new).map(|i| self.plan.rows[i as usize].op);
            if let Some(op) = staged {
                self.ops.read(op as usize, earlier);
            }
            let earlier = staged.map(|_| &earlier[..]);
            is_key(self.schema, cells, self.stored, row, earlier)
        });
        if found.is_some() || self.index.runs.is_empty() {
            return found;
        }
        self.ops.read(number as usize, cells)?;
        self.index.runs.find(|row| self.stored.compare_key(self.schema, row, cells))
    }

    fn next_row(&self) -> RowId {
        self.first_new + self.plan.rows.len() as u32
    }

    fn insert(&mut self, number: u32, op: &Summary) -> Result<(), RowErrorKind> {
        let bytes = self.take_memory(self.fresh_bytes + u64::from(op.content_bytes))?;
        self.index.insert(op.hash, self.next_row());
        self.plan.inserted += 1;
        self.plan.rows.push(NewRow { op: number, base: None, keep_immutable: false, bytes });
        Ok(())
    }

    fn replace(
        &mut self,
        number: u32,
        op: &Summary,
        found: Found,
        keep_immutable: bool,
    ) -> Result<(), RowErrorKind> {
        let content = u64::from(op.content_bytes);
        let (base, bytes) = match found {
            Found::Active(row) => {
                let before = match row.checked_sub(self.first_new) {
                    Some(staged) => self.plan.rows[staged as usize].bytes,
                    None => self.stored.row_bytes(row),
                };
                let bytes = self.take_memory(before + content)?;
                self.index.replace(op.hash, row, self.next_row());
                self.plan.ended.push(row);
                (Base::Active(row), bytes)
            }
            Found::Layer(place) => {
                let before = self.layers.row_bytes(place, self.layouts);
                let Some(before) = self.readable(before) else { return Ok(()) };
                let bytes = self.take_memory(before + content)?;
                if self.plan.copied.is_empty() {
                    self.plan.copied = self.layouts.iter().map(|layout| ColumnBuffer::new(*layout)).collect();
                }
                let copied = self.layers.copy(place, self.layouts, &mut self.plan.copied);
                let Some(()) = self.readable(copied) else { return Ok(()) };
                self.plan.copied_rows += 1;
                self.index.insert(op.hash, self.next_row());
                self.plan.ended_in_layers.insert(place);
                (Base::Copied(self.plan.copied_rows - 1), bytes)
            }
        };
        self.plan.rows.push(NewRow { op: number, base: Some(base), keep_immutable, bytes });
        Ok(())
    }

    /// An update of one cell keeps all others of its row, and a short insert may get long defaults: without a limit a
    /// request of megabytes could take terabytes.
    fn take_memory(&mut self, bytes: u64) -> Result<u64, RowErrorKind> {
        let taken = self.plan.bytes + bytes;
        if taken > BATCH_BYTES {
            return Err(RowErrorKind::BatchTooLarge { limit: BATCH_BYTES });
        }
        self.plan.bytes = taken;
        Ok(bytes)
    }
}

/// Whether a row has the key that `cells` start with. Rows of the same batch are `earlier` cells, others are stored.
fn is_key(
    schema: &Schema,
    cells: &[Cell<'_>],
    stored: &MemRows,
    row: RowId,
    earlier: Option<&[Cell<'_>]>,
) -> bool {
    (0..schema.key_columns()).all(|column| {
        let other = match earlier {
            Some(earlier) => earlier[column].value(),
            None => stored.cell(row, column),
        };
        other == cells[column].value()
    })
}

/// What the row versions of one batch may take.
const BATCH_BYTES: u64 = 1 << 30;

/// Rows that leave the runs with each operation that is not part of one.
const ABSORBED: usize = 8;
