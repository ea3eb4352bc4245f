//! The threads of one service and the queue in front of them.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use rpc_core::InboundCall;

use crate::metrics::count;
use crate::pace::is_too_late;
use crate::queue::{DeadlineQueue, Put, Take};
use crate::refusal;
use crate::service::{Entry, Shared};

/// A call on its way to a worker.
struct Job {
    call: InboundCall,
    entry: Arc<Entry>,
}

/// A queue and its workers.
pub(crate) struct Pool {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Inner {
    state: Mutex<State>,
    /// One for each worker, so that exactly the one that was handed a job wakes up.
    wake: Vec<Condvar>,
    shared: Arc<Shared>,
}

struct State {
    queue: DeadlineQueue<Job>,
    handed: Vec<Option<Job>>,
    closed: bool,
}

impl Pool {
    /// Starts `threads` workers behind a queue of `queue_length`.
    pub(crate) fn start(
        service: &'static str,
        threads: usize,
        queue_length: usize,
        shared: Arc<Shared>,
    ) -> io::Result<Pool> {
        let state = State {
            queue: DeadlineQueue::new(queue_length),
            handed: (0..threads).map(|_| None).collect(),
            closed: false,
        };
        let wake = (0..threads).map(|_| Condvar::new()).collect();
        let inner = Arc::new(Inner { state: Mutex::new(state), wake, shared });
        let pool = Pool { inner: Arc::clone(&inner), threads: Mutex::new(Vec::with_capacity(threads)) };
        let short = service.rsplit('.').next().unwrap_or(service);
        for worker in 0..threads {
            let inner = Arc::clone(&inner);
            // Linux shows 15 bytes of a thread's name.
            let name = format!("{:.11}-{worker}", short);
            let thread = std::thread::Builder::new().name(name).spawn(move || inner.work(worker));
            match thread {
                Ok(thread) => pool.threads.lock().push(thread),
                Err(error) => {
                    pool.stop();
                    return Err(error);
                }
            }
        }
        Ok(pool)
    }

    /// Queues a call; refuses it, or one that sorts behind it, when the queue is full. Never blocks for long.
    pub(crate) fn submit(&self, call: InboundCall, entry: Arc<Entry>) {
        let deadline = call.deadline();
        let mut state = self.inner.state.lock();
        match state.queue.put(deadline, Job { call, entry }) {
            Put::HandTo(worker, job) => {
                if let (Some(place), Some(wake)) = (state.handed.get_mut(worker), self.inner.wake.get(worker))
                {
                    *place = Some(job);
                    drop(state);
                    wake.notify_one();
                }
            }
            Put::Queued => {}
            Put::Refused(job) => {
                let capacity = state.queue.capacity();
                drop(state);
                job.entry.metrics.count_rejected();
                count(&self.inner.shared.metrics.queue_overflow);
                let error = refusal::queue_full(&job.call, capacity);
                job.call.split().1.fail(error);
            }
            Put::Closed(job) => {
                drop(state);
                job.call.split().1.fail(refusal::shutting_down());
            }
        }
    }

    /// How many calls wait.
    pub(crate) fn queued(&self) -> usize {
        self.inner.state.lock().queue.len()
    }

    /// Answers all queued calls with FATAL_SERVER_SHUTTING_DOWN and waits for the running ones. May be called twice.
    pub(crate) fn stop(&self) {
        self.close();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // A handler that stops its own server runs on one of these threads.
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                tracing::error!("a service thread had panicked");
            }
        }
    }

    fn close(&self) {
        let waiting = {
            let mut state = self.inner.state.lock();
            state.closed = true;
            state.queue.close()
        };
        for job in waiting {
            job.call.split().1.fail(refusal::shutting_down());
        }
        self.inner.wake.iter().for_each(|wake| {
            wake.notify_one();
        });
    }
}

impl Drop for Pool {
    /// Does not wait for the threads: the last one to let go of a pool may be a reactor.
    fn drop(&mut self) {
        self.close();
    }
}

impl Inner {
    fn work(&self, worker: usize) {
        while let Some((job, others_wait)) = self.next(worker) {
            let now = Instant::now();
            let metrics = &job.entry.metrics;
            if is_too_late(job.call.deadline(), now, || metrics.likely_run(now), others_wait) {
                count(&self.shared.metrics.timed_out_in_queue);
                metrics.count_timed_out();
                job.call.split().1.fail(refusal::too_late());
            } else {
                job.entry.run(job.call, &self.shared, now);
            }
        }
    }

    /// The next job, and whether others wait behind it.
    fn next(&self, worker: usize) -> Option<(Job, bool)> {
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
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::authz::allow_all;
    use crate::results::{Limits, ResultTracker};

    use super::*;

    /// How many threads of this process have a name that begins so.
    fn threads_named(start: &str) -> usize {
        let threads = std::fs::read_dir("/proc/self/task").expect("Linux lists threads");
        let names =
            threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with(start)).count()
    }

    fn wait_for_threads(start: &str, count: usize) {
        let until = Instant::now() + Duration::from_secs(10);
        while threads_named(start) != count {
            assert!(Instant::now() < until, "{} threads, not {count}", threads_named(start));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn the_threads_of_a_pool_that_nobody_stops_end_with_it() {
        let shared = Shared {
            name: "server".to_owned(),
            authorizer: allow_all(),
            tracker: Arc::new(Mutex::new(ResultTracker::new(Limits::default()))),
            metrics: Arc::default(),
        };
        let pool = Pool::start("nyala.test.Dropped", 3, 10, Arc::new(shared)).expect("threads");
        wait_for_threads("Dropped-", 3);
        drop(pool);
        wait_for_threads("Dropped-", 0);
    }
}
