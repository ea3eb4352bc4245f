//! One table: what is known of it, and the questions under way.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::lookup::{Asking, Lookup, Request, Signal, Waiting};
use crate::range_map::{RangeMap, Span};
use crate::stats::Stats;

/// The cached part of one table.
#[derive(Debug)]
pub(crate) struct Table {
    id: String,
    ranges: ArcSwap<RangeMap>,
    pending: Mutex<Vec<Pending>>,
}

#[derive(Debug)]
struct Pending {
    start: Vec<u8>,
    max_tablets: usize,
    signal: Arc<Signal>,
}

impl Table {
    pub(crate) fn new(id: &str) -> Table {
        Table { id: id.to_owned(), ranges: ArcSwap::default(), pending: Mutex::new(Vec::new()) }
    }

    pub(crate) fn lookup(
        self: &Arc<Table>,
        key: &[u8],
        max_tablets: usize,
        now: Instant,
        stats: &Stats,
    ) -> Lookup {
        if let Some(known) = self.find(key, now, stats) {
            return known;
        }
        let mut pending = self.pending.lock();
        // An answer may have come in while this one waited for the lock.
        if let Some(known) = self.find(key, now, stats) {
            return known;
        }
        let ranges = self.ranges.load();
        let under_way = pending.iter().find(|other| {
            *other.start <= *key && other.max_tablets >= max_tablets && ranges.is_hole(&other.start, key, now)
        });
        if let Some(other) = under_way {
            stats.waits.add(1);
            return Lookup::Wait(Waiting::new(other.signal.clone()));
        }
        stats.asks.add(1);
        let request = Request { table_id: self.id.clone(), start: key.to_vec(), max_tablets };
        let (asking, signal) = Asking::new(request, self.clone());
        pending.push(Pending { start: key.to_vec(), max_tablets, signal });
        Lookup::Ask(asking)
    }

    pub(crate) fn take_in(&self, spans: Vec<Span>) {
        // The lock keeps two answers from building on the same old map.
        let _writers = self.pending.lock();
        let new = self.ranges.load().with(spans);
        self.ranges.store(Arc::new(new));
    }

    /// As [`take_in`](Self::take_in), unless some of the span's keys are known already.
    pub(crate) fn take_in_unknown(&self, span: Span, now: Instant) {
        let _writers = self.pending.lock();
        let ranges = self.ranges.load();
        if !ranges.knows_some(span.start(), span.end(), now) {
            self.ranges.store(Arc::new(ranges.with(vec![span])));
        }
    }

    pub(crate) fn forget_pending(&self, signal: &Arc<Signal>) {
        self.pending.lock().retain(|pending| !Arc::ptr_eq(&pending.signal, signal));
    }

    pub(crate) fn tablets(&self) -> usize {
        self.ranges.load().spans().iter().filter(|span| matches!(span, Span::Tablet(_))).count()
    }

    fn find(&self, key: &[u8], now: Instant, stats: &Stats) -> Option<Lookup> {
        match self.ranges.load().find(key, now)? {
            Span::Tablet(tablet) => {
                stats.hits.add(1);
                Some(Lookup::Hit(tablet.clone()))
            }
            Span::Gap(gap) => {
                stats.non_covered.add(1);
                Some(Lookup::NonCovered { start: gap.start.clone(), end: gap.end.clone() })
            }
        }
    }
}
