//! Which rows of a block are wanted.

/// A bitmap over the rows of a block, least significant bit first; bits behind the last row are always 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    words: Vec<u64>,
    rows: usize,
}

impl Selection {
    /// All of `rows` rows.
    pub fn all(rows: usize) -> Self {
        let mut selection = Self::default();
        selection.reset(rows);
        selection
    }

    /// None of `rows` rows.
    pub fn none(rows: usize) -> Self {
        Self { words: vec![0; rows.div_ceil(64)], rows }
    }

    /// Back to all of `rows` rows, keeping the memory.
    pub fn reset(&mut self, rows: usize) {
        self.rows = rows;
        self.words.clear();
        self.words.resize(rows.div_ceil(64), u64::MAX);
        self.trim();
    }

    /// Number of rows the bitmap is over.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The bitmap, row 0 in bit 0 of word 0.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// For filling in from outside; call [`trim`](Self::trim) if bits behind the last row may have been set.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Clears the bits behind the last row.
    pub fn trim(&mut self) {
        let tail = self.rows % 64;
        if tail != 0
            && let Some(last) = self.words.last_mut()
        {
            *last &= (1 << tail) - 1;
        }
    }

    /// Number of selected rows.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if no row is selected.
    pub fn is_none(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether a row is selected; false behind the last.
    pub fn get(&self, row: usize) -> bool {
        self.words.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 != 0)
    }

    /// Selects a row; nothing happens behind the last.
    pub fn set(&mut self, row: usize) {
        if row < self.rows {
            self.words[row / 64] |= 1 << (row % 64);
        }
    }

    /// Deselects a row.
    pub fn clear(&mut self, row: usize) {
        if let Some(word) = self.words.get_mut(row / 64) {
            *word &= !(1 << (row % 64));
        }
    }

    /// Deselects every row.
    pub fn clear_all(&mut self) {
        self.words.fill(0);
    }

    /// Keeps the first `count` selected rows only.
    pub fn keep_first(&mut self, count: usize) {
        let mut left = count;
        for word in &mut self.words {
            let ones = word.count_ones() as usize;
            if ones > left {
                let mut kept = 0;
                for _ in 0..left {
                    let bit = *word & word.wrapping_neg();
                    kept |= bit;
                    *word ^= bit;
                }
                *word = kept;
            }
            left -= ones.min(left);
        }
    }

    /// Keeps the rows whose bit is set (`wanted` true) or clear in a bitmap of bytes, least significant bit first.
    /// Rows behind the end of the bitmap count as clear.
    pub fn and_bitmap(&mut self, bitmap: &[u8], wanted: bool) {
        let flip = if wanted { 0 } else { u64::MAX };
        let mut chunks = bitmap.chunks(8);
        for word in &mut self.words {
            let mut bytes = [0; 8];
            if let Some(chunk) = chunks.next() {
                bytes[..chunk.len()].copy_from_slice(chunk);
            }
            *word &= u64::from_le_bytes(bytes) ^ flip;
        }
    }

    /// The selected rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut word = *word;
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros() as usize;
                (word != 0).then(|| {
                    word &= word - 1;
                    index * 64 + bit
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_behind_the_last_row_are_never_selected() {
        let mut selection = Selection::all(70);
        assert_eq!(selection.count(), 70);
        selection.set(70);
        selection.and_bitmap(&[0xff; 16], true);
        assert_eq!((selection.count(), selection.get(69), selection.get(70)), (70, true, false));
        selection.and_bitmap(&[], false);
        assert_eq!(selection.count(), 70);
    }

    #[test]
    fn rows_are_listed_in_order_and_the_first_can_be_kept() {
        let mut selection = Selection::none(200);
        let rows = [0, 63, 64, 130, 199];
        rows.into_iter().for_each(|row| selection.set(row));
        assert!(selection.iter().eq(rows));
        selection.keep_first(3);
        assert!(selection.iter().eq([0, 63, 64]));
        selection.keep_first(0);
        assert!(selection.is_none());
    }

    #[test]
    fn a_bitmap_narrows_the_selection_both_ways() {
        let mut selection = Selection::all(10);
        selection.and_bitmap(&[0b0000_0101, 0b11], true);
        assert!(selection.iter().eq([0, 2, 8, 9]));
        selection.and_bitmap(&[1], false);
        assert!(selection.iter().eq([2, 8, 9]));
    }
}
