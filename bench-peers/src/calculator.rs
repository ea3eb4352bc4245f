//! The calculator's one call on each peer: client and server in one process, as rpc-bench has it.

mod capnp;
mod tarpc;
pub(crate) mod tonic;

use std::thread;

use anyhow::Result;
use clap::ValueEnum;
use serde_json::json;
use tokio::sync::mpsc;

use crate::listener::{Accepted, Listener};
use crate::load::Shape;

/// The settings of `cargo xtask bench rpc`.
#[derive(clap::Args)]
pub(crate) struct Rpc {
    /// On what.
    #[arg(value_enum)]
    stack: Stack,

    /// How clients wait: one call a thread, or many.
    #[arg(long, value_enum, default_value_t = Mode::Async)]
    mode: Mode,

    /// Client threads, each with a runtime and a connection.
    #[arg(long, default_value_t = 2)]
    client_threads: usize,

    /// Server threads, each with a runtime of its own but for tonic, which has one of so many workers.
    #[arg(long, default_value_t = 2)]
    server_reactors: usize,

    /// Calls in flight over all clients (async).
    #[arg(long, default_value_t = 100)]
    concurrency: usize,

    /// Seconds to measure; each is one sample.
    #[arg(long, default_value_t = 5)]
    seconds: u32,

    /// Over a unix socket in place of TCP.
    #[arg(long)]
    uds: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stack {
    Tonic,
    Tarpc,
    Capnp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    Sync,
    Async,
}

impl Rpc {
    pub(crate) fn run(self) -> Result<()> {
        let threads = self.client_threads.max(1);
        let calls = if self.mode == Mode::Async { self.concurrency.max(1) } else { threads };
        let shape = Shape { threads, calls, seconds: self.seconds };
        let (listener, address) = Listener::bind(self.uds)?;
        let figures = match self.stack {
            Stack::Tonic => tonic::run(shape, listener, address, self.server_reactors)?,
            Stack::Tarpc => tarpc::run(shape, listener, address, self.server_reactors)?,
            Stack::Capnp => capnp::run(shape, listener, address, self.server_reactors)?,
        };
        println!("{}", json!(figures.into_json()));
        Ok(())
    }
}

/// Threads with a runtime each, which get the accepted connections in turn; they end with the process.
fn serve<F: Future<Output = ()>>(
    listener: Listener,
    reactors: usize,
    server: impl Fn(mpsc::UnboundedReceiver<Accepted>) -> F + Clone + Send + 'static,
) {
    let mut threads = Vec::new();
    for _ in 0..reactors.max(1) {
        let (sender, accepted) = mpsc::unbounded_channel();
        let server = server.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            tokio::task::LocalSet::new().block_on(&runtime.expect("a runtime"), server(accepted));
        });
        threads.push(sender);
    }
    thread::spawn(move || {
        for thread in threads.iter().cycle() {
            let Ok(accepted) = listener.accept() else { return };
            let _ = thread.send(accepted);
        }
    });
}
