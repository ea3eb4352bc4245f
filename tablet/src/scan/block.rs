//! Result blocks: gathered cells, or slices of a chunk where a block is one run of neighbouring rows.

use std::sync::Arc;

use schema::ColumnarBlock;

use super::order::Place;
use crate::memory::column::{Cells, ColumnBuffer, Layout, slice};
use crate::memory::rows::{Chunk, Visible};

/// Collects the projected cells of one result block.
pub(crate) struct BlockBuilder<'a> {
    layouts: &'a [Layout],
    projection: &'a [usize],
    /// Rows to make room for when the first cells are copied.
    capacity: usize,
    columns: Option<Vec<ColumnBuffer>>,
    /// Neighbouring rows that are not copied yet.
    run: Option<Run<'a>>,
    row_bytes: usize,
    pub(crate) rows: usize,
    /// What the block would weigh in a row-wise answer.
    pub(crate) bytes: usize,
}

struct Run<'a> {
    chunk: &'a Arc<Chunk>,
    start: usize,
    len: usize,
}

impl<'a> BlockBuilder<'a> {
    /// `layouts` are those of the tablet, `projection` indexes them; `most_rows` bounds the memory taken ahead.
    pub(crate) fn new(
        layouts: &'a [Layout],
        projection: &'a [usize],
        max_bytes: usize,
        most_rows: usize,
    ) -> Self {
        let row_bytes: usize = projection.iter().map(|&c| layouts[c].row_bytes()).sum();
        let capacity = (max_bytes / row_bytes.max(1) + super::STEP_ROWS).min(most_rows);
        Self { layouts, projection, capacity, columns: None, run: None, row_bytes, rows: 0, bytes: 0 }
    }

    /// Whether nothing was copied yet.
    pub(crate) fn is_one_run(&self) -> bool {
        self.run.is_some() && self.columns.is_none()
    }

    /// Adds neighbouring rows.
    pub(crate) fn add_range(&mut self, chunk: &'a Arc<Chunk>, start: usize, len: usize) {
        self.count(chunk, start, len);
        if let Some(run) = &mut self.run
            && Arc::ptr_eq(run.chunk, chunk)
            && run.start + run.len == start
        {
            run.len += len;
            return;
        }
        self.flush();
        self.run = Some(Run { chunk, start, len });
    }

    /// Adds single rows of one chunk.
    pub(crate) fn add_rows(&mut self, chunk: &'a Arc<Chunk>, rows: &[u32]) {
        if let [first, .., last] | [first @ last] = rows
            && (last.wrapping_sub(*first)) as usize == rows.len() - 1
            && rows.is_sorted()
        {
            return self.add_range(chunk, *first as usize, rows.len());
        }
        for &row in rows {
            self.count(chunk, row as usize, 1);
        }
        self.flush();
        let (layouts, projection) = (self.layouts, self.projection);
        for (buffer, &column) in self.buffers().iter_mut().zip(projection) {
            buffer.push_rows(Cells::of(layouts[column], &chunk.columns[column]), rows);
        }
    }

    /// Adds rows from all over the view.
    pub(crate) fn add_places(&mut self, view: &'a [Visible], places: &[Place]) {
        let follows = |pair: &[Place]| pair[0].chunk == pair[1].chunk && pair[0].row + 1 == pair[1].row;
        if let [first, ..] = places
            && places.windows(2).all(follows)
        {
            return self.add_range(&view[first.chunk as usize].chunk, first.row as usize, places.len());
        }
        for place in places {
            self.count(&view[place.chunk as usize].chunk, place.row as usize, 1);
        }
        self.flush();
        let (layouts, projection) = (self.layouts, self.projection);
        for (buffer, &column) in self.buffers().iter_mut().zip(projection) {
            for place in places {
                let chunk = &view[place.chunk as usize].chunk;
                buffer.push(Cells::of(layouts[column], &chunk.columns[column]).cell(place.row as usize));
            }
        }
    }

    /// The block; rows of a single run are shared with their chunk, not copied.
    pub(crate) fn finish(mut self) -> ColumnarBlock {
        let rows = self.rows;
        let columns = match (&self.columns, &self.run) {
            (None, Some(run)) => self
                .projection
                .iter()
                .map(|&c| slice(self.layouts[c], &run.chunk.columns[c], run.start, run.len))
                .collect(),
            _ => {
                self.flush();
                std::mem::take(self.buffers()).into_iter().map(ColumnBuffer::finish).collect()
            }
        };
        ColumnarBlock { rows, columns }
    }

    fn count(&mut self, chunk: &Chunk, start: usize, len: usize) {
        self.rows += len;
        self.bytes += len * self.row_bytes;
        for &column in self.projection {
            self.bytes += Cells::of(self.layouts[column], &chunk.columns[column]).content_bytes(start, len);
        }
    }

    fn flush(&mut self) {
        if let Some(run) = self.run.take() {
            let (layouts, projection) = (self.layouts, self.projection);
            for (buffer, &column) in self.buffers().iter_mut().zip(projection) {
                let cells = Cells::of(layouts[column], &run.chunk.columns[column]);
                buffer.push_range(cells, run.start, run.len);
            }
        }
    }

    fn buffers(&mut self) -> &mut Vec<ColumnBuffer> {
        let (layouts, projection, capacity) = (self.layouts, self.projection, self.capacity);
        self.columns.get_or_insert_with(|| {
            projection.iter().map(|&c| ColumnBuffer::with_capacity(layouts[c], capacity)).collect()
        })
    }
}
