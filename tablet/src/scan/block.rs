//! Result blocks: gathered cells, or slices of a part where a block is one run of neighbouring rows.

use std::ops::Range;

use schema::ColumnarBlock;

use super::order::Place;
use super::part::Part;
use crate::memory::column::{Cells, ColumnBuffer, Layout, slice};

/// Collects the projected cells of one result block.
pub(crate) struct BlockBuilder<'a> {
    layouts: &'a [Layout],
    projection: &'a [usize],
    /// Rows to make room for when the first cells are copied.
    capacity: usize,
    /// Of strings, to make room for then.
    content: usize,
    columns: Option<Vec<ColumnBuffer>>,
    /// Neighbouring rows that are not copied yet.
    run: Option<Run<'a>>,
    row_bytes: usize,
    pub(crate) rows: usize,
    /// What the block would weigh in a row-wise answer.
    pub(crate) bytes: usize,
}

struct Run<'a> {
    part: &'a Part,
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
        let content = max_bytes.min(capacity * STRING_BYTES);
        Self {
            layouts,
            projection,
            capacity,
            content,
            columns: None,
            run: None,
            row_bytes,
            rows: 0,
            bytes: 0,
        }
    }

    /// Whether nothing was copied yet.
    pub(crate) fn is_one_run(&self) -> bool {
        self.run.is_some() && self.columns.is_none()
    }

    /// Adds neighbouring rows.
    pub(crate) fn add_range(&mut self, part: &'a Part, start: usize, len: usize) {
        self.count(part, start, len);
        if let Some(run) = &mut self.run
            && std::ptr::eq(run.part, part)
            && run.start + run.len == start
        {
            run.len += len;
            return;
        }
        self.flush();
        self.run = Some(Run { part, start, len });
    }

    /// Adds runs of rows of one part.
    pub(crate) fn add_runs(&mut self, part: &'a Part, runs: &[Range<u32>]) {
        if let [run] = runs {
            return self.add_range(part, run.start as usize, run.len());
        }
        for run in runs {
            self.count(part, run.start as usize, run.len());
        }
        self.flush();
        let (layouts, projection) = (self.layouts, self.projection);
        for (buffer, &column) in self.buffers().iter_mut().zip(projection) {
            buffer.push_runs(Cells::of_column(layouts[column], &part.columns()[column]), runs);
        }
    }

    /// Adds single rows of one part.
    pub(crate) fn add_rows(&mut self, part: &'a Part, rows: &[u32]) {
        if rows.is_empty() {
            return;
        }
        if let [first, .., last] | [first @ last] = rows
            && (last.wrapping_sub(*first)) as usize == rows.len() - 1
            && rows.is_sorted()
        {
            return self.add_range(part, *first as usize, rows.len());
        }
        for &row in rows {
            self.count(part, row as usize, 1);
        }
        self.flush();
        let (layouts, projection) = (self.layouts, self.projection);
        for (buffer, &column) in self.buffers().iter_mut().zip(projection) {
            buffer.push_rows(Cells::of_column(layouts[column], &part.columns()[column]), rows);
        }
    }

    /// Adds rows from all over the view.
    pub(crate) fn add_places(&mut self, view: &'a [Part], places: &[Place]) {
        let follows = |pair: &[Place]| pair[0].part == pair[1].part && pair[0].row + 1 == pair[1].row;
        if let [first, ..] = places
            && places.windows(2).all(follows)
        {
            return self.add_range(&view[first.part as usize], first.row as usize, places.len());
        }
        for place in places {
            self.count(&view[place.part as usize], place.row as usize, 1);
        }
        self.flush();
        let (layouts, projection) = (self.layouts, self.projection);
        for (buffer, &column) in self.buffers().iter_mut().zip(projection) {
            for place in places {
                let part = &view[place.part as usize];
                buffer.push(
                    Cells::of_column(layouts[column], &part.columns()[column]).cell(place.row as usize),
                );
            }
        }
    }

    /// The block; rows of a single run are shared with their part, not copied.
    pub(crate) fn finish(mut self) -> ColumnarBlock {
        let rows = self.rows;
        let columns = match (&self.columns, &self.run) {
            (None, Some(run)) => self
                .projection
                .iter()
                .map(|&c| slice(self.layouts[c], &run.part.columns()[c], run.start, run.len))
                .collect(),
            _ => {
                self.flush();
                std::mem::take(self.buffers()).into_iter().map(ColumnBuffer::finish).collect()
            }
        };
        ColumnarBlock { rows, columns }
    }

    fn count(&mut self, part: &Part, start: usize, len: usize) {
        self.rows += len;
        self.bytes += len * self.row_bytes;
        for &column in self.projection {
            self.bytes +=
                Cells::of_column(self.layouts[column], &part.columns()[column]).content_bytes(start, len);
        }
    }

    fn flush(&mut self) {
        if let Some(run) = self.run.take() {
            let (layouts, projection) = (self.layouts, self.projection);
            for (buffer, &column) in self.buffers().iter_mut().zip(projection) {
                let cells = Cells::of_column(layouts[column], &run.part.columns()[column]);
                buffer.push_range(cells, run.start, run.len);
            }
        }
    }

    fn buffers(&mut self) -> &mut Vec<ColumnBuffer> {
        let Self { layouts, projection, capacity, content, .. } = *self;
        self.columns.get_or_insert_with(|| {
            let mut columns: Vec<_> =
                projection.iter().map(|&c| ColumnBuffer::with_capacity(layouts[c], capacity)).collect();
            columns.iter_mut().for_each(|column| column.reserve_content(content));
            columns
        })
    }
}

/// Room that is made for the content of a string; a longer one has it made when it comes.
const STRING_BYTES: usize = 64;
