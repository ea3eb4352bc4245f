//! One side of a comparison: one master and one tablet server, ours or the real ones, as processes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use client::{Client, FlushMode, Table};
use mini_cluster::MiniCluster;
use xtask::measure;
use xtask::report::progress;

use super::shape::Shape;
use crate::interop::Kit;

/// Whose servers, and how they are started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start<'a> {
    /// The kit of real ones; ours without.
    pub(super) kit: Option<&'a Kit>,
    pub(super) tserver_flags: &'a [String],
}

/// A cluster that is up.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) name: &'static str,
    cluster: MiniCluster,
    pub(super) tserver: u32,
}

impl Side {
    pub(super) fn start(how: Start<'_>) -> Result<Side> {
        let (name, programs) = match how.kit {
            None => ("ours", crate::cluster::build_servers()?),
            Some(kit) => ("kudu", kit.programs()),
        };
        let mut builder = MiniCluster::builder().binaries(programs);
        for flag in how.tserver_flags {
            builder = builder.tserver_flag(flag);
        }
        let cluster = builder.start_blocking().with_context(|| format!("the servers of {name}"))?;
        let tserver = cluster.tservers().first().and_then(|tserver| tserver.process_id);
        Ok(Side { name, tserver: tserver.context("the tablet server has no process")?, cluster })
    }

    pub(super) fn master(&self) -> String {
        self.cluster.master_address()
    }

    pub(super) fn stop(self) -> Result<()> {
        Ok(self.cluster.shutdown()?)
    }

    /// CPU time that the tablet server has had.
    pub(super) fn cpu(&self) -> Result<Duration> {
        Ok(measure::cpu_time(self.tserver)?)
    }

    /// Returns once the tablet server does next to nothing, as real ones go on writing to disk after a load.
    pub(super) fn settle(&self) -> Result<()> {
        let end = Instant::now() + LONGEST_SETTLING;
        let mut before = self.cpu()?;
        while Instant::now() < end {
            std::thread::sleep(Duration::from_secs(1));
            let now = self.cpu()?;
            if now.saturating_sub(before) < Duration::from_millis(10) {
                return Ok(());
            }
            before = now;
        }
        bail!("the tablet server of {} was still busy {LONGEST_SETTLING:?} after its load", self.name)
    }

    /// A client that reaches the tablet server one way; over unix sockets, perhaps with shared memory.
    pub(super) async fn client(&self, unix: bool, shared: bool) -> Result<Client> {
        let client = Client::builder(self.master()).use_unix_domain_sockets(unix).share_memory(shared);
        Ok(client.connect().await?)
    }
}

/// A table to be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    pub(super) shape: Shape,
    pub(super) count: u64,
    pub(super) tablets: u32,
}

impl Rows {
    /// Those of `kudu perf loadgen`, in as many tablets.
    pub(super) fn of_loadgen(count: u64) -> Self {
        Self { shape: Shape::Loadgen, count, tablets: TABLETS }
    }
}

/// Makes a table and fills it.
pub(super) async fn load(client: &Client, rows: Rows) -> Result<Table> {
    let Rows { shape, count: rows, tablets } = rows;
    let mut table = client.create_table(TABLE, shape.schema()?).replicas(1);
    if tablets > 1 {
        table = table.hash_partition(&["key"], tablets);
    }
    let table = table.create().await?;
    let session = client.session().mode(FlushMode::AutoBackground).build();
    let bar = progress(rows, "loading");
    for row in 0..rows {
        let mut insert = table.insert();
        shape.fill(row, rows, insert.row_mut())?;
        session.apply(insert).await?;
        if row % 100_000 == 0 {
            bar.set_position(row);
        }
    }
    session.flush().await?;
    bar.finish_and_clear();
    Ok(table)
}

/// Takes the real `kudu` command line; its time is the CPU time of the process, to 10 ms.
pub(super) fn kudu(kit: &Kit, arguments: &[String]) -> Result<(String, Duration)> {
    let before = measure::children_cpu_time()?;
    let said = crate::step::capture(kit.kudu().args(arguments))?;
    Ok((said, measure::children_cpu_time()?.saturating_sub(before)))
}

/// Bytes of all files in a folder, however deep.
pub(super) fn bytes_below(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        bytes += if about.is_dir() { bytes_below(&entry.path())? } else { about.len() };
    }
    Ok(bytes)
}

/// A folder of this process that goes with the value.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Result<Folder> {
        let path = std::env::temp_dir().join(format!("nyala-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Folder(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) const TABLE: &str = "bench";
pub(super) const TABLETS: u32 = 2;
const LONGEST_SETTLING: Duration = Duration::from_secs(120);
