//! What a batch does to each row, decided before anything is written.

mod each;
mod whole;

use std::collections::HashSet;

use schema::row_ops::Alike;
use schema::{Cell, Column, Ops, Schema};

use super::outcome::{RowError, WriteMetrics};
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
