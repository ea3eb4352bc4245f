//! Counters and histograms of a server and of its methods. Reading them holds up no call for longer than a copy takes.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rpc_core::Destination;
pub use rpc_core::reactor::Histogram;

use crate::pace::Pace;
use crate::rpcz::{Sample, Samples};
use crate::timing::Started;

/// What a server counts. All values only grow.
#[derive(Debug, Default)]
pub struct ServerMetrics {
    pub(crate) accepted_tcp: AtomicU64,
    pub(crate) accepted_unix: AtomicU64,
    pub(crate) accept_errors: AtomicU64,
    pub(crate) queue_overflow: AtomicU64,
    pub(crate) timed_out_in_queue: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl ServerMetrics {
    /// Connections accepted over TCP.
    pub fn accepted_tcp(&self) -> u64 {
        self.accepted_tcp.load(Relaxed)
    }

    /// Connections accepted over unix sockets (Kudu's `rpc_connections_accepted_unix_domain_socket`).
    pub fn accepted_unix(&self) -> u64 {
        self.accepted_unix.load(Relaxed)
    }

    /// Failed accepts, e.g. for want of file descriptors.
    pub fn accept_errors(&self) -> u64 {
        self.accept_errors.load(Relaxed)
    }

    /// Calls turned away because a queue was full (Kudu's `rpcs_queue_overflow`).
    pub fn queue_overflow(&self) -> u64 {
        self.queue_overflow.load(Relaxed)
    }

    /// Calls whose deadline passed in a queue (Kudu's `rpcs_timed_out_in_queue`).
    pub fn timed_out_in_queue(&self) -> u64 {
        self.timed_out_in_queue.load(Relaxed)
    }

    /// Calls that reached no handler for another reason: unknown names, bad bodies, missing rights.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
}

/// What is counted of each method.
#[derive(Debug)]
pub struct MethodMetrics {
    shards: [Shard; SHARDS],
    rejected: AtomicU64,
    timed_out_in_queue: AtomicU64,
    samples: Samples,
    pace: Pace,
    start: Instant,
}

/// Threads count in different cache lines: one that two cores write to costs each of them more than the rest of a cheap call.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard {
    answered: AtomicU64,
    failed: AtomicU64,
    /// Of calls whose time was taken. Locked by the threads of the shard in turn, and by who reads.
    times: Mutex<Option<Box<ShardTimes>>>,
}

#[derive(Debug)]
struct ShardTimes {
    ran: Histogram<u32>,
    waited: Histogram<u32>,
}

impl MethodMetrics {
    pub(crate) fn new(start: Instant) -> Self {
        Self {
            shards: Default::default(),
            rejected: AtomicU64::new(0),
            timed_out_in_queue: AtomicU64::new(0),
            samples: Samples::default(),
            pace: Pace::default(),
            start,
        }
    }

    /// Calls answered by the handler, failures included.
    pub fn answered(&self) -> u64 {
        self.sum(|shard| &shard.answered)
    }

    /// Calls that the handler failed with an RPC error.
    pub fn failed(&self) -> u64 {
        self.sum(|shard| &shard.failed)
    }

    /// Calls turned away because the queue was full (Kudu's `queue_overflow_rejections`).
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Relaxed)
    }

    /// Calls that waited until too little of their deadline was left to run them.
    pub fn timed_out_in_queue(&self) -> u64 {
        self.timed_out_in_queue.load(Relaxed)
    }

    /// Times from the handler's start to its answer in nanoseconds (Kudu's `handler_latency`, there in microseconds), of the
    /// calls whose time was taken: all that went through a queue, and one of 64 that ran on a reactor. Two digits are exact.
    pub fn latencies(&self) -> Histogram<u64> {
        self.merge(|times| &times.ran)
    }

    /// Times from the call's last byte to its handler's start in nanoseconds, rounded to microseconds, of the same calls
    /// (Kudu's `rpc_incoming_queue_time`).
    pub fn queue_times(&self) -> Histogram<u64> {
        self.merge(|times| &times.waited)
    }

    /// The latest sampled calls, at most one a bucket of latency: below 10 ms, 100 ms, 1 s, and above (Kudu's `/rpcz`).
    pub fn samples(&self) -> Vec<Sample> {
        self.samples.all()
    }

    /// Counts an answer given now; `started` is there if its time is taken.
    pub(crate) fn record(&self, started: Option<&Started>, failed: bool, destination: &Destination) {
        let shard = self.shard();
        shard.answered.fetch_add(1, Relaxed);
        if failed {
            shard.failed.fetch_add(1, Relaxed);
        }
        if let Some(started) = started {
            self.record_times(shard, started, failed, destination);
        }
    }

    #[cold]
    fn record_times(&self, shard: &Shard, started: &Started, failed: bool, destination: &Destination) {
        let now = Instant::now();
        let times = started.times(now);
        {
            let mut place = shard.times.lock();
            let shard = place.get_or_insert_with(|| {
                Box::new(ShardTimes { ran: growing_histogram(), waited: growing_histogram() })
            });
            // Neither can fail: they grow.
            let _ = shard.ran.record(nanos(times.ran));
            let _ = shard.waited.record(nanos(times.waited));
        }
        let since_start = now.saturating_duration_since(self.start);
        if !failed {
            self.pace.note(since_start, times.ran);
        }
        self.samples.offer(since_start, &times, failed, destination);
        times.warn_if_slow(destination);
    }

    /// How long a call is likely to run, seen from `now`; zero if nothing is known.
    pub(crate) fn likely_run(&self, now: Instant) -> Duration {
        self.pace.likely(now.saturating_duration_since(self.start))
    }

    pub(crate) fn count_rejected(&self) {
        count(&self.rejected);
    }

    pub(crate) fn count_timed_out(&self) {
        count(&self.timed_out_in_queue);
    }

    /// Is it the turn of a cheap call to have its time taken? The clock costs as much as such a call.
    pub(crate) fn is_sample(&self) -> bool {
        self.shard().answered.load(Relaxed).is_multiple_of(SAMPLED)
    }

    fn shard(&self) -> &Shard {
        &self.shards[SHARD.with(|shard| *shard) % SHARDS]
    }

    fn sum(&self, counter: impl Fn(&Shard) -> &AtomicU64) -> u64 {
        self.shards.iter().map(|shard| counter(shard).load(Relaxed)).sum()
    }

    fn merge(&self, which: impl Fn(&ShardTimes) -> &Histogram<u32>) -> Histogram<u64> {
        let mut all = growing_histogram();
        for shard in &self.shards {
            if let Some(times) = &*shard.times.lock() {
                for value in which(times).iter_recorded() {
                    // Cannot fail: it grows.
                    let _ = all.record_n(value.value_iterated_to(), u64::from(value.count_at_value()));
                }
            }
        }
        all
    }
}

/// Takes little memory until something big is recorded.
fn growing_histogram<T: hdrhistogram::Counter>() -> Histogram<T> {
    let mut histogram = Histogram::new_with_max(2, DIGITS)
        .expect("2 is at least twice the lowest value, and 2 digits are allowed");
    histogram.auto(true);
    histogram
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

thread_local! {
    /// Threads take shards in turn.
    static SHARD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Relaxed)
    };
}

const SHARDS: usize = 4;
const SAMPLED: u64 = 64;
/// As Kudu's histograms of latency.
const DIGITS: u8 = 2;

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
