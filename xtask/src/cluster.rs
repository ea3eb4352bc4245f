//! `cargo xtask cluster`: our servers as child processes, until Ctrl-C.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cli::servers;
use mini_cluster::MiniCluster;
use xtask::interrupt::Interrupt;
use xtask::measure;

use crate::step;

/// Runs a cluster on 127.0.0.1 until Ctrl-C.
#[derive(clap::Args)]
pub(crate) struct Cluster {
    /// How many tablet servers.
    #[arg(long, default_value_t = 3)]
    tservers: usize,

    /// The master's port; 0 takes a free one.
    #[arg(long, default_value_t = 7051)]
    port: u16,

    /// Keep everything in this folder: tables and rows are there again when a cluster is started on it.
    #[arg(long)]
    data_dir: Option<PathBuf>,
}

impl Cluster {
    pub(crate) fn run(self) -> Result<()> {
        let interrupt = Interrupt::install()?;
        let programs = build_servers()?;
        let start = Instant::now();
        let mut builder = MiniCluster::builder().binaries(programs).tservers(self.tservers).port(self.port);
        if let Some(folder) = &self.data_dir {
            builder = builder.data_dir(folder);
        }
        let cluster = builder.start_blocking()?;
        println!("ready in {} ms\n\n{}", start.elapsed().as_millis(), describe(&cluster));
        match &self.data_dir {
            Some(folder) => {
                println!("\nEverything is kept in {}. Ctrl-C stops the servers.", folder.display())
            }
            None => println!("\nRows live until the servers stop. Ctrl-C stops them."),
        }
        while !interrupt.is_set() {
            if let Some(pid) = cluster.process_ids().into_iter().find(|&pid| !measure::is_running(pid)) {
                bail!("the server with process id {pid} has ended by itself");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        println!("stopping");
        // The servers may have had the same signal from the terminal; then they are on their way already.
        cluster.shutdown()?;
        Ok(())
    }
}

/// The folder with the two servers, which are built if this program is a release build; else they were built with it.
pub(crate) fn build_servers() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().context("no target folder")?;
    if cfg!(not(debug_assertions)) {
        // With this program, so that their features are the same and no library is compiled a second time.
        let packages = ["-p", "xtask", "-p", "master", "-p", "tserver"];
        step::run(step::cargo(&["build", "--release", "--quiet"]).args(packages))?;
    }
    Ok(folder.to_owned())
}

/// The addresses and sockets of a cluster, and a command to try it by.
fn describe(cluster: &MiniCluster) -> String {
    let master = cluster.master_address();
    let servers = servers::table(cluster);
    format!(
        "{servers}\n\nkudu perf loadgen {master} --keep_auto_table \
         --client_use_unix_domain_sockets=true --unlock_experimental_flags"
    )
}
