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

use crate::{Column, ColumnData, ColumnarBlock, DataType, Schema, columnar::BlockError};

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

/// Turns a block into rows and their indirect data (empty if there is no content). The content of a single
/// variable-length column is shared, not copied.
pub fn encode(
    projection: &Schema,
    block: &ColumnarBlock,
    padded: bool,
) -> Result<(Bytes, Bytes), BlockError> {
    block.validate(projection)?;
    let stride = stride(projection, padded);
    let bitmap = stride.saturating_sub(bitmap_width(projection));
    let (indirect, bases) = join_contents(block);
    // Column after column into a few rows that stay in the nearest cache, and from there to the answer: memory for the
    // whole of it is then written once, and never cleared first.
    let mut tile = vec![0u8; stride.saturating_mul(TILE_ROWS.min(block.rows))];
    let mut rows = Vec::with_capacity(block.rows.saturating_mul(stride));
    let (mut start, mut has_nulls) = (0, false);
    while start < block.rows {
        let end = block.rows.min(start.saturating_add(TILE_ROWS));
        let count = end.saturating_sub(start);
        let Some(tile) = tile.get_mut(..count.saturating_mul(stride)) else { break };
        // Nothing but NULLs of the rows before leaves marks that the next ones do not overwrite.
        if std::mem::take(&mut has_nulls) {
            let bitmaps = tile.chunks_exact_mut(stride).filter_map(|row| row.get_mut(bitmap..));
            bitmaps.for_each(|bits| bits.fill(0));
        }
        let mut offset = 0;
        for ((index, (data, column)), base) in
            block.columns.iter().zip(projection.columns()).enumerate().zip(&bases)
        {
            let width = cell_width(column.data_type, padded);
            let size = column.data_type.cell_size();
            let cells = data.data.get(start.saturating_mul(size)..).unwrap_or_default();
            match size {
                _ if column.data_type.is_varlen() => {
                    let offsets = data.data.get(start.saturating_mul(4)..).unwrap_or_default();
                    scatter_contents(offsets, *base, tile, stride, offset);
                }
                1 => scatter::<1>(cells, tile, stride, offset),
                2 => scatter::<2>(cells, tile, stride, offset),
                4 => scatter::<4>(cells, tile, stride, offset),
                8 => scatter::<8>(cells, tile, stride, offset),
                _ => scatter::<16>(cells, tile, stride, offset),
            }
            if let Some(non_null) =
                data.non_null.as_ref().and_then(|bits| bits.get(start / 8..end.div_ceil(8)))
            {
                let byte = bitmap.saturating_add(index / 8);
                has_nulls |= clear_nulls(non_null, tile, stride, offset, width, (byte, 1 << (index % 8)));
            }
            offset = offset.saturating_add(width);
        }
        rows.extend_from_slice(tile);
        start = end;
    }
    Ok((rows.into(), indirect))
}

/// Rows put together at a time; a multiple of 8 because of the bitmaps.
const TILE_ROWS: usize = 256;

/// The content of all columns one after the other, and where that of each column starts.
fn join_contents(block: &ColumnarBlock) -> (Bytes, Vec<u64>) {
    let empty = Bytes::new();
    let contents = || block.columns.iter().map(|column| column.varlen.as_ref().unwrap_or(&empty));
    let mut total = 0u64;
    let bases = contents().map(|content| {
        let base = total;
        total = total.saturating_add(content.len() as u64);
        base
    });
    let bases = bases.collect();
    let mut filled = contents().filter(|content| !content.is_empty());
    let indirect = match (filled.next(), filled.next()) {
        (None, _) => Bytes::new(),
        (Some(only), None) => only.clone(),
        (Some(_), Some(_)) => {
            let mut all = Vec::with_capacity(total as usize);
            contents().for_each(|content| all.extend_from_slice(content));
            all.into()
        }
    };
    (indirect, bases)
}

fn scatter<const N: usize>(cells: &[u8], rows: &mut [u8], stride: usize, offset: usize) {
    let (cells, _) = cells.as_chunks::<N>();
    for (row, cell) in rows.chunks_exact_mut(stride.max(1)).zip(cells) {
        if let Some(to) = row.get_mut(offset..).and_then(|row| row.first_chunk_mut::<N>()) {
            *to = *cell;
        }
    }
}

fn scatter_contents(offsets: &[u8], base: u64, rows: &mut [u8], stride: usize, offset: usize) {
    let (offsets, _) = offsets.as_chunks::<4>();
    let ends = offsets.get(1..).unwrap_or_default();
    for (row, (start, end)) in rows.chunks_exact_mut(stride.max(1)).zip(offsets.iter().zip(ends)) {
        if let Some(to) = row.get_mut(offset..).and_then(|row| row.first_chunk_mut::<16>()) {
            let (start, end) = (u32::from_le_bytes(*start), u32::from_le_bytes(*end));
            let (at, length) = (base.saturating_add(start.into()), end.saturating_sub(start));
            *to = (u128::from(at) | u128::from(length).wrapping_shl(64)).to_le_bytes();
        }
    }
}

/// Whether there were any.
fn clear_nulls(
    non_null: &[u8],
    rows: &mut [u8],
    stride: usize,
    offset: usize,
    width: usize,
    (byte, bit): (usize, u8),
) -> bool {
    let mut found = false;
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
            found = true;
            row.iter_mut().skip(offset).take(width).for_each(|byte| *byte = 0);
            if let Some(byte) = row.get_mut(byte) {
                *byte |= bit;
            }
        }
    }
    found
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, ColumnBuilder};

    #[test]
    fn more_rows_than_are_put_together_at_once_come_back_as_they_went() {
        let columns = vec![
            Column::new("a", DataType::Int64),
            Column::new("b", DataType::String).nullable(true),
            Column::new("c", DataType::UnixtimeMicros).nullable(true),
            Column::new("d", DataType::Binary),
            Column::new("e", DataType::Bool).nullable(true),
        ];
        let projection = Schema::new(columns, 1).unwrap();
        for rows in [1, TILE_ROWS - 1, TILE_ROWS, TILE_ROWS + 1, 3 * TILE_ROWS + 100] {
            let mut builders: Vec<_> = projection.columns().iter().map(ColumnBuilder::new).collect();
            for row in 0..rows as u64 {
                let (number, text) = (row.to_le_bytes(), vec![b'x'; row as usize % 7]);
                let null = |every| if row % every == 0 { Cell::Null } else { Cell::Value(&text) };
                let time = if row % 3 == 0 { Cell::Null } else { Cell::Value(&number) };
                let bit = if row % 5 == 0 { Cell::Null } else { Cell::Value(&[1]) };
                let cells = [Cell::Value(&number), null(4), time, Cell::Value(&text), bit];
                for (builder, cell) in builders.iter_mut().zip(cells) {
                    builder.push(cell).unwrap();
                }
            }
            let columns = builders.into_iter().map(ColumnBuilder::finish).collect();
            let block = ColumnarBlock { rows, columns };
            for padded in [false, true] {
                let (bytes, indirect) = encode(&projection, &block, padded).unwrap();
                let back = decode(&projection, rows, &bytes, &indirect, padded).unwrap();
                assert_eq!(back, block, "{rows} rows, padded: {padded}");
            }
        }
    }
}
