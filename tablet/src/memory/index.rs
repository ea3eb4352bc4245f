//! From primary keys to the newest row version: [`Runs`] of rows that came in the order of their keys, and for all others a
//! sharded hash table that keeps hashes, not keys.
//!
//! A shard is an array of cache lines with room for eight keys each. A key is in the line that its hash names, or behind it
//! if that was full; so most look-ups and inserts wait for memory once. Hashes name lines in ascending order, which makes
//! growth a pass from front to back.

use std::cmp::Ordering;

use super::runs::{End, Runs};

/// The number of a row version in its tablet; the greatest two are none.
pub(crate) type RowId = u32;

/// Shards grow one at a time, so no single insert waits for a whole table to be moved.
const SHARDS: usize = 256;
/// As many look-ups as the processor may have under way, and some more.
pub(crate) const TOUCHED_AT_ONCE: usize = 32;
/// Keys in a line.
const SLOTS: usize = 8;

/// A slot that never held a key since its line was made, or that no search needs to pass.
const EMPTY: u32 = 0;
/// The key went, and searches must go on behind it.
const ENDED: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line {
    hashes: [u32; SLOTS],
    /// Row versions + 1, or [`EMPTY`], or [`ENDED`].
    rows: [u32; SLOTS],
}

#[derive(Clone, Debug, Default)]
struct Shard {
    lines: Vec<Line>,
    live: usize,
    /// Slots that are not empty, and how many of them make the shard grow.
    used: usize,
    most: usize,
}

/// Keys that live now.
#[derive(Debug)]
pub(crate) struct KeyIndex {
    /// Keys that are not in the table.
    pub(crate) runs: Runs,
    /// None before the first key: most tablets of a large table stay small.
    shards: Vec<Shard>,
    bytes: usize,
}

impl KeyIndex {
    pub(crate) fn new() -> Self {
        Self { runs: Runs::default(), shards: Vec::new(), bytes: 0 }
    }

    /// Reads from where the keys of these hashes are or will be, so that it is near when it is needed: they wait for memory
    /// together.
    pub(crate) fn touch(&self, hashes: impl Iterator<Item = u64>) {
        let read = |hash| {
            let shard = self.shards.get(shard(hash))?;
            Some(shard.lines.get(shard.first(hash as u32))?.hashes[0])
        };
        std::hint::black_box(hashes.filter_map(read).fold(0, |all, word| all ^ word));
    }

    /// Whether it is certain, by looking at `most` rows of the table or fewer, that no key lies between the ends of a run; `order`
    /// compares the key of a row with them.
    pub(crate) fn are_apart(&self, most: usize, order: impl Fn(RowId, End) -> Ordering) -> bool {
        let live: usize = self.shards.iter().map(|shard| shard.live).sum();
        let outside = |row| order(row, End::First).is_lt() || order(row, End::Last).is_gt();
        live <= most && self.rows().all(outside) && self.runs.are_apart(order)
    }

    /// The rows whose keys are in the table.
    fn rows(&self) -> impl Iterator<Item = RowId> {
        let lines = self.shards.iter().filter(|shard| shard.live > 0).flat_map(|shard| &shard.lines);
        lines.flat_map(|line| line.rows).filter(|row| *row != EMPTY && *row != ENDED).map(|row| row - 1)
    }

    /// Moves rows from the runs to the table, up to `most`: `hash` tells that of a row's key.
    pub(crate) fn absorb(&mut self, most: usize, mut hash: impl FnMut(RowId) -> u64) {
        for row in self.runs.take(most) {
            self.insert(hash(row), row);
        }
    }

    /// The row of the key with this hash for which `equal` holds, if it is in the table.
    pub(crate) fn find(&self, hash: u64, mut equal: impl FnMut(RowId) -> bool) -> Option<RowId> {
        let (line, slot) = self.shards.get(shard(hash))?.find(hash as u32, |row| equal(row - 1))?;
        Some(self.shards[shard(hash)].lines[line].rows[slot] - 1)
    }

    /// Adds a key that is not there yet.
    pub(crate) fn insert(&mut self, hash: u64, row: RowId) {
        if self.shards.is_empty() {
            self.shards.resize_with(SHARDS, Shard::default);
            self.bytes = SHARDS * size_of::<Shard>();
        }
        let number = shard(hash);
        let shard = &mut self.shards[number];
        if shard.used >= shard.most {
            let before = shard.bytes();
            shard.grow(number);
            self.bytes = self.bytes + shard.bytes() - before;
        }
        shard.put(hash as u32, row + 1);
    }

    /// Adds keys for the rows from `first` on, if none of them is in the table yet, nor twice among them: `equal` is asked whether
    /// the key of this number is the one of a row. Otherwise adds none and says so. There must be no runs.
    pub(crate) fn insert_new(
        &mut self,
        hashes: &[u64],
        first: RowId,
        mut equal: impl FnMut(u32, RowId) -> bool,
    ) -> bool {
        // Shard after shard: each is small enough for a near cache, and so are the pages it is on.
        let order = by_shard(hashes);
        let mut ahead = order.chunks(TOUCHED_AT_ONCE);
        let mut touch = |index: &Self| {
            let numbers = ahead.next().unwrap_or_default();
            index.touch(numbers.iter().map(|number| hashes[*number as usize]));
        };
        touch(self);
        for (done, &number) in order.iter().enumerate() {
            if done.is_multiple_of(TOUCHED_AT_ONCE) {
                touch(self);
            }
            let hash = hashes[number as usize];
            if self.find(hash, |row| equal(number, row)).is_some() {
                order[..done].iter().for_each(|&number| self.remove(hashes[number as usize], first + number));
                return false;
            }
            self.insert(hash, first + number);
        }
        true
    }

    /// Moves a key to a newer row version.
    pub(crate) fn replace(&mut self, hash: u64, old: RowId, new: RowId) {
        if let Some(shard) = self.shards.get_mut(shard(hash))
            && let Some((line, slot)) = shard.find(hash as u32, |row| row == old + 1)
        {
            shard.lines[line].rows[slot] = new + 1;
        } else {
            self.runs.remove(old);
            self.insert(hash, new);
        }
    }

    pub(crate) fn remove(&mut self, hash: u64, row: RowId) {
        if let Some(shard) = self.shards.get_mut(shard(hash))
            && let Some((line, slot)) = shard.find(hash as u32, |found| found == row + 1)
        {
            // No search goes on behind a line with an empty slot.
            let is_last = mask(&shard.lines[line].rows, EMPTY) != 0;
            shard.lines[line].rows[slot] = if is_last { EMPTY } else { ENDED };
            shard.live -= 1;
            shard.used -= usize::from(is_last);
        } else {
            self.runs.remove(row);
        }
    }

    /// Bytes held; 0 before the first key.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.runs.bytes()
    }
}

impl Shard {
    /// The line that a hash names.
    fn first(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.lines.len() as u64) >> 32) as usize
    }

    /// The line behind, the first behind the last.
    fn next(&self, line: usize) -> usize {
        if line + 1 == self.lines.len() { 0 } else { line + 1 }
    }

    /// Line and slot of a key; `equal` gets what is in the slot.
    fn find(&self, hash: u32, mut equal: impl FnMut(u32) -> bool) -> Option<(usize, usize)> {
        let mut at = self.first(hash);
        loop {
            let line = self.lines.get(at)?;
            let mut same = mask(&line.hashes, hash);
            while same != 0 {
                let slot = same.trailing_zeros() as usize;
                let row = line.rows[slot];
                if row != EMPTY && row != ENDED && equal(row) {
                    return Some((at, slot));
                }
                same &= same - 1;
            }
            if mask(&line.rows, EMPTY) != 0 {
                return None;
            }
            at = self.next(at);
        }
    }

    /// There is an empty slot.
    fn put(&mut self, hash: u32, row: u32) {
        let mut at = self.first(hash);
        loop {
            let empty = mask(&self.lines[at].rows, EMPTY);
            let free = empty | mask(&self.lines[at].rows, ENDED);
            if free != 0 {
                let slot = free.trailing_zeros() as usize;
                let line = &mut self.lines[at];
                (line.hashes[slot], line.rows[slot]) = (hash, row);
                self.live += 1;
                self.used += (empty >> slot & 1) as usize;
                return;
            }
            at = self.next(at);
        }
    }

    /// Makes room for as many keys again, and forgets those that ended.
    fn grow(&mut self, number: usize) {
        let lines = self.live / KEYS_OF_A_NEW_LINE + 1;
        let old = std::mem::replace(&mut self.lines, vec![Line::EMPTY; lines]);
        (self.live, self.used) = (0, 0);
        // All shards have about as many keys: they grow at different loads so that they do not grow at the same time.
        self.most = (lines * (FIRST_LOAD + number / SHARDS_OF_A_LOAD)) / LOADS;
        for line in &old {
            for (hash, row) in line.hashes.into_iter().zip(line.rows) {
                if row != EMPTY && row != ENDED {
                    self.put(hash, row);
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }
}

impl Line {
    const EMPTY: Self = Self { hashes: [0; SLOTS], rows: [EMPTY; SLOTS] };
}

/// After growth a line holds three keys on average, ...
const KEYS_OF_A_NEW_LINE: usize = 3;
/// ... and grows again with 5.5 in the first shard, 6.5 in the last one.
const FIRST_LOAD: usize = 176;
const LOADS: usize = 32;
const SHARDS_OF_A_LOAD: usize = 8;

/// The shard is taken from bits that are not stored.
fn shard(hash: u64) -> usize {
    (hash >> 56) as usize % SHARDS
}

/// The numbers of the hashes, shard by shard, ascending in each.
fn by_shard(hashes: &[u64]) -> Vec<u32> {
    let mut next = [0_u32; SHARDS];
    hashes.iter().for_each(|hash| next[shard(*hash)] += 1);
    let mut start = 0;
    for count in &mut next {
        start += std::mem::replace(count, start);
    }
    let mut order = vec![0; hashes.len()];
    for (number, hash) in (0..).zip(hashes) {
        let place = &mut next[shard(*hash)];
        order[*place as usize] = number;
        *place += 1;
    }
    order
}

/// Which of the words are `wanted`, the first as the lowest bit.
fn mask(words: &[u32; SLOTS], wanted: u32) -> u32 {
    words.iter().enumerate().fold(0, |mask, (i, word)| mask | u32::from(*word == wanted) << i)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_of_one_hash_are_told_apart_by_their_rows() {
        let mut index = KeyIndex::new();
        let hash = 7 << 60 | 3;
        for row in 0..30 {
            index.insert(hash, row);
        }
        index.replace(hash, 4, 40);
        index.remove(hash, 5);
        let found = |row| index.find(hash, |other| other == row);
        assert_eq!((found(3), found(4), found(40), found(5)), (Some(3), None, Some(40), None));
        assert_eq!(index.find(hash ^ 1, |_| true), None);
    }

    #[test]
    fn an_empty_index_holds_nothing_and_a_full_one_knows_its_bytes() {
        let mut index = KeyIndex::new();
        index.touch([1].into_iter());
        assert_eq!((index.bytes(), index.find(1, |_| true)), (0, None));
        index.remove(1, 1);
        assert_eq!(index.bytes(), 0);
        let spread = |row: RowId| u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for row in 0..50_000 {
            index.insert(spread(row), row);
            if row % 3 == 0 {
                index.remove(spread(row / 2), row / 2);
            }
        }
        let counted = index.shards.iter().map(|shard| shard.lines.capacity() * 64 + size_of::<Shard>());
        assert_eq!(index.bytes(), counted.sum::<usize>());
        let live: usize = index.shards.iter().map(|shard| shard.live).sum();
        let slots: usize = index.shards.iter().map(|shard| shard.lines.len() * SLOTS).sum();
        assert!(slots < live * 3 + SHARDS * SLOTS, "{slots} slots for {live} keys");
    }

    #[test]
    fn many_new_keys_are_added_at_once_or_not_at_all() {
        let spread = |key: u64| key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut index = KeyIndex::new();
        let keys = |from: u64| (from..from + 3000).map(spread).collect::<Vec<u64>>();
        let mut rows: Vec<u64> = Vec::new();
        // The last key of each batch but the first is the one given.
        for (from, last, is_new) in
            [(0, 2999, true), (3000, 1, false), (3000, 3000, false), (3000, 7000, true)]
        {
            let mut hashes = keys(from);
            hashes[2999] = spread(last);
            let first = rows.len() as u32;
            let equal = |number: u32, row: RowId| match row.checked_sub(first) {
                Some(staged) => hashes[staged as usize] == hashes[number as usize],
                None => rows[row as usize] == hashes[number as usize],
            };
            assert_eq!(index.insert_new(&hashes, first, equal), is_new);
            if is_new {
                rows.extend(hashes);
            }
        }
        for (row, hash) in (0..).zip(&rows) {
            assert_eq!(index.find(*hash, |found| rows[found as usize] == *hash), Some(row));
        }
        assert_eq!(index.find(spread(5999), |_| true), None);
        assert_eq!(index.shards.iter().map(|shard| shard.live).sum::<usize>(), 6000);
    }

    #[test]
    fn keys_that_come_and_go_take_no_room() {
        let mut index = KeyIndex::new();
        let spread = |row: RowId| u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..1000).for_each(|row| index.insert(spread(row), row));
        let before = index.bytes();
        for row in 1000..200_000 {
            index.insert(spread(row), row);
            index.remove(spread(row - 1000), row - 1000);
        }
        assert!(index.bytes() <= before * 2, "{} bytes, before {before}", index.bytes());
        assert!((199_000..200_000).all(|row| index.find(spread(row), |found| found == row) == Some(row)));
    }

    proptest! {
        /// Few hashes, so that lines overflow and searches pass keys that ended.
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((0..4u8, 0..6u64, 0..40u32), 1..400)) {
            let (mut index, mut model) = (KeyIndex::new(), BTreeMap::new());
            let mut next = 0;
            for (what, bucket, key) in steps {
                let hash = bucket << 29;
                let known = model.get(&(hash, key)).copied();
                prop_assert_eq!(index.find(hash, |row| Some(row) == known), known);
                match (what, known) {
                    (0, Some(row)) => {
                        index.remove(hash, row);
                        model.remove(&(hash, key));
                    }
                    (_, Some(row)) => {
                        index.replace(hash, row, next);
                        model.insert((hash, key), next);
                        next += 1;
                    }
                    (_, None) => {
                        index.insert(hash, next);
                        model.insert((hash, key), next);
                        next += 1;
                    }
                }
            }
            for ((hash, _), row) in &model {
                prop_assert_eq!(index.find(*hash, |found| found == *row), Some(*row));
            }
            let mut found = 0;
            (0..6).for_each(|bucket| { index.find(bucket << 29, |_| { found += 1; false }); });
            prop_assert_eq!(found, model.len());
        }
    }
}
