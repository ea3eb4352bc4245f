//! The bounded queue of calls in front of a service's workers, without threads or clocks.
//!
//! Order: earliest deadline first, calls without a deadline last, ties by arrival. When the queue is full the last call in that
//! order, the new one included, is turned away: a call that would be answered too late anyway costs nobody else a place.
//! Idle workers wait on a stack, so that the one whose caches are warm is woken first.

use std::collections::BTreeMap;
use std::time::Instant;

/// A bounded deadline queue of `T` with a stack of idle workers beside it.
///
/// At any moment either nothing is queued or nobody is idle: [`put`](Self::put) hands an item to an idle worker directly.
#[derive(Debug)]
pub struct DeadlineQueue<T> {
    waiting: BTreeMap<Position, T>,
    idle: Vec<usize>,
    capacity: usize,
    arrivals: u64,
    closed: bool,
}

/// What became of an item given to [`DeadlineQueue::put`].
#[derive(Debug, PartialEq, Eq)]
pub enum Put<T> {
    /// This idle worker has to run the item now; it is idle no more.
    HandTo(usize, T),
    /// The item waits for a worker.
    Queued,
    /// The queue was full. This item (the new one, or a queued one that sorts behind it) is refused.
    Refused(T),
    /// The queue is closed; the item comes back.
    Closed(T),
}

/// What a worker that asks for work gets.
#[derive(Debug, PartialEq, Eq)]
pub enum Take<T> {
    /// Run this item.
    Item(T),
    /// There is none: the worker is on the stack of the idle and gets its next item by [`Put::HandTo`].
    Idle,
    /// The queue is closed: the worker ends.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Deadline {
    At(Instant),
    Never,
}

type Position = (Deadline, u64);

impl<T> DeadlineQueue<T> {
    /// An open, empty queue that holds at most `capacity` waiting items. With 0 only idle workers take items.
    pub fn new(capacity: usize) -> Self {
        Self { waiting: BTreeMap::new(), idle: Vec::new(), capacity, arrivals: 0, closed: false }
    }

    /// Adds an item whose answer is wanted before `deadline` (`None`: whenever).
    pub fn put(&mut self, deadline: Option<Instant>, item: T) -> Put<T> {
        if self.closed {
            return Put::Closed(item);
        }
        if let Some(worker) = self.idle.pop() {
            return Put::HandTo(worker, item);
        }
        let position = (deadline.map_or(Deadline::Never, Deadline::At), self.arrivals);
        self.arrivals += 1;
        if self.waiting.len() < self.capacity {
            self.waiting.insert(position, item);
            return Put::Queued;
        }
        match self.waiting.last_entry() {
            Some(last) if *last.key() > position => {
                let refused = last.remove();
                self.waiting.insert(position, item);
                Put::Refused(refused)
            }
            _ => Put::Refused(item),
        }
    }

    /// The next item for `worker`, or its place on the stack of the idle.
    pub fn take(&mut self, worker: usize) -> Take<T> {
        if self.closed {
            return Take::Closed;
        }
        match self.waiting.pop_first() {
            Some((_, item)) => Take::Item(item),
            None => {
                self.idle.push(worker);
                Take::Idle
            }
        }
    }

    /// Closes the queue for good and gives back what waited, in order.
    pub fn close(&mut self) -> Vec<T> {
        self.closed = true;
        self.idle.clear();
        std::mem::take(&mut self.waiting).into_values().collect()
    }

    /// How many items wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The most items that may wait.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn at(start: Instant, ms: u64) -> Option<Instant> {
        Some(start + Duration::from_millis(ms))
    }

    #[test]
    fn the_earliest_deadline_leaves_first_and_none_leaves_last() {
        let start = Instant::now();
        let mut queue = DeadlineQueue::new(8);
        for (deadline, name) in
            [(None, "never"), (at(start, 20), "late"), (at(start, 10), "soon"), (None, "never 2")]
        {
            assert_eq!(queue.put(deadline, name), Put::Queued);
        }
        let order: Vec<_> = std::iter::from_fn(|| match queue.take(0) {
            Take::Item(item) => Some(item),
            _ => None,
        })
        .collect();
        assert_eq!(order, ["soon", "late", "never", "never 2"]);
    }

    #[test]
    fn a_full_queue_refuses_the_last_in_order() {
        let start = Instant::now();
        let mut queue = DeadlineQueue::new(2);
        queue.put(at(start, 10), "a");
        queue.put(None, "b");
        assert_eq!(queue.put(at(start, 20), "c"), Put::Refused("b"), "a deadline beats none");
        assert_eq!(queue.put(at(start, 20), "d"), Put::Refused("d"), "of equals the older one stays");
        assert_eq!(queue.put(None, "e"), Put::Refused("e"));
        assert_eq!(queue.put(at(start, 5), "f"), Put::Refused("c"));
        assert_eq!(queue.close(), ["f", "a"]);
    }

    #[test]
    fn the_worker_that_went_idle_last_is_woken_first() {
        let mut queue = DeadlineQueue::new(1);
        for worker in 0..3 {
            assert_eq!(queue.take(worker), Take::Idle);
        }
        assert_eq!(queue.put(None, 'x'), Put::HandTo(2, 'x'));
        assert_eq!(queue.put(None, 'y'), Put::HandTo(1, 'y'));
        assert_eq!(queue.put(None, 'z'), Put::HandTo(0, 'z'));
        assert_eq!(queue.put(None, 'w'), Put::Queued);
    }

    #[test]
    fn a_closed_queue_takes_and_gives_nothing() {
        let mut queue = DeadlineQueue::new(1);
        queue.put(None, 1);
        assert_eq!(queue.close(), [1]);
        assert_eq!(queue.put(None, 2), Put::Closed(2));
        assert_eq!(queue.take(0), Take::<i32>::Closed);
    }

    /// The rules in their plainest form: a list sorted by (deadline, arrival), cut at the capacity.
    #[derive(Default)]
    struct Model {
        waiting: Vec<(Option<Instant>, u64)>,
        idle: Vec<usize>,
    }

    impl Model {
        fn put(&mut self, capacity: usize, deadline: Option<Instant>, item: u64) -> Put<u64> {
            if let Some(worker) = self.idle.pop() {
                return Put::HandTo(worker, item);
            }
            self.waiting.push((deadline, item));
            self.waiting.sort_by_key(|(deadline, item)| (deadline.is_none(), *deadline, *item));
            if self.waiting.len() > capacity {
                let (_, refused) = self.waiting.pop().expect("just pushed");
                return Put::Refused(refused);
            }
            Put::Queued
        }

        fn take(&mut self, worker: usize) -> Take<u64> {
            if self.waiting.is_empty() {
                self.idle.push(worker);
                return Take::Idle;
            }
            Take::Item(self.waiting.remove(0).1)
        }
    }

    proptest! {
        #[test]
        fn the_queue_behaves_like_a_sorted_list(
            capacity in 0_usize..6,
            steps in prop::collection::vec((any::<bool>(), prop::option::of(0_u64..5)), 0..120),
        ) {
            let start = Instant::now();
            let mut queue = DeadlineQueue::new(capacity);
            let mut model = Model::default();
            for (item, (put, deadline)) in (0_u64..).zip(steps) {
                let deadline = deadline.map(|ms| start + Duration::from_millis(ms));
                if put {
                    prop_assert_eq!(queue.put(deadline, item), model.put(capacity, deadline, item));
                } else {
                    prop_assert_eq!(queue.take(item as usize), model.take(item as usize));
                }
                prop_assert_eq!(queue.len(), model.waiting.len());
                prop_assert!(queue.len() <= capacity);
            }
            let rest: Vec<u64> = model.waiting.iter().map(|(_, item)| *item).collect();
            prop_assert_eq!(queue.close(), rest);
        }
    }
}
