//! Hybrid time: microseconds and a logical counter in one number.

use std::sync::atomic::{AtomicU64, Ordering};

/// Hybrid time: microseconds since the Unix epoch, shifted left by 12 bits, plus a logical counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Earlier than every write.
    pub const MIN: Self = Self(0);
    /// Later than every write.
    pub const MAX: Self = Self(u64::MAX);

    /// From microseconds since the epoch (52 bits of them) and a counter of 12 bits; more bits are cut off.
    pub const fn new(physical_micros: u64, logical: u16) -> Self {
        Self(physical_micros << LOGICAL_BITS | (logical as u64 & LOGICAL_MASK))
    }

    /// Microseconds since the Unix epoch.
    pub const fn physical_micros(self) -> u64 {
        self.0 >> LOGICAL_BITS
    }

    /// The counter, 0 to 4095.
    pub const fn logical(self) -> u16 {
        (self.0 & LOGICAL_MASK) as u16
    }

    /// The next later timestamp.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "P: {} usec, L: {}", self.physical_micros(), self.logical())
    }
}

/// A clock that never gives a timestamp twice and follows what other servers have seen.
///
/// The physical time is an argument; the clock may be shared by threads and takes no lock.
#[derive(Debug)]
pub struct HybridClock {
    next: AtomicU64,
    max_ahead_micros: u64,
}

impl Default for HybridClock {
    /// With Kudu's limit of 10 s.
    fn default() -> Self {
        Self::new(MAX_AHEAD_MICROS)
    }
}

impl HybridClock {
    /// A clock that others may push at most this many microseconds ahead of the physical time.
    pub const fn new(max_ahead_micros: u64) -> Self {
        Self { next: AtomicU64::new(0), max_ahead_micros }
    }

    /// A timestamp later than all before, at or after the physical time.
    pub fn now(&self, physical_micros: u64) -> Timestamp {
        let physical = Timestamp::new(physical_micros, 0).0;
        let take = |next: u64| Some(next.max(physical).saturating_add(1));
        let (Ok(next) | Err(next)) = self.next.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        Timestamp(next.max(physical))
    }

    /// Makes every later timestamp later than `seen`, unless that is too far ahead.
    pub fn update(&self, seen: Timestamp, physical_micros: u64) -> Result<(), ClockError> {
        self.check(seen, physical_micros)?;
        self.next.fetch_max(seen.next().0, Ordering::AcqRel);
        Ok(())
    }

    /// The latest timestamp of others that is believed at this physical time.
    pub const fn latest(&self, physical_micros: u64) -> Timestamp {
        Timestamp::new(physical_micros.saturating_add(self.max_ahead_micros), 0)
    }

    /// What [`update`](Self::update) checks, without moving the clock.
    pub fn check(&self, seen: Timestamp, physical_micros: u64) -> Result<(), ClockError> {
        let ahead_micros = seen.physical_micros().saturating_sub(physical_micros);
        if ahead_micros > self.max_ahead_micros {
            return Err(ClockError::TooFarAhead { ahead_micros, max_micros: self.max_ahead_micros });
        }
        Ok(())
    }
}

/// A timestamp that the clock refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClockError {
    /// Following it would carry a wrong clock on to others.
    #[error("a timestamp {ahead_micros} us ahead of this machine's clock, {max_micros} us are allowed")]
    TooFarAhead {
        /// How far ahead it is, in microseconds.
        ahead_micros: u64,
        /// How far ahead it may be, in microseconds.
        max_micros: u64,
    },
}

impl ClockError {
    /// Always false: the other side's clock is wrong.
    pub const fn is_retriable(&self) -> bool {
        false
    }
}

/// `max_clock_sync_error_usec` of Kudu.
pub const MAX_AHEAD_MICROS: u64 = 10_000_000;
const LOGICAL_BITS: u32 = 12;
const LOGICAL_MASK: u64 = (1 << LOGICAL_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn now_never_repeats_even_when_physical_time_stands_or_falls() {
        let clock = HybridClock::default();
        let given: Vec<_> = [5, 5, 3, 5, 9].into_iter().map(|micros| clock.now(micros)).collect();
        assert!(given.windows(2).all(|pair| pair[0] < pair[1]), "{given:?}");
        assert_eq!(given[4], Timestamp::new(9, 0));
    }

    #[test]
    fn update_moves_the_clock_at_most_ten_seconds_ahead() {
        let clock = HybridClock::default();
        let limit = Timestamp::new(1_000 + MAX_AHEAD_MICROS, 7);
        clock.update(limit, 1_000).unwrap();
        assert!(clock.now(1_000) > limit);
        let before = clock.now(1_000);
        let beyond = Timestamp::new(1_001 + MAX_AHEAD_MICROS, 0);
        assert!(matches!(clock.update(beyond, 1_000), Err(ClockError::TooFarAhead { .. })));
        assert!(clock.update(Timestamp::MAX, 1_000).is_err());
        assert_eq!(clock.now(1_000), before.next(), "a refusal leaves the clock where it was");
    }
}
