//! Busy polling: for how long to look for work again and again before going to sleep.

use std::time::{Duration, Instant};

/// A reactor that polls: each time it has run out of work it is asked whether to look for more before it sleeps.
#[derive(Debug)]
pub(crate) struct Spin {
    poll: BusyPoll,
    idle_since: Instant,
    calls: u64,
}

impl Spin {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { poll: BusyPoll::new(limit), idle_since: Instant::now(), calls: 0 }
    }

    /// The reactor, which has handed out so many calls so far, has nothing to do: is it to look again? If so, whoever else
    /// wants this CPU has had it first: most likely the peer.
    pub(crate) fn looks_again(&mut self, calls: u64, now: Instant) -> bool {
        if !self.poll.is_on() {
            return false;
        }
        if self.calls != calls {
            self.calls = calls;
            self.poll.waited(now.saturating_duration_since(self.idle_since));
            self.idle_since = now;
        }
        let looks = now.saturating_duration_since(self.idle_since) < self.poll.window();
        if looks {
            std::thread::yield_now();
            self.poll.yielded(now.elapsed());
        }
        looks
    }
}

/// Adapts to how long the waits are: it pays only if they end within the bound. And only where CPUs are idle: to one that is busy
/// with something else a yield hands over milliseconds.
#[derive(Debug)]
pub(crate) struct BusyPoll {
    limit: Duration,
    window: Duration,
    /// So many more waits are slept through.
    pause: u32,
    last_pause: u32,
}

impl BusyPoll {
    /// For up to `limit`; zero = never.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, window: limit, pause: 0, last_pause: 0 }
    }

    pub(crate) fn is_on(&self) -> bool {
        !self.limit.is_zero()
    }

    /// How long to look this time.
    pub(crate) fn window(&self) -> Duration {
        self.window
    }

    /// Work came after so long, looked for or slept for.
    pub(crate) fn waited(&mut self, wait: Duration) {
        self.pause = self.pause.saturating_sub(1);
        if self.pause > 0 {
            return;
        }
        self.last_pause = self.last_pause.saturating_sub(1);
        self.window = if wait <= self.limit { self.limit } else { self.window / 4 };
    }

    /// A yield took so long.
    pub(crate) fn yielded(&mut self, time: Duration) {
        if time > STOLEN {
            self.last_pause = self.last_pause.saturating_mul(2).clamp(64, 1 << 16);
            self.pause = self.last_pause;
            self.window = Duration::ZERO;
        }
    }
}

/// A yield of this length has let others work, not only the peer.
const STOLEN: Duration = Duration::from_micros(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_waits_are_slept_through_and_short_ones_are_not() {
        let us = Duration::from_micros;
        let mut poll = BusyPoll::new(us(50));
        poll.waited(us(20));
        assert_eq!(poll.window(), us(50));
        (0..20).for_each(|_| poll.waited(us(1000)));
        assert_eq!(poll.window(), Duration::ZERO);
        poll.waited(us(49));
        assert_eq!(poll.window(), us(50));
        assert!(!BusyPoll::new(Duration::ZERO).is_on());
    }

    #[test]
    fn on_a_busy_machine_it_is_tried_ever_more_seldom() {
        let us = Duration::from_micros;
        let mut poll = BusyPoll::new(us(50));
        let mut looks = 0;
        for _ in 0..200_000 {
            if !poll.window().is_zero() {
                looks += 1;
                poll.yielded(us(3000));
            }
            poll.waited(us(10));
        }
        assert!((5..20).contains(&looks), "{looks}");
        for _ in 0..200_000 {
            poll.yielded(us(5));
            poll.waited(us(10));
        }
        assert_eq!((poll.window(), poll.last_pause), (us(50), 0));
    }
}
