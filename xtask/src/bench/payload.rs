//! Calls that carry something: bytes there and back, and big blocks one way.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use xtask::figures::Figures;
use xtask::{measure, report};

use super::rpc::load::{Load, Shape, Work};
use super::rpc::service::{self, Block, Payload as Echoed};

/// Echoes 1 KiB and 16 KiB, and pushes 1 MiB as a sidecar whose checksum the server takes, over TCP and a unix socket; client
/// and server in this process, as rpc-bench has it: 2 client threads, 2 reactors, 4 workers.
#[derive(clap::Args)]
pub(crate) struct Payload {
    /// Seconds for each; each second is one sample.
    #[arg(long, default_value_t = 5)]
    seconds: u32,

    /// Write the figures to FILE.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What Kudu's own stack did on the machine of docs/performance.md, calls a second over TCP and over a unix socket.
const KUDU: [(&str, [f64; 2]); 3] =
    [("echo_1k", [38_900.0, 51_000.0]), ("echo_16k", [20_500.0, 27_500.0]), ("push_1m", [2_100.0, 2_575.0])];

impl Payload {
    pub(crate) fn run(self) -> Result<()> {
        let mut figures = Figures::default();
        let mut rows = Vec::new();
        for (name, kudu) in KUDU {
            for (unix, kudu) in [false, true].into_iter().zip(kudu) {
                let way = if unix { "uds" } else { "tcp" };
                let measured = match name {
                    "echo_1k" => self.measure(unix, 100, Echoed(block(1 << 10)))?,
                    "echo_16k" => self.measure(unix, 100, Echoed(block(16 << 10)))?,
                    _ => self.measure(unix, 8, Block::new(block(1 << 20)))?,
                };
                let (rates, cpu): (Vec<f64>, Vec<f64>) = measured.into_iter().unzip();
                figures.add(&format!("{name}_per_sec_{way}"), "1/s", &rates);
                figures.add(&format!("{name}_cpu_us_{way}"), "us", &cpu);
                let median = |what| figures.median(&format!("{name}_{what}_{way}")).unwrap_or_default();
                rows.push(vec![
                    name.to_owned(),
                    way.to_owned(),
                    report::thousands(median("per_sec") as u64),
                    report::thousands(kudu as u64),
                    format!("{:.2}", median("per_sec") / kudu),
                    format!("{:.2}", median("cpu_us")),
                ]);
            }
        }
        let headers = ["call", "way", "calls/s", "Kudu's", "ratio", "CPU us, both sides"];
        println!("{}\n", report::table(&headers, &rows));
        super::publish(&figures, self.json.as_ref())
    }

    /// Calls a second, and microseconds of CPU of both sides a call, once for each second.
    fn measure(&self, unix: bool, calls: usize, work: impl Work) -> Result<Vec<(f64, f64)>> {
        let server = service::start(&service::Options { reactors: 2, workers: 4, unix, queued: false })?;
        let remote = server.bound_addresses().first().cloned().context("no address")?;
        let load = Load::start(&Shape { remote, threads: 2, connections: 2, calls }, Arc::new(work))?;
        std::thread::sleep(Duration::from_millis(500));
        let look = || (Instant::now(), load.answered(), measure::own_cpu_time());
        let mut samples = Vec::new();
        let mut before = look();
        for _ in 0..self.seconds.max(1) {
            std::thread::sleep(Duration::from_secs(1));
            let after = look();
            let calls = (after.1 - before.1) as f64;
            let cpu = (after.2 - before.2).as_secs_f64() * 1e6 / calls.max(1.0);
            samples.push((calls / (after.0 - before.0).as_secs_f64(), cpu));
            before = after;
        }
        load.stop()?;
        server.shutdown();
        Ok(samples)
    }
}

fn block(size: usize) -> Bytes {
    (0..size).map(|at| at as u8).collect()
}
