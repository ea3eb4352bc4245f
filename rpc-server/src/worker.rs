//! The threads of one service.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;
use rpc_core::InboundCall;

use crate::handover::{Handover, Put};
use crate::metrics::count;
use crate::pace::is_too_late;
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
    jobs: Handover<Job>,
    shared: Arc<Shared>,
}

impl Pool {
    /// Starts `threads` workers behind a queue of `queue_length`.
    pub(crate) fn start(
        service: &'static str,
        threads: usize,
        queue_length: usize,
        shared: Arc<Shared>,
    ) -> io::Result<Pool> {
        let inner = Arc::new(Inner { jobs: Handover::new(threads, queue_length), shared });
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
        match self.inner.jobs.put(deadline, Job { call, entry }) {
            Put::Taken => {}
            Put::Refused(job) => {
                job.entry.metrics.count_rejected();
                count(&self.inner.shared.metrics.queue_overflow);
                let error = refusal::queue_full(&job.call, self.inner.jobs.capacity());
                job.call.split().1.fail(error);
            }
            Put::Closed(job) => job.call.split().1.fail(refusal::shutting_down()),
        }
    }

    /// How many calls wait.
    pub(crate) fn queued(&self) -> usize {
        self.inner.jobs.queued()
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
        for job in self.inner.jobs.close() {
            job.call.split().1.fail(refusal::shutting_down());
        }
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
        while let Some((job, others_wait)) = self.jobs.next(worker) {
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
