//! `cargo xtask bench rpc`: Kudu's rpc-bench against our own RPC stack, and any Kudu server under the same load.

mod calculator;
mod load;
mod own;
mod service;
mod usage;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::ValueEnum;

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
        let figures = own::run(&own::Setting {
            is_async: self.mode == Mode::Async,
            clients: self.client_threads.max(1),
            concurrency: self.concurrency.max(1),
            server: service::Options {
                reactors: self.server_reactors,
                workers: self.worker_threads,
                unix: self.uds,
                queued: self.queued,
            },
            seconds: self.seconds,
            payload: self.payload,
            sidecar: self.sidecar,
        })?;
        println!();
        super::publish(&figures, self.json.as_ref())
    }
}
