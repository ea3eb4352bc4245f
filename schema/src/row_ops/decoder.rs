//! Bytes to rows.
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
use super::faults::{RowFault, RowOpError};
use super::ops::{Ops, Starts};
use crate::{
    Cell, DataType, Schema, bounds,
    projection::{self, ProjectionError},
    row_block::resolve,
};

/// Decodes operations of a client's schema into the columns of a table.
#[derive(Clone, Debug)]
pub struct Decoder {
    pub(super) table: Schema,
    /// One entry a column of the client.
    pub(super) plan: Vec<Source>,
    pub(super) bitmap: usize,
    pub(super) has_nullable: bool,
    /// One entry a column of the table.
    pub(super) targets: Vec<Target>,
    bounds: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) target: usize,
    pub(super) size: usize,
    pub(super) varlen: bool,
}

/// What a row is checked against; a small part of the column, to be read in a row.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// What an insert puts into the column if it is unset.
    pub(super) fill: Fill,
    key: bool,
    nullable: bool,
    immutable: bool,
    /// Cells of the right width that are longer than this may be out of bounds.
    pub(super) safe_bytes: usize,
}

#[derive(Clone, Debug)]
pub(super) enum Fill {
    Value(Bytes),
    Null,
    Number,
    Required,
}

impl Decoder {
    /// For a write whose schema is `client`, into `table`.
    pub fn new(client: &Schema, table: &Schema) -> Result<Self, ProjectionError> {
        Ok(Self::build(client, table, projection::for_write(client, table)?, false))
    }

    /// For split rows and range bounds whose schema is `client`, over `table`.
    pub fn for_bounds(client: &Schema, table: &Schema) -> Result<Self, ProjectionError> {
        Ok(Self::build(client, table, projection::for_write(client, table)?, true))
    }

    fn build(client: &Schema, table: &Schema, targets: Vec<usize>, bounds: bool) -> Self {
        let source = |(target, column): (usize, &crate::Column)| Source {
            target,
            size: column.data_type.cell_size(),
            varlen: column.data_type.is_varlen(),
        };
        let fill = |column: &crate::Column| match &column.write_default {
            // Who numbers the rows sets it before the rows are decoded for good.
            _ if column.auto_incrementing => Fill::Number,
            Some(value) => Fill::Value(value.to_raw()),
            None if column.nullable => Fill::Null,
            None => Fill::Required,
        };
        let target = |(index, column): (usize, &crate::Column)| Target {
            fill: fill(column),
            key: index < table.key_columns(),
            nullable: column.nullable,
            // A key only tells which row is meant.
            immutable: column.immutable && index >= table.key_columns(),
            safe_bytes: match column.data_type {
                DataType::Varchar => usize::from(column.length).min(bounds::MAX_CELL_SIZE),
                data_type if data_type.is_varlen() => bounds::MAX_CELL_SIZE,
                data_type if data_type.is_decimal() || data_type == DataType::Date => 0,
                _ => usize::MAX,
            },
        };
        Self {
            table: table.clone(),
            plan: targets.into_iter().zip(client.columns()).map(source).collect(),
            bitmap: client.len().div_ceil(8),
            has_nullable: client.has_nullable(),
            targets: table.columns().iter().enumerate().map(target).collect(),
            bounds,
        }
    }

    /// Checks all operations of a request. An error means that none of them may be applied; what is wrong with a single
    /// row only is told by [`Op::fault`](super::Op::fault).
    pub fn decode<'a>(&'a self, rows: &'a [u8], indirect: &'a [u8]) -> Result<Ops<'a>, RowOpError> {
        u32::try_from(rows.len()).map_err(|_| RowOpError::TooLarge { bytes: rows.len() })?;
        let mut budget = rows.len().saturating_add(indirect.len()).saturating_mul(MOST_SHARING);
        if let Some(stride) = self.stride(rows, indirect, budget) {
            return Ok(Ops { decoder: self, rows, indirect, starts: Starts::Every(stride), shared: None });
        }
        let mut starts = Vec::new();
        let mut rest = rows;
        while !rest.is_empty() {
            let start = rows.len().wrapping_sub(rest.len());
            let index = starts.len();
            starts.push(start as u32);
            self.skip(&mut rest, indirect, &mut budget).map_err(|wrong| self.name(wrong, index))?;
        }
        Ok(Ops { decoder: self, rows, indirect, starts: Starts::Each(starts), shared: None })
    }

    /// As [`decode`](Self::decode), for bytes that [`Ops::bytes`] can share.
    pub fn decode_shared<'a>(&'a self, rows: &'a Bytes, indirect: &'a Bytes) -> Result<Ops<'a>, RowOpError> {
        Ok(Ops { shared: Some((rows, indirect)), ..self.decode(rows, indirect)? })
    }

    fn name(&self, wrong: Wrong, index: usize) -> RowOpError {
        match wrong {
            Wrong::Cut => RowOpError::Cut { index },
            Wrong::Shared => RowOpError::Shared { index },
            Wrong::Kind(number) => RowOpError::UnknownKind { index, number },
            Wrong::Place(kind) => RowOpError::WrongKind { index, kind },
            Wrong::Indirect(target) => {
                let column = self.table.columns().get(target);
                RowOpError::Indirect { index, column: column.map(|c| c.name.clone()).unwrap_or_default() }
            }
        }
    }

    fn kind(&self, rest: &mut &[u8]) -> Result<OpKind, Wrong> {
        let (number, tail) = rest.split_first().ok_or(Wrong::Cut)?;
        *rest = tail;
        let kind = OpKind::from_number(*number).ok_or(Wrong::Kind(*number))?;
        if kind.is_write() == self.bounds { Err(Wrong::Place(kind)) } else { Ok(kind) }
    }

    pub(super) fn bitmaps<'a>(&self, rest: &mut &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Wrong> {
        let (set, tail) = rest.split_at_checked(self.bitmap).ok_or(Wrong::Cut)?;
        let nulls = if self.has_nullable { self.bitmap } else { 0 };
        let (null, tail) = tail.split_at_checked(nulls).ok_or(Wrong::Cut)?;
        *rest = tail;
        Ok((set, null))
    }

    /// Walks over one operation, checking everything that could fail the request.
    pub(super) fn skip(&self, rest: &mut &[u8], indirect: &[u8], budget: &mut usize) -> Result<(), Wrong> {
        self.kind(rest)?;
        let (set, null) = self.bitmaps(rest)?;
        for (index, (sources, set)) in self.plan.chunks(8).zip(set).enumerate() {
            let null = null.get(index).copied().unwrap_or(0);
            let present = set & !null;
            for (place, source) in sources.iter().enumerate() {
                if present >> place & 1 == 0 {
                    continue;
                }
                let (raw, tail) = rest.split_at_checked(source.size).ok_or(Wrong::Cut)?;
                *rest = tail;
                if source.varlen {
                    let cell = raw.first_chunk().ok_or(Wrong::Cut)?;
                    let content = resolve(cell, indirect).ok_or(Wrong::Indirect(source.target))?;
                    *budget = budget.checked_sub(content.len()).ok_or(Wrong::Shared)?;
                }
            }
        }
        Ok(())
    }

    /// Decodes one operation that [`skip`](Self::skip) has passed.
    pub(super) fn read<'a>(
        &'a self,
        mut rest: &'a [u8],
        indirect: &'a [u8],
        cells: &mut Vec<Cell<'a>>,
    ) -> Option<(OpKind, &'a [u8])> {
        let kind = self.kind(&mut rest).ok()?;
        let (set, null) = self.bitmaps(&mut rest).ok()?;
        if cells.len() == self.table.len() {
            cells.fill(Cell::Unset);
        } else {
            cells.clear();
            cells.resize(self.table.len(), Cell::Unset);
        }
        for (index, (sources, set)) in self.plan.chunks(8).zip(set).enumerate() {
            let null = null.get(index).copied().unwrap_or(0);
            for (place, source) in sources.iter().enumerate() {
                if set >> place & 1 == 0 {
                    continue;
                }
                let cell = if null >> place & 1 != 0 {
                    Cell::Null
                } else {
                    let (raw, tail) = rest.split_at_checked(source.size)?;
                    rest = tail;
                    Cell::Value(if source.varlen { resolve(raw.first_chunk()?, indirect)? } else { raw })
                };
                *cells.get_mut(source.target)? = cell;
            }
        }
        Some((kind, rest))
    }

    /// Fills in defaults and finds what is wrong with the row.
    pub(super) fn finish<'a>(&'a self, kind: OpKind, cells: &mut [Cell<'a>]) -> (Option<RowFault>, bool) {
        let mut fault = None;
        let mut ignored_immutable = false;
        let mut fields = false;
        for (index, (cell, target)) in cells.iter_mut().zip(&self.targets).enumerate() {
            let found = match *cell {
                Cell::Unset if self.bounds => None,
                Cell::Unset if kind.is_insert() => match &target.fill {
                    Fill::Value(raw) => {
                        *cell = Cell::Value(raw);
                        None
                    }
                    Fill::Null => {
                        *cell = Cell::Null;
                        None
                    }
                    Fill::Number => Some(Fault::AutoIncrementing),
                    Fill::Required => Some(Fault::Missing),
                },
                Cell::Unset if kind.is_upsert() => match target.fill {
                    Fill::Number => Some(Fault::AutoIncrementing),
                    Fill::Required => Some(Fault::Missing),
                    _ => None,
                },
                Cell::Unset => target.key.then_some(Fault::MissingKey),
                _ if kind.is_delete() && !target.key => Some(Fault::DeleteWithValue),
                _ if kind.is_update() && target.immutable => {
                    ignored_immutable = true;
                    *cell = Cell::Unset;
                    (kind == OpKind::Update).then_some(Fault::Immutable)
                }
                Cell::Null if !target.nullable => Some(Fault::NullInNotNull),
                Cell::Null => {
                    fields |= !target.key;
                    None
                }
                Cell::Value(raw) => {
                    fields |= !target.key;
                    (raw.len() > target.safe_bytes).then_some(Fault::Bounds)
                }
            };
            if let Some(found) = found
                && fault.is_none()
            {
                fault = self.describe(found, index, *cell);
            }
        }
        if kind.is_update() && !fields {
            fault.get_or_insert_with(|| RowFault::NoFieldsUpdated { key: self.redacted_key() });
        }
        (fault, ignored_immutable)
    }

    /// `None` if the cell is in bounds after all.
    #[inline(never)]
    fn describe(&self, fault: Fault, index: usize, cell: Cell<'_>) -> Option<RowFault> {
        let definition = self.table.columns().get(index)?;
        let column = || definition.name.clone();
        Some(match fault {
            Fault::Missing => RowFault::Missing { column: definition.to_string() },
            Fault::MissingKey => RowFault::MissingKey { column: column() },
            Fault::DeleteWithValue => RowFault::DeleteWithValue { column: column() },
            Fault::AutoIncrementing => RowFault::AutoIncrementing { column: column() },
            Fault::Immutable => RowFault::Immutable { column: definition.to_string() },
            Fault::NullInNotNull => RowFault::NullInNotNull { column: column() },
            Fault::Bounds => bounds::check_bounds(definition, cell).err()?.into(),
        })
    }

    /// The key of a row as Kudu shows it to clients: without its values.
    #[inline(never)]
    fn redacted_key(&self) -> String {
        let one = |column: &crate::Column| {
            format!("{} {}=<redacted>", column.data_type.name().to_lowercase(), column.name)
        };
        let columns = self.table.columns().iter().take(self.table.key_columns());
        format!("({})", columns.map(one).collect::<Vec<_>>().join(", "))
    }
}

/// What may be wrong with a cell.
#[derive(Clone, Copy)]
enum Fault {
    Missing,
    MissingKey,
    DeleteWithValue,
    AutoIncrementing,
    Immutable,
    NullInNotNull,
    /// To be looked at closely.
    Bounds,
}

/// Cells may share their content, but all together hold at most this many times the bytes of the request.
const MOST_SHARING: usize = 16;

pub(super) enum Wrong {
    Cut,
    Shared,
    Kind(u8),
    Place(OpKind),
    Indirect(usize),
}
