//! Puts selected rows together.

use bytes::Bytes;

use super::{BlockError, ColumnData, ColumnSlice};
use crate::{Cell, Column, Selection};

/// Collects cells of one column, from slices or one by one.
#[derive(Clone, Debug)]
pub struct ColumnBuilder {
    name: String,
    cell_size: usize,
    rows: usize,
    /// Fixed-size cells, or one end offset a row.
    data: Vec<u8>,
    varlen: Option<Vec<u8>>,
    non_null: Option<Vec<u8>>,
}

impl ColumnBuilder {
    /// An empty column.
    pub fn new(column: &Column) -> Self {
        Self {
            name: column.name.clone(),
            cell_size: column.data_type.cell_size(),
            rows: 0,
            data: Vec::new(),
            varlen: column.data_type.is_varlen().then(Vec::new),
            non_null: column.nullable.then(Vec::new),
        }
    }

    /// Number of rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes collected so far.
    pub fn byte_size(&self) -> usize {
        let part = |part: &Option<Vec<u8>>| part.as_ref().map_or(0, Vec::len);
        self.data.len().saturating_add(part(&self.varlen)).saturating_add(part(&self.non_null))
    }

    /// Appends the selected rows of a slice of the same column, whose NULL cells hold zeros or no content.
    /// The selection must be over the slice's rows and the slice must hold them all; on an error nothing was added.
    pub fn append(&mut self, slice: ColumnSlice<'_>, selection: &Selection) -> Result<(), BlockError> {
        let full = selection.count() == slice.rows;
        let short =
            || BlockError::DataSize { column: self.name.clone(), rows: slice.rows, bytes: slice.data.len() };
        let cells = if self.varlen.is_some() {
            if slice.rows == 0 { Some(0) } else { slice.rows.checked_add(1).and_then(|n| n.checked_mul(4)) }
        } else {
            slice.rows.checked_mul(self.cell_size)
        };
        let needed = cells.ok_or_else(short)?;
        let data = slice.data.get(..needed).ok_or_else(short)?;
        if selection.rows() != slice.rows {
            return Err(short());
        }
        match &mut self.varlen {
            Some(varlen) => {
                let slice = ColumnSlice { data, ..slice };
                let before = (self.data.len(), varlen.len());
                if append_contents(slice, selection, full, &mut self.data, varlen).is_none() {
                    self.data.truncate(before.0);
                    varlen.truncate(before.1);
                    return Err(BlockError::TooLarge { column: self.name.clone() });
                }
            }
            None if full => self.data.extend_from_slice(data),
            None => match self.cell_size {
                1 => append_cells::<1>(data, selection, &mut self.data),
                2 => append_cells::<2>(data, selection, &mut self.data),
                4 => append_cells::<4>(data, selection, &mut self.data),
                8 => append_cells::<8>(data, selection, &mut self.data),
                _ => append_cells::<16>(data, selection, &mut self.data),
            },
        }
        if let Some(bitmap) = &mut self.non_null {
            append_bits(slice.non_null, selection, self.rows, bitmap);
        }
        self.rows = self.rows.saturating_add(selection.count());
        Ok(())
    }

    /// Appends one cell: NULL only if the column is nullable, and never [`Cell::Unset`].
    pub fn push(&mut self, cell: Cell<'_>) -> Result<(), BlockError> {
        let wrong = BlockError::Cell { column: self.name.clone() };
        let null = match (cell, &self.non_null) {
            (Cell::Unset, _) | (Cell::Null, None) => return Err(wrong),
            (Cell::Null, Some(_)) => true,
            (Cell::Value(_), _) => false,
        };
        let raw = cell.value().unwrap_or_default();
        match &mut self.varlen {
            Some(varlen) => {
                let end = varlen.len().checked_add(raw.len()).and_then(|end| u32::try_from(end).ok());
                let end = end.ok_or_else(|| BlockError::TooLarge { column: self.name.clone() })?;
                varlen.extend_from_slice(raw);
                self.data.extend_from_slice(&end.to_le_bytes());
            }
            None if null => self.data.resize(self.data.len().saturating_add(self.cell_size), 0),
            None if raw.len() == self.cell_size => self.data.extend_from_slice(raw),
            None => return Err(wrong),
        }
        if let Some(bitmap) = &mut self.non_null {
            push_bits(bitmap, self.rows, u64::from(!null), 1);
        }
        self.rows = self.rows.saturating_add(1);
        Ok(())
    }

    /// The column.
    pub fn finish(self) -> ColumnData {
        let data = match &self.varlen {
            Some(_) if self.rows > 0 => [&[0; 4][..], &self.data].concat(),
            _ => self.data,
        };
        ColumnData {
            data: data.into(),
            varlen: self.varlen.map(Bytes::from),
            non_null: self.non_null.map(Bytes::from),
        }
    }
}

fn append_cells<const N: usize>(data: &[u8], selection: &Selection, out: &mut Vec<u8>) {
    let (cells, _) = data.as_chunks::<N>();
    out.reserve(selection.count().saturating_mul(N));
    for (word, chunk) in selection.words().iter().zip(cells.chunks(64)) {
        if *word == u64::MAX {
            out.extend_from_slice(chunk.as_flattened());
            continue;
        }
        let mut word = *word;
        while let Some(cell) = chunk.get(word.trailing_zeros() as usize) {
            out.extend_from_slice(cell);
            word &= word.wrapping_sub(1);
        }
    }
}

/// `None` if the content would pass 4 GiB.
fn append_contents(
    slice: ColumnSlice<'_>,
    selection: &Selection,
    full: bool,
    ends: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Option<()> {
    let source = slice.varlen.unwrap_or_default();
    let (offsets, _) = slice.data.as_chunks::<4>();
    let at = |offset: &[u8; 4]| u32::from_le_bytes(*offset) as usize;
    if full {
        let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return Some(()) };
        let base = u32::try_from(out.len()).ok()?;
        u32::try_from(out.len().checked_add(at(last).saturating_sub(at(first)))?).ok()?;
        out.extend_from_slice(source.get(at(first)..at(last)).unwrap_or_default());
        let shift = base.wrapping_sub(u32::from_le_bytes(*first));
        ends.reserve(offsets.len().saturating_mul(4));
        for offset in offsets.iter().skip(1) {
            ends.extend_from_slice(&u32::from_le_bytes(*offset).wrapping_add(shift).to_le_bytes());
        }
        return Some(());
    }
    ends.reserve(selection.count().saturating_mul(4));
    let ranges = offsets.get(1..).unwrap_or_default();
    for ((word, starts), stops) in selection.words().iter().zip(offsets.chunks(64)).zip(ranges.chunks(64)) {
        let mut word = *word;
        while let (Some(start), Some(stop)) =
            (starts.get(word.trailing_zeros() as usize), stops.get(word.trailing_zeros() as usize))
        {
            out.extend_from_slice(source.get(at(start)..at(stop)).unwrap_or_default());
            ends.extend_from_slice(&u32::try_from(out.len()).ok()?.to_le_bytes());
            word &= word.wrapping_sub(1);
        }
    }
    Some(())
}

fn append_bits(bitmap: Option<&[u8]>, selection: &Selection, mut rows: usize, out: &mut Vec<u8>) {
    let mut bytes = bitmap.map(|bitmap| bitmap.chunks(8));
    let mut left = selection.rows();
    for word in selection.words() {
        let valid = match &mut bytes {
            None => u64::MAX,
            Some(chunks) => {
                let mut wide = [0; 8];
                let chunk = chunks.next().unwrap_or_default();
                wide.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
                u64::from_le_bytes(wide)
            }
        };
        let span = left.min(64) as u32;
        left = left.saturating_sub(64);
        let count = word.count_ones();
        let bits = if count == span { valid } else { gather(valid, *word) };
        push_bits(out, rows, bits, count);
        rows = rows.saturating_add(count as usize);
    }
}

/// The bits of `bits` under `mask`, moved together at the low end.
fn gather(bits: u64, mut mask: u64) -> u64 {
    let mut out = 0;
    let mut place = 1u64;
    while mask != 0 {
        if bits >> mask.trailing_zeros() & 1 != 0 {
            out |= place;
        }
        place = place.wrapping_shl(1);
        mask &= mask.wrapping_sub(1);
    }
    out
}

/// Appends the low `count` bits (at most 64) to a bitmap of `rows` bits.
fn push_bits(out: &mut Vec<u8>, rows: usize, bits: u64, count: u32) {
    let bits = if count >= 64 { bits } else { bits & 1u64.wrapping_shl(count).wrapping_sub(1) };
    let used = (rows % 8) as u32;
    let end = rows.saturating_add(count as usize).div_ceil(8);
    let wide = u128::from(bits).wrapping_shl(used);
    let mut bytes = wide.to_le_bytes().into_iter();
    if used != 0
        && let (Some(last), Some(first)) = (out.last_mut(), bytes.next())
    {
        *last |= first;
    }
    let more = end.saturating_sub(out.len());
    out.extend(bytes.take(more));
}
