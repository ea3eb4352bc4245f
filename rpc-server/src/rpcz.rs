//! Sampled calls, as Kudu's `/rpcz` shows them: of each method one in each bucket of latency, renewed once a second at most.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use net_addr::SockAddr;
use parking_lot::Mutex;
use rpc_core::Destination;

use crate::timing::Times;

/// What became of one call. Prints as its trace: a line for each step, with the time since the step before.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sample {
    /// When it was answered.
    pub answered: SystemTime,
    /// Who called.
    pub user: String,
    /// From where.
    pub peer: SockAddr,
    /// From its last byte to the handler's start.
    pub waited: Duration,
    /// From the handler's start to the answer.
    pub ran: Duration,
    /// What was left of the client's deadline when it sent the call; `None` = it waits for ever.
    pub timeout: Option<Duration>,
    /// The handler failed it with an RPC error.
    pub failed: bool,
}

/// The samples of one method.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    buckets: [Bucket; BUCKETS.len() + 1],
}

#[derive(Debug, Default)]
struct Bucket {
    /// The second of the latest sample, counted from 1; 0 = none yet.
    second: AtomicU64,
    sample: Mutex<Option<Box<Sample>>>,
}

impl Samples {
    /// Keeps a call that is answered now, unless its bucket has one of this second.
    pub(crate) fn offer(&self, now: Duration, times: &Times, failed: bool, destination: &Destination) {
        let index = BUCKETS.iter().take_while(|bound| times.total() >= **bound).count();
        let Some(bucket) = self.buckets.get(index) else { return };
        let second = now.as_secs() + 1;
        if bucket.second.load(Relaxed) == second {
            return;
        }
        bucket.second.store(second, Relaxed);
        let connection = destination.connection();
        let sample = Box::new(Sample {
            answered: SystemTime::now(),
            user: connection.user.clone(),
            peer: connection.peer.clone(),
            waited: times.waited,
            ran: times.ran,
            timeout: times.timeout,
            failed,
        });
        *bucket.sample.lock() = Some(sample);
    }

    /// By rising latency.
    pub(crate) fn all(&self) -> Vec<Sample> {
        self.buckets.iter().filter_map(|bucket| bucket.sample.lock().as_deref().cloned()).collect()
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call of {} from {}, ", self.user, self.peer)?;
        match self.timeout {
            Some(timeout) => writeln!(f, "timeout {timeout:?}")?,
            None => writeln!(f, "no timeout")?,
        }
        writeln!(f, "{:>12} us  received", 0)?;
        writeln!(f, "{:>+12} us  handler started", self.waited.as_micros())?;
        let end = if self.failed { "failed" } else { "answered" };
        write!(f, "{:>+12} us  {end}", self.ran.as_micros())
    }
}

/// Upper bounds of all buckets but the last.
const BUCKETS: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(100), Duration::from_millis(1000)];

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rpc_core::{ConnectionInfo, InboundCall};

    use super::*;

    fn destination() -> Arc<Destination> {
        let address: SockAddr = "127.0.0.1:7050".parse().unwrap();
        let connection = Arc::new(ConnectionInfo::new(address.clone(), address, "alice"));
        Arc::clone(&InboundCall::detached(connection, "kudu.S", "M", "", |_| ()).destination)
    }

    fn times(waited_ms: u64, ran_ms: u64) -> Times {
        let ms = Duration::from_millis;
        Times { waited: ms(waited_ms), ran: ms(ran_ms), timeout: Some(ms(2000)) }
    }

    #[test]
    fn each_bucket_keeps_the_first_call_of_each_second() {
        let (samples, to) = (Samples::default(), destination());
        for (second, ran) in
            [(0, 1), (0, 2), (0, 10), (0, 99), (1, 3), (1, 4), (2, 999), (2, 1000), (2, 5000)]
        {
            samples.offer(Duration::from_secs(second), &times(0, ran), false, &to);
        }
        let kept: Vec<_> = samples.all().iter().map(|sample| sample.ran.as_millis()).collect();
        assert_eq!(kept, [3, 10, 999, 1000]);
    }

    #[test]
    fn waiting_counts_for_the_bucket() {
        let (samples, to) = (Samples::default(), destination());
        samples.offer(Duration::ZERO, &times(200, 1), true, &to);
        samples.offer(Duration::ZERO, &times(0, 1), false, &to);
        assert_eq!(samples.all().len(), 2);
        let text = samples.all()[1].to_string();
        let expected = "call of alice from 127.0.0.1:7050, timeout 2s\n           0 us  received\n     \
                        +200000 us  handler started\n       +1000 us  failed";
        assert_eq!(text, expected);
    }
}
