//! How long a method's calls are likely to run, so that a full queue does not spend its workers on answers that come too late.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Is a call that leaves the queue now not worth running? If others wait, also when it would likely end too late: in an
/// overload the call with the earliest deadline is the one that can hardly be answered in time, and serving it first makes
/// the next one late too.
pub(crate) fn is_too_late(
    deadline: Option<Instant>,
    now: Instant,
    likely: impl FnOnce() -> Duration,
    others_wait: bool,
) -> bool {
    let Some(deadline) = deadline else { return false };
    let left = deadline.saturating_duration_since(now);
    left.is_zero() || others_wait && left < likely()
}

/// Mean and deviation of the latest runs, as TCP estimates round trips. Threads may overwrite each other's notes: each is
/// but one of many.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Mean and mean deviation in microseconds, 32 bits each.
    estimate: AtomicU64,
    /// When the latest run ended, in milliseconds from 1; 0 = none yet.
    noted: AtomicU64,
}

impl Pace {
    /// A run ended at `now` (since any fixed moment) and took `ran`.
    pub(crate) fn note(&self, now: Duration, ran: Duration) {
        let ran = i64::try_from(ran.as_micros()).unwrap_or(i64::MAX).min(LONGEST);
        let (mean, deviation) = match self.noted.load(Relaxed) {
            0 => (ran, ran / 2),
            _ => {
                let (mean, deviation) = self.parts();
                let off = ran - mean;
                (mean + off / 8, deviation + (off.abs() - deviation) / 4)
            }
        };
        self.estimate.store((mean as u64) << 32 | deviation as u64, Relaxed);
        self.noted.store(millis(now) + 1, Relaxed);
    }

    /// What all but few calls stay below. Zero if the latest run is long ago: then it has to be tried.
    pub(crate) fn likely(&self, now: Duration) -> Duration {
        let (mean, deviation) = self.parts();
        let fresh_until = self.noted.load(Relaxed) + FRESH_MS + 2 * (mean as u64) / 1000;
        if self.noted.load(Relaxed) == 0 || millis(now) > fresh_until {
            return Duration::ZERO;
        }
        Duration::from_micros((mean + 2 * deviation) as u64)
    }

    fn parts(&self) -> (i64, i64) {
        let estimate = self.estimate.load(Relaxed);
        ((estimate >> 32) as i64, i64::from(estimate as u32))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX / 4)
}

/// Half an hour in microseconds, so that sums stay in their 32 bits.
const LONGEST: i64 = 1_800_000_000;

/// An estimate that nothing was added to for this long, and twice its mean, is none.
const FRESH_MS: u64 = 2000;

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;
    use crate::queue::{DeadlineQueue, Put, Take};

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn nothing_is_known_at_first_and_after_a_long_rest() {
        let pace = Pace::default();
        assert_eq!(pace.likely(ms(0)), ms(0));
        pace.note(ms(0), ms(50));
        assert!(pace.likely(ms(2000)) >= ms(50));
        assert_eq!(pace.likely(ms(2200)), ms(0));
    }

    #[test]
    fn even_runs_give_a_tight_bound_and_uneven_ones_a_wide_one() {
        let (even, uneven) = (Pace::default(), Pace::default());
        for run in 0..200 {
            even.note(ms(run), ms(50));
            uneven.note(ms(run), ms(if run % 2 == 0 { 10 } else { 90 }));
        }
        assert!((ms(50)..ms(52)).contains(&even.likely(ms(200))), "{:?}", even.likely(ms(200)));
        assert!((ms(110)..ms(160)).contains(&uneven.likely(ms(200))), "{:?}", uneven.likely(ms(200)));
    }

    #[test]
    fn one_run_of_hours_is_soon_forgotten() {
        let pace = Pace::default();
        pace.note(ms(0), Duration::from_secs(100_000));
        (0..100).for_each(|run| pace.note(ms(run), ms(1)));
        assert!(pace.likely(ms(100)) < ms(1000), "{:?}", pace.likely(ms(100)));
    }

    /// A server in virtual time. `run` says how long the n-th run takes.
    struct Simulation {
        queue: DeadlineQueue<Instant>,
        pace: Pace,
        start: Instant,
        /// When each busy worker is free, and the deadline of its call.
        running: BinaryHeap<Reverse<(Instant, Instant, Duration)>>,
        idle: usize,
        run: fn(u32) -> Duration,
        runs: u32,
        refused: u32,
        too_late: u32,
        good: u32,
        begun_late: u32,
    }

    const WORKERS: usize = 4;
    const MEAN_RUN: Duration = ms(50);

    impl Simulation {
        fn begin(&mut self, now: Instant, deadline: Instant) {
            let run = (self.run)(self.runs);
            self.runs += 1;
            self.begun_late += u32::from(deadline <= now);
            self.running.push(Reverse((now + run, deadline, run)));
        }

        /// Ends all runs up to `now`; each worker takes its next call.
        fn end_runs(&mut self, now: Instant) {
            while let Some(Reverse((end, deadline, run))) =
                self.running.peek().copied().filter(|run| run.0.0 <= now)
            {
                self.running.pop();
                self.good += u32::from(end <= deadline);
                self.pace.note(end - self.start, run);
                loop {
                    let Take::Item(deadline) = self.queue.take(0) else {
                        self.idle += 1;
                        break;
                    };
                    let likely = || self.pace.likely(end - self.start);
                    if !is_too_late(Some(deadline), end, likely, !self.queue.is_empty()) {
                        self.begin(end, deadline);
                        break;
                    }
                    self.too_late += 1;
                }
            }
        }

        fn arrive(&mut self, now: Instant, deadline: Instant) {
            match self.queue.put(Some(deadline), deadline) {
                Put::HandTo(_, deadline) => {
                    self.idle -= 1;
                    self.begin(now, deadline);
                }
                Put::Refused(_) => self.refused += 1,
                Put::Queued | Put::Closed(_) => {}
            }
        }
    }

    /// Calls answered in time, as a share of what the workers can do, at so many times as many calls.
    fn goodput(load: u32, timeout: Duration, run: fn(u32) -> Duration) -> f64 {
        let start = Instant::now();
        let mut queue = DeadlineQueue::new(50);
        (0..WORKERS).for_each(|worker| assert_eq!(queue.take(worker), Take::Idle));
        let mut server = Simulation {
            queue,
            pace: Pace::default(),
            start,
            running: BinaryHeap::new(),
            idle: WORKERS,
            run,
            runs: 0,
            refused: 0,
            too_late: 0,
            good: 0,
            begun_late: 0,
        };
        let calls = 2000 * load;
        let between = MEAN_RUN / WORKERS as u32 / load;
        for call in 0..calls {
            let now = start + between * call;
            server.end_runs(now);
            server.arrive(now, now + timeout);
        }
        server.end_runs(start + between * calls + Duration::from_secs(100));
        assert_eq!(server.begun_late, 0, "no call is run whose deadline is over");
        assert_eq!(server.runs + server.refused + server.too_late, calls);
        f64::from(server.good) / 2000.0
    }

    #[test]
    fn goodput_stays_at_its_best_however_many_calls_come() {
        // Even runs, and uneven ones of the same mean.
        let runs: [fn(u32) -> Duration; 2] =
            [|_| MEAN_RUN, |run| ms(30 + u64::from(run.wrapping_mul(2_654_435_761) >> 16) % 41)];
        for run in runs {
            for timeout in [ms(150), ms(400), ms(1000), ms(60_000)] {
                let best = goodput(1, timeout, run);
                for load in [2, 5, 10] {
                    let now = goodput(load, timeout, run);
                    assert!(now >= 0.9 * best && now >= 0.85, "{load} times, {timeout:?}: {now} of {best}");
                }
            }
        }
    }
}
