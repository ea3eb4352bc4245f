//! `cargo xtask bench`: what is measured, each figure from several samples.

mod insert;
mod rpc;
mod scan;
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
    /// What a scanned row costs client and server, ours beside Kudu's.
    Scan(scan::Scan),
    /// What an inserted row costs the server, and its memory, ours beside Kudu's.
    Insert(insert::Insert),
}

impl Bench {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Bench::Start(command) => command.run(),
            Bench::Rpc(command) => command.run(),
            Bench::Scan(command) => command.run(),
            Bench::Insert(command) => command.run(),
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
