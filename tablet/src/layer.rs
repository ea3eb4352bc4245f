//! Rows that take no more inserts: they are read, and they end.

use std::sync::Arc;

use schema::{Cell, Schema};

use crate::memory::column::{ColumnBuffer, Layout};
use crate::memory::index::{KeyIndex, RowId};
use crate::memory::rows::MemRows;
use crate::scan::part::Part;
use crate::scan::projection::Projection;

/// The rows of a former memrowset, under the schema that they were written with.
#[derive(Debug)]
pub(crate) struct Layer {
    schema: Schema,
    rows: MemRows,
    /// Of the keys that lived when it was frozen; some have ended since.
    index: KeyIndex,
}

/// A row of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// Index in the tablet's list of layers, which only changes between batches.
    pub(crate) layer: u32,
    pub(crate) row: RowId,
}

impl Layer {
    pub(crate) fn frozen(schema: Schema, mut rows: MemRows, index: KeyIndex) -> Self {
        rows.seal();
        Self { schema, rows, index }
    }

    /// The row of a key that has not ended, if `wanted` holds for it.
    fn find(&self, hash: u64, key: &[Cell<'_>], wanted: impl Fn(RowId) -> bool) -> Option<RowId> {
        self.index.find(hash, |row| {
            let is_key = |(column, cell): (usize, &Cell<'_>)| self.rows.cell(row, column) == cell.value();
            key.iter().enumerate().all(is_key) && !self.rows.is_ended(row) && wanted(row)
        })
    }

    /// Ends a row version.
    pub(crate) fn end(&self, row: RowId, timestamp: u64) {
        self.rows.end(row, timestamp);
    }

    /// Adds what a snapshot shows.
    pub(crate) fn view(&self, snapshot: u64, projection: &Projection, view: &mut Vec<Part>) {
        self.rows.view(snapshot, projection, view);
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes() + self.index.bytes()
    }
}

/// The layers of a tablet as a writer sees them, oldest first.
#[derive(Clone, Copy)]
pub(crate) struct Layers<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) layers: &'a [Arc<Layer>],
}

impl Layers<'_> {
    /// The row of a key that has not ended, if `wanted` holds for it. At most one version of a key lives.
    pub(crate) fn find(&self, hash: u64, key: &[Cell<'_>], wanted: impl Fn(Place) -> bool) -> Option<Place> {
        self.layers.iter().enumerate().rev().find_map(|(number, layer)| {
            let place = |row| Place { layer: number as u32, row };
            layer.find(hash, key, |row| wanted(place(row))).map(place)
        })
    }

    /// Bytes of a row in the columns of the writer's schema: as many as it takes in a memrowset, so that it does not matter
    /// to a batch where its rows were found.
    pub(crate) fn row_bytes(&self, place: Place, layouts: &[Layout]) -> u64 {
        let mut bytes = 0;
        self.each_cell(place, |column, cell| bytes += layouts[column].bytes(cell));
        bytes as u64
    }

    /// Appends the cells of a row to buffers that have the columns of the writer's schema.
    pub(crate) fn copy(&self, place: Place, to: &mut [ColumnBuffer]) {
        self.each_cell(place, |column, cell| to[column].push(cell));
    }

    fn each_cell(&self, place: Place, mut visit: impl FnMut(usize, Option<&[u8]>)) {
        let layer = &self.layers[place.layer as usize];
        let projection = Projection::new(self.schema, &layer.schema, |_| true);
        for column in 0..self.schema.len() {
            visit(column, projection.cell(column, |stored| layer.rows.cell(place.row, stored)));
        }
    }
}
