//! Both sides in one process, as rpc-bench has it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use xtask::figures::Figures;
use xtask::report;

use super::histograms::Before;
use super::load::{Load, Shape, Work};
use super::ping_pong::PingPong;
use super::service::{self, Block, Payload, Sum};
use super::usage::{self, Usage};

/// What to run.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) is_async: bool,
    pub(super) clients: usize,
    pub(super) concurrency: usize,
    pub(super) server: service::Options,
    pub(super) busy_poll: Duration,
    pub(super) seconds: u32,
    pub(super) payload: Option<usize>,
    pub(super) sidecar: bool,
}

/// Runs it, prints rpc-bench's lines, and returns the figures; each second is one sample.
pub(super) fn run(setting: &Setting) -> Result<Figures> {
    match setting.payload {
        None => run_work(setting, Sum),
        Some(size) => {
            let bytes = Bytes::from(vec![0xa5; size]);
            if setting.sidecar {
                run_work(setting, Block::new(bytes))
            } else {
                run_work(setting, Payload(bytes))
            }
        }
    }
}

fn run_work(setting: &Setting, work: impl Work) -> Result<Figures> {
    let server = service::start_polling(&setting.server, setting.busy_poll)?;
    let remote = server.bound_addresses().first().cloned().context("no address")?;
    let calls = if setting.is_async { setting.concurrency } else { setting.clients };
    let shape = Shape { remote, threads: setting.clients, connections: setting.clients, calls };
    let load = match setting.is_async {
        true => Load::start(&shape, Arc::new(work))?,
        false => Load::start_blocking(&shape, Arc::new(work), setting.busy_poll)?,
    };
    std::thread::sleep(WARM_UP);
    load.take_latencies();

    let mut samples = Samples::default();
    let histograms = Before::look(&server);
    let mut before = (Usage::now()?, load.answered());
    for _ in 0..setting.seconds.max(1) {
        std::thread::sleep(Duration::from_secs(1));
        let after = (Usage::now()?, load.answered());
        samples.add(&after.0.since(&before.0), after.1 - before.1);
        before = after;
    }
    let latencies = load.take_latencies();
    let histograms = histograms.since(&server);
    // Apart, since counting makes each system call a little dearer.
    samples.system_calls.extend(usage::system_calls(COUNTED, || load.answered()));
    load.stop()?;
    server.shutdown();

    let mut figures = Figures::default();
    samples.publish(&mut figures);
    if !setting.is_async && setting.payload.is_none() {
        compare(setting, &mut figures)?;
    }
    for (name, quantile) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)] {
        if !latencies.is_empty() {
            figures.add(name, "us", &[latencies.value_at_quantile(quantile) as f64 / 1e3]);
        }
    }
    print(setting, &figures);
    println!("\n{histograms}");
    Ok(figures)
}

/// A blocking ping-pong of as many pairs of threads, for as long, and what a call costs more than its round trip.
fn compare(setting: &Setting, figures: &mut Figures) -> Result<()> {
    let pairs = PingPong::start(setting.clients, setting.server.unix)?;
    std::thread::sleep(WARM_UP);
    let mut costs = Vec::new();
    for _ in 0..setting.seconds.max(1) {
        let before = (Usage::now()?, pairs.answered());
        std::thread::sleep(Duration::from_secs(1));
        let used = Usage::now()?.since(&before.0);
        costs.push((used.user_us + used.system_us) / (pairs.answered() - before.1).max(1) as f64);
    }
    pairs.stop()?;
    figures.add("ping_pong_cpu_us", "us", &costs);
    let median = |name: &str| figures.median(name).context("not measured");
    let ratio = median("cpu_us_per_req")? / median("ping_pong_cpu_us")?;
    figures.add("ratio_to_ping_pong", "", &[ratio]);
    Ok(())
}

#[derive(Default)]
struct Samples {
    rate: Vec<f64>,
    user: Vec<f64>,
    system: Vec<f64>,
    total: Vec<f64>,
    server: Vec<f64>,
    switches: Vec<f64>,
    machine: Vec<f64>,
    system_calls: Vec<f64>,
}

impl Samples {
    fn add(&mut self, used: &usage::Used, answered: u64) {
        let calls = answered.max(1) as f64;
        self.rate.push(answered as f64 / used.seconds);
        self.user.push(used.user_us / calls);
        self.system.push(used.system_us / calls);
        self.total.push((used.user_us + used.system_us) / calls);
        self.server.push(used.server_us / calls);
        self.switches.push(used.switches as f64 / calls);
        self.machine.push(used.machine_cpus);
    }

    fn publish(&self, figures: &mut Figures) {
        figures.add("reqs_per_sec", "1/s", &self.rate);
        figures.add("user_cpu_us_per_req", "us", &self.user);
        figures.add("sys_cpu_us_per_req", "us", &self.system);
        figures.add("cpu_us_per_req", "us", &self.total);
        figures.add("server_cpu_us_per_req", "us", &self.server);
        figures.add("ctx_switches_per_req", "", &self.switches);
        figures.add("syscalls_per_req", "", &self.system_calls);
        figures.add("machine_busy_cpus", "CPUs", &self.machine);
    }
}

fn print(setting: &Setting, figures: &Figures) {
    let line = |name: &str, value: String| println!("{:<26}{value}", format!("{name}:"));
    let figure =
        |name: &str| figures.median(name).map_or("not counted".to_owned(), |value| format!("{value:.3}"));
    line("Mode", if setting.is_async { "Async" } else { "Sync" }.to_owned());
    if setting.is_async {
        line("Client reactors", setting.clients.to_string());
        line("Call concurrency", setting.concurrency.to_string());
    } else {
        line("Client threads", setting.clients.to_string());
    }
    line("Worker threads", setting.server.workers.to_string());
    line("Server reactors", setting.server.reactors.to_string());
    line("Encryption", "0".to_owned());
    println!("{}", "-".repeat(42));
    line("Reqs/sec", report::thousands(figures.median("reqs_per_sec").unwrap_or_default() as u64));
    line("User CPU per req", format!("{}us", figure("user_cpu_us_per_req")));
    line("Sys CPU per req", format!("{}us", figure("sys_cpu_us_per_req")));
    line("CPU of server's threads", format!("{}us", figure("server_cpu_us_per_req")));
    line("Ctx Sw. per req", figure("ctx_switches_per_req"));
    line("System calls per req", figure("syscalls_per_req"));
    line("Busy CPUs of the machine", figure("machine_busy_cpus"));
    let latency = ["p50_us", "p99_us", "p999_us"].map(&figure);
    if figures.median("ping_pong_cpu_us").is_some() {
        let (cost, ratio) = (figure("ping_pong_cpu_us"), figure("ratio_to_ping_pong"));
        line("Blocking ping-pong", format!("{cost}us, a call costs {ratio} times that"));
    }
    line("Latency p50 p99 p99.9", format!("{} us", latency.join(" ")));
}

/// Before the first sample: connections are made, buffers have grown.
const WARM_UP: Duration = Duration::from_millis(500);

/// How long system calls are counted.
const COUNTED: Duration = Duration::from_secs(1);
