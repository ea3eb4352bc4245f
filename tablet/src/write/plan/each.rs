//! Operations decided one by one, each against what the earlier ones of its batch left.

use schema::{Cell, OpKind};

use super::{BATCH_BYTES, Base, NewRow, Planner, is_key};
use crate::layer::Place;
use crate::memory::column::ColumnBuffer;
use crate::memory::index::RowId;
use crate::rowset::RowsetError;
use crate::write::outcome::RowErrorKind;
use crate::write::summary::Summary;

/// The version of a key that lives.
#[derive(Clone, Copy, Debug)]
enum Found {
    Active(RowId),
    Layer(Place),
}

/// Cells of the operation at hand, and of an earlier one of the batch.
type Scratch<'a> = (Vec<Cell<'a>>, Vec<Cell<'a>>);

impl<'a> Planner<'_, 'a> {
    /// Decides one operation.
    pub(super) fn apply(
        &mut self,
        number: u32,
        op: &Summary,
        cells: &mut Scratch<'a>,
    ) -> Result<(), RowErrorKind> {
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
