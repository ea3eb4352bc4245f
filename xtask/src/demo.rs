//! `cargo xtask demo`: a cluster, real rows, and the same scan over TCP and over the unix socket.

mod load;
mod run;
mod summary;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mini_cluster::MiniCluster;
use xtask::report;
use xtask::rows::CsvTable;

use crate::step;

/// Options of the demo.
#[derive(clap::Args)]
pub(crate) struct Demo {
    /// Load this CSV file (plain or .gz; empty and NA are null) in place of the excerpt in testdata/.
    #[arg(long, value_name = "FILE", requires = "key")]
    csv: Option<PathBuf>,
    /// The primary key's columns, in order.
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    key: Vec<String>,
    /// Name of the table; the file's name when not said.
    #[arg(long)]
    table: Option<String>,
    /// How many tablet servers.
    #[arg(long, default_value_t = 3)]
    tservers: usize,
    /// Stop at the first row that cannot be loaded, in place of counting and leaving it out.
    #[arg(long)]
    strict: bool,
}

const EXCERPT: &str = "testdata/flights.csv";
const EXCERPT_KEY: [&str; 3] = ["time_hour", "carrier", "flight"];

impl Demo {
    pub(crate) fn run(self) -> Result<()> {
        let path = self.csv.clone().unwrap_or_else(|| step::root().join(EXCERPT));
        let key = if self.csv.is_some() { self.key.clone() } else { EXCERPT_KEY.map(String::from).to_vec() };
        let csv = CsvTable::inspect(&path, &key)?;
        let binaries = crate::cluster::build_servers()?;
        let started = std::time::Instant::now();
        let cluster = MiniCluster::builder()
            .tservers(self.tservers)
            .binaries(binaries)
            .start_blocking()
            .context("the cluster did not start")?;
        println!(
            "Cluster of one master ({}) and {} tablet servers, ready after {:.0} ms.",
            cluster.master_address(),
            self.tservers,
            started.elapsed().as_secs_f64() * 1000.0
        );
        let table = self.table.unwrap_or_else(|| table_name(&path));
        let outcome = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(run::run(&cluster, &table, &csv, !self.strict))?;
        print_outcome(&table, &outcome);
        cluster.shutdown().context("the cluster did not stop in an orderly way")?;
        outcome.verdict()
    }
}

fn table_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').next().filter(|name| !name.is_empty()).unwrap_or("rows").to_owned()
}

fn print_outcome(table: &str, outcome: &run::Outcome) {
    let headers = ["column", "type", "nulls", "least", "greatest", "more"];
    println!("\nWhat the table {table} holds, by the scan:\n");
    println!("{}", report::table(&headers, &outcome.scanned.table()));
    if outcome.bad.count() > 0 {
        println!("\n{} rows were left out; the first ones:", report::thousands(outcome.bad.count()));
        outcome.bad.first().iter().for_each(|row| println!("  {row}"));
    }
    let headers = ["way", "rows", "seconds", "rows/s", "client CPU s", "server CPU s"];
    println!("\nThe load, and the median of {} scans of all columns over each way:\n", run::SCANS);
    println!("{}", report::table(&headers, &outcome.rows()));
}
