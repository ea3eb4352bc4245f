//! A scan in progress.

use std::sync::Arc;

use schema::{ColumnarBlock, Schema};

use super::STEP_ROWS;
use super::block::BlockBuilder;
use super::filter::Filter;
use super::order::{self, Place};
use crate::ScanError;
use crate::memory::column::Layout;
use crate::memory::rows::Visible;
use crate::memory::tombstones::PAGE_ROWS;

/// Rows looked at in one call when few of them match, so that a call stays short (a few milliseconds).
const LOOKED_AT: usize = 1 << 20;

/// Reads one snapshot of a tablet, block by block. It holds the snapshot's chunks, and never blocks writers.
#[derive(Debug)]
pub struct Scanner {
    schema: Schema,
    layouts: Arc<[Layout]>,
    projection: Vec<usize>,
    view: Vec<Visible>,
    filter: Filter,
    /// Rows that the limit still allows.
    left: u64,
    source: Source,
    last: Option<Place>,
}

/// Where the next rows come from.
#[derive(Debug)]
enum Source {
    /// Storage order: the next page, and what is left of the current one.
    Stored { chunk: usize, row: usize, page: Page },
    /// Key order, not sorted yet.
    Unsorted,
    /// Key order.
    Sorted { places: Vec<Place>, next: usize },
}

/// Rows of a page that passed the filter and were not given out yet.
#[derive(Debug)]
enum Page {
    Range { chunk: usize, start: usize, end: usize },
    Rows { chunk: usize, rows: Vec<u32>, next: usize },
}

impl Scanner {
    pub(crate) fn new(
        schema: Schema,
        layouts: Arc<[Layout]>,
        projection: Vec<usize>,
        view: Vec<Visible>,
        filter: Filter,
        limit: Option<u64>,
        ordered: bool,
    ) -> Self {
        let source = if ordered {
            Source::Unsorted
        } else {
            Source::Stored { chunk: 0, row: 0, page: Page::Range { chunk: 0, start: 0, end: 0 } }
        };
        let left = limit.unwrap_or(u64::MAX);
        Self { schema, layouts, projection, view, filter, left, source, last: None }
    }

    /// The next block of at most about `max_bytes` bytes (counted as a row-wise answer would be), `None` at the end.
    ///
    /// The limit is looked at after every 128 rows, so a block goes over it by at most that many. A block may be empty
    /// or short although more follows: a call looks at a bounded number of rows.
    ///
    /// # Errors
    /// None today; storage that has to be read will have some.
    pub fn next_block(&mut self, max_bytes: usize) -> Result<Option<ColumnarBlock>, ScanError> {
        if !self.has_more() {
            return Ok(None);
        }
        let Self { schema, layouts, projection, view, filter, left, source, last } = self;
        if let Source::Unsorted = source {
            let places = order::sorted(schema, layouts, view, filter, *left);
            *source = Source::Sorted { places, next: 0 };
        }
        let stored: usize = view.iter().map(|v| v.rows as usize).sum();
        let most = usize::try_from(*left).unwrap_or(usize::MAX).min(stored);
        let mut block = BlockBuilder::new(layouts, projection, max_bytes, most);
        let mut looked_at = 0;
        while *left > 0 && (block.rows == 0 || block.bytes < max_bytes) && looked_at < LOOKED_AT {
            let step = STEP_ROWS.min(usize::try_from(*left).unwrap_or(STEP_ROWS));
            let given = match source {
                Source::Sorted { places, next } => {
                    let given = &places[*next..places.len().min(*next + step)];
                    let Some(&end) = given.last() else { break };
                    block.add_places(view, given);
                    *next += given.len();
                    *last = Some(end);
                    looked_at += given.len();
                    given.len()
                }
                Source::Stored { chunk, row, page } if page.is_empty() => {
                    let Some(visible) = view.get(*chunk) else { break };
                    // A block that ends with its chunk is shared; with rows of the next one it would be copied.
                    if *row == 0 && block.is_one_run() && block.bytes >= max_bytes / 4 {
                        break;
                    }
                    let len = PAGE_ROWS.min(visible.rows as usize - *row);
                    let spare = page.recycle();
                    *page = match filter.select(schema, layouts, visible, *row, len, spare) {
                        None => Page::Range { chunk: *chunk, start: *row, end: *row + len },
                        Some(rows) => Page::Rows { chunk: *chunk, rows, next: 0 },
                    };
                    *row += len;
                    if *row >= visible.rows as usize {
                        (*chunk, *row) = (*chunk + 1, 0);
                    }
                    looked_at += len;
                    0
                }
                Source::Stored { page, .. } => page.give(step, view, &mut block, last),
                Source::Unsorted => break,
            };
            *left -= given as u64;
        }
        Ok(Some(block.finish()))
    }

    /// False once the scan is over. True does not promise rows: the next block may be empty.
    pub fn has_more(&self) -> bool {
        self.left > 0
            && match &self.source {
                Source::Stored { chunk, page, .. } => *chunk < self.view.len() || !page.is_empty(),
                Source::Unsorted => !self.view.is_empty(),
                Source::Sorted { places, next } => *next < places.len(),
            }
    }

    /// The encoded primary key of the last row given out: a later ordered scan goes on after it (`last_key`).
    pub fn last_primary_key(&self) -> Option<Vec<u8>> {
        let place = self.last?;
        let chunk = &self.view[place.chunk as usize].chunk;
        let mut key = Vec::new();
        order::encode_key(&self.schema, &self.layouts, chunk, place.row as usize, &mut key);
        Some(key)
    }
}

impl Page {
    fn is_empty(&self) -> bool {
        match self {
            Self::Range { start, end, .. } => start == end,
            Self::Rows { rows, next, .. } => *next == rows.len(),
        }
    }

    /// The memory of a page that was given out.
    fn recycle(&mut self) -> Vec<u32> {
        match self {
            Self::Rows { rows, .. } => std::mem::take(rows),
            Self::Range { .. } => Vec::new(),
        }
    }

    /// Moves up to `most` rows into the block; the number of them.
    fn give<'a>(
        &mut self,
        most: usize,
        view: &'a [Visible],
        block: &mut BlockBuilder<'a>,
        last: &mut Option<Place>,
    ) -> usize {
        match self {
            Self::Range { chunk, start, end } => {
                let len = most.min(*end - *start);
                block.add_range(&view[*chunk].chunk, *start, len);
                *start += len;
                *last = Some(Place { chunk: *chunk as u32, row: *start as u32 - 1 });
                len
            }
            Self::Rows { chunk, rows, next } => {
                let given = &rows[*next..rows.len().min(*next + most)];
                block.add_rows(&view[*chunk].chunk, given);
                *next += given.len();
                *last = given.last().map(|&row| Place { chunk: *chunk as u32, row });
                given.len()
            }
        }
    }
}
