//! Long batches of which each operation is a new row: decided as a whole, without a look at what each of them does.

use std::cmp::Ordering;

use schema::row_ops::{Alike, AlikeCells};
use schema::{Cell, Column, OpKind, Schema};

use super::{BATCH_BYTES, Plan, Planner, is_key};
use crate::layer::Ends;
use crate::memory::column::Layout;
use crate::memory::runs;

impl Planner<'_, '_> {
    /// Decides a batch that does nothing but insert or upsert rows whose keys ascend, between no two keys of the tablet; false =
    /// nothing is decided.
    pub(super) fn insert_run(&mut self, alike: &Alike<'_>) -> bool {
        let count = self.ops.len();
        let keys = &alike.columns()[..self.schema.key_columns()];
        if !self.may_insert(alike, count) || !ascend(self.layouts, keys, count) {
            return false;
        }
        let key = |op| keys.iter().map(|column| column.cell(op)).collect();
        let ends = Ends { first: key(0), last: key(count - 1) };
        let Self { schema, stored, first_new, .. } = *self;
        let order = |row, end| stored.compare_key(schema, row, ends.of(end));
        // To look at a few rows that came otherwise costs less than to look all of these up.
        let most = count / 4;
        let added = self.index.are_apart(most, order)
            && self.layers.are_apart(most, &ends)
            && self.index.runs.add(first_new, count as u32, order);
        if added {
            self.insert_whole(alike.kind(), count);
        }
        added
    }

    /// Whether this is a long batch of inserts or upserts, in bounds.
    fn may_insert(&self, alike: &Alike<'_>, count: usize) -> bool {
        let kind = alike.kind();
        count >= MANY && (kind.is_insert() || kind.is_upsert()) && self.bytes_of(alike, count) <= BATCH_BYTES
    }

    fn insert_whole(&mut self, kind: OpKind, count: usize) {
        let Plan { whole, inserted, metrics, .. } = &mut self.plan;
        (*whole, *inserted) = (true, count as u64);
        match kind.is_insert() {
            true => metrics.successful_inserts = *inserted,
            false => metrics.successful_upserts = *inserted,
        }
    }

    /// Decides a batch that does nothing but insert or upsert many keys, none of which is there; false = nothing is decided.
    pub(super) fn insert_all(&mut self, alike: &Alike<'_>, hashes: &[u64]) -> bool {
        let unknown = !self.layers.layers.is_empty() || !self.index.runs.is_empty();
        if unknown || !self.may_insert(alike, hashes.len()) {
            return false;
        }
        let Self { schema, stored, ops, first_new, .. } = *self;
        let (mut cells, mut earlier) = (Vec::new(), Vec::new());
        let are_new = self.index.insert_new(hashes, first_new, |number, row| {
            ops.read(number as usize, &mut cells);
            let staged = row.checked_sub(first_new).map(|op| ops.read(op as usize, &mut earlier).is_some());
            is_key(schema, &cells, stored, row, staged.map(|_| &earlier[..]))
        });
        if are_new {
            self.insert_whole(alike.kind(), hashes.len());
        }
        are_new
    }

    /// What so many new rows take.
    fn bytes_of(&self, alike: &Alike<'_>, count: usize) -> u64 {
        let content = |(column, cells): (&Column, &AlikeCells<'_>)| match cells {
            AlikeCells::Varlen(cells) => {
                let lengths = (0..count).filter_map(|op| cells.place(op)).map(|(start, end)| end - start);
                lengths.sum::<usize>()
            }
            AlikeCells::Same(cell) if column.data_type.is_varlen() => {
                cell.value().map_or(0, <[u8]>::len) * count
            }
            AlikeCells::Same(_) | AlikeCells::Fixed(_) => 0,
        };
        let content: usize = self.schema.columns().iter().zip(alike.columns()).map(content).sum();
        self.fresh_bytes * count as u64 + content as u64
    }
}

/// The hashes of all keys.
pub(super) fn hashes(
    schema: &Schema,
    alike: &Alike<'_>,
    count: usize,
    hash: &dyn Fn(&[Cell<'_>]) -> u64,
) -> Vec<u64> {
    let columns = &alike.columns()[..schema.key_columns()];
    let mut cells = vec![Cell::Unset; columns.len()];
    let one = |op| {
        cells.iter_mut().zip(columns).for_each(|(cell, column)| *cell = column.cell(op));
        hash(&cells)
    };
    (0..count).map(one).collect()
}

/// Whether each key is above the one before it.
fn ascend(layouts: &[Layout], keys: &[AlikeCells<'_>], count: usize) -> bool {
    if let ([AlikeCells::Fixed(cells)], Some(8)) = (keys, layouts[0].width) {
        let numbers = (0..count).map(|op| cells.array(op).map_or(i64::MIN, |cell| i64::from_le_bytes(*cell)));
        return numbers.is_sorted_by(|a, b| a < b);
    }
    let is_above = |op: usize| {
        let columns = layouts.iter().zip(keys).map(|(layout, cells)| {
            let [before, behind] = [op - 1, op].map(|op| cells.cell(op).value().unwrap_or_default());
            runs::compare(*layout, before, behind)
        });
        columns.fold(Ordering::Equal, Ordering::then).is_lt()
    };
    (1..count).all(is_above)
}

/// Shorter batches are decided operation by operation.
const MANY: usize = 256;
