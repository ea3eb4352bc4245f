//! What a connection costs a server: memory while it is idle, CPU time while it is made, delay for the others.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use net_addr::SockAddr;
use parking_lot::Mutex;
use rpc_core::{Messenger, Proxy};
use xtask::figures::Figures;
use xtask::{measure, report};

use super::rpc::calculator::AddRequestPb;
use super::rpc::calculator::calculator_service::Add;
use super::serve::{ServerProcess, raise_descriptor_limit};

/// Opens many connections to a server in a process of its own, each negotiated and used for one call, over TCP and over a
/// unix socket. Then sends the same load over few and over many.
#[derive(clap::Args)]
pub(crate) struct Connections {
    /// Idle connections.
    #[arg(long, default_value_t = 10_000)]
    count: usize,

    /// Times that they are opened.
    #[arg(long, default_value_t = 5)]
    rounds: usize,

    /// Connections that are being made at a time.
    #[arg(long, default_value_t = 64)]
    at_once: usize,

    /// Calls a second over 10 connections, and over 1,000; 0 leaves that out.
    #[arg(long, default_value_t = 4_000)]
    rate: u32,

    /// Write the figures to FILE.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Connections {
    pub(crate) fn run(self) -> Result<()> {
        let limit = usize::try_from(raise_descriptor_limit()).unwrap_or(usize::MAX);
        let count = self.count.min(limit.saturating_sub(SPARE));
        ensure!(count > 0, "{limit} descriptors are too few");
        if count < self.count {
            println!(
                "Only {count} connections: the system lets a process have no more than {limit} descriptors.\n"
            );
        }
        let mut figures = Figures::default();
        for way in WAYS {
            let mut bytes = Vec::new();
            let mut rates = Vec::new();
            let mut cpu = Vec::new();
            for _ in 0..self.rounds.max(1) {
                // A fresh one, whose memory nobody has used before.
                let server = ServerProcess::start(way.arguments)?;
                let opened = open(&server, count, self.at_once.max(1))?;
                bytes.push(opened.bytes / count as f64);
                rates.push(count as f64 / opened.seconds);
                cpu.push(opened.server_cpu.as_secs_f64() * 1e6 / count as f64);
            }
            let name = way.name;
            figures.add(&format!("idle_connection_bytes_{name}"), "B", &bytes);
            figures.add(&format!("accepted_per_sec_{name}"), "1/s", &rates);
            figures.add(&format!("server_cpu_us_per_connection_{name}"), "us", &cpu);
            if self.rate > 0 {
                self.compare_active(way, &mut figures)?;
            }
        }
        println!("{} connections\n", report::thousands(count as u64));
        super::publish(&figures, self.json.as_ref())
    }

    fn compare_active(&self, way: &Way, figures: &mut Figures) -> Result<()> {
        let mut p99 = [Vec::new(), Vec::new()];
        for _ in 0..self.rounds.max(1) {
            for (p99, count) in p99.iter_mut().zip(ACTIVE) {
                let server = ServerProcess::start(way.arguments)?;
                let latencies = steady_load(&server.address, count, self.rate)?;
                p99.push(latencies.value_at_quantile(0.99) as f64 / 1e3);
            }
        }
        let ratios: Vec<f64> = p99[0].iter().zip(&p99[1]).map(|(few, many)| many / few).collect();
        for (p99, count) in p99.iter().zip(ACTIVE) {
            figures.add(&format!("p99_us_{count}_connections_{}", way.name), "us", p99);
        }
        figures.add(&format!("p99_ratio_{}", way.name), "", &ratios);
        Ok(())
    }
}

struct Way {
    name: &'static str,
    arguments: &'static [&'static str],
}

const WAYS: &[Way] = &[Way { name: "tcp", arguments: &[] }, Way { name: "uds", arguments: &["--uds"] }];

/// What opening all of them took.
struct Opened {
    /// More than before, with all of them idle.
    bytes: f64,
    seconds: f64,
    server_cpu: Duration,
}

fn open(server: &ServerProcess, count: usize, at_once: usize) -> Result<Opened> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let messenger = Messenger::builder().user("bench").build();
    // What the first connection alone brings into memory is not theirs.
    runtime.block_on(call(&proxy(&messenger, &server.address, usize::MAX)))?;
    let bytes = measure::resident_bytes(server.pid())?;
    let (start, cpu) = (Instant::now(), measure::cpu_time(server.pid())?);
    runtime.block_on(async {
        let next = Arc::new(AtomicUsize::new(0));
        let makers: Vec<_> = (0..at_once)
            .map(|_| {
                let (messenger, address, next) =
                    (messenger.clone(), server.address.clone(), Arc::clone(&next));
                tokio::spawn(async move {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            return anyhow::Ok(());
                        }
                        call(&proxy(&messenger, &address, number)).await?;
                    }
                })
            })
            .collect();
        for maker in makers {
            maker.await??;
        }
        anyhow::Ok(())
    })?;
    let (seconds, server_cpu) = (start.elapsed().as_secs_f64(), measure::cpu_time(server.pid())? - cpu);
    std::thread::sleep(SETTLE);
    let bytes = measure::resident_bytes(server.pid())? as f64 - bytes as f64;
    ensure!(messenger.connections() > count, "{} connections are left of {count}", messenger.connections());
    Ok(Opened { bytes, seconds, server_cpu })
}

/// Latencies in nanoseconds, seen by the caller, of calls at an even rate over so many connections in turn. The rate does not
/// wait for answers.
fn steady_load(address: &SockAddr, connections: usize, rate: u32) -> Result<Histogram<u64>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let messenger = Messenger::builder().user("bench").build();
    let latencies = Arc::new(Mutex::new(Histogram::new_with_bounds(1, 60_000_000_000, 3)?));
    runtime.block_on(async {
        let proxies: Vec<Proxy> = (0..connections).map(|number| proxy(&messenger, address, number)).collect();
        for proxy in &proxies {
            call(proxy).await?;
        }
        let mut in_turn = proxies.iter().cycle();
        let mut ticks = tokio::time::interval(TICK);
        let (start, mut sent) = (Instant::now(), 0);
        let mut calls = Vec::new();
        while start.elapsed() < ACTIVE_TIME {
            ticks.tick().await;
            let now = Instant::now();
            let due = (now - start).as_secs_f64() * f64::from(rate);
            while f64::from(sent) < due {
                sent += 1;
                let proxy = in_turn.next().context("no connections")?.clone();
                let latencies = Arc::clone(&latencies);
                calls.push(tokio::spawn(async move {
                    call(&proxy).await?;
                    latencies.lock().saturating_record(u64::try_from(now.elapsed().as_nanos())?);
                    anyhow::Ok(())
                }));
            }
        }
        for call in calls {
            call.await??;
        }
        anyhow::Ok(())
    })?;
    let latencies = latencies.lock().clone();
    Ok(latencies)
}

/// Each number has a connection of its own.
fn proxy(messenger: &Messenger, address: &SockAddr, number: usize) -> Proxy {
    Proxy::with_plane(messenger, address.clone(), "bench", &number.to_string())
}

async fn call(proxy: &Proxy) -> Result<()> {
    let answer = proxy.call::<Add>(&AddRequestPb { x: 20, y: 22 }).timeout(TIMEOUT).send().await?;
    ensure!(answer.message.result == 42, "a wrong answer");
    Ok(())
}

/// Few and many.
const ACTIVE: [usize; 2] = [10, 1000];
const ACTIVE_TIME: Duration = Duration::from_secs(3);
const TICK: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time to give back what only negotiation needed.
const SETTLE: Duration = Duration::from_secs(1);
/// Descriptors for everything else.
const SPARE: usize = 100;
