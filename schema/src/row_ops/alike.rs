//! Operations that are all alike, column by column.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

use super::OpKind;
use super::decoder::{Decoder, Source};
use crate::{Cell, bounds, row_block::resolve};

/// Operations of one kind that set the same columns, none of which has a fault: what a client sends that loads a table.
///
/// Their cells are the ones of [`Op::cells`](super::Op::cells), but a column can be read without its neighbours.
#[derive(Clone, Debug)]
pub struct Alike<'a> {
    kind: OpKind,
    ignored_immutable: bool,
    /// One entry a column of the table.
    columns: Vec<AlikeCells<'a>>,
}

impl<'a> Alike<'a> {
    /// What all of them do.
    pub fn kind(&self) -> OpKind {
        self.kind
    }

    /// As [`Op::ignored_immutable`](super::Op::ignored_immutable), for all of them.
    pub fn ignored_immutable(&self) -> bool {
        self.ignored_immutable
    }

    /// The cells of the table's columns.
    pub fn columns(&self) -> &[AlikeCells<'a>] {
        &self.columns
    }
}

/// The cells of one column.
#[derive(Clone, Copy, Debug)]
pub enum AlikeCells<'a> {
    /// All the same: unset, NULL, or a default.
    Same(Cell<'a>),
    /// Values of the column's width.
    Fixed(FixedCells<'a>),
    /// Values of any length.
    Varlen(VarlenCells<'a>),
}

impl<'a> AlikeCells<'a> {
    /// The cell of an operation; unset behind the last.
    pub fn cell(&self, op: usize) -> Cell<'a> {
        match self {
            Self::Same(cell) => *cell,
            Self::Fixed(cells) => cells.bytes(op).map_or(Cell::Unset, Cell::Value),
            Self::Varlen(cells) => cells.bytes(op).map_or(Cell::Unset, Cell::Value),
        }
    }
}

/// Cells of one width, each at the same distance from the one before it.
#[derive(Clone, Copy, Debug)]
pub struct FixedCells<'a> {
    /// From the first cell on.
    rows: &'a [u8],
    stride: usize,
    width: usize,
}

impl<'a> FixedCells<'a> {
    /// Bytes of a cell.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The raw cell of an operation.
    pub fn bytes(&self, op: usize) -> Option<&'a [u8]> {
        self.rows.get(op.checked_mul(self.stride)?..)?.get(..self.width)
    }

    /// The raw cell of an operation, for columns of `N` bytes.
    pub fn array<const N: usize>(&self, op: usize) -> Option<&'a [u8; N]> {
        self.rows.get(op.checked_mul(self.stride)?..)?.first_chunk()
    }
}

/// Cells that say where in the indirect data their content is.
#[derive(Clone, Copy, Debug)]
pub struct VarlenCells<'a> {
    places: FixedCells<'a>,
    indirect: &'a [u8],
}

impl<'a> VarlenCells<'a> {
    /// The content of an operation's cell.
    pub fn bytes(&self, op: usize) -> Option<&'a [u8]> {
        resolve(self.places.array(op)?, self.indirect)
    }

    /// Where in [`indirect`](Self::indirect) the content of an operation's cell starts and ends.
    pub fn place(&self, op: usize) -> Option<(usize, usize)> {
        let both = u128::from_le_bytes(*self.places.array(op)?);
        let start = both as u64 as usize;
        Some((start, start.checked_add((both >> 64) as usize)?))
    }

    /// The indirect data of the whole request.
    pub fn indirect(&self) -> &'a [u8] {
        self.indirect
    }
}

impl Decoder {
    /// The length of an operation, if all set the same columns and are as right as [`skip`](Self::skip) wants them.
    pub(super) fn stride(&self, rows: &[u8], indirect: &[u8], mut budget: usize) -> Option<usize> {
        let mut rest = rows;
        self.skip(&mut rest, indirect, &mut budget.clone()).ok()?;
        let stride = rows.len().checked_sub(rest.len()).filter(|stride| *stride > 0)?;
        if !rows.len().is_multiple_of(stride) || !same_headers(rows, stride, self.header()) {
            return None;
        }
        for (source, at) in self.places(rows) {
            if source.varlen && at.is_some() {
                for cell in rows.get(at?..)?.chunks(stride) {
                    let content = resolve(cell.first_chunk()?, indirect)?;
                    budget = budget.checked_sub(content.len())?;
                }
            }
        }
        Some(stride)
    }

    /// Bytes before the cells of an operation.
    fn header(&self) -> usize {
        let bitmaps = if self.has_nullable { 2 } else { 1 };
        self.bitmap.saturating_mul(bitmaps).saturating_add(1)
    }

    /// Where the cells of an operation start, for each column of the client; `None` for one that has none.
    fn places(&self, op: &[u8]) -> impl Iterator<Item = (&Source, Option<usize>)> {
        let mut rest = op.get(1..).unwrap_or_default();
        let (set, null) = self.bitmaps(&mut rest).unwrap_or_default();
        let mut next = self.header();
        self.plan.iter().enumerate().map(move |(index, source)| {
            let bit = |bitmap: &[u8]| bitmap.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 != 0);
            let at = (bit(set) && !bit(null)).then_some(next);
            if at.is_some() {
                next = next.saturating_add(source.size);
            }
            (source, at)
        })
    }

    /// The columns of operations of `stride` bytes that all set the same ones; `None` if one may have a fault.
    pub(super) fn alike<'a>(
        &'a self,
        rows: &'a [u8],
        indirect: &'a [u8],
        stride: usize,
    ) -> Option<Alike<'a>> {
        let mut cells = Vec::new();
        let (kind, _) = self.read(rows, indirect, &mut cells)?;
        let (fault, ignored_immutable) = self.finish(kind, &mut cells);
        if fault.is_some() {
            return None;
        }
        // Cells of the first operation that the loop below does not replace are the same for all.
        let mut columns: Vec<_> = cells.iter().map(|cell| AlikeCells::Same(*cell)).collect();
        for (source, at) in self.places(rows) {
            let (Some(at), Some(Cell::Value(_))) = (at, cells.get(source.target)) else { continue };
            let fixed = FixedCells { rows: rows.get(at..)?, stride, width: source.size };
            let varlen = VarlenCells { places: fixed, indirect };
            let column = if source.varlen { AlikeCells::Varlen(varlen) } else { AlikeCells::Fixed(fixed) };
            let safe = self.targets.get(source.target)?.safe_bytes;
            let count = rows.len().checked_div(stride)?;
            if source.varlen {
                let mut ops = 0..count;
                if !ops.all(|op| varlen.place(op).is_some_and(|(start, end)| end.wrapping_sub(start) <= safe))
                    && !self.all_in_bounds(source.target, column, count)
                {
                    return None;
                }
            } else if source.size > safe && !self.all_in_bounds(source.target, column, count) {
                return None;
            }
            *columns.get_mut(source.target)? = column;
        }
        Some(Alike { kind, ignored_immutable, columns })
    }

    fn all_in_bounds(&self, target: usize, column: AlikeCells<'_>, count: usize) -> bool {
        let Some(definition) = self.table.columns().get(target) else { return false };
        (0..count).all(|op| bounds::check_bounds(definition, column.cell(op)).is_ok())
    }
}

/// Whether all rows of `stride` bytes start with the same `header` bytes.
fn same_headers(rows: &[u8], stride: usize, header: usize) -> bool {
    let Some(first) = rows.get(..header) else { return false };
    let mut all = rows.chunks_exact(stride);
    if let (Some(word), 1..=8) = (rows.first_chunk::<8>(), header)
        && stride >= 8
    {
        // The header and some of what follows it as one number.
        let mask = u64::MAX >> 64_usize.saturating_sub(header.saturating_mul(8));
        let word = u64::from_le_bytes(*word) & mask;
        return all.all(|row| row.first_chunk().is_some_and(|c| u64::from_le_bytes(*c) & mask == word));
    }
    all.all(|row| row.starts_with(first))
}
