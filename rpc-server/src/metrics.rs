//! Counters of a server and of its methods. Reading them never blocks a call.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
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
    answered: AtomicU64,
    failed: AtomicU64,
    total_micros: AtomicU64,
    max_micros: AtomicU64,
}

impl MethodMetrics {
    /// Calls answered by the handler, failures included.
    pub fn answered(&self) -> u64 {
        self.answered.load(Relaxed)
    }

    /// Calls that the handler failed with an RPC error.
    pub fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    /// The mean time from the handler's start to its answer; zero without calls.
    pub fn mean_latency(&self) -> Duration {
        Duration::from_micros(self.total_micros.load(Relaxed).checked_div(self.answered()).unwrap_or(0))
    }

    /// The longest such time.
    pub fn max_latency(&self) -> Duration {
        Duration::from_micros(self.max_micros.load(Relaxed))
    }

    pub(crate) fn record(&self, latency: Duration, failed: bool) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.answered.fetch_add(1, Relaxed);
        self.failed.fetch_add(u64::from(failed), Relaxed);
        self.total_micros.fetch_add(micros, Relaxed);
        self.max_micros.fetch_max(micros, Relaxed);
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
