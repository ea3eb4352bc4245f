//! How busy a reactor is, seen each time it has nothing more to do.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use parking_lot::Mutex;

use super::ReactorLoad;

/// What one reactor has measured of itself.
#[derive(Debug)]
pub(crate) struct LoadMeter {
    // Only the reactor's own thread writes these two.
    rests: AtomicU64,
    busy_nanos: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    active_us: Histogram<u64>,
    percent: Histogram<u64>,
    window_start: Instant,
    window_busy: Duration,
}

impl LoadMeter {
    pub(crate) fn new(now: Instant) -> Self {
        let state = State {
            active_us: histogram(),
            percent: histogram(),
            window_start: now,
            window_busy: Duration::ZERO,
        };
        Self { rests: AtomicU64::new(0), busy_nanos: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// The reactor, which woke up at `woke`, has nothing more to do. Only for the reactor's own thread. One of some rests
    /// goes into the histograms, whose lock is contended only while somebody reads.
    pub(crate) fn rested(&self, woke: Instant, now: Instant) {
        let active = now.saturating_duration_since(woke);
        let rests = self.rests.load(Relaxed).wrapping_add(1);
        self.rests.store(rests, Relaxed);
        let nanos = u64::try_from(active.as_nanos()).unwrap_or(u64::MAX);
        self.busy_nanos.store(self.busy_nanos.load(Relaxed).saturating_add(nanos), Relaxed);
        if rests.is_multiple_of(MEASURED) {
            let mut state = self.state.lock();
            // Cannot fail: the histogram grows.
            let _ = state.active_us.record(nanos / 1000);
            state.close_windows(self.busy(), now);
        }
    }

    /// How often the reactor had nothing more to do.
    pub(crate) fn rests(&self) -> u64 {
        self.rests.load(Relaxed)
    }

    /// The time between wake-ups and rests.
    pub(crate) fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_nanos.load(Relaxed))
    }

    pub(crate) fn read(&self, now: Instant) -> ReactorLoad {
        let mut state = self.state.lock();
        state.close_windows(self.busy(), now);
        ReactorLoad { load_percent: state.percent.clone(), active_latency_us: state.active_us.clone() }
    }
}

impl State {
    /// All windows since the last one that was closed get the same load: the mean over them, and over what is there of the
    /// next, which keeps its share.
    fn close_windows(&mut self, busy: Duration, now: Instant) {
        let elapsed = now.saturating_duration_since(self.window_start);
        if elapsed < WINDOW {
            return;
        }
        let windows = u32::try_from(elapsed.as_nanos() / WINDOW.as_nanos()).unwrap_or(u32::MAX);
        let share = busy.saturating_sub(self.window_busy).as_secs_f64() / elapsed.as_secs_f64();
        let percent = (share * 100.0).round().min(100.0);
        // Cannot fail: the histogram grows.
        let _ = self.percent.record_n(percent as u64, windows.into());
        let begun = elapsed.saturating_sub(WINDOW.saturating_mul(windows));
        self.window_start = now.checked_sub(begun).unwrap_or(now);
        self.window_busy = busy.saturating_sub(begun.mul_f64(share));
    }
}

/// Grows with what it is given; two digits are exact.
fn histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_max(2, 2)
        .expect("2 is at least twice the lowest value, and 2 digits are allowed");
    histogram.auto(true);
    histogram
}

/// Of so many rests one is measured.
const MEASURED: u64 = 8;

/// As Kudu samples its load.
const WINDOW: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn rests_are_latencies_and_each_tenth_of_a_second_is_a_load() {
        let start = Instant::now();
        let meter = LoadMeter::new(start);
        for wakeup in 1..=1600 {
            // 250 us of work in each millisecond.
            let rested = start + MS * wakeup;
            meter.rested(rested - MS / 4, rested);
        }
        assert_eq!((meter.rests(), meter.busy()), (1600, MS * 400));
        let load = meter.read(start + MS * 1600);
        assert_eq!((load.active_latency_us.len(), load.load_percent.len()), (1600 / 8, 16));
        assert!(load.active_latency_us.equivalent(load.active_latency_us.value_at_quantile(0.5), 250));
        assert_eq!((load.load_percent.min(), load.load_percent.max()), (25, 25));
    }

    #[test]
    fn a_reactor_that_sleeps_counts_as_idle_without_waking_up() {
        let start = Instant::now();
        let meter = LoadMeter::new(start);
        let load = meter.read(start + MS * 5000);
        assert_eq!((load.load_percent.len(), load.load_percent.max()), (50, 0));
        assert!(load.active_latency_us.is_empty());
        meter.rested(start + MS * 5100, start + MS * 5200);
        assert_eq!(meter.read(start + MS * 5200).load_percent.count_at(50), 2);
    }
}
