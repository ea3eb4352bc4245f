//! One timestamp a row, for the rows of a batch: mostly one for all of them, few runs, or few distinct ones.

use bytes::Bytes;

/// Timestamps of a batch's rows, as they are stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Times {
    /// All rows have this one.
    One(u64),
    /// Rows up to `ends[i]`, exclusive, from `ends[i - 1]` on have `values[i]`.
    Runs {
        /// u64 each.
        values: Bytes,
        /// u32 each, rising; the last is the number of rows.
        ends: Bytes,
    },
    /// Row `i` has `values[indexes[i]]`.
    Dictionary {
        /// u64 each.
        values: Bytes,
        /// One a row, of `width` bytes.
        indexes: Bytes,
        /// 1, 2 or 4.
        width: usize,
    },
}

const RUNS: u64 = 1;
const DICTIONARY: u64 = 2;

/// Appends the times to `out`; nothing if all of them are the same.
pub(crate) fn encode(times: &[u64], out: &mut Vec<u8>) {
    let runs = times.chunk_by(|a, b| a == b).count();
    if runs <= 1 {
        return;
    }
    let mut distinct = times.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let width = width(distinct.len());
    let head = |kind: u64, count: usize, out: &mut Vec<u8>| {
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&(count as u64).to_le_bytes());
    };
    if runs * 12 <= distinct.len() * 8 + times.len() * width {
        head(RUNS, runs, out);
        times.chunk_by(|a, b| a == b).for_each(|run| out.extend_from_slice(&run[0].to_le_bytes()));
        let mut end = 0;
        for run in times.chunk_by(|a, b| a == b) {
            end += run.len() as u32;
            out.extend_from_slice(&end.to_le_bytes());
        }
        return;
    }
    head(DICTIONARY, distinct.len(), out);
    distinct.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
    for time in times {
        let index = distinct.partition_point(|value| value < time) as u32;
        out.extend_from_slice(&index.to_le_bytes()[..width]);
    }
}

/// The times of `rows` rows out of what [`encode`] made of several different ones. `None` if it cannot be.
pub(crate) fn decode(mut bytes: Bytes, rows: usize) -> Option<Times> {
    let mut head = bytes.split_to(bytes.len().min(16));
    let count = usize::try_from(u64_at(&head.split_off(8.min(head.len())), 0)?).ok()?;
    if count > rows {
        return None;
    }
    let values = (bytes.len() >= count * 8).then(|| bytes.split_to(count * 8))?;
    match u64_at(&head, 0)? {
        RUNS => {
            let ends = bytes;
            let (all, rest) = ends.as_chunks::<4>();
            let rising = all.is_sorted_by(|a, b| u32::from_le_bytes(*a) < u32::from_le_bytes(*b));
            let last = all.last().map(|end| u32::from_le_bytes(*end) as usize);
            let fits = all.len() == count && rest.is_empty() && rising && last == Some(rows);
            fits.then_some(Times::Runs { values, ends })
        }
        DICTIONARY => {
            let width = width(count);
            let times = Times::Dictionary { values, indexes: bytes.clone(), width };
            let fits = bytes.len() == rows * width && (0..rows).all(|row| times.get(row).is_some());
            fits.then_some(times)
        }
        _ => None,
    }
}

fn width(distinct: usize) -> usize {
    match distinct {
        0..=0x100 => 1,
        0x101..=0x1_0000 => 2,
        _ => 4,
    }
}

fn u64_at(bytes: &[u8], index: usize) -> Option<u64> {
    bytes.as_chunks::<8>().0.get(index).map(|value| u64::from_le_bytes(*value))
}

impl Times {
    /// The time of a row; 0 behind the last one.
    pub(crate) fn at(&self, row: usize) -> u64 {
        self.get(row).unwrap_or(0)
    }

    /// Whether `wanted` holds for all of the times.
    pub(super) fn all(&self, mut wanted: impl FnMut(u64) -> bool) -> bool {
        match self {
            Self::One(time) => wanted(*time),
            Self::Runs { values, .. } | Self::Dictionary { values, .. } => {
                values.as_chunks::<8>().0.iter().all(|time| wanted(u64::from_le_bytes(*time)))
            }
        }
    }

    fn get(&self, row: usize) -> Option<u64> {
        match self {
            Self::One(time) => Some(*time),
            Self::Runs { values, ends } => {
                let ends = ends.as_chunks::<4>().0;
                u64_at(values, ends.partition_point(|end| u32::from_le_bytes(*end) as usize <= row))
            }
            Self::Dictionary { values, indexes, width } => {
                let mut index = [0; 4];
                let stored = indexes.get(row * width..(row + 1) * width)?;
                index[..*width].copy_from_slice(stored);
                u64_at(values, u32::from_le_bytes(index) as usize)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stored(times: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(times, &mut out);
        out
    }

    fn read(bytes: Vec<u8>, rows: usize) -> Option<Vec<u64>> {
        let times = decode(bytes.into(), rows)?;
        Some((0..rows).map(|row| times.at(row)).collect())
    }

    #[test]
    fn one_time_takes_no_bytes_runs_few_and_many_distinct_ones_an_index() {
        assert!(stored(&[7; 1000]).is_empty());
        let runs: Vec<u64> = (0..1000).map(|i| i / 100).collect();
        assert_eq!(stored(&runs).len(), 16 + 10 * 12);
        let mixed: Vec<u64> = (0..1000).map(|i| i * 7 % 10).collect();
        assert_eq!(stored(&mixed).len(), 16 + 10 * 8 + 1000);
        for distinct in [256, 257, 65_536, 65_537] {
            let times: Vec<u64> = (0..140_000).map(|i| i * 7 % distinct).collect();
            assert_eq!(read(stored(&times), times.len()), Some(times), "{distinct} distinct ones");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(times in proptest::collection::vec(0..20u64, 1..200)) {
            let bytes = stored(&times);
            if bytes.is_empty() {
                prop_assert!(times.iter().all(|time| *time == times[0]));
            } else {
                prop_assert_eq!(read(bytes, times.len()), Some(times));
            }
        }

        #[test]
        fn other_bytes_are_refused_or_read_without_a_panic(
            times in proptest::collection::vec(0..9u64, 2..60),
            at in any::<u16>(),
            bits in 1..=255u8,
            cut in any::<u16>(),
        ) {
            let mut bytes = stored(&times);
            prop_assume!(!bytes.is_empty());
            let rows = times.len();
            prop_assert_eq!(read(bytes[..usize::from(cut) % bytes.len()].to_vec(), rows), None);
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= bits;
            let _ = read(bytes, rows);
        }
    }
}
