//! `nyala`: clusters and tables from the command line.
#![forbid(unsafe_code)]

/// A line on standard output; the function ends with the error if nobody reads any more.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        writeln!(std::io::stdout(), $($text)*)?
    }};
}

mod bench;
mod cluster;
mod table;

use anyhow::Result;
use clap::{Parser, Subcommand};
use cli::interrupt::{Interrupt, Interrupted};
use client::Client;

/// Clusters and tables, of Nyala and of Apache Kudu.
#[derive(Parser)]
#[command(name = "nyala", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a cluster, stop one, or look at one.
    #[command(subcommand)]
    Cluster(cluster::Cluster),
    /// List, make, change, fill and read tables.
    #[command(subcommand)]
    Table(table::Table),
    Bench(bench::Bench),
}

/// Which cluster, and how to print.
#[derive(clap::Args)]
struct Target {
    /// The masters of the cluster: host:port, several with commas.
    #[arg(long, short, env = "NYALA_MASTER", default_value = "127.0.0.1:7051")]
    master: String,
    /// Print JSON for a machine, one value or one object a line.
    #[arg(long)]
    json: bool,
}

impl Target {
    async fn connect(&self) -> Result<Client> {
        Ok(Client::connect(self.master.as_str()).await?)
    }
}

fn main() -> std::process::ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        // Who reads has seen enough: `nyala table scan t | head`.
        Err(error) if is_closed_pipe(&error) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nyala: {}", whole(&error));
            let interrupted = error.is::<Interrupted>();
            if interrupted { INTERRUPTED.into() } else { std::process::ExitCode::FAILURE }
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match arguments.command {
        Command::Cluster(command) => command.run(&runtime),
        Command::Table(command) => {
            let interrupt = Interrupt::install()?;
            runtime.block_on(command.run(&interrupt))
        }
        Command::Bench(command) => command.run(&runtime),
    }
}

/// What shells say of a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

/// The error and its causes, each once: many say themselves what caused them.
fn whole(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        said if said.contains(&cause) => text,
        said => format!("{said}: {cause}"),
    })
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let is = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(is)
            || cause
                .downcast_ref::<csv::Error>()
                .is_some_and(|error| matches!(error.kind(), csv::ErrorKind::Io(error) if is(error)))
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn each_cause_is_told_once() {
        let error =
            anyhow::Error::msg("no such disk").context("cannot open a: no such disk").context("loading");
        assert_eq!(whole(&error), "loading: cannot open a: no such disk");
        let plain = Err::<(), _>(std::io::Error::other("full")).context("a.csv").unwrap_err();
        assert_eq!(whole(&plain), "a.csv: full");
    }
}
