//! Row-wise blocks: the scan answer that clients without the columnar flag get.
//!
//! Each row: the cells in projection order without padding, then, if any column is nullable, a bitmap in which 1 means
//! NULL. A variable-length cell is offset and length (u64 each) into the indirect data. In the padded form each
//! UNIXTIME_MICROS cell has 8 zero bytes behind it.
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

use crate::{
    Column, ColumnData, ColumnarBlock, DataType, Schema,
    columnar::{BlockError, ColumnSlice},
};

/// Bytes of one row.
pub fn stride(projection: &Schema, padded: bool) -> usize {
    let cells = projection.columns().iter().map(|column| cell_width(column.data_type, padded)).sum::<usize>();
    cells.saturating_add(bitmap_width(projection))
}

fn cell_width(data_type: DataType, padded: bool) -> usize {
    if padded && data_type == DataType::UnixtimeMicros { 16 } else { data_type.cell_size() }
}

fn bitmap_width(projection: &Schema) -> usize {
    if projection.has_nullable() { projection.len().div_ceil(8) } else { 0 }
}

/// Turns a block into rows and their indirect data (empty if there is no content).
pub fn encode(
    projection: &Schema,
    block: &ColumnarBlock,
    padded: bool,
) -> Result<(Bytes, Bytes), BlockError> {
    block.validate(projection)?;
    let stride = stride(projection, padded);
    let mut rows = vec![0; block.rows.saturating_mul(stride)];
    let content = block.columns.iter().filter_map(|column| column.varlen.as_ref()).map(Bytes::len);
    let mut indirect = Vec::with_capacity(content.fold(0, usize::saturating_add));
    let bitmap = stride.saturating_sub(bitmap_width(projection));
    let mut offset = 0;
    for (index, (data, column)) in block.columns.iter().zip(projection.columns()).enumerate() {
        let slice = data.as_slice(block.rows);
        match column.data_type.cell_size() {
            _ if column.data_type.is_varlen() => {
                scatter_contents(slice, &mut rows, stride, offset, &mut indirect)
            }
            1 => scatter::<1>(slice.data, &mut rows, stride, offset),
            2 => scatter::<2>(slice.data, &mut rows, stride, offset),
            4 => scatter::<4>(slice.data, &mut rows, stride, offset),
            8 => scatter::<8>(slice.data, &mut rows, stride, offset),
            _ => scatter::<16>(slice.data, &mut rows, stride, offset),
        }
        let width = cell_width(column.data_type, padded);
        if let Some(non_null) = slice.non_null {
            let byte = bitmap.saturating_add(index / 8);
            clear_nulls(non_null, &mut rows, stride, offset, width, (byte, 1 << (index % 8)));
        }
        offset = offset.saturating_add(width);
    }
    Ok((rows.into(), indirect.into()))
}

fn scatter<const N: usize>(cells: &[u8], rows: &mut [u8], stride: usize, offset: usize) {
    let (cells, _) = cells.as_chunks::<N>();
    for (row, cell) in rows.chunks_exact_mut(stride.max(1)).zip(cells) {
        if let Some(to) = row.get_mut(offset..).and_then(|row| row.first_chunk_mut::<N>()) {
            *to = *cell;
        }
    }
}

fn scatter_contents(
    slice: ColumnSlice<'_>,
    rows: &mut [u8],
    stride: usize,
    offset: usize,
    indirect: &mut Vec<u8>,
) {
    for (row, content) in rows.chunks_exact_mut(stride.max(1)).zip(slice.contents()) {
        if let Some(to) = row.get_mut(offset..).and_then(|row| row.first_chunk_mut::<16>()) {
            let (at, length) = (indirect.len() as u128, content.len() as u128);
            *to = (at | length.wrapping_shl(64)).to_le_bytes();
            indirect.extend_from_slice(content);
        }
    }
}

fn clear_nulls(
    non_null: &[u8],
    rows: &mut [u8],
    stride: usize,
    offset: usize,
    width: usize,
    (byte, bit): (usize, u8),
) {
    let mut rows = rows.chunks_exact_mut(stride.max(1));
    for valid in non_null {
        if *valid == u8::MAX {
            rows.nth(7);
            continue;
        }
        for (place, row) in rows.by_ref().take(8).enumerate() {
            if valid >> place & 1 != 0 {
                continue;
            }
            row.iter_mut().skip(offset).take(width).for_each(|byte| *byte = 0);
            if let Some(byte) = row.get_mut(byte) {
                *byte |= bit;
            }
        }
    }
}

/// Turns the rows of a scan answer into a block. Every length is checked; contents that overlap are refused, so that
/// the block is never larger than the bytes it came from by more than a constant factor.
pub fn decode(
    projection: &Schema,
    num_rows: usize,
    rows: &[u8],
    indirect: &[u8],
    padded: bool,
) -> Result<ColumnarBlock, BlockError> {
    let stride = stride(projection, padded);
    if num_rows.checked_mul(stride) != Some(rows.len()) {
        return Err(BlockError::RowsSize { rows: num_rows, stride, bytes: rows.len() });
    }
    let bitmap = stride.saturating_sub(bitmap_width(projection));
    let mut budget = indirect.len();
    let mut offset = 0;
    let mut columns = Vec::with_capacity(projection.len());
    for (index, column) in projection.columns().iter().enumerate() {
        let bit = (bitmap.saturating_add(index / 8), 1 << (index % 8));
        let nulls = column.nullable.then_some(bit);
        let mut data = match column.data_type.cell_size() {
            _ if column.data_type.is_varlen() => {
                gather_contents(column, rows, stride, offset, nulls, indirect, &mut budget)?
            }
            1 => gather::<1>(rows, stride, offset),
            2 => gather::<2>(rows, stride, offset),
            4 => gather::<4>(rows, stride, offset),
            8 => gather::<8>(rows, stride, offset),
            _ => gather::<16>(rows, stride, offset),
        };
        data.non_null = nulls.map(|bit| gather_bits(rows, stride, bit, num_rows));
        columns.push(data);
        offset = offset.saturating_add(cell_width(column.data_type, padded));
    }
    Ok(ColumnarBlock { rows: num_rows, columns })
}

fn gather<const N: usize>(rows: &[u8], stride: usize, offset: usize) -> ColumnData {
    let stride = stride.max(1);
    let mut cells = Vec::with_capacity(rows.len().checked_div(stride).unwrap_or(0).saturating_mul(N));
    for row in rows.chunks_exact(stride) {
        let cell = row.get(offset..).and_then(|row| row.first_chunk::<N>());
        cells.extend_from_slice(cell.unwrap_or(&[0; N]));
    }
    ColumnData { data: cells.into(), varlen: None, non_null: None }
}

fn gather_contents(
    column: &Column,
    rows: &[u8],
    stride: usize,
    offset: usize,
    nulls: Option<(usize, u8)>,
    indirect: &[u8],
    budget: &mut usize,
) -> Result<ColumnData, BlockError> {
    let wrong = || BlockError::Indirect { column: column.name.clone() };
    let count = rows.len().checked_div(stride).unwrap_or(0);
    let mut content = Vec::new();
    let mut offsets = Vec::with_capacity(count.saturating_add(1).saturating_mul(4));
    if count > 0 {
        offsets.extend_from_slice(&[0; 4]);
    }
    for row in rows.chunks_exact(stride.max(1)) {
        let null = nulls.is_some_and(|(byte, bit)| row.get(byte).is_some_and(|byte| byte & bit != 0));
        if !null {
            let cell = row.get(offset..).and_then(|row| row.first_chunk::<16>()).ok_or_else(wrong)?;
            let bytes = resolve(cell, indirect).ok_or_else(wrong)?;
            *budget = budget.checked_sub(bytes.len()).ok_or_else(wrong)?;
            content.extend_from_slice(bytes);
        }
        let end = u32::try_from(content.len());
        let end = end.map_err(|_| BlockError::TooLarge { column: column.name.clone() })?;
        offsets.extend_from_slice(&end.to_le_bytes());
    }
    Ok(ColumnData { data: offsets.into(), varlen: Some(content.into()), non_null: None })
}

fn gather_bits(rows: &[u8], stride: usize, (byte, bit): (usize, u8), num_rows: usize) -> Bytes {
    let mut out = vec![0u8; num_rows.div_ceil(8)];
    let mut rows = rows.chunks_exact(stride.max(1));
    for target in &mut out {
        for (place, row) in rows.by_ref().take(8).enumerate() {
            let null = row.get(byte).is_some_and(|byte| byte & bit != 0);
            *target |= u8::from(!null).wrapping_shl(place as u32);
        }
    }
    out.into()
}

/// What an offset and a length lead to.
pub(crate) fn resolve<'a>(cell: &[u8; 16], indirect: &'a [u8]) -> Option<&'a [u8]> {
    let both = u128::from_le_bytes(*cell);
    let (offset, length) = (both as u64, (both >> 64) as u64);
    let start = usize::try_from(offset).ok()?;
    let end = usize::try_from(offset.checked_add(length)?).ok()?;
    indirect.get(start..end)
}
