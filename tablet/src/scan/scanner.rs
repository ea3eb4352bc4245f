//! A scan in progress.

use std::ops::Range;
use std::sync::Arc;

use schema::{ColumnData, ColumnarBlock, Schema};

use super::STEP_ROWS;
use super::block::BlockBuilder;
use super::changes::Changes;
use super::filter::Filter;
use super::merge::{Merge, Scan};
use super::order::{self, Place};
use super::part::{Part, ReadBytes};
use super::runs::Runs;
use crate::memory::column::Layout;
use crate::memory::tombstones::PAGE_ROWS;
use crate::{ScanError, ScanSpec};

/// Rows looked at in one call when few of them match, so that a call stays short (a few milliseconds).
const LOOKED_AT: usize = 1 << 20;

/// Of runs that are to be kept, those of fewer bytes are put together with what follows.
const WORTH_A_RUN: usize = 64 << 10;

/// Rows of a block without columns: their number has to fit into 31 bits.
const MOST_ROWS: usize = 1 << 30;

/// Reads one snapshot of a tablet, block by block. It holds the snapshot's parts, and never blocks writers.
#[derive(Debug)]
pub struct Scanner {
    schema: Schema,
    layouts: Arc<[Layout]>,
    projection: Vec<usize>,
    view: Vec<Part>,
    filter: Filter,
    /// Rows that the limit still allows.
    left: u64,
    source: Source,
    last: Option<Place>,
    keep_runs: bool,
    /// Where in a block the columns are that tell whether a row is gone.
    marks: Vec<usize>,
    read: ReadBytes,
}

/// Where the next rows come from.
#[derive(Debug)]
enum Source {
    /// Storage order: the next page, and what is left of the current one.
    Stored {
        part: usize,
        row: usize,
        page: Page,
    },
    /// Key order.
    Ordered(Merge),
    Changes(Changes),
}

/// Rows of a page that passed the filter and were not given out yet.
#[derive(Debug)]
enum Page {
    Range { part: usize, start: usize, end: usize },
    Runs { part: usize, runs: Runs },
}

impl Scanner {
    pub(crate) fn new(
        schema: Schema,
        layouts: Arc<[Layout]>,
        spec: &ScanSpec,
        view: Vec<Part>,
        filter: Filter,
    ) -> Self {
        let is_mark = |column: &usize| *column == ScanSpec::IS_DELETED;
        let marks: Vec<usize> =
            (0..spec.projection.len()).filter(|at| is_mark(&spec.projection[*at])).collect();
        let projection = spec.projection.iter().copied().filter(|column| !is_mark(column)).collect();
        let source = if let Some(since) = spec.since {
            Source::Changes(Changes::new(since.0, !marks.is_empty(), Merge::new(&view)))
        } else if spec.ordered {
            Source::Ordered(Merge::new(&view))
        } else {
            Source::Stored { part: 0, row: 0, page: Page::Range { part: 0, start: 0, end: 0 } }
        };
        let left = spec.limit.unwrap_or(u64::MAX);
        let (last, keep_runs, read) = (None, false, ReadBytes::default());
        Self { schema, layouts, projection, view, filter, left, source, last, keep_runs, marks, read }
    }

    /// From now on, blocks of neighbouring rows end where what they share ends, however long they are: for readers who
    /// do not copy.
    pub fn keep_runs(&mut self, wanted: bool) {
        self.keep_runs = wanted;
    }

    /// The next block of at most about `max_bytes` bytes (counted as a row-wise answer would be), `None` at the end.
    ///
    /// The limit is looked at after every 128 rows, so a block goes over it by at most that many. A block may be empty
    /// or short although more follows: a call looks at a bounded number of rows.
    ///
    /// # Errors
    /// [`ScanError::Rowset`]: a file cannot be read, or it is not what was written.
    pub fn next_block(&mut self, max_bytes: usize) -> Result<Option<ColumnarBlock>, ScanError> {
        if !self.has_more() {
            return Ok(None);
        }
        let Self { schema, layouts, projection, view, filter, left, source, last, keep_runs, marks, read } =
            self;
        let scan = Scan { schema, layouts, view };
        let stored: usize = view.iter().map(|v| v.rows as usize).sum();
        let most = usize::try_from(*left).unwrap_or(usize::MAX).min(stored);
        let mut block = BlockBuilder::new(layouts, projection, max_bytes, most);
        let mut looked_at = 0;
        let mut gone = Vec::new();
        // Rows without columns weigh nothing.
        let most_rows = if projection.is_empty() { MOST_ROWS } else { STEP_ROWS };
        while *left > 0 && looked_at < LOOKED_AT && block.rows < MOST_ROWS {
            let in_run = || *keep_runs && block.is_one_run() && source.is_inside();
            if block.rows > 0 && block.bytes >= max_bytes && !in_run() {
                break;
            }
            let step = most_rows.min(usize::try_from(*left).unwrap_or(most_rows));
            let given = match source {
                Source::Ordered(merge) if merge.is_over() => break,
                Source::Ordered(merge) => {
                    let done =
                        merge.step(scan, filter, step, *left, |part, rows| block.add_rows(part, rows))?;
                    *last = done.last.or(*last);
                    looked_at += done.looked_at;
                    read.add(done.read);
                    done.given
                }
                Source::Changes(changes) if changes.is_over() => break,
                Source::Changes(changes) => {
                    let done = changes.step(scan, filter, &mut block)?;
                    looked_at += done.looked_at;
                    read.add(done.read);
                    if let Some((place, is_gone)) = done.change {
                        *last = Some(place);
                        gone.push(u8::from(is_gone));
                    }
                    usize::from(done.change.is_some())
                }
                Source::Stored { part, row, page } if page.is_empty() => {
                    let Some(stored) = view.get(*part) else { break };
                    // A block that ends with its part is shared; with rows of the next one it would be copied.
                    let enough = if *keep_runs { WORTH_A_RUN.min(max_bytes / 4) } else { max_bytes / 4 };
                    if *row == 0 && block.is_one_run() && block.bytes >= enough {
                        break;
                    }
                    if *row == 0 {
                        read.add(stored.load()?);
                    }
                    let rest = stored.rows as usize - *row;
                    let mut len = PAGE_ROWS.min(rest);
                    let runs = page.recycle();
                    *page = if filter.wants_all(stored) {
                        len = rest;
                        Page::Range { part: *part, start: *row, end: *row + len }
                    } else {
                        looked_at += len;
                        match filter.narrow(schema, layouts, stored, *row, len) {
                            None => Page::Range { part: *part, start: *row, end: *row + len },
                            Some(rows) => Page::Runs { part: *part, runs: runs.filled(*row, rows) },
                        }
                    };
                    *row += len;
                    if *row >= stored.rows as usize {
                        (*part, *row) = (*part + 1, 0);
                    }
                    0
                }
                Source::Stored { page, .. } => page.give(step, view, &mut block, last),
            };
            *left -= given as u64;
        }
        let mut block = block.finish();
        for &at in marks.iter() {
            let data = gone.clone().into();
            block.columns.insert(at, ColumnData { data, varlen: None, non_null: None });
        }
        Ok(Some(block))
    }

    /// False once the scan is over. True does not promise rows: the next block may be empty.
    pub fn has_more(&self) -> bool {
        self.left > 0
            && match &self.source {
                Source::Stored { part, page, .. } => *part < self.view.len() || !page.is_empty(),
                Source::Ordered(merge) => !merge.is_over(),
                Source::Changes(changes) => !changes.is_over(),
            }
    }

    /// What was read of files since this was asked for last.
    pub fn take_read_bytes(&mut self) -> ReadBytes {
        std::mem::take(&mut self.read)
    }

    /// The encoded primary key of the last row given out: a later ordered scan goes on after it (`last_key`).
    pub fn last_primary_key(&self) -> Option<Vec<u8>> {
        let place = self.last?;
        let part = &self.view[place.part as usize];
        let mut key = Vec::new();
        order::encode_key(&self.schema, &self.layouts, part, place.row as usize, &mut key);
        Some(key)
    }
}

impl Source {
    /// Are there more rows where the last ones came from?
    fn is_inside(&self) -> bool {
        matches!(self, Self::Stored { row, page, .. } if *row > 0 || !page.is_empty())
    }
}

impl Page {
    fn is_empty(&self) -> bool {
        match self {
            Self::Range { start, end, .. } => start == end,
            Self::Runs { runs, .. } => runs.is_empty(),
        }
    }

    /// The memory of a page that was given out.
    fn recycle(&mut self) -> Runs {
        match self {
            Self::Runs { runs, .. } => std::mem::take(runs),
            Self::Range { .. } => Runs::default(),
        }
    }

    /// Moves up to `most` rows into the block; the number of them.
    fn give<'a>(
        &mut self,
        most: usize,
        view: &'a [Part],
        block: &mut BlockBuilder<'a>,
        last: &mut Option<Place>,
    ) -> usize {
        match self {
            Self::Range { part, start, end } => {
                let len = most.min(*end - *start);
                block.add_range(&view[*part], *start, len);
                *start += len;
                *last = Some(Place { part: *part as u32, row: *start as u32 - 1 });
                len
            }
            Self::Runs { part, runs } => {
                let given = runs.take(most);
                block.add_runs(&view[*part], given);
                *last = given.last().map(|run| Place { part: *part as u32, row: run.end - 1 });
                given.iter().map(Range::len).sum()
            }
        }
    }
}
