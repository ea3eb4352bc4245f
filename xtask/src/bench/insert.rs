//! `cargo xtask bench insert`: what the rows of the real `kudu perf loadgen` cost a tablet server, ours beside Kudu's.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use xtask::figures::Figures;
use xtask::measure;
use xtask::report::thousands;

use super::peak::Peak;
use super::side::{self, Folder, Side, Start};
use crate::interop::Kit;
use crate::step;

/// Loads rows by the real `kudu perf loadgen` (2 threads, 2 tablets) into fresh servers.
#[derive(clap::Args)]
pub(crate) struct Insert {
    /// Rows to insert.
    #[arg(long, default_value_t = 4_000_000)]
    rows: u64,

    /// Load the real servers in turns with ours.
    #[arg(long)]
    versus_kudu: bool,

    /// Rounds; each side is loaded once a round.
    #[arg(long, default_value_t = 3)]
    rounds: u32,

    /// Have both sides force the log to disk before they answer.
    #[arg(long)]
    fsync: bool,

    /// Over unix sockets in place of TCP.
    #[arg(long)]
    uds: bool,

    /// Write the figures to FILE.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One load.
#[derive(Debug, Clone, Copy)]
struct Load {
    server_ns: f64,
    client_ns: f64,
    seconds: f64,
    peak_mib: f64,
    /// Bytes that the server has written into its folder when the load ends, the log among them.
    written: u64,
}

impl Insert {
    pub(crate) fn run(self) -> Result<()> {
        let kit = Kit::bring(&step::root())?;
        let mut loads: [Vec<Load>; 2] = Default::default();
        for round in 0..self.rounds.max(1) {
            for (index, loads) in loads.iter_mut().enumerate().take(if self.versus_kudu { 2 } else { 1 }) {
                let load = self.load(&kit, (index == 1).then_some(&kit))?;
                println!(
                    "round {}, {}: {:.0} ns a row, {:.0} MiB, {:.1} s, {} bytes on disk",
                    round + 1,
                    NAMES[index],
                    load.server_ns,
                    load.peak_mib,
                    load.seconds,
                    thousands(load.written)
                );
                loads.push(load);
            }
        }
        println!("\n{} rows; --log_force_fsync_all={} on both sides", thousands(self.rows), self.fsync);
        let [ours, theirs] = &loads;
        for (name, loads) in NAMES.iter().zip([ours, theirs]) {
            let Some(load) = loads.first() else { continue };
            let log = if load.written > self.rows { "on" } else { "OFF: it wrote nothing" };
            println!("{name}: log {log}");
        }
        println!();
        super::publish(&figures(ours, theirs), self.json.as_ref())
    }

    fn load(&self, kit: &Kit, servers: Option<&Kit>) -> Result<Load> {
        let folder = Folder::new()?;
        let mut flags = vec![format!("--log_force_fsync_all={}", self.fsync)];
        let data = folder.path().join("data");
        flags.extend(["--fs_wal_dir", "--fs_data_dirs"].map(|flag| format!("{flag}={}", data.display())));
        let side = Side::start(Start { kit: servers, tserver_flags: &flags })?;
        let mut arguments = ["perf", "loadgen"].map(str::to_owned).to_vec();
        arguments.extend([side.master(), "--keep_auto_table".into(), "--num_threads=2".into()]);
        arguments.push(format!("--num_rows_per_thread={}", self.rows / 2));
        arguments.push(format!("--table_num_hash_partitions={}", side::TABLETS));
        arguments.push("--table_num_range_partitions=1".into());
        if self.uds {
            let unix = ["--client_use_unix_domain_sockets=true", "--unlock_experimental_flags"];
            arguments.extend(unix.map(str::to_owned));
        }
        let before = measure::whole_cpu_time(side.tserver)?;
        let peak = Peak::watch(side.tserver);
        let start = Instant::now();
        let (said, client) = side::kudu(kit, &arguments)?;
        let seconds = start.elapsed().as_secs_f64();
        let server = measure::whole_cpu_time(side.tserver)?.saturating_sub(before);
        let peak = peak.stop()?;
        ensure!(said.contains("INSERT report") && !said.contains("ERROR"), "loadgen said: {said}");
        let written = if data.exists() { side::bytes_below(&data)? } else { 0 };
        side.stop()?;
        let rows = self.rows as f64;
        Ok(Load {
            server_ns: server.as_nanos() as f64 / rows,
            client_ns: client.as_nanos() as f64 / rows,
            seconds,
            peak_mib: peak as f64 / f64::from(1 << 20),
            written,
        })
    }
}

fn figures(ours: &[Load], theirs: &[Load]) -> Figures {
    let mut figures = Figures::default();
    for (loads, whose) in [(ours, ""), (theirs, "_kudu")] {
        let all = |of: fn(&Load) -> f64| loads.iter().map(of).collect::<Vec<_>>();
        figures.add(&format!("server_cpu_ns_per_row{whose}"), "ns", &all(|load| load.server_ns));
        figures.add(&format!("client_cpu_ns_per_row{whose}"), "ns", &all(|load| load.client_ns));
        figures.add(&format!("seconds{whose}"), "s", &all(|load| load.seconds));
        figures.add(&format!("peak_memory_mib{whose}"), "MiB", &all(|load| load.peak_mib));
        figures.add(
            &format!("on_disk_mib{whose}"),
            "MiB",
            &all(|load| load.written as f64 / f64::from(1 << 20)),
        );
    }
    let ratio = |of: fn(&Load) -> f64| {
        theirs.iter().zip(ours).map(|(theirs, ours)| of(theirs) / of(ours)).collect::<Vec<_>>()
    };
    figures.add("ratio_server_cpu", "x", &ratio(|load| load.server_ns));
    figures.add("ratio_peak_memory", "x", &ratio(|load| load.peak_mib));
    figures
}

const NAMES: [&str; 2] = ["ours", "kudu"];
