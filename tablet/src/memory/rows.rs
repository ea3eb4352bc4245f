//! Row versions in memory: sealed chunks, shared with readers, and a tail that grows.

use std::cmp::Ordering;
use std::sync::Arc;

use schema::row_ops::AlikeCells;
use schema::{Cell, ColumnData, Schema};

use super::column::{Cells, ColumnBuffer, Layout};
use super::commits::Commits;
use super::index::RowId;
use super::runs;
use super::tombstones::Tombstones;
use super::{CHUNK_BYTES, CHUNK_ROWS};
use crate::scan::part::Part;
use crate::scan::projection::Projection;

/// A tail of this many rows is sealed for a reader; a smaller one is copied.
pub(crate) const SEAL_FOR_READERS: usize = 4096;

/// Row versions that take no more cells. Only their ends may still be set.
#[derive(Debug)]
struct Chunk {
    start: RowId,
    rows: u32,
    columns: Vec<ColumnData>,
    commits: Arc<Commits>,
    tombstones: Arc<Tombstones>,
}

/// The chunk that grows.
#[derive(Debug)]
struct Tail {
    start: RowId,
    rows: u32,
    columns: Vec<ColumnBuffer>,
    commits: Commits,
    tombstones: Arc<Tombstones>,
}

/// Every so many rows it is looked how many bytes they are; full chunks hold a multiple of it.
const BETWEEN_LOOKS: usize = 256;

/// Where a cell of a new row version comes from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    Bytes(Option<&'a [u8]>),
    /// The same column of an earlier version.
    Row(RowId),
}

/// Row versions of one schema, in commit order.
#[derive(Debug)]
pub(crate) struct MemRows {
    layouts: Arc<[Layout]>,
    sealed: Vec<Arc<Chunk>>,
    sealed_bytes: usize,
    tail: Tail,
}

impl Tail {
    fn new(columns: Vec<ColumnBuffer>, start: RowId) -> Self {
        Self { start, rows: 0, columns, commits: Commits::default(), tombstones: Arc::new(Tombstones::new()) }
    }

    fn bytes(&self) -> usize {
        if self.rows == 0 {
            return 0;
        }
        self.columns.iter().map(ColumnBuffer::bytes).sum()
    }
}

impl MemRows {
    pub(crate) fn new(layouts: Arc<[Layout]>) -> Self {
        let tail = Tail::new(layouts.iter().map(|layout| ColumnBuffer::new(*layout)).collect(), 0);
        Self { layouts, sealed: Vec::new(), sealed_bytes: 0, tail }
    }

    /// The number the next row version gets.
    pub(crate) fn next_row(&self) -> RowId {
        self.tail.start + self.tail.rows
    }

    pub(crate) fn bytes(&self) -> usize {
        self.sealed_bytes + self.tail.bytes()
    }

    pub(crate) fn cell(&self, row: RowId, column: usize) -> Option<&[u8]> {
        if row >= self.tail.start {
            return self.tail.columns[column].cells().cell((row - self.tail.start) as usize);
        }
        let chunk = chunk_of(&self.sealed, row);
        Cells::of(self.layouts[column], &chunk.columns[column]).cell((row - chunk.start) as usize)
    }

    /// The order of a row's key and another one, neither of which has NULLs.
    pub(crate) fn compare_key(&self, schema: &Schema, row: RowId, key: &[Cell<'_>]) -> Ordering {
        let columns = self.layouts.iter().zip(key).take(schema.key_columns()).enumerate();
        let cells = columns.map(|(column, (layout, cell))| {
            let stored = self.cell(row, column).unwrap_or_default();
            runs::compare(*layout, stored, cell.value().unwrap_or_default())
        });
        cells.fold(Ordering::Equal, Ordering::then)
    }

    /// Bytes of a row version.
    pub(crate) fn row_bytes(&self, row: RowId) -> u64 {
        let cell = |(column, layout): (usize, &Layout)| match layout.width {
            Some(width) => width,
            None => layout.bytes(self.cell(row, column)),
        };
        self.layouts.iter().enumerate().map(cell).sum::<usize>() as u64
    }

    /// When a row of a sealed chunk was inserted.
    pub(crate) fn inserted(&self, chunk: usize, row: u32) -> u64 {
        self.sealed[chunk].commits.at(row)
    }

    /// When a row of a sealed chunk ended, if it did.
    pub(crate) fn ended(&self, chunk: usize, row: u32) -> u64 {
        self.sealed[chunk].tombstones.end(row as usize)
    }

    /// The number of a row of a sealed chunk.
    pub(crate) fn row_at(&self, chunk: usize, row: u32) -> RowId {
        self.sealed[chunk].start + row
    }

    pub(crate) fn is_ended(&self, row: RowId) -> bool {
        match row.checked_sub(self.tail.start) {
            Some(row) => self.tail.tombstones.is_set(row as usize),
            None => {
                let chunk = chunk_of(&self.sealed, row);
                chunk.tombstones.is_set((row - chunk.start) as usize)
            }
        }
    }

    /// Appends a row version; `source(column)` says where each cell comes from. Timestamps must not fall.
    pub(crate) fn append<'a>(&mut self, timestamp: u64, source: impl Fn(usize) -> Source<'a>) {
        self.make_room();
        let start = self.tail.start;
        for (column, buffer) in self.tail.columns.iter_mut().enumerate() {
            match source(column) {
                Source::Bytes(bytes) => buffer.push(bytes),
                Source::Row(base) if base >= start => buffer.push_again((base - start) as usize),
                Source::Row(base) => {
                    let chunk = chunk_of(&self.sealed, base);
                    let cells = Cells::of(self.layouts[column], &chunk.columns[column]);
                    buffer.push(cells.cell((base - chunk.start) as usize));
                }
            }
        }
        self.tail.commits.push(self.tail.rows, timestamp);
        self.tail.rows += 1;
    }

    /// Appends a row for each of the given operations.
    pub(crate) fn append_alike(
        &mut self,
        timestamp: u64,
        columns: &[AlikeCells<'_>],
        ops: impl IntoIterator<Item = u32>,
    ) {
        let mut ops = ops.into_iter();
        let mut step = [0; BETWEEN_LOOKS];
        loop {
            let room = BETWEEN_LOOKS - self.tail.rows as usize % BETWEEN_LOOKS;
            let count = step[..room].iter_mut().zip(&mut ops).map(|(slot, op)| *slot = op).count();
            if count == 0 {
                return;
            }
            self.make_room();
            for (buffer, cells) in self.tail.columns.iter_mut().zip(columns) {
                buffer.push_alike(cells, &step[..count]);
            }
            self.tail.commits.push(self.tail.rows, timestamp);
            self.tail.rows += count as u32;
        }
    }

    /// Starts another chunk if the last one is full.
    fn make_room(&mut self) {
        let filled = self.tail.rows as usize;
        if filled >= CHUNK_ROWS || (filled.is_multiple_of(BETWEEN_LOOKS) && self.tail.bytes() >= CHUNK_BYTES)
        {
            self.seal();
        }
    }

    /// Ends a row version.
    pub(crate) fn end(&self, row: RowId, timestamp: u64) {
        if row >= self.tail.start {
            self.tail.tombstones.set((row - self.tail.start) as usize, timestamp);
        } else {
            let chunk = chunk_of(&self.sealed, row);
            chunk.tombstones.set((row - chunk.start) as usize, timestamp);
        }
    }

    /// Whether [`MemRows::seal`] would save a reader a large copy.
    pub(crate) fn worth_sealing(&self) -> bool {
        self.tail.rows as usize >= SEAL_FOR_READERS
    }

    /// Makes the tail a chunk that readers share, and starts a new one.
    pub(crate) fn seal(&mut self) {
        if self.tail.rows == 0 {
            return;
        }
        // A full chunk is followed by one like it; memory that is not written to costs nothing.
        let full = self.tail.rows as usize == CHUNK_ROWS;
        let columns = self.tail.columns.iter().zip(self.layouts.iter());
        let columns = columns
            .map(|(old, layout)| if full { old.successor() } else { ColumnBuffer::new(*layout) })
            .collect();
        let next = Tail::new(columns, self.next_row());
        let tail = std::mem::replace(&mut self.tail, next);
        self.sealed_bytes += tail.bytes();
        self.sealed.push(Arc::new(Chunk {
            start: tail.start,
            rows: tail.rows,
            columns: tail.columns.into_iter().map(ColumnBuffer::seal).collect(),
            commits: Arc::new(tail.commits),
            tombstones: tail.tombstones,
        }));
    }

    /// Adds what a snapshot shows; of the tail only the columns that are wanted are copied.
    pub(crate) fn view(&self, snapshot: u64, projection: &Projection, view: &mut Vec<Part>) {
        for chunk in &self.sealed {
            let rows = chunk.commits.visible(chunk.rows, snapshot);
            if rows > 0 {
                let columns = projection.apply(|column| chunk.columns[column].clone());
                view.push(Part::new(rows, columns, &chunk.tombstones, Arc::clone(&chunk.commits)));
            }
            if rows < chunk.rows {
                return;
            }
        }
        let rows = self.tail.commits.visible(self.tail.rows, snapshot);
        if rows > 0 {
            let columns = projection.apply(|column| self.tail.columns[column].copy(rows as usize));
            view.push(Part::new(rows, columns, &self.tail.tombstones, Arc::new(self.tail.commits.clone())));
        }
    }
}

/// The sealed chunk that holds `row`.
fn chunk_of(sealed: &[Arc<Chunk>], row: RowId) -> &Chunk {
    &sealed[sealed.partition_point(|chunk| chunk.start <= row) - 1]
}
