//! How long an entry may be believed.

use std::time::{Duration, Instant};

/// The moment from which an entry is no longer used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Expiry(Instant);

impl Expiry {
    /// `ttl` after `now`; a `ttl` too large for the clock counts as [`LONGEST`].
    pub(crate) fn after(now: Instant, ttl: Duration) -> Expiry {
        let ttl = ttl.min(LONGEST);
        Expiry(now.checked_add(ttl).unwrap_or(now))
    }

    pub(crate) fn is_over(self, now: Instant) -> bool {
        now >= self.0
    }

    pub(crate) fn left(self, now: Instant) -> Duration {
        self.0.saturating_duration_since(now)
    }
}

/// A master that says "for ever" still gets asked once a day.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_over_exactly_when_its_ttl_has_passed() {
        let now = Instant::now();
        let expiry = Expiry::after(now, Duration::from_secs(5));
        assert!(!expiry.is_over(now + Duration::from_millis(4999)));
        assert!(expiry.is_over(now + Duration::from_secs(5)));
        assert!(Expiry::after(now, Duration::ZERO).is_over(now));
    }

    #[test]
    fn an_endless_ttl_is_cut_to_a_day() {
        let now = Instant::now();
        assert!(Expiry::after(now, Duration::MAX).is_over(now + LONGEST));
    }
}
