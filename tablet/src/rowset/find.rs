//! From a key to its row: bounds of the batches, bloom filter, index, then the key columns themselves.

use std::ops::Range;

use schema::DataType;
use schema::key::encode_component;
use schema::{ColumnData, ColumnSlice};

use super::{Batch, INDEX_ROWS, Rowset, RowsetError, row_number};

/// Of the bloom filters of keys.
pub(super) const BLOOM_SEED: u32 = 0;

/// The eight bytes of a key behind the first `common`, shorter keys padded: it never contradicts the order of the keys.
pub(super) fn prefix(key: &[u8], common: usize) -> u64 {
    let mut bytes = [0; 8];
    let rest = key.get(common..).unwrap_or_default();
    let len = rest.len().min(8);
    bytes[..len].copy_from_slice(&rest[..len]);
    u64::from_be_bytes(bytes)
}

/// The key columns of one batch, to encode keys of.
pub(super) struct KeyCells<'a>(Vec<(DataType, std::borrow::Cow<'a, ColumnData>)>, usize);

impl KeyCells<'_> {
    /// Replaces `key` by the encoded key of a row.
    pub(super) fn encode(&self, row: usize, key: &mut Vec<u8>) {
        key.clear();
        let last = self.0.len() - 1;
        for (index, (data_type, cells)) in self.0.iter().enumerate() {
            let cells: ColumnSlice<'_> = cells.as_slice(self.1);
            encode_component(*data_type, cells.cell(row).value().unwrap_or_default(), index == last, key);
        }
    }

    /// Which of the rows are below `key`, or below and equal, if keys are single numbers: these compare without being
    /// encoded.
    fn partition_numbers(&self, rows: Range<usize>, key: &[u8]) -> Option<usize> {
        let [(data_type, cells)] = &self.0[..] else { return None };
        if data_type.is_varlen() || data_type.cell_size() != key.len() {
            return None;
        }
        match key.len() {
            1 => numbers_below::<1>(&cells.data, rows, key),
            2 => numbers_below::<2>(&cells.data, rows, key),
            4 => numbers_below::<4>(&cells.data, rows, key),
            8 => numbers_below::<8>(&cells.data, rows, key),
            _ => None,
        }
    }
}

/// As [`KeyCells::partition_numbers`] for cells of `N` bytes, at most 8.
fn numbers_below<const N: usize>(cells: &[u8], rows: Range<usize>, key: &[u8]) -> Option<usize> {
    let wanted = prefix(key, 0);
    let number = |cell: &[u8; N]| {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(cell.iter().rev()).for_each(|(to, from)| *to = *from);
        bytes[0] ^= 0x80;
        u64::from_be_bytes(bytes)
    };
    let is_below = |cell: &[u8; N]| number(cell) <= wanted;
    let start = rows.start;
    Some(start + cells.as_chunks::<N>().0.get(rows)?.partition_point(is_below))
}

impl Rowset {
    /// The newest version of a key, ended or not.
    ///
    /// # Errors
    /// [`RowsetError::Corrupt`].
    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<u32>, RowsetError> {
        let mut row = None;
        self.find_all(&[key], |_, found| row = Some(found))?;
        Ok(row)
    }

    /// As [`Rowset::find`] for many keys, which are in order: tells the index and the row of those that are here.
    ///
    /// # Errors
    /// [`RowsetError::Corrupt`]; what was told before that is right.
    pub(crate) fn find_all(
        &self,
        keys: &[impl AsRef<[u8]>],
        mut found: impl FnMut(usize, u32),
    ) -> Result<(), RowsetError> {
        let mut number = 0;
        let mut cells: Option<KeyCells<'_>> = None;
        let mut scratch = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let key = key.as_ref();
            let after = number + self.batches()[number..].partition_point(|batch| *batch.first_key <= *key);
            // The newest version of a key is in the last of the batches that have it.
            let Some(at) = after.checked_sub(1) else { continue };
            if at != number {
                (number, cells) = (at, None);
            }
            if *key > *self.batches()[number].last_key || !self.bloom(number)?.may_contain(key) {
                continue;
            }
            let cells = match &mut cells {
                Some(cells) => cells,
                none => none.insert(self.key_cells(number)?),
            };
            let end = self.partition(number, cells, key, &mut scratch)?;
            if let Some(row) = end.checked_sub(1) {
                cells.encode(row, &mut scratch);
                if scratch == key {
                    found(index, row_number(number, row));
                }
            }
        }
        Ok(())
    }

    /// Replaces `key` by the encoded key of a row of a batch.
    ///
    /// # Errors
    /// [`RowsetError::Corrupt`].
    pub(crate) fn encode_key(&self, batch: usize, row: usize, key: &mut Vec<u8>) -> Result<(), RowsetError> {
        if row == 0 {
            // Without a look at the rows.
            key.clear();
            key.extend_from_slice(&self.batches()[batch].first_key);
        } else {
            self.key_cells(batch)?.encode(row, key);
        }
        Ok(())
    }

    pub(super) fn key_cells(&self, batch: usize) -> Result<KeyCells<'_>, RowsetError> {
        let column = |index: usize| Ok((self.columns()[index].data_type, self.block(batch, index)?));
        let columns = (0..self.key_columns()).map(column).collect::<Result<_, RowsetError>>()?;
        Ok(KeyCells(columns, self.batches()[batch].rows as usize))
    }

    /// How many rows of a batch have a key that is not above `key`.
    fn partition(
        &self,
        number: usize,
        cells: &KeyCells<'_>,
        key: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<usize, RowsetError> {
        let Batch { rows, first_key, .. } = &self.batches()[number];
        let ([common, prefixes @ ..], rows) = (self.prefixes(number)?, *rows as usize) else { return Ok(0) };
        let common = u64::from_le_bytes(*common) as usize;
        let (mut low, mut high) = (0, rows);
        // Keys that share less with the batch's are not between its first and last.
        if key.get(..common) == first_key.get(..common) {
            let wanted = prefix(key, common);
            let is_below = |prefix: &[u8; 8]| u64::from_le_bytes(*prefix) < wanted;
            let below = prefixes.partition_point(is_below);
            let through = prefixes[below..].partition_point(|prefix| u64::from_le_bytes(*prefix) == wanted);
            // Before the first row of the index that is not below, and after the last one that is not above.
            low = below.saturating_sub(1) * INDEX_ROWS;
            high = rows.min((below + through) * INDEX_ROWS);
        }
        if let Some(row) = cells.partition_numbers(low..high, key) {
            return Ok(row);
        }
        while low < high {
            let middle = low.midpoint(high);
            cells.encode(middle, scratch);
            if scratch.as_slice() <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}
