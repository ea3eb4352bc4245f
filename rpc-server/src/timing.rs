//! The times of one call whose time is taken.

use std::time::{Duration, Instant};

use rpc_core::Destination;

/// When a call's handler was started, and what came before. Small, since each call carries the room for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Started {
    at: Instant,
    waited_us: u32,
    /// 0 = none.
    timeout_ms: u32,
}

/// When what happened to a call that is answered now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// From its last byte to the handler's start.
    pub(crate) waited: Duration,
    /// From the handler's start to the answer.
    pub(crate) ran: Duration,
    pub(crate) timeout: Option<Duration>,
}

impl Started {
    pub(crate) fn new(now: Instant, received: Instant, timeout: Option<Duration>) -> Self {
        let waited = now.saturating_duration_since(received).as_micros();
        let timeout = timeout.map_or(0, |timeout| timeout.as_millis());
        Self {
            at: now,
            waited_us: u32::try_from(waited).unwrap_or(u32::MAX),
            timeout_ms: u32::try_from(timeout).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn times(&self, now: Instant) -> Times {
        Times {
            waited: Duration::from_micros(self.waited_us.into()),
            ran: now.saturating_duration_since(self.at),
            timeout: (self.timeout_ms > 0).then(|| Duration::from_millis(self.timeout_ms.into())),
        }
    }
}

impl Times {
    pub(crate) fn total(&self) -> Duration {
        self.waited.saturating_add(self.ran)
    }

    /// As Kudu logs: a warning if most of the client's time is used up, else a note if it took long.
    pub(crate) fn warn_if_slow(&self, destination: &Destination) {
        let total = self.total();
        let (service, method) = (destination.service(), destination.method());
        let peer = &destination.connection().peer;
        let Times { waited, ran, timeout } = self;
        if timeout.is_some_and(|timeout| total > timeout * 3 / 4) {
            tracing::warn!(service, method, %peer, ?waited, ?ran, ?timeout, "a call took most of its client's time");
        } else if total > LONG {
            tracing::info!(service, method, %peer, ?waited, ?ran, "a call took long");
        }
    }
}

/// `--rpc_duration_too_long_ms`.
const LONG: Duration = Duration::from_secs(1);
