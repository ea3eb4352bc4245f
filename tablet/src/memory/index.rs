//! From primary keys to the newest row version: a sharded hash table that keeps hashes, not keys.

use hashbrown::HashTable;

/// The number of a row version in its tablet.
pub(crate) type RowId = u32;

/// Shards grow one at a time, so no single insert waits for a whole table to be moved.
const SHARDS: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    row: RowId,
}

/// Keys that live now.
#[derive(Debug)]
pub(crate) struct KeyIndex {
    /// None before the first key: most tablets of a large table stay small.
    shards: Vec<HashTable<Entry>>,
    bytes: usize,
}

impl KeyIndex {
    pub(crate) fn new() -> Self {
        Self { shards: Vec::new(), bytes: 0 }
    }

    /// The row of the key with this hash for which `equal` holds.
    pub(crate) fn find(&self, hash: u64, mut equal: impl FnMut(RowId) -> bool) -> Option<RowId> {
        let short = hash as u32;
        let shard = self.shards.get(shard(hash))?;
        let found = shard.find(spread(short), |e| e.hash == short && equal(e.row));
        found.map(|entry| entry.row)
    }

    /// Adds a key that is not there yet.
    pub(crate) fn insert(&mut self, hash: u64, row: RowId) {
        let entry = Entry { hash: hash as u32, row };
        if self.shards.is_empty() {
            self.shards.resize_with(SHARDS, HashTable::new);
            self.bytes = SHARDS * size_of::<HashTable<Entry>>();
        }
        let shard = &mut self.shards[shard(hash)];
        // Only a full shard moves.
        let moved = (shard.len() == shard.capacity()).then(|| shard.allocation_size());
        shard.insert_unique(spread(entry.hash), entry, |e| spread(e.hash));
        if let Some(before) = moved {
            self.bytes = (self.bytes + shard.allocation_size()).saturating_sub(before);
        }
    }

    /// Moves a key to a newer row version.
    pub(crate) fn replace(&mut self, hash: u64, old: RowId, new: RowId) {
        let found =
            self.shards.get_mut(shard(hash)).and_then(|s| s.find_mut(spread(hash as u32), |e| e.row == old));
        if let Some(entry) = found {
            entry.row = new;
        }
    }

    pub(crate) fn remove(&mut self, hash: u64, row: RowId) {
        if let Some(shard) = self.shards.get_mut(shard(hash))
            && let Ok(entry) = shard.find_entry(spread(hash as u32), |e| e.row == row)
        {
            entry.remove();
        }
    }

    /// Bytes held by the tables; 0 before the first key.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The shard is taken from bits that are not stored.
fn shard(hash: u64) -> usize {
    (hash >> 56) as usize % SHARDS
}

/// hashbrown wants good bits at both ends of 64.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_hash_are_told_apart_by_their_rows() {
        let mut index = KeyIndex::new();
        let hash = 7 << 60 | 3;
        for row in 0..10 {
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
        assert_eq!((index.bytes(), index.find(1, |_| true)), (0, None));
        index.replace(1, 0, 1);
        index.remove(1, 1);
        let spread = |row: RowId| u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let counted = |index: &KeyIndex| {
            let tables: usize = index.shards.iter().map(HashTable::allocation_size).sum();
            tables + SHARDS * size_of::<HashTable<Entry>>()
        };
        for row in 0..50_000 {
            index.insert(spread(row), row);
            // Ends leave marks in a shard, which the next insert may sweep.
            if row % 3 == 0 {
                index.remove(spread(row / 2), row / 2);
            }
        }
        assert_eq!(index.bytes(), counted(&index));
    }
}
