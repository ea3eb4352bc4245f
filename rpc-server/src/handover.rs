//! The lock around the queue, and how a worker that waits is handed a job.

use std::time::Instant;

use crate::queue::{self, DeadlineQueue, Take};
use crate::sync::{Condvar, Mutex};

/// Jobs between those who bring them and workers, which are numbered from 0.
pub(crate) struct Handover<T> {
    state: Mutex<State<T>>,
    /// One for each worker, so that exactly the one that was handed a job wakes up.
    wake: Vec<Condvar>,
}

struct State<T> {
    queue: DeadlineQueue<T>,
    handed: Vec<Option<T>>,
    closed: bool,
}

/// What became of a job that was brought.
pub(crate) enum Put<T> {
    /// A worker has it, or will.
    Taken,
    /// The queue was full: this job, the new one or one that sorts behind it, is not run.
    Refused(T),
    /// No more jobs are run.
    Closed(T),
}

impl<T> Handover<T> {
    pub(crate) fn new(workers: usize, capacity: usize) -> Self {
        let handed = (0..workers).map(|_| None).collect();
        let state = State { queue: DeadlineQueue::new(capacity), handed, closed: false };
        Self { state: Mutex::new(state), wake: (0..workers).map(|_| Condvar::new()).collect() }
    }

    pub(crate) fn put(&self, deadline: Option<Instant>, job: T) -> Put<T> {
        let mut state = self.state.lock();
        match state.queue.put(deadline, job) {
            queue::Put::HandTo(worker, job) => {
                if let (Some(place), Some(wake)) = (state.handed.get_mut(worker), self.wake.get(worker)) {
                    *place = Some(job);
                    drop(state);
                    wake.notify_one();
                }
                Put::Taken
            }
            queue::Put::Queued => Put::Taken,
            queue::Put::Refused(job) => Put::Refused(job),
            queue::Put::Closed(job) => Put::Closed(job),
        }
    }

    /// Waits for the next job of `worker`, and tells whether others wait behind it; `None` = the worker is to end.
    pub(crate) fn next(&self, worker: usize) -> Option<(T, bool)> {
        let mut state = self.state.lock();
        match state.queue.take(worker) {
            Take::Item(job) => Some((job, !state.queue.is_empty())),
            Take::Closed => None,
            Take::Idle => loop {
                self.wake.get(worker)?.wait(&mut state);
                if let Some(job) = state.handed.get_mut(worker)?.take() {
                    return Some((job, false));
                }
                if state.closed {
                    return None;
                }
            },
        }
    }

    /// From now on no job is taken; those that waited come back, in order. Jobs that were handed over are still run.
    pub(crate) fn close(&self) -> Vec<T> {
        let waiting = {
            let mut state = self.state.lock();
            state.closed = true;
            state.queue.close()
        };
        self.wake.iter().for_each(|wake| {
            wake.notify_one();
        });
        waiting
    }

    /// How many jobs wait.
    pub(crate) fn queued(&self) -> usize {
        self.state.lock().queue.len()
    }

    /// How many jobs may wait.
    pub(crate) fn capacity(&self) -> usize {
        self.state.lock().queue.capacity()
    }
}
