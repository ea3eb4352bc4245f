//! Decoded blocks, shared by the rowsets of a server.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use schema::ColumnData;

/// What an entry weighs beside its bytes.
const ENTRY_BYTES: usize = 256;

/// Blocks of packed columns, decoded once and kept while there is room. What was not used for longest goes first, about.
#[derive(Debug)]
pub struct BlockCache {
    capacity: usize,
    next_owner: AtomicU64,
    inner: Mutex<Inner>,
}

/// A block: whose, and its batch and column.
pub(super) type Key = (u64, u32, u32);

#[derive(Debug, Default)]
struct Inner {
    entries: HashMap<Key, Entry>,
    /// Who goes next. What was used since it came here comes here again.
    queue: VecDeque<Key>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    cells: ColumnData,
    bytes: usize,
    used: bool,
}

impl BlockCache {
    /// An empty cache for this many bytes (Kudu's `--block_cache_capacity_mb`: 512 MiB).
    pub fn new(capacity: usize) -> Self {
        Self { capacity, next_owner: AtomicU64::new(0), inner: Mutex::default() }
    }

    /// Bytes of what it holds; never more than its capacity.
    pub fn bytes(&self) -> usize {
        self.inner.lock().bytes
    }

    /// A number for the keys of one rowset.
    pub(super) fn owner(&self) -> u64 {
        self.next_owner.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn get(&self, key: Key) -> Option<ColumnData> {
        let mut inner = self.inner.lock();
        let entry = inner.entries.get_mut(&key)?;
        entry.used = true;
        Some(entry.cells.clone())
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.inner.lock().entries.contains_key(&key)
    }

    pub(super) fn insert(&self, key: Key, cells: ColumnData) {
        let len = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
        let bytes = ENTRY_BYTES + cells.data.len() + len(&cells.varlen) + len(&cells.non_null);
        if bytes > self.capacity {
            return;
        }
        let inner = &mut *self.inner.lock();
        if inner.entries.contains_key(&key) {
            return;
        }
        while inner.bytes + bytes > self.capacity {
            let Some(oldest) = inner.queue.pop_front() else { break };
            match inner.entries.get_mut(&oldest) {
                Some(entry) if entry.used => {
                    entry.used = false;
                    inner.queue.push_back(oldest);
                }
                _ => inner.bytes -= inner.entries.remove(&oldest).map_or(0, |entry| entry.bytes),
            }
        }
        inner.bytes += bytes;
        inner.entries.insert(key, Entry { cells, bytes, used: false });
        inner.queue.push_back(key);
    }

    /// Forgets the blocks of a rowset.
    pub(super) fn remove(&self, owner: u64) {
        let inner = &mut *self.inner.lock();
        inner.queue.retain(|key| key.0 != owner);
        inner.entries.retain(|key, _| key.0 != owner);
        inner.bytes = inner.entries.values().map(|entry| entry.bytes).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: usize) -> ColumnData {
        ColumnData { data: vec![0; bytes].into(), varlen: None, non_null: None }
    }

    #[test]
    fn the_bytes_stay_below_the_capacity_and_what_is_used_stays() {
        let cache = BlockCache::new(10 * (1000 + ENTRY_BYTES));
        for column in 0..100 {
            cache.insert((1, 0, column), block(1000));
            assert!(cache.get((1, 0, 0)).is_some(), "after {column}");
            assert_eq!(cache.bytes(), (column as usize + 1).min(10) * (1000 + ENTRY_BYTES));
        }
        assert!(cache.get((1, 0, 50)).is_none() && cache.get((1, 0, 99)).is_some());
        cache.insert((1, 1, 0), block(1 << 20));
        assert!(cache.get((1, 1, 0)).is_none(), "it is larger than the cache");
    }

    #[test]
    fn what_belongs_to_a_rowset_goes_with_it() {
        let cache = BlockCache::new(1 << 20);
        let (one, other) = (cache.owner(), cache.owner());
        cache.insert((one, 0, 0), block(10));
        cache.insert((other, 0, 0), block(10));
        cache.insert((other, 0, 0), block(10));
        cache.remove(one);
        assert!(cache.get((one, 0, 0)).is_none() && cache.get((other, 0, 0)).is_some());
        assert_eq!(cache.bytes(), 10 + ENTRY_BYTES);
        cache.remove(other);
        assert_eq!(cache.bytes(), 0);
    }
}
