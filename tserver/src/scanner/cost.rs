//! What a call of a scan costs, as its answer tells it.

use std::cell::Cell;
use std::time::{Duration, Instant};

use proto::kudu::tserver::ResourceMetricsPb;
use rustix::time::{ClockId, clock_gettime};
use tablet::ReadBytes;

/// The beginning of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    /// When its last byte was read.
    received: Instant,
    /// When a thread took it.
    pub(crate) began: Instant,
}

impl Stopwatch {
    /// Of a call that a thread has taken just now.
    pub(crate) fn start(received: Instant) -> Self {
        Self { received, began: Instant::now() }
    }

    /// All seven figures, as real servers always give them. The processor's time is not divided: all of it counts as the
    /// program's.
    pub(crate) fn stop(&self, read: ReadBytes) -> ResourceMetricsPb {
        let now = Instant::now();
        let ran = now.saturating_duration_since(self.began);
        ResourceMetricsPb {
            cfile_cache_miss_bytes: Some(figure(read.fetched.into())),
            cfile_cache_hit_bytes: Some(figure(read.at_hand.into())),
            bytes_read: Some(figure(u128::from(read.fetched) + u128::from(read.at_hand))),
            queue_duration_nanos: Some(nanos(self.began.saturating_duration_since(self.received))),
            total_duration_nanos: Some(nanos(now.saturating_duration_since(self.received))),
            cpu_user_nanos: Some(nanos(processor_time(ran))),
            cpu_system_nanos: Some(0),
            ..Default::default()
        }
    }
}

/// What of its time a call was on a processor. Asking costs a system call, so only a long one asks, and only at its end: it had
/// what its thread had since the last such call, but no more than its time. A short one hardly waits for anything.
fn processor_time(ran: Duration) -> Duration {
    if ran < LONG {
        return ran;
    }
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let now = Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0));
    ran.min(now.saturating_sub(ASKED.replace(now)))
}

thread_local! {
    /// The processor time of this thread when it was asked for last.
    static ASKED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

fn nanos(time: Duration) -> i64 {
    figure(time.as_nanos())
}

fn figure(number: u128) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

const LONG: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_slept_was_not_on_a_processor_and_one_that_worked_was() {
        // Of a thread that has only slept.
        let slept = std::thread::spawn(|| {
            let watch = Stopwatch::start(Instant::now());
            std::thread::sleep(Duration::from_millis(50));
            watch.stop(ReadBytes::default())
        });
        let slept = slept.join().unwrap();
        assert!(slept.total_duration_nanos() >= 50_000_000);
        assert!(slept.cpu_user_nanos() < 40_000_000, "{slept:?}");
        let watch = Stopwatch::start(Instant::now());
        let mut sum = 0_u64;
        while watch.began.elapsed() < Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let worked = watch.stop(ReadBytes::default());
        assert!(worked.cpu_user_nanos() > 0 && worked.cpu_user_nanos() <= worked.total_duration_nanos());
    }

    #[test]
    fn waiting_counts_into_the_total_and_bytes_add_up() {
        let received = Instant::now();
        std::thread::sleep(Duration::from_millis(5));
        let told = Stopwatch::start(received).stop(ReadBytes { at_hand: 3, fetched: 4 });
        assert!(told.queue_duration_nanos() >= 5_000_000);
        assert!(told.total_duration_nanos() >= told.queue_duration_nanos() + told.cpu_user_nanos());
        assert_eq!((told.cfile_cache_hit_bytes, told.cfile_cache_miss_bytes), (Some(3), Some(4)));
        assert_eq!((told.bytes_read, told.cpu_system_nanos), (Some(7), Some(0)));
    }
}
