//! What a process, and the machine, have used up.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use xtask::measure;

/// Since the start of this process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    at: Instant,
    cpu: Duration,
    /// Clock ticks of 10 ms; only their ratio counts.
    user: u64,
    system: u64,
    switches: u64,
    /// CPU time of the threads that are the server's.
    server: Duration,
    /// Busy time of all CPUs, in ticks.
    machine: u64,
}

/// Between two moments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    pub(super) seconds: f64,
    pub(super) user_us: f64,
    pub(super) system_us: f64,
    pub(super) switches: u64,
    pub(super) server_us: f64,
    /// CPUs that the whole machine had busy, on average.
    pub(super) machine_cpus: f64,
}

impl Usage {
    pub(super) fn now() -> Result<Usage> {
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        let (_, rest) = stat.rsplit_once(')').context("/proc/self/stat")?;
        let ticks = |field: usize| rest.split_whitespace().nth(field).and_then(|text| text.parse().ok());
        let (mut switches, mut server) = (0, 0);
        for thread in std::fs::read_dir("/proc/self/task")? {
            let thread = thread?.path();
            let read = |file| std::fs::read_to_string(thread.join(file)).unwrap_or_default();
            if SERVER_THREADS.iter().any(|name| read("comm").starts_with(name)) {
                let schedstat = read("schedstat");
                server += schedstat.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0);
            }
            let status = read("status");
            let counts = status.lines().filter(|line| line.contains("ctxt_switches:"));
            let counts = counts.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
            switches += counts.sum::<u64>();
        }
        Ok(Usage {
            at: Instant::now(),
            cpu: measure::own_cpu_time(),
            user: ticks(11).context("/proc/self/stat: utime")?,
            system: ticks(12).context("/proc/self/stat: stime")?,
            switches,
            server: Duration::from_nanos(server),
            machine: machine_busy()?,
        })
    }

    pub(super) fn since(&self, before: &Usage) -> Used {
        let micros = (self.cpu.saturating_sub(before.cpu)).as_secs_f64() * 1e6;
        let (user, system) = (self.user - before.user, self.system - before.system);
        let share = user as f64 / (user + system).max(1) as f64;
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        Used {
            seconds,
            user_us: micros * share,
            system_us: micros * (1.0 - share),
            switches: self.switches.saturating_sub(before.switches),
            server_us: self.server.saturating_sub(before.server).as_secs_f64() * 1e6,
            machine_cpus: (self.machine - before.machine) as f64 / 100.0 / seconds,
        }
    }
}

/// Reactors and workers of the benchmark's server, by the beginning of their names.
const SERVER_THREADS: [&str; 2] = ["bench-", "CalculatorS"];

/// Ticks that all CPUs together spent neither idle nor waiting for a disk.
fn machine_busy() -> Result<u64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().context("/proc/stat")?;
    let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|text| text.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    Ok([0, 1, 2, 5, 6].iter().filter_map(|&index| ticks.get(index)).sum())
}

/// System calls of this process per call of `count`, which only grows, while `perf` counts for `time`; `None` if the kernel,
/// or the lack of `perf`, forbids it.
pub(super) fn system_calls(time: Duration, count: impl Fn() -> u64) -> Option<f64> {
    // On a machine that is very busy perf now and then takes half a minute to begin; the next one then mostly does not.
    (0..4).find_map(|_| try_system_calls(time, &count))
}

fn try_system_calls(time: Duration, count: impl Fn() -> u64) -> Option<f64> {
    let mut perf = Command::new("timeout");
    perf.args([
        "10",
        "perf",
        "stat",
        "-x,",
        "-e",
        "raw_syscalls:sys_enter",
        "-p",
        &std::process::id().to_string(),
        "--",
    ]);
    // perf counts from just before its command starts to when it ends; the command tells of both.
    perf.args(["sh", "-c", &format!("echo; sleep {:.3}; echo", time.as_secs_f64())]);
    perf.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut perf = perf.spawn().ok()?;
    let mut lines = BufReader::new(perf.stdout.take()?).lines();
    lines.next()?.ok()?;
    let start = count();
    lines.next()?.ok()?;
    let calls = count() - start;
    let output = perf.wait_with_output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find(|line| line.contains("raw_syscalls"))?;
    let counted: f64 = line.split(',').next()?.parse().ok()?;
    Some(counted / calls.max(1) as f64)
}
