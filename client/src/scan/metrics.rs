//! What a scan costs the servers.

use std::time::Duration;

use parking_lot::Mutex;
use proto::kudu::tserver::ResourceMetricsPb;

/// What a scan has cost the servers, as they tell it: sums over all answers. Those that a server does not tell stay 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanMetrics {
    /// Bytes that were not in the block cache.
    pub cfile_cache_miss_bytes: u64,
    /// Bytes that were.
    pub cfile_cache_hit_bytes: u64,
    /// Bytes of blocks read.
    pub bytes_read: u64,
    /// Time that calls waited before a thread took them.
    pub queue_duration: Duration,
    /// Time that calls took, waiting included.
    pub total_duration: Duration,
    /// Processor time in the servers' own code.
    pub cpu_user: Duration,
    /// Processor time in the kernel.
    pub cpu_system: Duration,
}

/// The sum so far.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<ScanMetrics>);

impl Tally {
    pub(super) fn total(&self) -> ScanMetrics {
        *self.0.lock()
    }

    pub(super) fn add(&self, answer: &ResourceMetricsPb) {
        let bytes = |number: i64| u64::try_from(number).unwrap_or(0);
        let time = |nanos: i64| Duration::from_nanos(bytes(nanos));
        let mut sum = self.0.lock();
        let ScanMetrics {
            cfile_cache_miss_bytes,
            cfile_cache_hit_bytes,
            bytes_read,
            queue_duration,
            total_duration,
            cpu_user,
            cpu_system,
        } = &mut *sum;
        for (sum, more) in [
            (cfile_cache_miss_bytes, answer.cfile_cache_miss_bytes()),
            (cfile_cache_hit_bytes, answer.cfile_cache_hit_bytes()),
            (bytes_read, answer.bytes_read()),
        ] {
            *sum = sum.saturating_add(bytes(more));
        }
        for (sum, more) in [
            (queue_duration, answer.queue_duration_nanos()),
            (total_duration, answer.total_duration_nanos()),
            (cpu_user, answer.cpu_user_nanos()),
            (cpu_system, answer.cpu_system_nanos()),
        ] {
            *sum = sum.saturating_add(time(more));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_add_up_and_nonsense_counts_as_nothing() {
        let tally = Tally::default();
        let answer = |bytes, nanos| ResourceMetricsPb {
            bytes_read: Some(bytes),
            cpu_user_nanos: Some(nanos),
            ..Default::default()
        };
        tally.add(&answer(10, 1_000));
        tally.add(&answer(5, 500));
        tally.add(&answer(-1, i64::MIN));
        let expected =
            ScanMetrics { bytes_read: 15, cpu_user: Duration::from_nanos(1_500), ..Default::default() };
        assert_eq!(tally.total(), expected);
    }
}
