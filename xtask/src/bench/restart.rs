//! `cargo xtask bench restart`: how long a tablet server takes to serve again what it has on disk.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use client::Client;
use mini_cluster::MiniCluster;
use net_addr::HostPort;
use proto::kudu::tablet::TabletStatePb;
use proto::kudu::tserver::ListTabletsRequestPb;
use proto::methods::tablet_server_service::ListTablets;
use rpc_core::{Messenger, Proxy};
use xtask::figures::Figures;
use xtask::measure;
use xtask::report::thousands;

use super::side;

/// Loads the rows of `kudu perf loadgen` into two tablets, kills the tablet server and starts it again.
#[derive(clap::Args)]
pub(crate) struct Restart {
    /// Rows to load; 17,000,000 are about 1 GiB of log.
    #[arg(long, default_value_t = 17_000_000)]
    rows: u64,

    /// How often the server is killed.
    #[arg(long, default_value_t = 3)]
    rounds: u32,

    /// Kill it when all rows are in files, in place of in the log.
    #[arg(long)]
    flushed: bool,

    /// Write the figures to FILE.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Restart {
    pub(crate) fn run(self) -> Result<()> {
        let programs = crate::cluster::build_servers()?;
        let folder = std::env::temp_dir().join(format!("nyala-restart-{}", std::process::id()));
        let done = self.measure(&folder, programs);
        // What cannot be removed stays in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&folder);
        super::publish(&done?, self.json.as_ref())
    }

    fn measure(&self, folder: &Path, programs: PathBuf) -> Result<Figures> {
        let builder = MiniCluster::builder().binaries(programs).data_dir(folder).start_timeout(LONGEST);
        // Or as late as never.
        let seconds = if self.flushed { 1 } else { 100_000 };
        let builder = builder.tserver_flag(format!("--flush_threshold_secs={seconds}"));
        let mut cluster = builder.tserver_flag("--log_target_replay_size_mb=100000").start_blocking()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let client = Client::connect(cluster.master_address()).await?;
            side::load(&client, side::Rows::of_loadgen(self.rows)).await
        })?;
        let end = Instant::now() + LONGEST;
        if self.flushed {
            // The last segment of a log stays, whatever is in files.
            while logs(folder)? > side::TABLETS as usize {
                ensure!(Instant::now() < end, "the rows are not in files after {LONGEST:?}");
                std::thread::sleep(Duration::from_millis(100));
            }
            // The rows of that segment are flushed a second after the last write.
            std::thread::sleep(Duration::from_secs(5));
        }
        let bytes = side::bytes_below(folder)? as f64;
        println!("{} rows, {} bytes on disk", thousands(self.rows), thousands(bytes as u64));
        let (mut seconds, mut cpu) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds.max(1) {
            cluster.kill_tserver(0)?;
            let start = Instant::now();
            cluster.start_tserver(0)?;
            let tserver = cluster.tservers().into_iter().next().context("the tablet server is gone")?;
            runtime.block_on(running(&tserver.address))?;
            seconds.push(start.elapsed().as_secs_f64());
            let process = tserver.process_id.context("the tablet server has no process")?;
            cpu.push(measure::whole_cpu_time(process)?.as_secs_f64());
        }
        let live = runtime.block_on(async {
            let client = Client::connect(cluster.master_address()).await?;
            let table = client.open_table(side::TABLE).await?;
            anyhow::Ok(table.scan().project(&[]).start()?.count().await?)
        })?;
        ensure!(live == self.rows, "{live} rows are there after the restarts, not {}", self.rows);
        cluster.shutdown()?;
        let mut figures = Figures::default();
        figures.add("restart_seconds", "s", &seconds);
        figures.add("restart_cpu_seconds", "s", &cpu);
        figures.add("on_disk_mib", "MiB", &[bytes / f64::from(1 << 20)]);
        let speeds: Vec<f64> = seconds.iter().map(|seconds| bytes / 1e6 / seconds).collect();
        figures.add("restart_mb_per_second", "MB/s", &speeds);
        Ok(figures)
    }
}

/// Returns once all tablets of the server run.
async fn running(tserver: &str) -> Result<()> {
    let host: HostPort = tserver.parse()?;
    let messenger = Messenger::builder().build();
    let proxy = Proxy::new(&messenger, host.as_ip().context("no numeric address")?, &host.host);
    let end = Instant::now() + LONGEST;
    while Instant::now() < end {
        let request = ListTabletsRequestPb { need_schema_info: Some(false) };
        let answer = proxy.call::<ListTablets>(&request).timeout(LONGEST).send().await?.message;
        let running = i32::from(TabletStatePb::Running);
        let all = answer.status_and_schema;
        if all.len() == side::TABLETS as usize
            && all.iter().all(|one| one.tablet_status.state == Some(running))
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    bail!("the tablets did not all run after {LONGEST:?}")
}

/// Segments of the tablets' logs.
fn logs(folder: &Path) -> Result<usize> {
    let mut segments = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, about) = (entry.path(), entry.metadata()?);
        if about.is_dir() {
            segments += logs(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "log")
            && path.components().any(|part| part.as_os_str() == "tablets")
        {
            segments += 1;
        }
    }
    Ok(segments)
}

const LONGEST: Duration = Duration::from_secs(300);
