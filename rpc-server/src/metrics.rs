//! Counters of a server and of its methods. Reading them never blocks a call.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

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
#[derive(Debug, Default)]
pub struct MethodMetrics {
    shards: [Shard; SHARDS],
    max_micros: AtomicU64,
}

/// Threads count in different cache lines: one that two cores write to costs each of them more than the rest of a cheap call.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard {
    answered: AtomicU64,
    failed: AtomicU64,
    timed: AtomicU64,
    total_micros: AtomicU64,
}

impl MethodMetrics {
    /// Calls answered by the handler, failures included.
    pub fn answered(&self) -> u64 {
        self.sum(|shard| &shard.answered)
    }

    /// Calls that the handler failed with an RPC error.
    pub fn failed(&self) -> u64 {
        self.sum(|shard| &shard.failed)
    }

    /// The mean time from the handler's start to its answer, of the calls whose time was taken: all that went through a queue,
    /// and one of 16 that ran on a reactor. Zero without calls.
    pub fn mean_latency(&self) -> Duration {
        let total = self.sum(|shard| &shard.total_micros);
        Duration::from_micros(total.checked_div(self.sum(|shard| &shard.timed)).unwrap_or(0))
    }

    /// The longest such time.
    pub fn max_latency(&self) -> Duration {
        Duration::from_micros(self.max_micros.load(Relaxed))
    }

    /// Counts an answer; `latency` is there if its time was taken.
    pub(crate) fn record(&self, latency: Option<Duration>, failed: bool) {
        let shard = self.shard();
        shard.answered.fetch_add(1, Relaxed);
        if failed {
            shard.failed.fetch_add(1, Relaxed);
        }
        if let Some(latency) = latency {
            let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
            shard.timed.fetch_add(1, Relaxed);
            shard.total_micros.fetch_add(micros, Relaxed);
            self.max_micros.fetch_max(micros, Relaxed);
        }
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
}

thread_local! {
    /// Threads take shards in turn.
    static SHARD: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Relaxed)
    };
}

const SHARDS: usize = 4;
const SAMPLED: u64 = 16;

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
