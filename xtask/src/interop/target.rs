//! The cluster that an interop run works on.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use mini_cluster::{MiniCluster, MiniClusterBuilder};

use super::Kit;
use crate::step;

/// Whose servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Servers {
    /// Built from this checkout.
    Ours,
    /// Apache Kudu's own: shows that the expectations are right.
    Real,
}

/// A cluster that is up: started for the run, or given.
pub(crate) struct Target {
    pub(super) master: String,
    pub(super) tservers: Vec<TabletServer>,
    started: Option<MiniCluster>,
}

const NOT_STARTED: &str = "the cluster was not started here";

/// One tablet server as the master lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TabletServer {
    pub(super) uuid: String,
    pub(super) address: String,
}

impl Target {
    /// The cluster of a master that is up already.
    pub(super) fn running(kit: &Kit, master: &str) -> Result<Target> {
        let list = step::capture(kit.kudu().args(["tserver", "list", master]))
            .context("the cluster does not answer the real kudu command line")?;
        let tservers = parse_list(&list);
        if tservers.is_empty() {
            bail!("the cluster of {master} has no tablet server");
        }
        Ok(Target { master: master.to_owned(), tservers, started: None })
    }

    /// Starts a cluster as child processes on free ports of 127.0.0.1.
    pub(super) fn start(kit: &Kit, servers: Servers, tservers: usize) -> Result<Target> {
        Target::start_with(kit, servers, tservers, |builder| builder)
    }

    /// As [`Target::start`], with settings.
    pub(super) fn start_with(
        kit: &Kit,
        servers: Servers,
        tservers: usize,
        settings: impl FnOnce(MiniClusterBuilder) -> MiniClusterBuilder,
    ) -> Result<Target> {
        println!("interop: starting {servers:?} servers, 1 master and {tservers} tablet servers");
        let builder = MiniCluster::builder().binaries(programs(kit, servers)?).tservers(tservers);
        let cluster = settings(builder).start_blocking()?;
        let mut target = Target::running(kit, &cluster.master_address())?;
        target.started = Some(cluster);
        Ok(target)
    }

    /// Stops a tablet server while all of them are up; the number to start it again by.
    pub(super) fn stop_tserver(&mut self, uuid: &str) -> Result<usize> {
        let cluster = self.started.as_mut().context(NOT_STARTED)?;
        let number = cluster.tservers().iter().position(|tserver| tserver.uuid == uuid);
        let number = number.with_context(|| format!("no tablet server {uuid}"))?;
        cluster.stop_tserver(number)?;
        Ok(number)
    }

    /// Starts a tablet server that was stopped, at its address.
    pub(super) fn start_tserver(&mut self, number: usize) -> Result<()> {
        Ok(self.started.as_mut().context(NOT_STARTED)?.start_tserver(number)?)
    }

    /// Stops what was started; an unclean end is an error.
    pub(super) fn stop(self) -> Result<()> {
        if let Some(cluster) = self.started {
            cluster.shutdown()?;
        }
        Ok(())
    }
}

/// The folder with the programs of these servers.
pub(super) fn programs(kit: &Kit, servers: Servers) -> Result<PathBuf> {
    match servers {
        Servers::Ours => crate::cluster::build_servers(),
        Servers::Real => Ok(kit.programs()),
    }
}

/// The rows of `kudu tserver list`: ` uuid | address`, below a header and a ruler.
fn parse_list(text: &str) -> Vec<TabletServer> {
    text.lines()
        .filter_map(|line| {
            let (uuid, address) = line.split_once('|')?;
            let uuid = uuid.trim();
            (uuid.len() == 32)
                .then(|| TabletServer { uuid: uuid.to_owned(), address: address.trim().to_owned() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_list_are_read_and_its_frame_is_not() {
        let text = "               uuid               |  rpc-addresses\n\
                    ----------------------------------+-----------------\n \
                    4fbd03a8c360406a9ffcce63d3bfb346 | 127.0.0.1:28052\n";
        let expected = TabletServer {
            uuid: "4fbd03a8c360406a9ffcce63d3bfb346".to_owned(),
            address: "127.0.0.1:28052".to_owned(),
        };
        assert_eq!(parse_list(text), [expected]);
    }
}
