//! `cargo xtask bench rpc`: Kudu's rpc-bench against our own RPC stack, and any Kudu server under the same load.

pub(crate) mod calculator;
mod histograms;
pub(super) mod load;
mod own;
mod peers;
mod ping_pong;
pub(super) mod service;
mod target;
mod usage;
mod versus;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use net_addr::SockAddr;
use xtask::figures::Figures;

/// Calls the calculator of Kudu's rpc-bench: client and server in this process. Or loads another server.
#[derive(clap::Args)]
pub(crate) struct Rpc {
    /// How clients wait: one call a thread, or many.
    #[arg(long, value_enum, default_value_t = Mode::Async)]
    mode: Mode,

    /// Client threads, each with a messenger, a runtime and a connection.
    #[arg(long, default_value_t = 2)]
    client_threads: usize,

    /// Reactors of the server.
    #[arg(long, default_value_t = 2)]
    server_reactors: usize,

    /// Worker threads of the server.
    #[arg(long, default_value_t = 4)]
    worker_threads: usize,

    /// Calls in flight over all clients (async).
    #[arg(long, default_value_t = 100)]
    concurrency: usize,

    /// Seconds to measure; each is one sample.
    #[arg(long, default_value_t = 5)]
    seconds: u32,

    /// Over a unix socket in place of TCP.
    #[arg(long)]
    uds: bool,

    /// Have the workers run the calls, not the reactor that read them.
    #[arg(long)]
    queued: bool,

    /// Echo so many bytes in place of adding two numbers.
    #[arg(long, value_name = "BYTES")]
    payload: Option<usize>,

    /// Push the payload as a sidecar; the server answers with its checksum.
    #[arg(long, requires = "payload")]
    sidecar: bool,

    /// Run all threads on this CPU.
    #[arg(long, value_name = "CPU")]
    pin: Option<usize>,

    /// The setting of the first published figures: 24 client threads, 24 reactors, 40 workers, 100 calls.
    #[arg(long)]
    seed: bool,

    /// Load this server of another process in place of one of our own.
    #[arg(long, value_name = "HOST:PORT", requires_all = ["server_pid", "method"])]
    target: Option<String>,

    /// The process of the target, to read its CPU time.
    #[arg(long, value_name = "PID", requires = "target")]
    server_pid: Option<u32>,

    /// What to call there, e.g. kudu.master.MasterService.Ping.
    #[arg(long, requires = "target")]
    method: Option<String>,

    /// Measure a real kudu-master 1.18.1 and ours in turn: server CPU a Ping.
    #[arg(long, conflicts_with = "target")]
    versus_kudu: bool,

    /// Measure tonic, tarpc and capnp-rpc in turn with our stack, all in processes of their own (bench-peers/).
    #[arg(long, conflicts_with_all = ["target", "versus_kudu", "payload", "queued", "pin"])]
    peers: bool,

    /// Only with so many clients, in place of all that the figures name.
    #[arg(long, value_name = "NAME", requires = "versus_kudu", value_parser = PossibleValuesParser::new(versus::names()))]
    only: Option<String>,

    /// Look for work for so many microseconds before sleeping: the server's reactors, and clients that block.
    #[arg(long, value_name = "US", default_value_t = 0)]
    busy_poll: u64,

    /// Write the figures to FILE.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    Sync,
    Async,
}

impl Rpc {
    pub(crate) fn run(mut self) -> Result<()> {
        if self.seed {
            (self.client_threads, self.server_reactors) = (24, 24);
            (self.worker_threads, self.concurrency) = (40, 100);
        }
        if let Some(cpu) = self.pin {
            let mut set = rustix::thread::CpuSet::new();
            set.set(cpu);
            rustix::thread::sched_setaffinity(None, &set).with_context(|| format!("CPU {cpu}"))?;
        }
        let figures = match (self.versus_kudu, self.peers) {
            (true, _) => versus::run(self.only.as_deref())?,
            (false, true) => peers::run(&self.of_all_stacks())?,
            (false, false) => self.measure()?,
        };
        super::publish(&figures, self.json.as_ref())
    }

    /// The arguments that every stack understands.
    fn of_all_stacks(&self) -> Vec<String> {
        let mode = if self.mode == Mode::Async { "async" } else { "sync" };
        let mut arguments = vec!["--mode".to_owned(), mode.to_owned()];
        let numbers = [
            ("--client-threads", self.client_threads),
            ("--server-reactors", self.server_reactors),
            ("--concurrency", self.concurrency),
            ("--seconds", self.seconds as usize),
        ];
        arguments
            .extend(numbers.into_iter().flat_map(|(name, number)| [name.to_owned(), number.to_string()]));
        if self.uds {
            arguments.push("--uds".to_owned());
        }
        arguments
    }

    fn measure(&self) -> Result<Figures> {
        let clients = self.client_threads.max(1);
        let concurrency = self.concurrency.max(1);
        if let (Some(target), Some(pid), Some(method)) = (&self.target, self.server_pid, &self.method) {
            let calls = if self.mode == Mode::Async { concurrency } else { clients };
            let remote = SockAddr::parse(target, 0)?;
            let shape = load::Shape { remote, threads: clients, connections: clients, calls };
            let cost = target::cost(&shape, method, pid, self.mode == Mode::Sync)?;
            let mut figures = Figures::default();
            figures.add("reqs_per_sec", "1/s", &[cost.rate]);
            figures.add("server_cpu_us_per_req", "us", &[cost.server_cpu_us]);
            return Ok(figures);
        }
        let figures = own::run(&own::Setting {
            is_async: self.mode == Mode::Async,
            clients,
            concurrency,
            server: service::Options {
                reactors: self.server_reactors,
                workers: self.worker_threads,
                unix: self.uds,
                queued: self.queued,
            },
            busy_poll: Duration::from_micros(self.busy_poll),
            seconds: self.seconds,
            payload: self.payload,
            sidecar: self.sidecar,
        })?;
        println!();
        Ok(figures)
    }
}
