//! Range keys and bounds.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

use super::{PartitionError, PartitionSchema, name, resolve};
use crate::{
    Cell, Column, ColumnId, DataType, OpKind, PartialRow, Schema, bounds,
    key::{decode_component, encode_component},
    row_ops::Decoder,
};

/// A range as a client asks for it. Rows without any cell set are unbounded.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeBound {
    /// Where the range starts.
    pub lower: PartialRow,
    /// The lower row itself is not in the range.
    pub lower_exclusive: bool,
    /// Where the range ends.
    pub upper: PartialRow,
    /// The upper row itself is in the range.
    pub upper_inclusive: bool,
}

impl RangeBound {
    /// The usual `[lower, upper)`.
    pub fn new(lower: PartialRow, upper: PartialRow) -> Self {
        Self { lower, lower_exclusive: false, upper, upper_inclusive: false }
    }

    /// Both ends as encoded range keys `[lower, upper)`, empty where unbounded.
    pub fn encode(
        &self,
        schema: &Schema,
        partitioning: &PartitionSchema,
    ) -> Result<(Vec<u8>, Vec<u8>), PartitionError> {
        let columns = &partitioning.range_columns;
        let lower = range_key(schema, columns, &self.lower, self.lower_exclusive)?;
        let upper = range_key(schema, columns, &self.upper, self.upper_inclusive)?;
        let lower = match lower {
            End::At(key) => key,
            End::Unbounded => Vec::new(),
            End::BehindAll => return Err(PartitionError::LowerAtMaximum),
        };
        match upper {
            // A real master, too, takes an empty string for "unbounded".
            End::At(key) if !key.is_empty() && key <= lower => {
                Err(PartitionError::EmptyRange { lower, upper: key })
            }
            End::At(key) => Ok((lower, key)),
            End::Unbounded | End::BehindAll => Ok((lower, Vec::new())),
        }
    }
}

/// The encoded range key of a split row.
pub(super) fn split_key(
    schema: &Schema,
    partitioning: &PartitionSchema,
    row: &PartialRow,
) -> Result<Vec<u8>, PartitionError> {
    match range_key(schema, &partitioning.range_columns, row, false)? {
        End::At(key) => Ok(key),
        End::Unbounded | End::BehindAll => Err(PartitionError::EmptySplit),
    }
}

/// Split rows and bounds as they come with a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangeSpec {
    /// Rows to split at.
    pub splits: Vec<PartialRow>,
    /// Ranges.
    pub bounds: Vec<RangeBound>,
}

impl RangeSpec {
    /// Decodes SPLIT_ROW operations and pairs of bounds over the table's own schema.
    pub fn decode(schema: &Schema, rows: &[u8], indirect: &[u8]) -> Result<Self, PartitionError> {
        Self::decode_for(schema, schema, rows, indirect)
    }

    /// As [`decode`](Self::decode), over the columns that a client believes the table to have.
    pub fn decode_for(
        client: &Schema,
        schema: &Schema,
        rows: &[u8],
        indirect: &[u8],
    ) -> Result<Self, PartitionError> {
        let decoder = Decoder::for_bounds(client, schema)?;
        let ops = decoder.decode(rows, indirect)?;
        if ops.len() > MOST_ROWS {
            return Err(PartitionError::TooManyBounds { rows: ops.len(), most: MOST_ROWS });
        }
        let mut spec = Self::default();
        let mut lower = None;
        let mut cursor = ops.cursor();
        while let Some(op) = cursor.next_op() {
            let mut row = PartialRow::new(schema);
            for (index, cell) in op.cells.iter().enumerate() {
                if let Cell::Value(raw) = cell {
                    row.set_raw_at(index, raw);
                } else if cell.is_set() {
                    return Err(crate::RowFault::NullInNotNull { column: name(schema, index) }.into());
                }
            }
            if let Some(fault) = op.fault {
                return Err(fault.into());
            }
            lower = match (op.kind, lower) {
                (OpKind::SplitRow, None) => {
                    spec.splits.push(row);
                    None
                }
                (OpKind::RangeLowerBound, None) => Some((row, false)),
                (OpKind::ExclusiveRangeLowerBound, None) => Some((row, true)),
                (
                    kind @ (OpKind::RangeUpperBound | OpKind::InclusiveRangeUpperBound),
                    Some((lower, lower_exclusive)),
                ) => {
                    let upper_inclusive = kind == OpKind::InclusiveRangeUpperBound;
                    spec.bounds.push(RangeBound { lower, lower_exclusive, upper: row, upper_inclusive });
                    None
                }
                _ => return Err(PartitionError::UnpairedBound),
            };
        }
        if lower.is_some() { Err(PartitionError::UnpairedBound) } else { Ok(spec) }
    }
}

/// Rows take more memory than the bytes they come from.
const MOST_ROWS: usize = 20_000;

/// Turns an encoded range key back into a row; columns that the key does not reach are left unset.
pub fn decode_range_key(
    schema: &Schema,
    columns: &[ColumnId],
    key: &[u8],
) -> Result<PartialRow, PartitionError> {
    let mut row = PartialRow::new(schema);
    let sources = resolve(columns, schema)?;
    let mut rest = key;
    let mut raw = Vec::new();
    for (place, source) in sources.iter().enumerate() {
        if rest.is_empty() {
            break;
        }
        raw.clear();
        let last = place.wrapping_add(1) == sources.len();
        decode_component(source.data_type, last, &mut rest, &mut raw)
            .and_then(|()| row.set_raw_at(source.index, &raw))
            .ok_or(PartitionError::RangeKey)?;
    }
    if rest.is_empty() { Ok(row) } else { Err(PartitionError::RangeKey) }
}

pub(super) enum End {
    Unbounded,
    At(Vec<u8>),
    /// One step was to be added and there is none.
    BehindAll,
}

/// Encodes the range columns of a row, optionally one step further.
fn range_key(
    schema: &Schema,
    columns: &[ColumnId],
    row: &PartialRow,
    step: bool,
) -> Result<End, PartitionError> {
    let sources = resolve(columns, schema)?;
    for index in 0..schema.len() {
        if row.cell(index).is_set() && !sources.iter().any(|source| source.index == index) {
            return Err(PartitionError::NotRangeColumn { column: name(schema, index) });
        }
    }
    let cells: Vec<_> =
        sources.iter().map(|source| row.cell(source.index).value().map(<[u8]>::to_vec)).collect();
    let columns: Vec<_> = sources.iter().filter_map(|source| schema.columns().get(source.index)).collect();
    Ok(encode_end(&columns, cells, step))
}

/// Encodes cells of the range columns, `None` standing for the minimum, optionally one step further.
pub(super) fn encode_end(columns: &[&Column], mut cells: Vec<Option<Vec<u8>>>, step: bool) -> End {
    if cells.iter().all(Option::is_none) {
        return End::Unbounded;
    }
    if step && !step_up(columns, &mut cells) {
        return End::BehindAll;
    }
    let mut key = Vec::new();
    for (place, (column, cell)) in columns.iter().zip(cells).enumerate() {
        let raw = cell.unwrap_or_else(|| minimum(column.data_type));
        encode_component(column.data_type, &raw, place.wrapping_add(1) == columns.len(), &mut key);
    }
    End::At(key)
}

/// The next row of range columns; false if there is none. The least significant column counts, those at their
/// maximum start again.
pub(super) fn step_up(columns: &[&Column], cells: &mut [Option<Vec<u8>>]) -> bool {
    for (column, cell) in columns.iter().zip(cells).rev() {
        let mut raw = cell.take().unwrap_or_else(|| minimum(column.data_type));
        if column.data_type.is_varlen() {
            raw.push(0);
            *cell = Some(raw);
            return true;
        }
        let value = bounds::signed(&raw);
        if value < maximum(column) {
            let next = value.wrapping_add(1).to_le_bytes();
            *cell = next.get(..raw.len()).map(<[u8]>::to_vec);
            return true;
        }
    }
    false
}

/// The lowest raw cell.
pub(super) fn minimum(data_type: DataType) -> Vec<u8> {
    if data_type.is_varlen() {
        return Vec::new();
    }
    let mut raw = vec![0; data_type.cell_size()];
    if let Some(sign) = raw.last_mut() {
        *sign = 0x80;
    }
    raw
}

fn maximum(column: &Column) -> i128 {
    match column.data_type {
        DataType::Date => i128::from(bounds::MAX_DATE),
        data_type if data_type.is_decimal() => bounds::max_unscaled(column.precision),
        data_type => {
            let bits = (data_type.cell_size() as u32).saturating_mul(8).clamp(1, 128);
            i128::MAX.wrapping_shr(128u32.wrapping_sub(bits))
        }
    }
}
