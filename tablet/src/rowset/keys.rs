//! The encoded keys of a rowset, in order.

use super::find::KeyCells;
use super::{Rowset, RowsetError, place, row_number};

/// A cursor over the keys of a rowset.
pub(crate) struct Keys<'a> {
    rowset: &'a Rowset,
    batch: usize,
    row: usize,
    cells: Option<KeyCells<'a>>,
    key: Vec<u8>,
}

impl Rowset {
    /// The keys from row `from` on.
    pub(crate) fn keys(&self, from: u32) -> Keys<'_> {
        let (batch, row) = place(from);
        Keys { rowset: self, batch, row, cells: None, key: Vec::new() }
    }
}

impl Keys<'_> {
    /// The next row and its encoded key; `None` behind the last one.
    ///
    /// # Errors
    /// [`RowsetError::Corrupt`].
    pub(crate) fn next(&mut self) -> Result<Option<(u32, &[u8])>, RowsetError> {
        while let Some(batch) = self.rowset.batches().get(self.batch) {
            if self.row >= batch.rows as usize {
                (self.batch, self.row, self.cells) = (self.batch + 1, 0, None);
                continue;
            }
            let cells = match &mut self.cells {
                Some(cells) => cells,
                none => none.insert(self.rowset.key_cells(self.batch)?),
            };
            cells.encode(self.row, &mut self.key);
            let number = row_number(self.batch, self.row);
            self.row += 1;
            return Ok(Some((number, &self.key)));
        }
        Ok(None)
    }
}
