//! The server that other benchmarks load, in a process of its own: this program once more.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use net_addr::SockAddr;
use rpc_server::{Call, Server, Service};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::rpc::calculator::AddResponsePb;
use super::rpc::calculator::calculator_service::{Add, SERVICE};
use super::rpc::service;

/// Serves the calculator until its input ends. Prints its address, and then, for each line it is given, how many calls were
/// begun after their deadline.
#[derive(clap::Args)]
pub(crate) struct Serve {
    #[arg(long, default_value_t = 2)]
    reactors: usize,

    #[arg(long, default_value_t = 4)]
    workers: usize,

    #[arg(long)]
    uds: bool,

    /// Have `Add` run so long, on a worker.
    #[arg(long, default_value_t = 0)]
    sleep_ms: u64,

    /// Calls that may wait for a worker then.
    #[arg(long, default_value_t = 50)]
    queue_length: usize,
}

impl Serve {
    pub(crate) fn run(self) -> Result<()> {
        raise_descriptor_limit();
        let begun_late = Arc::new(AtomicU64::new(0));
        let server = if self.sleep_ms > 0 {
            self.start_sleeper(&begun_late)?
        } else {
            let (reactors, workers) = (self.reactors, self.workers);
            service::start(&service::Options { reactors, workers, unix: self.uds, queued: false })?
        };
        let address = server.bound_addresses().first().context("no address")?;
        println!("{}", address.to_string().trim_start_matches("unix:"));
        for line in std::io::stdin().lines() {
            line?;
            println!("{}", begun_late.load(Ordering::SeqCst));
        }
        server.shutdown();
        Ok(())
    }

    fn start_sleeper(&self, begun_late: &Arc<AtomicU64>) -> Result<Server> {
        let (begun_late, time) = (Arc::clone(begun_late), Duration::from_millis(self.sleep_ms));
        let service = Service::builder(SERVICE).threads(self.workers).queue_length(self.queue_length);
        let service = service.method::<Add>(move |call: Call<Add>| {
            if call.time_left(Instant::now()).is_some_and(|left| left.is_zero()) {
                begun_late.fetch_add(1, Ordering::SeqCst);
            }
            std::thread::sleep(time);
            let result = call.request().x.wrapping_add(call.request().y);
            call.respond(&AddResponsePb { result });
        });
        let server = Server::builder().name("bench").reactors(self.reactors).service(service.build());
        let server = server.bind("127.0.0.1:0".parse()?).start()?;
        server.ready();
        Ok(server)
    }
}

/// A server that runs.
pub(super) struct ServerProcess {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pub(super) address: SockAddr,
}

impl ServerProcess {
    /// Starts one with these arguments of [`Serve`].
    pub(super) fn start(arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "serve"]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("the server's process")?;
        let input = child.stdin.take();
        let output = child.stdout.take().map(BufReader::new).context("no pipe")?;
        let mut server = Self { child, input, output, address: SockAddr::UnixUnnamed };
        let line = server.line()?;
        server.address = SockAddr::parse(line.trim(), 0).with_context(|| format!("an address: {line}"))?;
        Ok(server)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How many calls it has begun after their deadline.
    pub(super) fn begun_late(&mut self) -> Result<u64> {
        self.input.as_mut().context("the server has no input")?.write_all(b"\n")?;
        Ok(self.line()?.trim().parse()?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the server's process ended: {}", self.child.wait()?);
        }
        Ok(line)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends by itself; if it cannot be waited for, nobody can do anything about it.
        let _ = self.child.wait();
    }
}

/// As many descriptors as the system lets this process have; how many that are.
pub(super) fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // Without the right to it, the old limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
