//! How busy a reactor is, seen at its wake-ups: the runtime counts its own busy time, so that a wake-up needs no clock here.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use parking_lot::Mutex;

use super::ReactorLoad;

/// What one reactor has measured of itself.
#[derive(Debug)]
pub(crate) struct LoadMeter {
    /// Only the reactor's own thread writes it.
    wakeups: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Busy time at the last wake-up, since the start.
    busy: Duration,
    active_us: Histogram<u64>,
    percent: Histogram<u64>,
    window_start: Instant,
    window_busy: Duration,
}

impl LoadMeter {
    pub(crate) fn new(now: Instant) -> Self {
        let state = State {
            busy: Duration::ZERO,
            active_us: histogram(),
            percent: histogram(),
            window_start: now,
            window_busy: Duration::ZERO,
        };
        Self { wakeups: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// The reactor woke up; `busy` tells its busy time since the start, if it knows it. Only for the reactor's own thread. One
    /// of some wake-ups is measured, from it to the next: that costs a sync call a fiftieth. The lock is contended only while
    /// somebody reads.
    pub(crate) fn woke(&self, busy: impl FnOnce() -> Option<Duration>, clock: impl FnOnce() -> Instant) {
        let wakeups = self.wakeups.load(Relaxed).wrapping_add(1);
        self.wakeups.store(wakeups, Relaxed);
        let is_end = wakeups.is_multiple_of(MEASURED);
        if !is_end && !wakeups.wrapping_add(1).is_multiple_of(MEASURED) {
            return;
        }
        let Some(busy) = busy() else { return };
        let mut state = self.state.lock();
        let active = busy.saturating_sub(state.busy);
        state.busy = busy;
        if is_end {
            // Cannot fail: the histogram grows.
            let _ = state.active_us.record(u64::try_from(active.as_micros()).unwrap_or(u64::MAX));
            if wakeups.is_multiple_of(CLOCKED) {
                state.close_windows(clock());
            }
        }
    }

    pub(crate) fn read(&self, busy: Duration, now: Instant) -> ReactorLoad {
        let mut state = self.state.lock();
        state.busy = state.busy.max(busy);
        state.close_windows(now);
        ReactorLoad { load_percent: state.percent.clone(), active_latency_us: state.active_us.clone() }
    }
}

impl State {
    /// All windows since the last one that was closed get the same load: the mean over them, and over what is there of the
    /// next, which keeps its share.
    fn close_windows(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.window_start);
        let windows = u32::try_from(elapsed.as_nanos() / WINDOW.as_nanos()).unwrap_or(u32::MAX);
        if windows == 0 {
            return;
        }
        let share = self.busy.saturating_sub(self.window_busy).as_secs_f64() / elapsed.as_secs_f64();
        let percent = (share * 100.0).round().min(100.0);
        // Cannot fail: the histogram grows.
        let _ = self.percent.record_n(percent as u64, windows.into());
        let begun = elapsed.saturating_sub(WINDOW.saturating_mul(windows));
        self.window_start = now.checked_sub(begun).unwrap_or(now);
        self.window_busy = self.busy.saturating_sub(begun.mul_f64(share));
    }
}

/// Grows with what it is given; two digits are exact.
fn histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_max(2, 2)
        .expect("2 is at least twice the lowest value, and 2 digits are allowed");
    histogram.auto(true);
    histogram
}

/// Of so many wake-ups one is measured.
const MEASURED: u64 = 8;

/// Of so many wake-ups one reads the clock.
const CLOCKED: u64 = 16;

/// As Kudu samples its load.
const WINDOW: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn each_wake_up_is_a_latency_and_each_tenth_of_a_second_a_load() {
        let start = Instant::now();
        let meter = LoadMeter::new(start);
        for wakeup in 1..=1600 {
            // 250 us of work in each millisecond.
            meter.woke(|| Some(MS * wakeup / 4), || start + MS * wakeup);
        }
        let load = meter.read(MS * 400, start + MS * 1600);
        assert_eq!((load.active_latency_us.len(), load.load_percent.len()), (1600 / 8, 16));
        assert!(load.active_latency_us.equivalent(load.active_latency_us.value_at_quantile(0.5), 250));
        assert_eq!((load.load_percent.min(), load.load_percent.max()), (25, 25));
    }

    #[test]
    fn a_reactor_that_sleeps_counts_as_idle_without_waking_up() {
        let start = Instant::now();
        let meter = LoadMeter::new(start);
        let load = meter.read(Duration::ZERO, start + MS * 5000);
        assert_eq!((load.load_percent.len(), load.load_percent.max()), (50, 0));
        assert!(load.active_latency_us.is_empty());
        assert_eq!(meter.read(MS * 100, start + MS * 5200).load_percent.count_at(50), 2);
    }
}
