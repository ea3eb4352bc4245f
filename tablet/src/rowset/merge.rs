//! Several rowsets into one, by key and, of one key, by insert.

use schema::Schema;

use super::find::KeyCells;
use super::{BATCH_ROWS, Rowset, RowsetError, Times, Writer, row_number};
use crate::memory::CHUNK_BYTES;
use crate::memory::column::{Cells, ColumnBuffer, Layout};

/// What becomes of the rows of the inputs.
pub(crate) trait Fate {
    /// When the row was inserted and ended as the output is to say; `None` if it is to be left out.
    fn keep(&mut self, input: usize, row: u32, inserted: u64) -> Option<(u64, u64)>;

    /// The row is `new` in the output. Told in the order of the output.
    fn placed(&mut self, input: usize, row: u32, new: u32);
}

/// The next row of an input.
struct Head<'a> {
    rowset: &'a Rowset,
    batch: usize,
    row: usize,
    cells: KeyCells<'a>,
    inserted: Times,
    key: Vec<u8>,
}

/// Rows of the output's next batch.
#[derive(Default)]
struct Pending {
    /// Where rows of another batch of an input begin: the input, its batch, the index in `rows`.
    groups: Vec<(usize, usize, usize)>,
    rows: Vec<u32>,
    inserted: Vec<u64>,
    ended: Vec<u64>,
    bytes: usize,
}

/// Writes the rows of `inputs` that are kept to `out`, which has the schema `schema`. A column that an input does not have
/// gets the cell of `lacking`, by index of the column. Runs of rows that lie before the next row of all other inputs are
/// copied as a whole.
///
/// # Errors
/// [`RowsetError`] of an input or of the output.
pub(crate) fn merge(
    inputs: &[&Rowset],
    schema: &Schema,
    lacking: &[Option<Vec<u8>>],
    fate: &mut dyn Fate,
    out: &mut Writer<'_>,
) -> Result<(), RowsetError> {
    let columns = Columns::new(inputs, schema, lacking)?;
    let mut heads = Vec::with_capacity(inputs.len());
    for (input, rowset) in inputs.iter().enumerate() {
        heads.push((input, Head::open(rowset, 0)?));
    }
    let mut pending = Pending::default();
    while let Some(first) = least(&heads) {
        let limit = heads.iter().enumerate().filter(|(index, _)| *index != first);
        let limit = limit.map(|(_, (_, head))| head.key.clone()).min();
        let (input, head) = &mut heads[first];
        let end = head.run(limit.as_deref());
        pending.take(*input, head, end, fate);
        if !head.go_to(end)? {
            heads.swap_remove(first);
        }
        if pending.is_full() {
            pending.write(inputs, &columns, fate, out)?;
        }
    }
    if pending.rows.is_empty() { Ok(()) } else { pending.write(inputs, &columns, fate, out) }
}

/// The head with the least key and, of one key, the oldest insert.
fn least(heads: &[(usize, Head<'_>)]) -> Option<usize> {
    let order = |a: &Head<'_>, b: &Head<'_>| a.key.cmp(&b.key).then_with(|| a.time().cmp(&b.time()));
    (0..heads.len()).min_by(|a, b| order(&heads[*a].1, &heads[*b].1))
}

impl<'a> Head<'a> {
    fn open(rowset: &'a Rowset, batch: usize) -> Result<Self, RowsetError> {
        let (cells, inserted) = (rowset.key_cells(batch)?, rowset.inserted(batch)?);
        let mut head = Self { rowset, batch, row: 0, cells, inserted, key: Vec::new() };
        head.cells.encode(0, &mut head.key);
        Ok(head)
    }

    fn time(&self) -> u64 {
        self.inserted.at(self.row)
    }

    /// Where the rows of this batch end that lie before `limit`; one row at least.
    fn run(&self, limit: Option<&[u8]>) -> usize {
        let rows = self.rowset.batches()[self.batch].rows as usize;
        let Some(limit) = limit else { return rows };
        let mut key = Vec::with_capacity(self.key.len());
        let mut is_before = |row: usize| {
            self.cells.encode(row, &mut key);
            key.as_slice() < limit
        };
        // Mostly a run is short or as long as the batch.
        let (mut low, mut step) = (self.row + 1, 1);
        while low + step <= rows && is_before(low + step - 1) {
            (low, step) = (low + step, step * 2);
        }
        let mut high = rows.min(low + step - 1);
        while low < high {
            let middle = low.midpoint(high);
            if is_before(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Moves to a row of this batch or behind its last; false if there is no further row.
    fn go_to(&mut self, row: usize) -> Result<bool, RowsetError> {
        self.row = row;
        if row == self.rowset.batches()[self.batch].rows as usize {
            if self.batch + 1 == self.rowset.batches().len() {
                return Ok(false);
            }
            *self = Self::open(self.rowset, self.batch + 1)?;
            return Ok(true);
        }
        self.cells.encode(row, &mut self.key);
        Ok(true)
    }
}

impl Pending {
    /// Takes the rows of a head that are kept, up to `end`.
    fn take(&mut self, input: usize, head: &Head<'_>, end: usize, fate: &mut dyn Fate) {
        if self.groups.last().is_none_or(|(last, batch, _)| (*last, *batch) != (input, head.batch)) {
            self.groups.push((input, head.batch, self.rows.len()));
        }
        let before = self.rows.len();
        for row in head.row..end {
            let kept = fate.keep(input, row_number(head.batch, row), head.inserted.at(row));
            if let Some((inserted, ended)) = kept {
                self.rows.push(row as u32);
                self.inserted.push(inserted);
                self.ended.push(ended);
            }
        }
        self.bytes += (self.rows.len() - before) * row_bytes(head.rowset, head.batch);
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= BATCH_ROWS || self.bytes >= CHUNK_BYTES
    }

    /// Writes all rows, in several batches if they are too many for one.
    fn write(
        &mut self,
        inputs: &[&Rowset],
        columns: &Columns<'_>,
        fate: &mut dyn Fate,
        out: &mut Writer<'_>,
    ) -> Result<(), RowsetError> {
        let mut start = 0;
        while start < self.rows.len() {
            let end = self.rows.len().min(start + BATCH_ROWS);
            let cells = (0..columns.layouts.len())
                .map(|column| self.gather(inputs, columns, column, start, end))
                .collect::<Result<Vec<_>, _>>()?;
            let batch = out.batches();
            out.push(end - start, &cells, &self.inserted[start..end], &self.ended[start..end])?;
            for (input, from, rows) in self.parts(start, end) {
                for (index, row) in rows.iter().enumerate() {
                    fate.placed(input.0, row_number(input.1, *row as usize), row_number(batch, from + index));
                }
            }
            start = end;
        }
        *self = Self::default();
        Ok(())
    }

    /// The rows from `start` to `end` by input and batch, with where they begin in that range.
    fn parts(&self, start: usize, end: usize) -> impl Iterator<Item = ((usize, usize), usize, &[u32])> {
        let ends = self.groups.iter().skip(1).map(|(_, _, at)| *at).chain([self.rows.len()]);
        self.groups.iter().zip(ends).filter_map(move |((input, batch, from), to)| {
            let (from, to) = ((*from).max(start), to.min(end));
            (from < to).then(|| ((*input, *batch), from - start, &self.rows[from..to]))
        })
    }

    fn gather(
        &self,
        inputs: &[&Rowset],
        columns: &Columns<'_>,
        column: usize,
        start: usize,
        end: usize,
    ) -> Result<schema::ColumnData, RowsetError> {
        let layout = columns.layouts[column];
        let mut buffer = ColumnBuffer::with_capacity(layout, end - start);
        for ((input, batch), _, rows) in self.parts(start, end) {
            let Some(position) = columns.positions[input][column] else {
                rows.iter().for_each(|_| buffer.push(columns.lacking[column].as_deref()));
                continue;
            };
            let data = inputs[input].block(batch, position)?;
            let cells = Cells::of(layout, &data);
            match rows {
                [first, .., last] if (last - first) as usize + 1 == rows.len() => {
                    buffer.push_range(cells, *first as usize, rows.len());
                }
                _ => buffer.push_rows(cells, rows),
            }
        }
        Ok(buffer.finish())
    }
}

/// About what a row of a batch takes.
fn row_bytes(rowset: &Rowset, batch: usize) -> usize {
    let batch = &rowset.batches()[batch];
    let column = |column: usize| match rowset.columns()[column].width() {
        Some(width) => width,
        None => 4 + batch.blocks[column].content as usize / batch.rows as usize,
    };
    (0..rowset.columns().len()).map(column).sum()
}

/// Where the columns of the output are in the inputs.
struct Columns<'a> {
    layouts: Vec<Layout>,
    lacking: &'a [Option<Vec<u8>>],
    /// By input and column of the output.
    positions: Vec<Vec<Option<usize>>>,
}

impl<'a> Columns<'a> {
    fn new(inputs: &[&Rowset], schema: &Schema, lacking: &'a [Option<Vec<u8>>]) -> Result<Self, RowsetError> {
        let layouts = schema.columns().iter().map(Layout::of).collect();
        let mut positions = Vec::with_capacity(inputs.len());
        for rowset in inputs {
            let mut found = Vec::with_capacity(schema.len());
            for (index, column) in schema.columns().iter().enumerate() {
                let position = rowset.position(schema.id(index));
                let stored = position.map(|position| rowset.columns()[position]);
                let other =
                    stored.is_some_and(|s| (s.data_type, s.nullable) != (column.data_type, column.nullable));
                let fits =
                    lacking.len() == schema.len() && (position.is_some() || index >= schema.key_columns());
                if other || !fits || rowset.key_columns() != schema.key_columns() {
                    let problem = "its columns are not those of the rowsets to be merged";
                    return Err(RowsetError::Rows { folder: rowset.folder().to_owned(), problem });
                }
                found.push(position);
            }
            positions.push(found);
        }
        Ok(Self { layouts, lacking, positions })
    }
}
