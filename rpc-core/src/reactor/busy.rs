//! Busy polling: for how long to look for work again and again before going to sleep.

use std::task::Waker;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A reactor that polls: each time it has run out of work it is asked whether to look for more before it sleeps.
#[derive(Debug)]
pub(crate) struct Spin(Mutex<State>);

#[derive(Debug)]
struct State {
    poll: BusyPoll,
    /// Of the future that the reactor's runtime is there for: woken, it keeps the runtime from sleeping.
    waker: Option<Waker>,
    idle_since: Instant,
    calls: u64,
}

impl Spin {
    pub(crate) fn new(limit: Duration) -> Self {
        Self(Mutex::new(State {
            poll: BusyPoll::new(limit),
            waker: None,
            idle_since: Instant::now(),
            calls: 0,
        }))
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.lock().poll.is_on()
    }

    /// `None` at the end: the waker holds the runtime, and the runtime holds this.
    pub(crate) fn set_waker(&self, waker: Option<Waker>) {
        self.0.lock().waker = waker;
    }

    /// The reactor, which has handed out so many calls so far, is about to sleep.
    pub(crate) fn run_out(&self, calls: u64) {
        let now = Instant::now();
        let waker = {
            let mut state = self.0.lock();
            if state.calls != calls {
                state.calls = calls;
                let wait = now.saturating_duration_since(state.idle_since);
                state.poll.waited(wait);
                state.idle_since = now;
            }
            let looks = now.saturating_duration_since(state.idle_since) < state.poll.window();
            state.waker.clone().filter(|_| looks)
        };
        if let Some(waker) = waker {
            // Whoever else wants this CPU has it first: most likely the peer.
            std::thread::yield_now();
            self.0.lock().poll.yielded(now.elapsed());
            waker.wake();
        }
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
