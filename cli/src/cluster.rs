//! `nyala cluster`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Subcommand;
use cli::interrupt::Interrupt;
use cli::run_file::{self, RunFile};
use cli::{report, servers};
use mini_cluster::MiniCluster;
use serde_json::json;

use crate::Target;

#[derive(Subcommand)]
pub(crate) enum Cluster {
    /// Run a cluster in this process until Ctrl-C.
    Start {
        /// How many tablet servers.
        #[arg(long, default_value_t = 3)]
        tservers: usize,
        /// The master's port on 127.0.0.1; 0 takes a free one.
        #[arg(long, default_value_t = 7051)]
        port: u16,
        /// Keep everything in this folder: it is there again when a cluster is started on it.
        #[arg(long)]
        data_dir: Option<PathBuf>,
        /// Print JSON for a machine.
        #[arg(long)]
        json: bool,
    },
    /// Stop a cluster that `cluster start` runs elsewhere, and wait until it has ended.
    Stop {
        /// The master of the cluster: host:port. Not needed if only one cluster runs.
        #[arg(long, short, env = "NYALA_MASTER")]
        master: Option<String>,
        /// Stop the cluster that keeps everything in this folder, whatever its master's port.
        #[arg(long, conflicts_with = "master")]
        data_dir: Option<PathBuf>,
        /// How many seconds it may take.
        #[arg(long, default_value_t = 60)]
        timeout: u64,
        /// Print JSON for a machine.
        #[arg(long)]
        json: bool,
    },
    /// Which servers a cluster has, and whether they live.
    Status {
        #[command(flatten)]
        target: Target,
    },
}

impl Cluster {
    pub(crate) fn run(self, runtime: &tokio::runtime::Runtime) -> Result<()> {
        match self {
            Cluster::Start { tservers, port, data_dir, json } => start(tservers, port, data_dir, json),
            Cluster::Stop { master, data_dir, timeout, json } => {
                stop(master.as_deref(), data_dir.as_deref(), Duration::from_secs(timeout), json)
            }
            Cluster::Status { target } => runtime.block_on(status(&target)),
        }
    }
}

fn start(tservers: usize, port: u16, data_dir: Option<PathBuf>, as_json: bool) -> Result<()> {
    let interrupt = Interrupt::install()?;
    let begin = Instant::now();
    let mut builder = MiniCluster::builder().tservers(tservers).port(port);
    if let Some(folder) = &data_dir {
        builder = builder.data_dir(folder);
    }
    let cluster = builder.start_blocking()?;
    let master = cluster.master_address();
    let folder = data_dir.as_deref().map(std::path::absolute).transpose()?;
    // A cluster that cannot be noted is a cluster all the same: only `cluster stop` does not find it.
    let _run = match RunFile::write(&master, folder.as_deref()) {
        Ok(run) => Some(run),
        Err(error) => {
            eprintln!(
                "nyala: `nyala cluster stop` will not find this cluster: {:#}",
                anyhow::Error::from(error)
            );
            None
        }
    };
    if as_json {
        let servers = cluster.tservers();
        let servers: Vec<_> = servers
            .iter()
            .map(|t| json!({"uuid": t.uuid, "address": t.address, "unix_path": t.unix_path}))
            .collect();
        say!("{}", json!({"master": master, "tservers": servers}));
    } else {
        say!("{}", servers::table(&cluster));
        let kept = match &data_dir {
            Some(folder) => format!("Everything is kept in {}.", folder.display()),
            None => "Rows live until the servers stop.".to_owned(),
        };
        say!(
            "\nReady in {} ms. {kept} Ctrl-C or `nyala cluster stop` stops it.",
            begin.elapsed().as_millis()
        );
        say!("Try: nyala table list --master {master}");
    }
    while !interrupt.is_set() {
        std::thread::sleep(Duration::from_millis(50));
    }
    cluster.shutdown()?;
    Ok(())
}

fn stop(master: Option<&str>, data_dir: Option<&Path>, patience: Duration, as_json: bool) -> Result<()> {
    let data_dir = data_dir.map(std::path::absolute).transpose()?;
    let mut clusters = run_file::running()?;
    let wanted = match (&data_dir, master) {
        (Some(folder), _) => clusters.iter().position(|cluster| cluster.data_dir.as_ref() == Some(folder)),
        (None, Some(master)) => clusters.iter().position(|cluster| cluster.master == master),
        (None, None) => (clusters.len() == 1).then_some(0),
    };
    let Some(wanted) = wanted else {
        let others: Vec<&str> = clusters.iter().map(|cluster| cluster.master.as_str()).collect();
        let place = data_dir.map(|folder| folder.display().to_string()).or(master.map(str::to_owned));
        match (place, others.as_slice()) {
            (Some(place), []) => bail!("no cluster runs at {place} that `nyala cluster start` has started"),
            (Some(place), others) => {
                bail!("no cluster runs at {place}; there is one at {}", others.join(" and "))
            }
            (None, []) => bail!("no cluster runs that `nyala cluster start` has started"),
            (None, others) => {
                bail!("{} clusters run; say which to stop: --master {}", others.len(), others.join(" or "))
            }
        }
    };
    let cluster = clusters.swap_remove(wanted);
    let (master, pid) = (cluster.master.clone(), cluster.pid);
    cluster.stop(patience)?;
    match as_json {
        true => say!("{}", json!({"stopped": master, "pid": pid})),
        false => say!("The cluster of {master}, process {pid}, has stopped."),
    }
    Ok(())
}

async fn status(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    let (servers, tables) = (client.list_tablet_servers().await?, client.list_tables("").await?);
    if target.json {
        let servers: Vec<_> = servers
            .iter()
            .map(|t| {
                json!({
                    "uuid": t.uuid,
                    "addresses": t.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
                    "unix_path": t.unix_path,
                    "ms_since_heartbeat": t.since_heartbeat.as_millis() as u64,
                })
            })
            .collect();
        say!("{}", json!({"cluster_id": client.cluster_id(), "tservers": servers, "tables": tables.len()}));
        return Ok(());
    }
    let row = |t: &client::TabletServerInfo| {
        vec![
            t.uuid.clone(),
            t.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
            t.unix_path.clone().unwrap_or_default(),
            format!("{:.1} s ago", t.since_heartbeat.as_secs_f64()),
        ]
    };
    let rows: Vec<_> = servers.iter().map(row).collect();
    say!("{}", report::table(&["tablet server", "address", "unix socket", "heard"], &rows));
    say!("\ncluster {}, {} tables", client.cluster_id().unwrap_or_default(), tables.len());
    Ok(())
}
