//! What is known of an operation without looking at any row.

use schema::row_ops::{Alike, AlikeCells};
use schema::{Cell, Op, OpKind, Schema};

use super::outcome::RowErrorKind;

/// An operation in a few words; its cells are read again when they are needed.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) kind: OpKind,
    /// Of the key cells.
    pub(crate) hash: u64,
    /// Sets a cell that is neither key nor immutable.
    pub(crate) sets: bool,
    /// The first immutable column of which it sets the cell.
    pub(crate) sets_immutable: Option<u32>,
    /// Bytes of its strings.
    pub(crate) content_bytes: u32,
    /// Cells of immutable columns were taken out of it.
    pub(crate) passed_over: bool,
    /// In a box: there is a summary for each row, and hardly ever an error.
    pub(crate) error: Option<Box<RowErrorKind>>,
}

impl Summary {
    pub(crate) fn of(schema: &Schema, op: &Op<'_>, hash: impl FnOnce(&[Cell<'_>]) -> u64) -> Self {
        let mut summary = Self {
            kind: op.kind,
            hash: 0,
            sets: false,
            sets_immutable: None,
            content_bytes: 0,
            passed_over: op.ignored_immutable,
            error: op.fault.clone().map(|fault| Box::new(RowErrorKind::from(fault))),
        };
        if summary.error.is_some() {
            return summary;
        }
        summary.hash = hash(&op.cells[..schema.key_columns()]);
        let strings =
            schema.columns().iter().zip(op.cells).filter(|(column, _)| column.data_type.is_varlen());
        let content = strings.map(|(_, cell)| cell.value().map_or(0, <[u8]>::len)).sum::<usize>();
        // A request is far smaller than 4 GiB, but one string may be named by many cells.
        summary.content_bytes = u32::try_from(content).unwrap_or(u32::MAX);
        let rest = schema.columns().iter().zip(op.cells).enumerate().skip(schema.key_columns());
        for (index, (column, _)) in rest.filter(|(_, (_, cell))| cell.is_set()) {
            if column.immutable {
                summary.sets_immutable.get_or_insert(index as u32);
            } else {
                summary.sets = true;
            }
        }
        summary
    }

    /// The summaries of operations that are alike, by the hashes of their keys.
    pub(crate) fn of_alike(schema: &Schema, alike: &Alike<'_>, hashes: &[u64]) -> Vec<Self> {
        let first: Vec<Cell<'_>> = alike.columns().iter().map(|column| column.cell(0)).collect();
        let ignored_immutable = alike.ignored_immutable();
        let op = Op { kind: alike.kind(), cells: &first, fault: None, ignored_immutable };
        let Self { kind, sets, sets_immutable, passed_over, .. } = Self::of(schema, &op, |_| 0);
        let (mut same, mut varlen) = (0, Vec::new());
        for (column, cells) in schema.columns().iter().zip(alike.columns()) {
            match cells {
                AlikeCells::Varlen(cells) => varlen.push(cells),
                AlikeCells::Same(cell) if column.data_type.is_varlen() => {
                    same += cell.value().map_or(0, <[u8]>::len);
                }
                _ => {}
            }
        }
        let summary = |(op, hash): (usize, &u64)| {
            let lengths = varlen.iter().filter_map(|cells| cells.place(op)).map(|(start, end)| end - start);
            let content = same + lengths.sum::<usize>();
            let content_bytes = u32::try_from(content).unwrap_or(u32::MAX);
            Self { kind, hash: *hash, sets, sets_immutable, content_bytes, passed_over, error: None }
        };
        hashes.iter().enumerate().map(summary).collect()
    }
}
