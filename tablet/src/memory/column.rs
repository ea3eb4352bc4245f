//! The cells of one column: a growing buffer, and views of it and of sealed columns.

use std::ops::Range;

use bytes::Bytes;
use schema::row_ops::{AlikeCells, FixedCells, VarlenCells};
use schema::{ColumnData, ColumnSlice};

use super::bits;

/// How the cells of a column are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Bytes of a cell; `None` for columns of variable length.
    pub(crate) width: Option<usize>,
    /// Whether a bitmap (LSB first, 1 = not null) goes with the cells.
    pub(crate) nullable: bool,
}

impl Layout {
    pub(crate) fn of(column: &schema::Column) -> Self {
        let width = (!column.data_type.is_varlen()).then(|| column.data_type.cell_size());
        Self { width, nullable: column.nullable }
    }

    /// What a cell takes in memory.
    pub(crate) fn bytes(self, cell: Option<&[u8]>) -> usize {
        self.width.unwrap_or_else(|| cell.map_or(0, <[u8]>::len) + 4)
    }

    /// What a cell weighs in a row-wise answer, strings without their content.
    pub(crate) fn row_bytes(self) -> usize {
        self.width.unwrap_or(16)
    }
}

/// One column of rows that take no more cells, as a scan sees it.
#[derive(Clone, Debug)]
pub(crate) enum Column {
    Stored(ColumnData),
    /// The same cell in all rows, `None` for NULL: they are older than the column.
    Constant(Option<Bytes>),
    /// The scan does not ask for it.
    Unneeded,
}

impl Column {
    pub(crate) fn stored(&self) -> Option<&ColumnData> {
        match self {
            Self::Stored(data) => Some(data),
            Self::Constant(_) | Self::Unneeded => None,
        }
    }
}

/// Cells of one column, borrowed from a buffer or from a sealed chunk.
#[derive(Clone, Copy)]
pub(crate) struct Cells<'a> {
    pub(crate) layout: Layout,
    data: &'a [u8],
    varlen: &'a [u8],
    non_null: Option<&'a [u8]>,
    /// What all cells are, if they are the same without being stored.
    pub(crate) constant: Option<Option<&'a [u8]>>,
}

impl<'a> Cells<'a> {
    pub(crate) fn of(layout: Layout, column: &'a ColumnData) -> Self {
        Self {
            layout,
            data: &column.data,
            varlen: column.varlen.as_deref().unwrap_or_default(),
            non_null: column.non_null.as_deref(),
            constant: None,
        }
    }

    pub(crate) fn of_column(layout: Layout, column: &'a Column) -> Self {
        let constant = match column {
            Column::Stored(data) => return Self::of(layout, data),
            Column::Constant(cell) => cell.as_deref(),
            Column::Unneeded => None,
        };
        Self { layout, data: &[], varlen: &[], non_null: None, constant: Some(constant) }
    }

    /// The raw bytes of a cell, `None` for NULL.
    pub(crate) fn cell(&self, row: usize) -> Option<&'a [u8]> {
        if let Some(cell) = self.constant {
            return cell;
        }
        if self.non_null.is_some_and(|bitmap| !bits::get(bitmap, row)) {
            return None;
        }
        Some(match self.layout.width {
            Some(width) => &self.data[row * width..][..width],
            None => &self.varlen[self.offset(row)..self.offset(row + 1)],
        })
    }

    /// Part of a stored column for predicates; `start` is a multiple of 8.
    pub(crate) fn page(&self, start: usize, len: usize) -> ColumnSlice<'a> {
        let data = match self.layout.width {
            Some(width) => &self.data[start * width..(start + len) * width],
            None => &self.data[start * 4..(start + len + 1) * 4],
        };
        ColumnSlice {
            rows: len,
            data,
            varlen: self.layout.width.is_none().then_some(self.varlen),
            non_null: self.non_null.map(|bitmap| &bitmap[start / 8..(start + len).div_ceil(8)]),
        }
    }

    /// Where the content of string `row` starts in the heap.
    fn offset(&self, row: usize) -> usize {
        offset_at(self.data, row)
    }

    /// Bytes of string content in a range of rows; 0 for fixed cells.
    pub(crate) fn content_bytes(&self, start: usize, len: usize) -> usize {
        match (self.layout.width, self.constant) {
            (Some(_), _) => 0,
            (None, Some(cell)) => cell.map_or(0, <[u8]>::len) * len,
            (None, None) => self.offset(start + len) - self.offset(start),
        }
    }
}

/// Cells of one column that can still grow.
#[derive(Debug)]
pub(crate) struct ColumnBuffer {
    layout: Layout,
    rows: usize,
    data: Vec<u8>,
    varlen: Vec<u8>,
    non_null: Option<Vec<u8>>,
}

impl ColumnBuffer {
    pub(crate) fn new(layout: Layout) -> Self {
        let data = if layout.width.is_none() { vec![0; 4] } else { Vec::new() };
        Self { layout, rows: 0, data, varlen: Vec::new(), non_null: layout.nullable.then(Vec::new) }
    }

    pub(crate) fn with_capacity(layout: Layout, rows: usize) -> Self {
        let mut buffer = Self::new(layout);
        buffer.data.reserve_exact(rows * layout.width.unwrap_or(4));
        if let Some(bitmap) = &mut buffer.non_null {
            bitmap.reserve_exact(rows.div_ceil(8));
        }
        buffer
    }

    /// Makes room for so many bytes of strings, if it has any.
    pub(crate) fn reserve_content(&mut self, bytes: usize) {
        if self.layout.width.is_none() {
            self.varlen.reserve_exact(bytes);
        }
    }

    /// An empty column with room for what this one holds.
    pub(crate) fn successor(&self) -> Self {
        let mut next = Self::new(self.layout);
        next.data.reserve_exact(self.data.len());
        next.varlen.reserve(self.varlen.len());
        next
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.data.len() + self.varlen.len() + self.non_null.as_ref().map_or(0, Vec::len)
    }

    pub(crate) fn cells(&self) -> Cells<'_> {
        Cells {
            layout: self.layout,
            data: &self.data,
            varlen: &self.varlen,
            non_null: self.non_null.as_deref(),
            constant: None,
        }
    }

    pub(crate) fn push(&mut self, cell: Option<&[u8]>) {
        if let Some(bitmap) = &mut self.non_null {
            bits::push(bitmap, self.rows, cell.is_some());
        }
        match (self.layout.width, cell) {
            // Of a known length they are stored without a call.
            (Some(4), Some(bytes)) => {
                self.data.extend_from_slice(bytes.first_chunk::<4>().unwrap_or(&[0; 4]))
            }
            (Some(8), Some(bytes)) => {
                self.data.extend_from_slice(bytes.first_chunk::<8>().unwrap_or(&[0; 8]))
            }
            (Some(_), Some(bytes)) => self.data.extend_from_slice(bytes),
            (Some(width), None) => self.data.resize(self.data.len() + width, 0),
            (None, bytes) => {
                self.varlen.extend_from_slice(bytes.unwrap_or_default());
                self.data.extend_from_slice(&(self.varlen.len() as u32).to_le_bytes());
            }
        }
        self.rows += 1;
    }

    /// Appends the cells of the given operations.
    pub(crate) fn push_alike(&mut self, from: &AlikeCells<'_>, ops: &[u32]) {
        match (from, self.layout.width) {
            (AlikeCells::Fixed(cells), Some(1)) => self.push_fixed::<1>(cells, ops),
            (AlikeCells::Fixed(cells), Some(2)) => self.push_fixed::<2>(cells, ops),
            (AlikeCells::Fixed(cells), Some(4)) => self.push_fixed::<4>(cells, ops),
            (AlikeCells::Fixed(cells), Some(8)) => self.push_fixed::<8>(cells, ops),
            (AlikeCells::Fixed(cells), Some(16)) => self.push_fixed::<16>(cells, ops),
            (AlikeCells::Varlen(cells), None) => self.push_varlen(cells, ops),
            _ => ops.iter().for_each(|&op| self.push(from.cell(op as usize).value())),
        }
    }

    fn push_fixed<const N: usize>(&mut self, cells: &FixedCells<'_>, ops: &[u32]) {
        let start = self.data.len();
        self.data.resize(start + ops.len() * N, 0);
        for (to, &op) in self.data[start..].as_chunks_mut::<N>().0.iter_mut().zip(ops) {
            *to = *cells.array(op as usize).unwrap_or(&[0; N]);
        }
        self.count_values(ops.len());
    }

    fn push_varlen(&mut self, cells: &VarlenCells<'_>, ops: &[u32]) {
        let mut end = self.varlen.len();
        // Content that follows each other is copied at once.
        let mut run = 0..0;
        let start = self.data.len();
        self.data.resize(start + ops.len() * 4, 0);
        for (offset, &op) in self.data[start..].as_chunks_mut::<4>().0.iter_mut().zip(ops) {
            let (from, to) = cells.place(op as usize).unwrap_or_default();
            if from != run.end {
                self.varlen.extend_from_slice(cells.indirect().get(run).unwrap_or_default());
                run = from..from;
            }
            run.end = to;
            end += to - from;
            *offset = (end as u32).to_le_bytes();
        }
        self.varlen.extend_from_slice(cells.indirect().get(run).unwrap_or_default());
        self.count_values(ops.len());
    }

    /// Rows were added whose cells are not NULL.
    fn count_values(&mut self, count: usize) {
        if let Some(bitmap) = &mut self.non_null {
            bits::push_ones(bitmap, self.rows, count);
        }
        self.rows += count;
    }

    /// Appends a copy of the cell of an earlier row of this buffer.
    pub(crate) fn push_again(&mut self, row: usize) {
        if self.non_null.as_ref().is_some_and(|bitmap| !bits::get(bitmap, row)) {
            return self.push(None);
        }
        if let Some(bitmap) = &mut self.non_null {
            bits::push(bitmap, self.rows, true);
        }
        match self.layout.width {
            Some(width) => self.data.extend_from_within(row * width..(row + 1) * width),
            None => {
                self.varlen.extend_from_within(offset_at(&self.data, row)..offset_at(&self.data, row + 1));
                self.data.extend_from_slice(&(self.varlen.len() as u32).to_le_bytes());
            }
        }
        self.rows += 1;
    }

    /// Appends `len` neighbouring cells.
    pub(crate) fn push_range(&mut self, from: Cells<'_>, start: usize, len: usize) {
        if let Some(cell) = from.constant {
            return (0..len).for_each(|_| self.push(cell));
        }
        if let (Some(bitmap), Some(source)) = (&mut self.non_null, from.non_null) {
            bits::push_range(bitmap, self.rows, source, start, len);
        }
        match self.layout.width {
            Some(width) => self.data.extend_from_slice(&from.data[start * width..(start + len) * width]),
            None => {
                let first = from.offset(start);
                let shift = (self.varlen.len() as u32).wrapping_sub(first as u32);
                self.varlen.extend_from_slice(&from.varlen[first..from.offset(start + len)]);
                let offsets = from.data[(start + 1) * 4..(start + len + 1) * 4].as_chunks::<4>().0;
                self.data.extend(
                    offsets.iter().flat_map(|o| u32::from_le_bytes(*o).wrapping_add(shift).to_le_bytes()),
                );
            }
        }
        self.rows += len;
    }

    /// Appends the cells of runs of rows.
    pub(crate) fn push_runs(&mut self, from: Cells<'_>, runs: &[Range<u32>]) {
        match (self.layout.width, from.constant) {
            (Some(4), None) => self.push_cells::<4>(from, runs),
            (Some(8), None) => self.push_cells::<8>(from, runs),
            _ => runs.iter().for_each(|run| self.push_range(from, run.start as usize, run.len())),
        }
    }

    fn push_cells<const N: usize>(&mut self, from: Cells<'_>, runs: &[Range<u32>]) {
        let cells = from.data.as_chunks::<N>().0;
        for run in runs {
            match &cells[run.start as usize..run.end as usize] {
                // Of a known length they are copied without a call.
                [cell] => self.data.extend_from_slice(cell),
                cells => self.data.extend_from_slice(cells.as_flattened()),
            }
            if let (Some(bitmap), Some(source)) = (&mut self.non_null, from.non_null) {
                bits::push_range(bitmap, self.rows, source, run.start as usize, run.len());
            }
            self.rows += run.len();
        }
    }

    /// Appends the cells of the given rows.
    pub(crate) fn push_rows(&mut self, from: Cells<'_>, rows: &[u32]) {
        match (self.layout.width, from.non_null) {
            _ if from.constant.is_some() => self.push_range(from, 0, rows.len()),
            (Some(4), None) => self.gather::<4>(from.data, rows),
            (Some(8), None) => self.gather::<8>(from.data, rows),
            _ => rows.iter().for_each(|&row| self.push(from.cell(row as usize))),
        }
    }

    fn gather<const N: usize>(&mut self, data: &[u8], rows: &[u32]) {
        let cells = data.as_chunks::<N>().0;
        self.data.extend(rows.iter().flat_map(|&row| cells[row as usize]));
        self.rows += rows.len();
    }

    /// A copy of the first `rows` cells.
    pub(crate) fn copy(&self, rows: usize) -> ColumnData {
        let mut copy = Self::with_capacity(self.layout, rows);
        copy.push_range(self.cells(), 0, rows);
        copy.seal()
    }

    /// Ends growth; gives spare memory back.
    pub(crate) fn seal(mut self) -> ColumnData {
        let varlen = self.layout.width.is_none();
        if varlen && self.rows == 0 {
            self.data.clear();
        }
        self.data.shrink_to_fit();
        self.varlen.shrink_to_fit();
        ColumnData {
            data: self.data.into(),
            varlen: varlen.then(|| self.varlen.into()),
            non_null: self.non_null.map(Into::into),
        }
    }

    /// Ends growth and keeps spare memory: for answers that are soon gone.
    pub(crate) fn finish(mut self) -> ColumnData {
        let varlen = self.layout.width.is_none();
        if varlen && self.rows == 0 {
            self.data.clear();
        }
        ColumnData {
            data: self.data.into(),
            varlen: varlen.then(|| self.varlen.into()),
            non_null: self.non_null.map(Into::into),
        }
    }
}

/// `len` cells from row `start` on: stored fixed cells and string content are shared, not copied.
pub(crate) fn slice(layout: Layout, column: &Column, start: usize, len: usize) -> ColumnData {
    let Column::Stored(column) = column else {
        let mut buffer = ColumnBuffer::with_capacity(layout, len);
        buffer.push_range(Cells::of_column(layout, column), 0, len);
        return buffer.finish();
    };
    let non_null = column.non_null.as_ref().map(|bitmap| {
        if start.is_multiple_of(8) {
            return bitmap.slice(start / 8..(start + len).div_ceil(8));
        }
        let mut shifted = Vec::with_capacity(len.div_ceil(8));
        bits::push_range(&mut shifted, 0, bitmap, start, len);
        shifted.into()
    });
    match (layout.width, &column.varlen) {
        (Some(width), _) => ColumnData {
            data: column.data.slice(start * width..(start + len) * width),
            varlen: None,
            non_null,
        },
        (None, None) => ColumnData { data: column.data.clone(), varlen: None, non_null },
        (None, Some(heap)) => {
            let (first, end) = (offset_at(&column.data, start), offset_at(&column.data, start + len));
            if first == 0 {
                let data = column.data.slice(start * 4..(start + len + 1) * 4);
                return ColumnData { data, varlen: Some(heap.slice(..end)), non_null };
            }
            let offsets = column.data[start * 4..(start + len + 1) * 4].as_chunks::<4>().0;
            let rebased: Vec<u8> = offsets
                .iter()
                .flat_map(|o| u32::from_le_bytes(*o).wrapping_sub(first as u32).to_le_bytes())
                .collect();
            ColumnData { data: rebased.into(), varlen: Some(heap.slice(first..end)), non_null }
        }
    }
}

fn offset_at(offsets: &[u8], row: usize) -> usize {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&offsets[row * 4..][..4]);
    u32::from_le_bytes(bytes) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Cell = Option<Vec<u8>>;

    fn filled(layout: Layout, cells: &[Cell]) -> ColumnBuffer {
        let mut buffer = ColumnBuffer::new(layout);
        cells.iter().for_each(|cell| buffer.push(cell.as_deref()));
        buffer
    }

    fn column() -> impl Strategy<Value = (Layout, Vec<Cell>)> {
        let widths = [None, Some(1), Some(4), Some(8), Some(16)];
        (proptest::sample::select(widths.to_vec()), any::<bool>()).prop_flat_map(|(width, nullable)| {
            let cell = match width {
                Some(width) => proptest::collection::vec(any::<u8>(), width..=width).boxed(),
                None => proptest::collection::vec(any::<u8>(), 0..6).boxed(),
            };
            let cell = (0..10u8, cell).prop_map(move |(die, cell)| (!nullable || die < 7).then_some(cell));
            (Just(Layout { width, nullable }), proptest::collection::vec(cell, 1..80))
        })
    }

    proptest! {
        #[test]
        fn ranges_rows_slices_and_repeats_are_what_single_cells_make(
            (layout, cells) in column(),
            head in 0..20usize,
            cut in any::<(u16, u16)>(),
        ) {
            let start = usize::from(cut.0) % cells.len();
            let len = usize::from(cut.1) % (cells.len() - start) + 1;
            let part = &cells[start..start + len];
            let all = filled(layout, &cells).seal();
            // Not compared as bytes: the bits behind its last row may be those of the rows that follow.
            let sliced = slice(layout, &Column::Stored(all.clone()), start, len);
            let sliced_cells = (0..len).map(|row| Cells::of(layout, &sliced).cell(row).map(<[u8]>::to_vec));
            prop_assert_eq!(sliced_cells.collect::<Vec<_>>(), part);
            prop_assert_eq!(&sliced.data, &filled(layout, part).seal().data);

            let before = &cells[..head.min(cells.len())];
            let expected = filled(layout, &[before, part].concat()).seal();
            let mut by_range = filled(layout, before);
            by_range.push_range(Cells::of(layout, &all), start, len);
            prop_assert_eq!(by_range.seal(), expected.clone());
            let mut by_rows = filled(layout, before);
            by_rows.push_rows(Cells::of(layout, &all), &(start as u32..(start + len) as u32).collect::<Vec<_>>());
            prop_assert_eq!(by_rows.finish(), expected.clone());
            let mut by_runs = filled(layout, before);
            let (start, end) = (start as u32, (start + len) as u32);
            let middle = start + u32::from(cut.0) % (end - start);
            by_runs.push_runs(Cells::of(layout, &all), &[start..middle, middle..middle + 1, middle + 1..end]);
            prop_assert_eq!(by_runs.finish(), expected);
            let (start, end) = (start as usize, end as usize);

            let mut repeats = filled(layout, &cells);
            (start..end).for_each(|row| repeats.push_again(row));
            prop_assert_eq!(repeats.copy(cells.len() + len), filled(layout, &[&cells, part].concat()).seal());
        }
    }
}
