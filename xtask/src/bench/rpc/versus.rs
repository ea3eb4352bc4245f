//! A real kudu-master against ours: server CPU a Ping, from the same generator, in turn.

use anyhow::{Context, Result};
use mini_cluster::MiniCluster;
use net_addr::SockAddr;
use xtask::figures::Figures;
use xtask::report;

use super::load::Shape;
use super::target::{self, Cost};
use crate::interop::Kit;

/// One way to load a server.
struct Pattern {
    /// What its figures' names end in.
    name: &'static str,
    about: &'static str,
    threads: usize,
    connections: usize,
    calls: usize,
}

const PATTERNS: [Pattern; 4] = [
    Pattern { name: "async", about: "2 connections x 50 calls", threads: 2, connections: 2, calls: 100 },
    Pattern { name: "async_24x4", about: "24 connections x 4 calls", threads: 2, connections: 24, calls: 96 },
    Pattern { name: "sync", about: "2 sync clients", threads: 2, connections: 2, calls: 2 },
    Pattern { name: "sync_one", about: "1 sync client", threads: 1, connections: 1, calls: 1 },
];

/// Times that each server is measured in each pattern.
const ROUNDS: usize = 5;
const METHOD: &str = "kudu.master.MasterService.Ping";

/// The names of the ways.
pub(super) fn names() -> Vec<&'static str> {
    PATTERNS.iter().map(|pattern| pattern.name).collect()
}

/// Starts both masters, and prints what each spends, in all ways or in this one.
pub(super) fn run(only: Option<&str>) -> Result<Figures> {
    let kit = Kit::bring(&crate::step::root())?;
    let ours = crate::cluster::build_servers()?;
    let start = |programs| MiniCluster::builder().binaries(programs).tservers(0).start_blocking();
    let (kudu, ours) = (start(kit.programs())?, start(ours)?);
    let mut figures = Figures::default();
    let mut rows = Vec::new();
    for pattern in PATTERNS.iter().filter(|pattern| only.is_none_or(|only| pattern.name == only)) {
        let (mut theirs, mut own) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            theirs.push(measure(&kudu, pattern)?);
            own.push(measure(&ours, pattern)?);
        }
        let cpu = |costs: &[Cost]| costs.iter().map(|cost| cost.server_cpu_us).collect::<Vec<_>>();
        let rate = |costs: &[Cost]| costs.iter().map(|cost| cost.rate).collect::<Vec<_>>();
        let ratios: Vec<f64> =
            theirs.iter().zip(&own).map(|(theirs, own)| theirs.server_cpu_us / own.server_cpu_us).collect();
        let name = pattern.name;
        figures.add(&format!("kudu_server_cpu_us_{name}"), "us", &cpu(&theirs));
        figures.add(&format!("server_cpu_us_{name}"), "us", &cpu(&own));
        figures.add(&format!("kudu_reqs_per_sec_{name}"), "1/s", &rate(&theirs));
        figures.add(&format!("reqs_per_sec_{name}"), "1/s", &rate(&own));
        figures.add(&format!("ratio_server_cpu_{name}"), "", &ratios);
        let median = |what: &str| figures.median(&format!("{what}_{name}")).unwrap_or_default();
        rows.push(vec![
            pattern.about.to_owned(),
            format!("{:.2} us", median("kudu_server_cpu_us")),
            format!("{:.3} us", median("server_cpu_us")),
            format!("{:.1}", median("ratio_server_cpu")),
            report::thousands(median("kudu_reqs_per_sec") as u64),
            report::thousands(median("reqs_per_sec") as u64),
        ]);
    }
    kudu.shutdown()?;
    ours.shutdown()?;
    println!(
        "Ping of a kudu-master 1.18.1 and of ours: server CPU a call, medians of {ROUNDS} runs in turn\n"
    );
    let headers = ["clients", "Kudu", "ours", "ratio", "Kudu's calls/s", "our calls/s"];
    println!("{}\n", report::table(&headers, &rows));
    Ok(figures)
}

fn measure(cluster: &MiniCluster, pattern: &Pattern) -> Result<Cost> {
    let pid = cluster.process_ids().first().copied().context("no master process")?;
    let &Pattern { threads, connections, calls, .. } = pattern;
    let remote = SockAddr::parse(&cluster.master_address(), 7051)?;
    target::cost(&Shape { remote, threads, connections, calls }, METHOD, pid, calls == threads)
}
