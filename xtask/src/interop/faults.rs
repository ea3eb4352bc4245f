//! Faults that users of Kudu met between real clients and servers, played to the real clients.

mod forwarder;
mod master;

use std::time::Duration;

use anyhow::Result;
use mini_cluster::MiniCluster;

use super::Kit;
use super::java::Program;
use super::suite::{Run, Suite, Verdict};
use super::target::{Servers, programs};
use forwarder::Forwarder;
use master::{FaultyMaster, TABLE};

/// How long the faulty master is no leader.
const WITHOUT_LEADER: Duration = Duration::from_secs(2);

pub(super) fn run(kit: &Kit, servers: Servers) -> Result<()> {
    println!("\ninterop: faults");
    let mut suite = Suite::new(kit);
    faulty_master(kit, &mut suite)?;
    behind_a_forwarder(kit, servers, &mut suite)?;
    full_queue(kit, servers, &mut suite)?;
    suite.finish()
}

/// A master that is no leader yet and then too busy: clients wait for it, inside their default deadline.
fn faulty_master(kit: &Kit, suite: &mut Suite<'_>) -> Result<()> {
    let master = FaultyMaster::start(WITHOUT_LEADER)?;
    let run = suite.kudu(&["table", "list", &master.address()])?;
    let verdict = run.shows(&[TABLE]).and_then(|()| master.was_asked_at_its_worst());
    suite.record("faults::kudu_waits_for_a_master_that_becomes_leader", &run, verdict);

    let master = FaultyMaster::start(WITHOUT_LEADER)?;
    let output = Program::compile(kit)?.command(&["list", &master.address()]).output()?;
    let run = Run::from(output);
    let verdict = run.shows(&[TABLE]).and_then(|()| master.was_asked_at_its_worst());
    suite.record("faults::java_waits_for_a_master_that_becomes_leader", &run, verdict);
    Ok(())
}

/// A tablet server that can be reached only by the address it advertises.
fn behind_a_forwarder(kit: &Kit, servers: Servers, suite: &mut Suite<'_>) -> Result<()> {
    let forwarder = Forwarder::start()?;
    let outside = forwarder.address().to_string();
    let cluster = MiniCluster::builder()
        .binaries(programs(kit, servers)?)
        .tservers(1)
        .tserver_flag(format!("--rpc_advertised_addresses={outside}"))
        .start_blocking()?;
    let Some(tserver) = cluster.tservers().first().cloned() else {
        anyhow::bail!("the cluster has no tablet server");
    };
    forwarder.connect_to(tserver.address.parse()?);
    let master = cluster.master_address();

    let run = suite.kudu(&["tserver", "list", &master])?;
    let verdict = run.shows(&[&outside]);
    suite.record("faults::tserver_list_shows_the_advertised_address", &run, verdict);

    let run = suite.kudu(&["perf", "loadgen", &master, "--num_rows_per_thread=20000", "--run_scan"])?;
    let verdict = run.shows(&["rows total: 40000"]).and_then(|()| carried(&forwarder));
    suite.record("faults::loadgen_works_through_a_forwarder", &run, verdict);
    cluster.shutdown()?;
    Ok(())
}

/// A tablet server that runs one call and keeps one more, and 16 threads that write to it.
fn full_queue(kit: &Kit, servers: Servers, suite: &mut Suite<'_>) -> Result<()> {
    let cluster = MiniCluster::builder()
        .binaries(programs(kit, servers)?)
        .tservers(1)
        .tserver_flag("--rpc_num_service_threads=1")
        .tserver_flag("--rpc_service_queue_length=1")
        .start_blocking()?;
    let master = cluster.master_address();
    let run = suite.kudu(&["perf", "loadgen", &master, "--num_rows_per_thread=2000", "--num_threads=16"])?;
    let verdict = run.shows(&["rows total: 32000"]).and_then(|()| match run.out.contains("rows failed") {
        true => Err("rows failed".to_owned()),
        false => Ok(()),
    });
    suite.record("faults::loadgen_gets_all_rows_through_a_full_queue", &run, verdict);
    cluster.shutdown()?;
    Ok(())
}

fn carried(forwarder: &Forwarder) -> Verdict {
    // 40,000 rows of some 40 bytes each.
    match forwarder.carried() {
        1_000_000.. => Ok(()),
        bytes => Err(format!("only {bytes} bytes went through the forwarder")),
    }
}
