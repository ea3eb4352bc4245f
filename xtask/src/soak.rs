//! `cargo xtask soak`: servers under load for minutes, killed again and again.

mod kills;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use mini_cluster::MiniCluster;
use xtask::interrupt::Interrupt;

use crate::cluster::build_servers;
use kills::{Done, Plan};

/// Loads a cluster, kills its servers with SIGKILL, and checks that what was acknowledged is there.
#[derive(clap::Args)]
pub(crate) struct Soak {
    /// How long.
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,

    /// Kill servers. The only kind of soak so far.
    #[arg(long)]
    kill: bool,

    /// How many tablet servers.
    #[arg(long, default_value_t = 2)]
    tservers: usize,

    /// Kill so often, however long it takes, in place of --minutes.
    #[arg(long)]
    kills: Option<u32>,
}

impl Soak {
    pub(crate) fn run(self) -> Result<()> {
        if !self.kill {
            bail!("say --kill: there is no other kind of soak yet");
        }
        let interrupt = Interrupt::install()?;
        let programs = build_servers()?;
        let folder = std::env::temp_dir().join(format!("nyala-soak-{}", std::process::id()));
        let mut cluster = MiniCluster::builder()
            .binaries(programs)
            .data_dir(&folder)
            .tservers(self.tservers)
            .tserver_flag("--log_force_fsync_all")
            // Flushes and compactions all the time.
            .tserver_flag("--flush_threshold_secs=0")
            .tserver_flag("--maintenance_manager_polling_interval_ms=20")
            .master_flag("--log_force_fsync_all")
            .start_blocking()?;
        let start = Instant::now();
        let longest = Duration::try_from_secs_f64(self.minutes * 60.0).context("--minutes")?;
        let mut next_word = WORDS_EVERY;
        let done = kills::run(&mut cluster, PLAN, |done| {
            if start.elapsed() >= next_word {
                next_word = start.elapsed() + WORDS_EVERY;
                println!("{}", sentence(done, start.elapsed()));
            }
            let killed = done.tserver_kills + done.master_kills;
            interrupt.is_set() || self.kills.map_or(start.elapsed() >= longest, |kills| killed >= kills)
        });
        // Kept if something is wrong.
        let done = done.map_err(|error| failed(&error, &folder))?;
        cluster.shutdown()?;
        std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        println!("{}: nothing lost", sentence(&done, start.elapsed()));
        Ok(())
    }
}

fn failed(error: &kills::Error, folder: &Path) -> anyhow::Error {
    anyhow!("{error}\nthe servers' files are kept in {}", folder.display())
}

fn sentence(done: &Done, elapsed: Duration) -> String {
    format!(
        "soak: {} s, {} tablet server kills, {} master kills; {} operations acknowledged, {} not told; {} checks compared {} \
         rows and read {} snapshots again; {} tables made or dropped",
        elapsed.as_secs(),
        done.tserver_kills,
        done.master_kills,
        done.acknowledged,
        done.unsure,
        done.checks,
        done.rows_compared,
        done.snapshots,
        done.table_changes,
    )
}

const PLAN: Plan = Plan {
    writers: 2,
    kills_a_check: 5,
    longest_life: Duration::from_millis(150),
    operations_a_table: 100_000,
    rows_a_batch: 50,
};
const WORDS_EVERY: Duration = Duration::from_secs(30);
