//! One tablet: its range of partition keys and its replicas.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::replica::{Replica, Role};
use crate::ttl::Expiry;

/// A tablet as the master described it. Its bounds and replicas never change: news come as a new `Tablet`.
#[derive(Debug)]
pub struct Tablet {
    id: String,
    start: Box<[u8]>,
    end: Box<[u8]>,
    replicas: Box<[Replica]>,
    expiry: Expiry,
    stale: AtomicBool,
}

impl Tablet {
    pub(crate) fn new(
        id: String,
        start: Vec<u8>,
        end: Vec<u8>,
        replicas: Vec<Replica>,
        expiry: Expiry,
    ) -> Tablet {
        Tablet {
            id,
            start: start.into(),
            end: end.into(),
            replicas: replicas.into(),
            expiry,
            stale: AtomicBool::new(false),
        }
    }

    /// The tablet's id (32 hex digits).
    pub fn id(&self) -> &str {
        &self.id
    }

    /// First partition key, inclusive; empty = from the beginning.
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// End of the partition keys, exclusive; empty = without end.
    pub fn end(&self) -> &[u8] {
        &self.end
    }

    /// For how long it may still be believed, unless it turns out wrong.
    pub fn time_left(&self, now: Instant) -> Duration {
        self.expiry.left(now)
    }

    /// Its replicas in the master's order.
    pub fn replicas(&self) -> &[Replica] {
        &self.replicas
    }

    /// The replica that takes writes, when one is known and has not failed.
    pub fn leader(&self) -> Option<&Replica> {
        self.replicas.iter().find(|replica| replica.role() == Role::Leader && !replica.is_failed())
    }

    /// Whether the key falls into this tablet.
    pub fn covers(&self, partition_key: &[u8]) -> bool {
        *self.start <= *partition_key && is_before_end(partition_key, &self.end)
    }

    pub(crate) fn is_live(&self, now: Instant) -> bool {
        !self.expiry.is_over(now) && !self.stale.load(Ordering::Acquire)
    }

    /// True for the first caller only.
    pub(crate) fn mark_stale(&self) -> bool {
        !self.stale.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn replica_on(&self, uuid: &str) -> Option<&Replica> {
        self.replicas.iter().find(|replica| replica.server().uuid() == uuid)
    }
}

/// Whether `key` lies before an exclusive end, where an empty end is no end.
pub(crate) fn is_before_end(key: &[u8], end: &[u8]) -> bool {
    end.is_empty() || key < end
}
