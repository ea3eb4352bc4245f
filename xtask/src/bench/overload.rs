//! What a server does with more calls than it can run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use rpc_core::{Messenger, Proxy, RpcErrorCode};
use xtask::figures::Figures;
use xtask::{measure, report};

use super::rpc::calculator::AddRequestPb;
use super::rpc::calculator::calculator_service::Add;
use super::serve::ServerProcess;

/// Sends once, twice, 5 and 10 times as many calls as the workers of a server in a process of its own can run.
#[derive(clap::Args)]
pub(crate) struct Overload {
    /// Threads of the server that run calls.
    #[arg(long, default_value_t = 4)]
    workers: u32,

    /// How long a call runs.
    #[arg(long, default_value_t = 50)]
    handler_ms: u32,

    /// How long its caller waits.
    #[arg(long, default_value_t = 500)]
    timeout_ms: u32,

    /// Calls that may wait for a thread.
    #[arg(long, default_value_t = 50)]
    queue_length: u32,

    /// Seconds at each load.
    #[arg(long, default_value_t = 10)]
    seconds: u32,

    /// Write the figures to FILE.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const LOADS: [u32; 4] = [1, 2, 5, 10];

/// What became of the calls of one load.
#[derive(Default)]
struct Seen {
    sent: u64,
    /// Answered within their timeout.
    good: u64,
    /// The queue was full.
    refused: u64,
    /// They waited in the queue until it was too late.
    too_late: u64,
    timed_out: u64,
    /// From the first call to the last answer.
    seconds: f64,
}

impl Overload {
    pub(crate) fn run(self) -> Result<()> {
        let capacity = f64::from(self.workers) * 1000.0 / f64::from(self.handler_ms.max(1));
        let mut figures = Figures::default();
        let mut rows = Vec::new();
        let mut goodputs = Vec::new();
        for load in LOADS {
            let mut server = self.start_server()?;
            let (seen, refusals, peak) = self.load(&server, capacity * f64::from(load))?;
            let begun_late = server.begun_late()?;
            let goodput = seen.good as f64 / seen.seconds;
            goodputs.push(goodput);
            let refusal_ms = refusals.value_at_quantile(0.99) as f64 / 1e6;
            figures.add(&format!("goodput_per_sec_{load}x"), "1/s", &[goodput]);
            figures.add(&format!("begun_late_{load}x"), "", &[begun_late as f64]);
            figures.add(&format!("server_peak_mib_{load}x"), "MiB", &[peak as f64 / f64::from(1 << 20)]);
            if !refusals.is_empty() {
                figures.add(&format!("refusal_p99_ms_{load}x"), "ms", &[refusal_ms]);
            }
            rows.push(vec![
                format!("{load}"),
                report::thousands(seen.sent),
                format!("{goodput:.1}"),
                report::thousands(seen.refused),
                format!("{refusal_ms:.1}"),
                seen.too_late.to_string(),
                seen.timed_out.to_string(),
                begun_late.to_string(),
                format!("{:.1}", peak as f64 / f64::from(1 << 20)),
            ]);
        }
        let best = goodputs.iter().copied().fold(0.0, f64::max);
        for (load, goodput) in LOADS.iter().zip(&goodputs) {
            figures.add(&format!("goodput_of_best_{load}x"), "", &[goodput / best]);
        }
        println!(
            "{} workers, {} ms a call: {capacity:.0} calls/s can be run; callers wait {} ms\n",
            self.workers, self.handler_ms, self.timeout_ms
        );
        let headers = [
            "load",
            "sent",
            "in time/s",
            "refused",
            "after ms, p99",
            "too late in queue",
            "timed out",
            "begun late",
            "peak MiB",
        ];
        println!("{}\n", report::table(&headers, &rows));
        super::publish(&figures, self.json.as_ref())
    }

    fn start_server(&self) -> Result<ServerProcess> {
        let number = |number: u32| number.to_string();
        let (workers, sleep) = (number(self.workers), number(self.handler_ms));
        let queue = number(self.queue_length);
        ServerProcess::start(&["--workers", &workers, "--sleep-ms", &sleep, "--queue-length", &queue])
    }

    /// What became of calls at this rate, how long refusals took in nanoseconds, and the most memory the server had.
    fn load(&self, server: &ServerProcess, rate: f64) -> Result<(Seen, Histogram<u64>, u64)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let messenger = Messenger::builder().user("bench").build();
        let timeout = Duration::from_millis(self.timeout_ms.into());
        let time = Duration::from_secs(self.seconds.max(1).into());
        let seen = Arc::new(Mutex::new((Seen::default(), Histogram::new_with_bounds(1, 60_000_000_000, 3)?)));
        let mut peak = 0;
        runtime.block_on(async {
            let proxies: Vec<_> = (0..CONNECTIONS)
                .map(|n| Proxy::with_plane(&messenger, server.address.clone(), "bench", &n.to_string()))
                .collect();
            // Connections are made, and the first calls run, before anything counts.
            for proxy in &proxies {
                proxy.call::<Add>(&AddRequestPb { x: 1, y: 1 }).send().await?;
            }
            let mut ticks = tokio::time::interval(Duration::from_millis(1));
            let (start, mut sent) = (Instant::now(), 0);
            let mut calls = Vec::new();
            let mut in_turn = proxies.iter().cycle();
            while start.elapsed() < time {
                ticks.tick().await;
                let due = start.elapsed().as_secs_f64() * rate;
                while f64::from(sent) < due {
                    sent += 1;
                    if let Some(proxy) = in_turn.next() {
                        calls.push(tokio::spawn(one_call(proxy.clone(), timeout, Arc::clone(&seen))));
                    }
                }
                if sent % 50 == 0 {
                    peak = peak.max(measure::resident_bytes(server.pid())?);
                }
            }
            for call in calls {
                call.await??;
            }
            seen.lock().0.seconds = start.elapsed().as_secs_f64();
            anyhow::Ok(())
        })?;
        peak = peak.max(measure::resident_bytes(server.pid())?);
        let (seen, refusals) = std::mem::replace(&mut *seen.lock(), (Seen::default(), Histogram::new(3)?));
        Ok((seen, refusals, peak))
    }
}

async fn one_call(proxy: Proxy, timeout: Duration, seen: Arc<Mutex<(Seen, Histogram<u64>)>>) -> Result<()> {
    let start = Instant::now();
    let answer = proxy.call::<Add>(&AddRequestPb { x: 1, y: 1 }).timeout(timeout).send().await;
    let (seen, refusals) = &mut *seen.lock();
    seen.sent += 1;
    match answer {
        Ok(_) => seen.good += 1,
        Err(error) if error.is_timeout() => seen.timed_out += 1,
        Err(error) => match error.remote() {
            Some(refusal) if refusal.code != Some(RpcErrorCode::ERROR_SERVER_TOO_BUSY) => bail!(error),
            Some(refusal) if refusal.message.starts_with("Timed out") => seen.too_late += 1,
            Some(_) => {
                seen.refused += 1;
                refusals.saturating_record(u64::try_from(start.elapsed().as_nanos())?);
            }
            None => bail!(error),
        },
    }
    Ok(())
}

const CONNECTIONS: usize = 4;
