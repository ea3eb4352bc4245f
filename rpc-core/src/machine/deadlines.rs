//! Deadlines of calls. Most come in the order in which they end, since most callers wait equally long: a queue does for
//! those, without the comparisons of a heap.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

/// When, and of which call (id and key).
pub(crate) type Deadline = (Instant, i32, u64);

#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    in_order: VecDeque<Deadline>,
    others: BinaryHeap<Reverse<Deadline>>,
}

impl Deadlines {
    pub(crate) fn len(&self) -> usize {
        self.in_order.len().saturating_add(self.others.len())
    }

    pub(crate) fn push(&mut self, deadline: Deadline) {
        if self.in_order.back().is_none_or(|last| last.0 <= deadline.0) {
            self.in_order.push_back(deadline);
        } else {
            self.others.push(Reverse(deadline));
        }
    }

    /// The earliest.
    pub(crate) fn first(&self) -> Option<Deadline> {
        let other = self.others.peek().map(|Reverse(deadline)| *deadline);
        match (self.in_order.front().copied(), other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Takes the earliest away.
    pub(crate) fn pop(&mut self) {
        let first = self.first();
        if self.in_order.front().copied() == first {
            self.in_order.pop_front();
        } else {
            self.others.pop();
        }
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&Deadline) -> bool) {
        self.in_order.retain(|deadline| keep(deadline));
        self.others.retain(|Reverse(deadline)| keep(deadline));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    proptest! {
        #[test]
        fn they_come_out_in_order_of_time(times in proptest::collection::vec(0u64..50, 0..40)) {
            let start = Instant::now();
            let mut deadlines = Deadlines::default();
            for (key, time) in times.iter().enumerate() {
                deadlines.push((start + Duration::from_secs(*time), 0, key as u64));
            }
            deadlines.retain(|(_, _, key)| key % 3 != 0);
            let mut seen = Vec::new();
            while let Some((at, _, _)) = deadlines.first() {
                seen.push((at - start).as_secs());
                deadlines.pop();
            }
            let kept = times.iter().enumerate().filter(|(key, _)| key % 3 != 0);
            let mut expected: Vec<u64> = kept.map(|(_, time)| *time).collect();
            expected.sort_unstable();
            prop_assert_eq!(seen, expected);
            prop_assert_eq!(deadlines.len(), 0);
        }
    }
}
