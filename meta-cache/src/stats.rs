//! What the cache did, counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one cache; they only grow.
#[derive(Debug, Default)]
pub struct Stats {
    pub(crate) hits: Counter,
    pub(crate) asks: Counter,
    pub(crate) waits: Counter,
    pub(crate) non_covered: Counter,
    pub(crate) answers: Counter,
    pub(crate) tablets: Counter,
    pub(crate) invalidated: Counter,
    pub(crate) unix_chosen: Counter,
    pub(crate) tcp_chosen: Counter,
    pub(crate) unix_fallbacks: Counter,
    pub(crate) unix_unparsable: Counter,
}

impl Stats {
    /// All counters at one moment (each exact, not all at the very same instant).
    pub fn snapshot(&self) -> StatsSnapshot {
        StatsSnapshot {
            hits: self.hits.get(),
            asks: self.asks.get(),
            waits: self.waits.get(),
            non_covered: self.non_covered.get(),
            answers: self.answers.get(),
            tablets: self.tablets.get(),
            invalidated: self.invalidated.get(),
            unix_chosen: self.unix_chosen.get(),
            tcp_chosen: self.tcp_chosen.get(),
            unix_fallbacks: self.unix_fallbacks.get(),
            unix_unparsable: self.unix_unparsable.get(),
        }
    }
}

/// The values of [`Stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatsSnapshot {
    /// Look-ups answered by a cached tablet.
    pub hits: u64,
    /// Look-ups that had to go to the master.
    pub asks: u64,
    /// Look-ups that waited for another one's question.
    pub waits: u64,
    /// Look-ups answered by a cached gap.
    pub non_covered: u64,
    /// Answers taken in.
    pub answers: u64,
    /// Tablets in those answers.
    pub tablets: u64,
    /// Tablets thrown away before their time to live was over.
    pub invalidated: u64,
    /// Endpoint choices that gave a unix socket.
    pub unix_chosen: u64,
    /// Endpoint choices that gave TCP.
    pub tcp_chosen: u64,
    /// Unix sockets that could not be connected, so that TCP is used for a while.
    pub unix_fallbacks: u64,
    /// Advertised unix paths that are no address.
    pub unix_unparsable: u64,
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
