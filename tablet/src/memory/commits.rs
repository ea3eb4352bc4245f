//! Which rows of a chunk a snapshot shows: rows are stored in commit order, so always a prefix.

/// The commit timestamps of a chunk's rows, one entry a batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commits {
    /// First row and timestamp, both ascending.
    runs: Vec<(u32, u64)>,
}

impl Commits {
    pub(crate) fn push(&mut self, first_row: u32, timestamp: u64) {
        if self.runs.last().is_none_or(|&(_, last)| last != timestamp) {
            self.runs.push((first_row, timestamp));
        }
    }

    /// When a row was inserted.
    pub(crate) fn at(&self, row: u32) -> u64 {
        let after = self.runs.partition_point(|&(first, _)| first <= row);
        after.checked_sub(1).map_or(0, |run| self.runs[run].1)
    }

    /// How many of `rows` rows have a timestamp below `snapshot`.
    pub(crate) fn visible(&self, rows: u32, snapshot: u64) -> u32 {
        let runs = self.runs.partition_point(|&(_, timestamp)| timestamp < snapshot);
        self.runs.get(runs).map_or(rows, |&(first, _)| first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_at_a_write_does_not_show_it() {
        let mut commits = Commits::default();
        commits.push(0, 10);
        commits.push(3, 10);
        commits.push(5, 20);
        assert_eq!([9, 10, 11, 20, 21].map(|t| commits.visible(8, t)), [0, 0, 5, 5, 8]);
    }
}
