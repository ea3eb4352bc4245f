//! All row versions of a tablet: sealed chunks, shared with readers, and a tail that grows.

use std::sync::Arc;

use schema::ColumnData;

use super::column::{Cells, ColumnBuffer, Layout};
use super::commits::Commits;
use super::index::RowId;
use super::tombstones::Tombstones;
use super::{CHUNK_BYTES, CHUNK_ROWS};

/// A tail of this many rows is sealed for a reader; a smaller one is copied.
pub(crate) const SEAL_FOR_READERS: usize = 4096;

/// Row versions that take no more cells. Only their ends may still be set.
#[derive(Debug)]
pub(crate) struct Chunk {
    start: RowId,
    pub(crate) rows: u32,
    pub(crate) columns: Vec<ColumnData>,
    commits: Commits,
    pub(crate) tombstones: Arc<Tombstones>,
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

/// What a snapshot shows of one chunk.
#[derive(Clone, Debug)]
pub(crate) struct Visible {
    pub(crate) chunk: Arc<Chunk>,
    /// Rows from the first on; tombstones are looked at later.
    pub(crate) rows: u32,
}

/// Where a cell of a new row version comes from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    Bytes(Option<&'a [u8]>),
    /// The same column of an earlier version.
    Row(RowId),
}

/// All row versions of a tablet, in commit order.
#[derive(Debug)]
pub(crate) struct Rows {
    layouts: Arc<[Layout]>,
    sealed: Vec<Arc<Chunk>>,
    sealed_bytes: usize,
    tail: Tail,
    pub(crate) live: u64,
    /// The timestamp of the newest batch.
    pub(crate) last_commit: u64,
}

impl Tail {
    fn new(columns: Vec<ColumnBuffer>, start: RowId) -> Self {
        Self { start, rows: 0, columns, commits: Commits::default(), tombstones: Arc::new(Tombstones::new()) }
    }

    fn bytes(&self) -> usize {
        self.columns.iter().map(ColumnBuffer::bytes).sum()
    }
}

impl Rows {
    pub(crate) fn new(layouts: Arc<[Layout]>) -> Self {
        let tail = Tail::new(layouts.iter().map(|layout| ColumnBuffer::new(*layout)).collect(), 0);
        Self { layouts, sealed: Vec::new(), sealed_bytes: 0, tail, live: 0, last_commit: 0 }
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

    /// Bytes of a row version.
    pub(crate) fn row_bytes(&self, row: RowId) -> u64 {
        let cell = |(column, layout): (usize, &Layout)| match layout.width {
            Some(width) => width,
            None => self.cell(row, column).map_or(0, <[u8]>::len) + 4,
        };
        self.layouts.iter().enumerate().map(cell).sum::<usize>() as u64
    }

    /// Appends a row version; `source(column)` says where each cell comes from. Timestamps must not fall.
    pub(crate) fn append<'a>(&mut self, timestamp: u64, source: impl Fn(usize) -> Source<'a>) {
        let filled = self.tail.rows as usize;
        if filled >= CHUNK_ROWS || (filled.is_multiple_of(256) && self.tail.bytes() >= CHUNK_BYTES) {
            self.seal();
        }
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

    /// Ends a row version.
    pub(crate) fn end(&mut self, row: RowId, timestamp: u64) {
        if row >= self.tail.start {
            self.tail.tombstones.set((row - self.tail.start) as usize, timestamp);
        } else {
            let chunk = chunk_of(&self.sealed, row);
            chunk.tombstones.set((row - chunk.start) as usize, timestamp);
        }
    }

    /// Whether [`Rows::seal`] would save a reader a large copy.
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
            commits: tail.commits,
            tombstones: tail.tombstones,
        }));
    }

    /// What a snapshot shows; of the tail only the columns that `needed` names are copied.
    pub(crate) fn view(&self, snapshot: u64, needed: impl Fn(usize) -> bool) -> Vec<Visible> {
        let mut view = Vec::with_capacity(self.sealed.len() + 1);
        for chunk in &self.sealed {
            let rows = chunk.commits.visible(chunk.rows, snapshot);
            if rows > 0 {
                view.push(Visible { chunk: Arc::clone(chunk), rows });
            }
            if rows < chunk.rows {
                return view;
            }
        }
        let rows = self.tail.commits.visible(self.tail.rows, snapshot);
        if rows > 0 {
            let columns = self.tail.columns.iter().enumerate().map(|(i, column)| {
                let rows = if needed(i) { rows as usize } else { 0 };
                column.copy(rows)
            });
            let chunk = Chunk {
                start: self.tail.start,
                rows,
                columns: columns.collect(),
                commits: Commits::default(),
                tombstones: Arc::clone(&self.tail.tombstones),
            };
            view.push(Visible { chunk: Arc::new(chunk), rows });
        }
        view
    }
}

/// The sealed chunk that holds `row`.
fn chunk_of(sealed: &[Arc<Chunk>], row: RowId) -> &Chunk {
    &sealed[sealed.partition_point(|chunk| chunk.start <= row) - 1]
}
