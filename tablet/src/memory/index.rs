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
    shards: Box<[HashTable<Entry>]>,
}

impl KeyIndex {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| HashTable::new()).collect() }
    }

    /// The row of the key with this hash for which `equal` holds.
    pub(crate) fn find(&self, hash: u64, mut equal: impl FnMut(RowId) -> bool) -> Option<RowId> {
        let short = hash as u32;
        let found = self.shards[shard(hash)].find(spread(short), |e| e.hash == short && equal(e.row));
        found.map(|entry| entry.row)
    }

    /// Adds a key that is not there yet.
    pub(crate) fn insert(&mut self, hash: u64, row: RowId) {
        let entry = Entry { hash: hash as u32, row };
        self.shards[shard(hash)].insert_unique(spread(entry.hash), entry, |e| spread(e.hash));
    }

    /// Moves a key to a newer row version.
    pub(crate) fn replace(&mut self, hash: u64, old: RowId, new: RowId) {
        if let Some(entry) = self.shards[shard(hash)].find_mut(spread(hash as u32), |e| e.row == old) {
            entry.row = new;
        }
    }

    pub(crate) fn remove(&mut self, hash: u64, row: RowId) {
        if let Ok(entry) = self.shards[shard(hash)].find_entry(spread(hash as u32), |e| e.row == row) {
            entry.remove();
        }
    }

    /// Bytes held by the tables.
    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(HashTable::allocation_size).sum()
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
}
