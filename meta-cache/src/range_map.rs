//! The immutable sorted vector of what is known about a table's partition keys.

use std::sync::Arc;
use std::time::Instant;

use crate::tablet::{Tablet, is_before_end};
use crate::ttl::Expiry;

/// A stretch of partition keys without a tablet.
#[derive(Clone, Debug)]
pub(crate) struct Gap {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
    pub(crate) expiry: Expiry,
}

/// One known stretch.
#[derive(Clone, Debug)]
pub(crate) enum Span {
    Tablet(Arc<Tablet>),
    Gap(Gap),
}

impl Span {
    pub(crate) fn start(&self) -> &[u8] {
        match self {
            Span::Tablet(tablet) => tablet.start(),
            Span::Gap(gap) => &gap.start,
        }
    }

    pub(crate) fn end(&self) -> &[u8] {
        match self {
            Span::Tablet(tablet) => tablet.end(),
            Span::Gap(gap) => &gap.end,
        }
    }

    fn is_live(&self, now: Instant) -> bool {
        match self {
            Span::Tablet(tablet) => tablet.is_live(now),
            Span::Gap(gap) => !gap.expiry.is_over(now),
        }
    }
}

/// Spans sorted by start and disjoint; between them nothing is known.
#[derive(Debug, Default)]
pub(crate) struct RangeMap {
    spans: Vec<Span>,
}

impl RangeMap {
    /// The span that holds `key`, if it may still be believed.
    pub(crate) fn find(&self, key: &[u8], now: Instant) -> Option<&Span> {
        let behind = self.spans.partition_point(|span| span.start() <= key);
        let span = self.spans.get(behind.checked_sub(1)?)?;
        (is_before_end(key, span.end()) && span.is_live(now)).then_some(span)
    }

    /// Whether nothing between `from` and `to` (both inclusive, `from <= to`) may be believed.
    pub(crate) fn is_hole(&self, from: &[u8], to: &[u8], now: Instant) -> bool {
        let behind = self.spans.partition_point(|span| span.start() <= to);
        let upto = self.spans.get(..behind).unwrap_or_default();
        !upto.iter().rev().take_while(|span| is_before_end(from, span.end())).any(|span| span.is_live(now))
    }

    /// Whether anything in `[start, end)` may be believed.
    pub(crate) fn knows_some(&self, start: &[u8], end: &[u8], now: Instant) -> bool {
        let overlaps = |span: &&Span| is_before_end(span.start(), end) && is_before_end(start, span.end());
        self.spans.iter().filter(overlaps).any(|span| span.is_live(now))
    }

    /// This map with `fresh` in it. `fresh` is sorted and without holes. An old tablet that overlaps it is gone as a whole
    /// (tablets never change their bounds), an old gap keeps what lies outside.
    pub(crate) fn with(&self, fresh: Vec<Span>) -> RangeMap {
        let (Some(first), Some(last)) = (fresh.first(), fresh.last()) else {
            return RangeMap { spans: self.spans.clone() };
        };
        let (low, high) = (first.start().to_vec(), last.end().to_vec());
        let mut before = Vec::with_capacity(self.spans.len() + fresh.len());
        let mut after = Vec::new();
        for span in &self.spans {
            if !span.end().is_empty() && span.end() <= &low[..] {
                before.push(span.clone());
            } else if !high.is_empty() && span.start() >= &high[..] {
                after.push(span.clone());
            } else if let Span::Gap(gap) = span {
                if gap.start < low {
                    before.push(Span::Gap(Gap { end: low.clone(), ..gap.clone() }));
                }
                if !high.is_empty() && is_before_end(&high, &gap.end) {
                    after.push(Span::Gap(Gap { start: high.clone(), ..gap.clone() }));
                }
            }
        }
        before.extend(fresh);
        before.extend(after);
        RangeMap { spans: before }
    }

    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn gap(start: &str, end: &str, now: Instant) -> Span {
        let expiry = Expiry::after(now, Duration::from_secs(10));
        Span::Gap(Gap { start: start.into(), end: end.into(), expiry })
    }

    fn tablet(start: &str, end: &str, now: Instant) -> Span {
        let expiry = Expiry::after(now, Duration::from_secs(10));
        Span::Tablet(Arc::new(Tablet::new(
            format!("{start}-{end}"),
            start.into(),
            end.into(),
            Vec::new(),
            expiry,
        )))
    }

    fn bounds(map: &RangeMap) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("test keys are text");
        map.spans().iter().map(|span| (text(span.start()), text(span.end()))).collect()
    }

    #[test]
    fn a_fresh_stretch_cuts_gaps_and_drops_tablets_it_overlaps() {
        let now = Instant::now();
        let old =
            RangeMap::default().with(vec![gap("", "c", now), tablet("c", "f", now), tablet("f", "", now)]);
        let new = old.with(vec![tablet("b", "d", now)]);
        assert_eq!(
            bounds(&new),
            [("", "b"), ("b", "d"), ("f", "")].map(|(start, end)| (start.to_owned(), end.to_owned()))
        );
        assert!(new.find(b"e", now).is_none());
    }

    #[test]
    fn a_gap_around_a_fresh_stretch_is_split_in_two() {
        let now = Instant::now();
        let map = RangeMap::default().with(vec![gap("", "", now)]).with(vec![tablet("b", "d", now)]);
        assert_eq!(bounds(&map).len(), 3);
        assert!(matches!(map.find(b"d", now), Some(Span::Gap(_))));
        assert!(matches!(map.find(b"a", now), Some(Span::Gap(_))));
    }

    #[test]
    fn a_live_span_between_two_keys_parts_the_hole() {
        let now = Instant::now();
        let map = RangeMap::default().with(vec![tablet("c", "f", now)]);
        assert!(map.is_hole(b"a", b"b", now));
        assert!(!map.is_hole(b"a", b"z", now));
        assert!(!map.is_hole(b"d", b"z", now));
        assert!(map.is_hole(b"f", b"z", now));
        assert!(map.is_hole(b"a", b"z", now + Duration::from_secs(10)));
    }
}
