//! How soon a cluster in one process has its first table, and what it takes when idle.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use client::Client;
use client::schema::{Column, DataType, Schema};
use mini_cluster::MiniCluster;
use xtask::figures::Figures;
use xtask::measure;

/// Starts 1 master and 3 tablet servers in one process and creates a table, in a fresh process for each sample.
#[derive(clap::Args)]
pub(crate) struct Start {
    /// How many samples.
    #[arg(long, default_value_t = 10)]
    samples: u32,

    /// Write the figures to FILE.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Take one sample in this process and print it.
    #[arg(long, hide = true)]
    once: bool,
}

impl Start {
    pub(crate) fn run(self) -> Result<()> {
        if self.once {
            let (milliseconds, mebibytes) = sample()?;
            println!("{milliseconds} {mebibytes}");
            return Ok(());
        }
        let mut times = Vec::new();
        let mut sizes = Vec::new();
        for _ in 0..self.samples.max(1) {
            let mut again = Command::new(std::env::current_exe()?);
            let line = crate::step::capture(again.args(["bench", "start", "--once"]))?;
            let (time, size) = line.trim().split_once(' ').context("a sample is two numbers")?;
            times.push(time.parse()?);
            sizes.push(size.parse()?);
        }
        let mut figures = Figures::default();
        figures.add("start_to_first_table_ms", "ms", &times);
        figures.add("idle_rss_mib", "MiB", &sizes);
        super::publish(&figures, self.json.as_ref())
    }
}

/// Milliseconds to the first table, and mebibytes (RssAnon + RssShmem) one second after it.
fn sample() -> Result<(f64, f64)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let start = Instant::now();
    let cluster = MiniCluster::builder().tservers(3).start_blocking()?;
    let client = runtime.block_on(async {
        let client = Client::connect(cluster.master_address()).await?;
        let columns = vec![Column::new("id", DataType::Int64), Column::new("text", DataType::String)];
        let schema = Schema::new(columns, 1)?;
        client.create_table("first", schema).hash_partition(&["id"], 3).replicas(1).create().await?;
        anyhow::Ok(client)
    })?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    std::thread::sleep(Duration::from_secs(1));
    let mebibytes = measure::resident_bytes(std::process::id())? as f64 / f64::from(1 << 20);
    drop(client);
    cluster.shutdown()?;
    Ok((milliseconds, mebibytes))
}
