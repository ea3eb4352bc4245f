//! What a server should do next for its tablets: flush one, compact one, or nothing. Without a clock, files or threads.

use std::time::Duration;

/// When a server flushes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rows in memory of one tablet, in bytes: Kudu's `--flush_threshold_mb`.
    pub flush_bytes: u64,
    /// How long rows stay in memory at most: Kudu's `--flush_threshold_secs`.
    pub flush_after: Duration,
    /// Log of one tablet that a start would read, in bytes: Kudu's `--log_target_replay_size_mb`.
    pub log_bytes: u64,
    /// With more rows than this in the memory of all tablets, in bytes, those with the most are flushed.
    pub memory_bytes: u64,
    /// Between two looks at a tablet of which nothing new was flushed.
    pub compact_after: Duration,
}

/// What is known of a tablet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Rows in memory, in bytes.
    pub unflushed_bytes: u64,
    /// When the first of them was written, in microseconds since the Unix epoch.
    pub unflushed_since: Option<u64>,
    /// Segments of the log, in bytes.
    pub log_bytes: u64,
    /// Rowsets on disk.
    pub rowsets: usize,
    /// When a compaction last found nothing to do with these rowsets, in microseconds since the Unix epoch.
    pub compact_at: Option<u64>,
}

/// Something to do for a tablet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Of this index: call [`flush`](crate::Tablet::flush).
    Flush(usize),
    /// Of this index: call [`compact`](crate::Tablet::compact).
    Compact(usize),
}

/// What to do first; `now_micros` is the physical time since the Unix epoch.
pub fn next_work(limits: &Limits, now_micros: u64, tablets: &[Load]) -> Option<Work> {
    let most = |wanted: &dyn Fn(&Load) -> bool, weight: &dyn Fn(&Load) -> u64| {
        let wanted = tablets.iter().enumerate().filter(|(_, load)| wanted(load));
        wanted.max_by_key(|(_, load)| weight(load)).map(|(index, _)| index)
    };
    let has_rows = |load: &Load| load.unflushed_bytes > 0;
    let total: u64 = tablets.iter().map(|load| load.unflushed_bytes).sum();
    let pressed = total > limits.memory_bytes;
    let age = |since: Option<u64>| since.map_or(0, |since| now_micros.saturating_sub(since));
    let flush =
        most(&|load| has_rows(load) && (pressed || load.unflushed_bytes > limits.flush_bytes), &|load| {
            load.unflushed_bytes
        })
        .or_else(|| {
            most(&|load| load.unflushed_since.is_some() && load.log_bytes > limits.log_bytes, &|load| {
                load.log_bytes
            })
        })
        .or_else(|| {
            let longest = limits.flush_after.as_micros();
            most(&|load| u128::from(age(load.unflushed_since)) > longest, &|load| age(load.unflushed_since))
        });
    if let Some(index) = flush {
        return Some(Work::Flush(index));
    }
    let due = |load: &Load| {
        load.compact_at.is_none_or(|at| u128::from(age(Some(at))) > limits.compact_after.as_micros())
    };
    most(&|load| load.rowsets > 0 && due(load), &|load| load.rowsets as u64).map(Work::Compact)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        flush_bytes: 1000,
        flush_after: Duration::from_secs(120),
        log_bytes: 5000,
        memory_bytes: 3000,
        compact_after: Duration::from_secs(60),
    };

    fn next(tablets: &[Load]) -> Option<Work> {
        next_work(&LIMITS, 1_000_000_000, tablets)
    }

    fn rows(unflushed_bytes: u64, seconds: u64) -> Load {
        let unflushed_since = Some(1_000_000_000 - seconds * 1_000_000);
        Load { unflushed_bytes, unflushed_since, ..Load::default() }
    }

    #[test]
    fn a_tablet_is_flushed_by_size_age_log_and_when_memory_is_short() {
        assert_eq!(next(&[]), None);
        assert_eq!(next(&[rows(1000, 1), rows(900, 120)]), None);
        assert_eq!(next(&[rows(1001, 1), rows(1002, 1), rows(9, 999)]), Some(Work::Flush(1)));
        assert_eq!(next(&[rows(10, 121), rows(900, 122)]), Some(Work::Flush(1)));
        assert_eq!(next(&[rows(1000, 1); 4]), Some(Work::Flush(3)));
        assert_eq!(next(&[rows(5, 1), Load { log_bytes: 5001, ..rows(1, 1) }]), Some(Work::Flush(1)));
        assert_eq!(next(&[Load { log_bytes: 5001, ..Load::default() }]), None, "nothing to flush");
    }

    #[test]
    fn compactions_come_last_and_are_not_tried_in_vain_all_the_time() {
        let files = |rowsets, compact_at| Load { rowsets, compact_at, ..Load::default() };
        assert_eq!(next(&[files(3, None), files(5, None)]), Some(Work::Compact(1)));
        assert_eq!(next(&[files(3, None), rows(2000, 1)]), Some(Work::Flush(1)));
        assert_eq!(next(&[files(3, None), files(5, Some(990_000_000))]), Some(Work::Compact(0)));
        assert_eq!(next(&[files(5, Some(939_999_999))]), Some(Work::Compact(0)));
        assert_eq!(next(&[files(5, Some(940_000_001)), files(0, None)]), None);
    }
}
