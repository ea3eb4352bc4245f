//! What this process has used up, as `cargo xtask bench rpc` counts it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Since the start of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    at: Instant,
    cpu: Duration,
    /// Clock ticks; only their ratio counts.
    user: u64,
    system: u64,
    switches: u64,
}

/// Between two moments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) seconds: f64,
    pub(crate) user_us: f64,
    pub(crate) system_us: f64,
    pub(crate) switches: u64,
}

impl Usage {
    pub(crate) fn now() -> Result<Usage> {
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        let (_, rest) = stat.rsplit_once(')').context("/proc/self/stat")?;
        let ticks = |field: usize| rest.split_whitespace().nth(field).and_then(|text| text.parse().ok());
        let mut switches = 0;
        for thread in std::fs::read_dir("/proc/self/task")? {
            let status = std::fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
            let counts = status.lines().filter(|line| line.contains("ctxt_switches:"));
            let counts = counts.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
            switches += counts.sum::<u64>();
        }
        Ok(Usage {
            at: Instant::now(),
            cpu: own_cpu_time(),
            user: ticks(11).context("/proc/self/stat: utime")?,
            system: ticks(12).context("/proc/self/stat: stime")?,
            switches,
        })
    }

    pub(crate) fn since(&self, before: &Usage) -> Used {
        let micros = self.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6;
        let (user, system) = (self.user - before.user, self.system - before.system);
        let share = user as f64 / (user + system).max(1) as f64;
        Used {
            seconds: self.at.duration_since(before.at).as_secs_f64(),
            user_us: micros * share,
            system_us: micros * (1.0 - share),
            switches: self.switches.saturating_sub(before.switches),
        }
    }
}

/// CPU time of this process since its start.
pub(crate) fn own_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
