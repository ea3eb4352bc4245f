//! The operations of a request, once decoded.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

use bytes::Bytes;

use super::OpKind;
use super::alike::Alike;
use super::decoder::{Decoder, Fill};
use super::faults::RowFault;
use crate::{Cell, Schema};

/// The operations of a request, checked as a whole and read one by one.
#[derive(Clone, Debug)]
pub struct Ops<'a> {
    pub(super) decoder: &'a Decoder,
    pub(super) rows: &'a [u8],
    pub(super) indirect: &'a [u8],
    pub(super) starts: Starts,
    pub(super) shared: Option<(&'a Bytes, &'a Bytes)>,
}

/// Where operations start in the rows.
#[derive(Clone, Debug)]
pub(super) enum Starts {
    /// All set the same columns, so they are of this length.
    Every(usize),
    Each(Vec<u32>),
}

impl<'a> Ops<'a> {
    /// Number of operations.
    pub fn len(&self) -> usize {
        match &self.starts {
            Starts::Every(stride) => self.rows.len().checked_div(*stride).unwrap_or(0),
            Starts::Each(starts) => starts.len(),
        }
    }

    /// True for a request without operations, which is legal.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The operations column by column, if they are all alike.
    pub fn alike(&self) -> Option<Alike<'a>> {
        match self.starts {
            Starts::Every(stride) => self.decoder.alike(self.rows, self.indirect, stride),
            Starts::Each(_) => None,
        }
    }

    /// The operations as they came: rows and indirect data.
    pub fn raw(&self) -> (&'a [u8], &'a [u8]) {
        (self.rows, self.indirect)
    }

    /// As [`raw`](Self::raw): shared if they can be, else copied.
    pub fn bytes(&self) -> (Bytes, Bytes) {
        match self.shared {
            Some((rows, indirect)) => (rows.clone(), indirect.clone()),
            None => (Bytes::copy_from_slice(self.rows), Bytes::copy_from_slice(self.indirect)),
        }
    }

    /// For each column of the client's schema, its index in the table's: with [`raw`](Self::raw), all that is needed to
    /// decode the operations again.
    pub fn client_columns(&self) -> impl ExactSizeIterator<Item = usize> + 'a {
        self.decoder.plan.iter().map(|source| source.target)
    }

    /// The table's schema, whose columns the cells are in.
    pub fn schema(&self) -> &'a Schema {
        &self.decoder.table
    }

    /// Reads an operation into `cells`, which is used again; `None` behind the last.
    pub fn read<'s>(&self, index: usize, cells: &'s mut Vec<Cell<'a>>) -> Option<Op<'s>> {
        let kind = self.sent(index, cells)?;
        let (fault, ignored_immutable) = self.decoder.finish(kind, cells);
        Some(Op { kind, cells, fault, ignored_immutable })
    }

    /// Reads an operation's cells as the client sent them, in the order of the table's columns: without defaults and rules.
    pub fn sent(&self, index: usize, cells: &mut Vec<Cell<'a>>) -> Option<OpKind> {
        let start = match &self.starts {
            Starts::Every(stride) => index.checked_mul(*stride)?,
            Starts::Each(starts) => *starts.get(index)? as usize,
        };
        let rest = self.rows.get(start..).filter(|rest| !rest.is_empty())?;
        let (kind, _) = self.decoder.read(rest, self.indirect, cells)?;
        Some(kind)
    }

    /// Reads the operations in order.
    pub fn cursor(&self) -> Cursor<'_, 'a> {
        Cursor { ops: self, next: 0, cells: Vec::new() }
    }

    /// What an upsert that turns out to be an insert puts into a column that it left unset: a default or NULL.
    pub fn default_cell(&self, column: usize) -> Cell<'a> {
        match self.decoder.targets.get(column).map(|target| &target.fill) {
            Some(Fill::Value(raw)) => Cell::Value(raw),
            Some(Fill::Null) => Cell::Null,
            _ => Cell::Unset,
        }
    }
}

/// Reads operations one after the other; all share one buffer of cells.
#[derive(Debug)]
pub struct Cursor<'o, 'a> {
    ops: &'o Ops<'a>,
    next: usize,
    cells: Vec<Cell<'a>>,
}

impl Cursor<'_, '_> {
    /// The next operation, `None` behind the last.
    pub fn next_op(&mut self) -> Option<Op<'_>> {
        let index = self.next;
        self.next = index.saturating_add(1);
        self.ops.read(index, &mut self.cells)
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Op<'a> {
    /// What to do.
    pub kind: OpKind,
    /// The cells in the order of the table's columns. INSERT and INSERT_IGNORE have their defaults filled in; other kinds leave unset what the client did.
    pub cells: &'a [Cell<'a>],
    /// Why this operation must not be applied, while others of the request may.
    pub fault: Option<RowFault>,
    /// Cells of immutable columns were taken out of an UPDATE_IGNORE; to be counted.
    pub ignored_immutable: bool,
}
