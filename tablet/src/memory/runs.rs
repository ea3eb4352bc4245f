//! Runs: rows whose keys ascend, as a client leaves them that loads a table in order. They are their own index, so they need
//! no entry a key in the hash table, which is most of what such an insert costs.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::column::Layout;
use super::index::RowId;

/// Rows that are stored one after the other, in the order of their keys.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: RowId,
    /// At least 1.
    count: u32,
}

impl Run {
    fn last(self) -> RowId {
        self.first + self.count - 1
    }
}

/// Runs that do not overlap, by key.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: Vec<Run>,
    /// Rows that ended, or that a newer version replaces.
    gone: HashSet<RowId, foldhash::fast::RandomState>,
}

/// The ends of a run that is to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    First,
    Last,
}

impl Runs {
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Where a run belongs that overlaps none of these, if that is so; `order` compares the key of a row with one of its ends.
    fn gap(&self, order: &impl Fn(RowId, End) -> Ordering) -> Option<usize> {
        let at = self.runs.partition_point(|run| order(run.first, End::First).is_lt());
        let before =
            at.checked_sub(1).is_none_or(|before| order(self.runs[before].last(), End::First).is_lt());
        let behind = self.runs.get(at).is_none_or(|run| order(run.first, End::Last).is_gt());
        (before && behind).then_some(at)
    }

    /// Whether no key lies between the ends; `order` compares the key of a row with them.
    pub(crate) fn are_apart(&self, order: impl Fn(RowId, End) -> Ordering) -> bool {
        self.gap(&order).is_some()
    }

    /// Adds `count` rows whose keys ascend, if no key here lies between theirs; false = nothing is added.
    pub(crate) fn add(&mut self, first: RowId, count: u32, order: impl Fn(RowId, End) -> Ordering) -> bool {
        let Some(at) = self.gap(&order) else { return false };
        // Not joined with its neighbours: what other clients load may belong between them.
        self.runs.insert(at, Run { first, count });
        true
    }

    /// The row that lives of a key, which `order` compares that of a row with.
    pub(crate) fn find(&self, mut order: impl FnMut(RowId) -> Ordering) -> Option<RowId> {
        let behind = self.runs.partition_point(|run| order(run.first).is_le());
        let run = self.runs[behind.checked_sub(1)?];
        let (mut low, mut high) = (0, run.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match order(run.first + middle) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Some(run.first + middle).filter(|row| !self.gone.contains(row)),
            }
        }
        None
    }

    /// The row lives no more.
    pub(crate) fn remove(&mut self, row: RowId) {
        if !self.runs.is_empty() {
            self.gone.insert(row);
        }
    }

    /// Takes up to `most` rows out that live; they are to be found by other means from now on.
    pub(crate) fn take(&mut self, most: usize) -> Vec<RowId> {
        let mut taken = Vec::new();
        for _ in 0..most {
            let Some(run) = self.runs.last_mut() else { break };
            let row = run.last();
            run.count -= 1;
            if run.count == 0 {
                self.runs.pop();
            }
            if !self.gone.remove(&row) {
                taken.push(row);
            }
        }
        taken
    }

    pub(crate) fn bytes(&self) -> usize {
        // A set keeps a mark beside each entry, and an eighth of it free.
        self.runs.capacity() * size_of::<Run>() + self.gone.capacity() * (size_of::<RowId>() + 1) * 8 / 7
    }
}

/// The order of two cells of a key column, neither of which is NULL.
pub(crate) fn compare(layout: Layout, a: &[u8], b: &[u8]) -> Ordering {
    fn numbers<const N: usize, T: Ord>(a: &[u8], b: &[u8], read: fn([u8; N]) -> T) -> Ordering {
        let read = |cell: &[u8]| cell.first_chunk().map(|cell| read(*cell));
        read(a).cmp(&read(b))
    }
    match layout.width {
        None => a.cmp(b),
        Some(1) => numbers(a, b, i8::from_le_bytes),
        Some(2) => numbers(a, b, i16::from_le_bytes),
        Some(4) => numbers(a, b, i32::from_le_bytes),
        Some(8) => numbers(a, b, i64::from_le_bytes),
        Some(_) => numbers(a, b, i128::from_le_bytes),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_find_what_a_map_finds(
            batches in proptest::collection::vec((0..400_i32, 1..20_usize, 1..5_i32), 1..30),
            removed in proptest::collection::vec(0..400_usize, 0..40),
            taken in 0..100_usize,
        ) {
            let (mut runs, mut keys) = (Runs::default(), Vec::<i32>::new());
            let mut map = std::collections::BTreeMap::new();
            for (start, count, step) in batches {
                let batch: Vec<i32> = (0..count as i32).map(|i| start + i * step).collect();
                let (first, last) = (batch[0], batch[count - 1]);
                let is_apart = map.range(first..=last).next().is_none();
                let order = |row: RowId, end| keys[row as usize].cmp(if end == End::First { &first } else { &last });
                // Between two keys of a run there may be room, which it does not give.
                let apart = runs.are_apart(order);
                prop_assert!(!apart || is_apart);
                prop_assert_eq!(runs.add(keys.len() as u32, count as u32, order), apart);
                if apart {
                    for key in batch {
                        map.insert(key, keys.len() as u32);
                        keys.push(key);
                    }
                }
            }
            for row in removed.into_iter().filter(|row| *row < keys.len()) {
                runs.remove(row as u32);
                map.remove(&keys[row]);
            }
            let find = |runs: &Runs, key: i32| runs.find(|row| keys[row as usize].cmp(&key));
            for key in -1..500 {
                prop_assert_eq!(find(&runs, key), map.get(&key).copied());
            }
            let taken = runs.take(taken);
            for key in -1..500 {
                let row = map.get(&key).copied().filter(|row| !taken.contains(row));
                prop_assert_eq!(find(&runs, key), row);
            }
            prop_assert!(taken.iter().all(|row| map.get(&keys[*row as usize]) == Some(row)));
        }
    }

    #[test]
    fn cells_are_ordered_as_their_encoded_keys() {
        let layout = |width| Layout { width, nullable: false };
        assert_eq!(compare(layout(Some(4)), &(-1_i32).to_le_bytes(), &1_i32.to_le_bytes()), Ordering::Less);
        assert_eq!(
            compare(layout(Some(16)), &256_i128.to_le_bytes(), &255_i128.to_le_bytes()),
            Ordering::Greater
        );
        assert_eq!(compare(layout(Some(1)), &[0x80], &[0x7f]), Ordering::Less);
        assert_eq!(compare(layout(None), b"ab", b"b"), Ordering::Less);
        assert_eq!(compare(layout(None), b"", b""), Ordering::Equal);
    }
}
