//! The server's clock: physical time and the hybrid timestamps made from it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use schema::timestamp::{ClockError, HybridClock, Timestamp};

/// A hybrid clock that reads the machine's own time. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ServerClock(Arc<HybridClock>);

impl ServerClock {
    /// A clock that other servers and clients may push at most 10 s ahead.
    pub fn new() -> Self {
        Self::default()
    }

    /// A new timestamp, later than all that this clock gave or was shown.
    pub fn now(&self) -> Timestamp {
        self.0.now(physical_micros())
    }

    /// Makes later timestamps later than `seen`. Fails, and stays as it was, if `seen` is too far ahead.
    pub fn update(&self, seen: Timestamp) -> Result<(), ClockError> {
        self.0.update(seen, physical_micros())
    }

    /// The clock itself, for those who bring their own physical time.
    pub fn hybrid(&self) -> &Arc<HybridClock> {
        &self.0
    }
}

/// Microseconds since the Unix epoch by the machine's clock; 0 if that stands before 1970.
pub fn physical_micros() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_and_follows_what_was_seen() {
        let clock = ServerClock::new();
        let first = clock.now();
        assert!(first.physical_micros().abs_diff(physical_micros()) < 5_000_000);
        let seen = Timestamp::new(physical_micros() + 1_000_000, 7);
        clock.update(seen).unwrap();
        assert!(clock.clone().now() > seen, "clones share the clock");
        assert!(clock.update(Timestamp::new(physical_micros() + 60_000_000, 0)).is_err());
        assert!(clock.now().physical_micros() < physical_micros() + 10_000_000);
    }
}
