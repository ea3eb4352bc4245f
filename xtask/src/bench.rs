//! `cargo xtask bench`: what is measured, each figure from several samples.

mod balance;
mod connections;
mod growth;
mod insert;
mod overload;
mod payload;
mod peak;
mod peers;
mod restart;
pub(crate) mod rpc;
mod scan;
mod serve;
mod shape;
mod side;
mod start;

use std::path::PathBuf;

use anyhow::{Context, Result};
use xtask::figures::Figures;
use xtask::report;

/// Measures Nyala.
#[derive(clap::Subcommand)]
pub(crate) enum Bench {
    /// From nothing to the first table of a cluster in one process, and the memory it takes when idle.
    Start(start::Start),
    /// The RPC stack against Kudu's rpc-bench, or any Kudu server under the same load.
    Rpc(rpc::Rpc),
    /// How evenly connections fall on reactors.
    Balance(balance::Balance),
    /// What an idle connection costs, and what making one does.
    Connections(connections::Connections),
    /// More calls than a server can run.
    Overload(overload::Overload),
    /// Calls that carry kilobytes and megabytes.
    Payload(payload::Payload),
    /// What the other benchmarks start in a process of its own.
    #[command(hide = true)]
    Serve(serve::Serve),
    /// What a scanned row costs client and server, ours beside Kudu's.
    Scan(scan::Scan),
    /// What an inserted row costs the server, and its memory, ours beside Kudu's.
    Insert(insert::Insert),
    /// How the cost of a row grows with the number of rows, and with that of tablets.
    Growth(growth::Growth),
    /// How soon a tablet server that was killed serves its rows again.
    Restart(restart::Restart),
}

impl Bench {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Bench::Start(command) => command.run(),
            Bench::Rpc(command) => command.run(),
            Bench::Balance(command) => command.run(),
            Bench::Connections(command) => command.run(),
            Bench::Overload(command) => command.run(),
            Bench::Payload(command) => command.run(),
            Bench::Serve(command) => command.run(),
            Bench::Scan(command) => command.run(),
            Bench::Insert(command) => command.run(),
            Bench::Growth(command) => command.run(),
            Bench::Restart(command) => command.run(),
        }
    }
}

/// Prints the figures as a table, and writes them to a file if one is named.
fn publish(figures: &Figures, json: Option<&PathBuf>) -> Result<()> {
    println!("{}", report::table(&["figure", "median", "min", "max", "unit"], &figures.rows()));
    if let Some(path) = json {
        figures.write(path).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
