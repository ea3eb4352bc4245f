//! Rows that take no more inserts: they are read, and they end. Some are still in memory, the others in files.

use std::cell::OnceCell;
use std::sync::Arc;

use parking_lot::Mutex;
use schema::{Cell, ColumnId, Schema};

use crate::flush::Position;
use crate::memory::column::{Cells, ColumnBuffer, Layout};
use crate::memory::index::{KeyIndex, RowId};
use crate::memory::rows::MemRows;
use crate::memory::runs::End;
use crate::memory::tombstones::{ALIVE, Tombstones};
use crate::rowset::{self, Rowset, RowsetError};
use crate::scan::part::Part;
use crate::scan::projection::Projection;

/// Rows of one schema.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) content: Content,
    /// Ends that no file holds, by their times: of a frozen memrowset those since then, of a file those since its newest file
    /// of ends.
    pub(crate) unsaved: Mutex<Vec<(RowId, u64)>>,
}

#[derive(Debug)]
pub(crate) enum Content {
    Frozen(Frozen),
    Stored(Stored),
}

/// A former memrowset.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) schema: Schema,
    pub(crate) rows: MemRows,
    /// Of the keys that lived when it was frozen; some have ended since.
    pub(crate) index: KeyIndex,
    /// Up to where all before is in this layer or in older ones.
    pub(crate) position: Position,
}

/// A rowset.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) number: u64,
    pub(crate) file: Rowset,
    /// Of each batch.
    pub(crate) ends: Vec<Arc<Tombstones>>,
}

/// A row of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// Index in the tablet's list of layers, which only changes between batches.
    pub(crate) layer: u32,
    pub(crate) row: RowId,
}

impl Layer {
    pub(crate) fn frozen(schema: Schema, mut rows: MemRows, index: KeyIndex, position: Position) -> Self {
        rows.seal();
        let frozen = Frozen { schema, rows, index, position };
        Self { content: Content::Frozen(frozen), unsaved: Mutex::default() }
    }

    pub(crate) fn stored(stored: Stored, unsaved: Vec<(RowId, u64)>) -> Self {
        Self { content: Content::Stored(stored), unsaved: Mutex::new(unsaved) }
    }

    /// The row of a key that has not ended, if `wanted` holds for it.
    fn find<'k>(
        &self,
        hash: u64,
        key: &[Cell<'_>],
        encoded: impl Fn() -> &'k [u8],
        wanted: impl Fn(RowId) -> bool,
    ) -> Result<Option<RowId>, RowsetError> {
        match &self.content {
            Content::Frozen(Frozen { schema, rows, index, .. }) => {
                let lives = |row: RowId| !rows.is_ended(row) && wanted(row);
                let is_key = |row| {
                    let mut cells = key.iter().enumerate();
                    cells.all(|(column, cell)| rows.cell(row, column) == cell.value())
                };
                let in_table = index.find(hash, |row| is_key(row) && lives(row));
                let in_run =
                    || index.runs.find(|row| rows.compare_key(schema, row, key)).filter(|row| lives(*row));
                Ok(in_table.or_else(in_run))
            }
            Content::Stored(stored) => {
                let newest = stored.file.find(encoded())?;
                Ok(newest.filter(|row| !stored.is_ended(*row) && wanted(*row)))
            }
        }
    }

    /// See [`Layers::are_apart`]; the ends are also `encoded`.
    fn is_apart(&self, most: usize, ends: &Ends<'_>, encoded: &(Vec<u8>, Vec<u8>)) -> bool {
        match &self.content {
            Content::Frozen(Frozen { schema, rows, index, .. }) => {
                let order = |row, end| rows.compare_key(schema, row, ends.of(end));
                index.are_apart(most, order)
            }
            Content::Stored(stored) => {
                let (first, last) = encoded;
                let overlaps = |batch: &rowset::Batch| {
                    batch.first_key.as_ref() <= last.as_slice() && first.as_slice() <= batch.last_key.as_ref()
                };
                !stored.file.batches().iter().any(overlaps)
            }
        }
    }

    /// Ends a row version.
    pub(crate) fn end(&self, row: RowId, timestamp: u64) {
        match &self.content {
            Content::Frozen(frozen) => frozen.rows.end(row, timestamp),
            Content::Stored(stored) => stored.end(row, timestamp),
        }
        self.unsaved.lock().push((row, timestamp));
    }

    /// Where the column of this id is.
    pub(crate) fn position(&self, id: ColumnId) -> Option<usize> {
        match &self.content {
            Content::Frozen(frozen) => frozen.schema.index_of_id(id),
            Content::Stored(stored) => stored.file.position(id),
        }
    }

    /// Adds what a snapshot shows; `timed` is a time that rows are to be compared with, too.
    pub(crate) fn view(
        self: &Arc<Self>,
        snapshot: u64,
        timed: Option<u64>,
        projection: Projection,
        view: &mut Vec<Part>,
    ) {
        match &self.content {
            Content::Frozen(frozen) => frozen.rows.view(snapshot, &projection, view),
            Content::Stored(stored) => {
                let projection = Arc::new(projection);
                for (number, batch) in stored.file.batches().iter().enumerate() {
                    if batch.inserted.0 < snapshot {
                        let (first, last) = batch.inserted;
                        let mixed =
                            last >= snapshot || timed.is_some_and(|time| first < time && time <= last);
                        view.push(Part::of_batch(self, number, mixed, &projection));
                    }
                }
            }
        }
    }

    pub(crate) fn stored_rows(&self) -> Option<&Stored> {
        match &self.content {
            Content::Frozen(_) => None,
            Content::Stored(stored) => Some(stored),
        }
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        match &self.content {
            Content::Frozen(Frozen { rows, index, .. }) => rows.bytes() + index.bytes(),
            Content::Stored(stored) => stored.ends.iter().map(|ends| ends.bytes()).sum(),
        }
    }
}

impl Stored {
    /// `others` are the rows that ended after the rowset was written.
    pub(crate) fn new(number: u64, file: Rowset, others: &[(RowId, u64)]) -> Result<Self, RowsetError> {
        let ends = file.batches().iter().map(|_| Arc::new(Tombstones::new())).collect();
        let stored = Self { number, file, ends };
        for (batch, about) in stored.file.batches().iter().enumerate() {
            let Some(times) = stored.file.ended(batch)? else { continue };
            for row in 0..about.rows as usize {
                let end = times.at(row);
                if end != ALIVE {
                    stored.ends[batch].set(row, end);
                }
            }
        }
        for &(row, end) in others {
            let (batch, index) = rowset::place(row);
            let rows = stored.file.batches().get(batch).map_or(0, |batch| batch.rows);
            if index >= rows as usize {
                let problem = "a row ended that is not there";
                return Err(RowsetError::Corrupt {
                    file: stored.file.folder().to_owned(),
                    offset: 0,
                    problem,
                });
            }
            stored.end(row, end);
        }
        Ok(stored)
    }

    pub(crate) fn end(&self, row: RowId, timestamp: u64) {
        let (batch, index) = rowset::place(row);
        self.ends[batch].set(index, timestamp);
    }

    /// When a row ended, [`ALIVE`] if it did not.
    pub(crate) fn end_of(&self, row: RowId) -> u64 {
        let (batch, index) = rowset::place(row);
        self.ends[batch].end(index)
    }

    fn is_ended(&self, row: RowId) -> bool {
        self.end_of(row) != ALIVE
    }

    /// Rows that ended, and when.
    pub(crate) fn all_ends(&self) -> impl Iterator<Item = (RowId, u64)> {
        self.ends.iter().enumerate().flat_map(|(batch, ends)| {
            ends.all().map(move |(index, end)| (rowset::row_number(batch, index), end))
        })
    }

    pub(crate) fn alive(&self) -> u64 {
        self.file.rows() - self.all_ends().count() as u64
    }
}

/// The first and the last key of rows whose keys ascend.
#[derive(Clone, Debug)]
pub(crate) struct Ends<'a> {
    pub(crate) first: Vec<Cell<'a>>,
    pub(crate) last: Vec<Cell<'a>>,
}

impl Ends<'_> {
    pub(crate) fn of(&self, end: End) -> &[Cell<'_>] {
        match end {
            End::First => &self.first,
            End::Last => &self.last,
        }
    }
}

/// The layers of a tablet as a writer sees them, oldest first.
#[derive(Clone, Copy)]
pub(crate) struct Layers<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) layers: &'a [Arc<Layer>],
}

impl Layers<'_> {
    /// Whether it is certain, by looking at no more than `most` rows of a layer, that no key between these is here.
    pub(crate) fn are_apart(&self, most: usize, ends: &Ends<'_>) -> bool {
        if self.layers.is_empty() {
            return true;
        }
        let encode = |key: &[Cell<'_>]| schema::key::encode_key(self.schema, key);
        let (Ok(first), Ok(last)) = (encode(&ends.first), encode(&ends.last)) else { return false };
        let encoded = (first, last);
        self.layers.iter().all(|layer| layer.is_apart(most, ends, &encoded))
    }

    /// The row of a key that has not ended, if `wanted` holds for it. At most one version of a key lives.
    pub(crate) fn find(
        &self,
        hash: u64,
        key: &[Cell<'_>],
        wanted: impl Fn(Place) -> bool,
    ) -> Result<Option<Place>, RowsetError> {
        let once = OnceCell::new();
        let encoded =
            || once.get_or_init(|| schema::key::encode_key(self.schema, key).unwrap_or_default()).as_slice();
        for (number, layer) in self.layers.iter().enumerate().rev() {
            let place = |row| Place { layer: number as u32, row };
            if let Some(row) = layer.find(hash, key, encoded, |row| wanted(place(row)))? {
                return Ok(Some(place(row)));
            }
        }
        Ok(None)
    }

    /// Bytes of a row in the columns of the writer's schema: as many as it takes in a memrowset, so that it does not matter
    /// to a batch where its rows were found.
    pub(crate) fn row_bytes(&self, place: Place, layouts: &[Layout]) -> Result<u64, RowsetError> {
        let mut bytes = 0;
        self.each_cell(place, layouts, |column, cell| bytes += layouts[column].bytes(cell))?;
        Ok(bytes as u64)
    }

    /// Appends the cells of a row to buffers that have the columns of the writer's schema.
    pub(crate) fn copy(
        &self,
        place: Place,
        layouts: &[Layout],
        to: &mut [ColumnBuffer],
    ) -> Result<(), RowsetError> {
        self.each_cell(place, layouts, |column, cell| to[column].push(cell))
    }

    fn each_cell(
        &self,
        place: Place,
        layouts: &[Layout],
        mut visit: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), RowsetError> {
        let layer = &self.layers[place.layer as usize];
        let projection = Projection::new(self.schema, |id| layer.position(id), |_| true);
        for (column, &layout) in layouts.iter().enumerate() {
            match (&layer.content, projection.source(column)) {
                (_, Err(constant)) => visit(column, constant),
                (Content::Frozen(frozen), Ok(stored)) => visit(column, frozen.rows.cell(place.row, stored)),
                (Content::Stored(rows), Ok(stored)) => {
                    let (batch, index) = rowset::place(place.row);
                    let data = rows.file.column(batch, stored)?;
                    visit(column, Cells::of(layout, &data).cell(index));
                }
            }
        }
        Ok(())
    }
}
