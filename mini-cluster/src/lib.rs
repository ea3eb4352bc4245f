//! A whole Kudu cluster, one master and some tablet servers, for a test or a laptop: in this
//! process in milliseconds, or as child processes (ours or Apache Kudu's own).
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use mini_cluster::MiniCluster;
//!
//! let cluster = MiniCluster::builder().tservers(3).start().await?;
//! let client = client::Client::connect(cluster.master_address()).await?;
//! assert!(client.list_tables("").await?.is_empty());
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! Ports are free ones of 127.0.0.1, so any number of clusters run beside each other. A cluster
//! stops when it is dropped, and its rows are gone then unless it has a [`MiniClusterBuilder::data_dir`].
//!
//! Servers may be stopped, killed and started again, and keep their addresses:
//!
//! ```
//! use mini_cluster::MiniCluster;
//!
//! let mut cluster = MiniCluster::builder().tservers(2).start_blocking()?;
//! cluster.stop_tserver(0)?;
//! assert_eq!(cluster.tservers().len(), 1);
//! cluster.start_tserver(0)?;
//! cluster.shutdown()?;
//! # Ok::<(), mini_cluster::ClusterError>(())
//! ```
//!
//! Starting waits on a thread of its own; a start whose future is dropped ends in the background and the cluster is stopped.
//! Everything else blocks, for milliseconds to seconds, and so does dropping the cluster: in async code that must not wait,
//! do it inside `spawn_blocking`.
//!
//! What it is not: a place for precious data. There is one replica of each tablet, on one machine.
#![forbid(unsafe_code)]

mod builder;
mod error;
mod node;
mod process;
mod ready;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use net_addr::HostPort;

pub use builder::{BINARIES_VARIABLE, MiniClusterBuilder};
pub use error::ClusterError;
use node::{Running, Spec};
use process::{Place, Role};
use tempfile::TempDir;

/// A running cluster; stops all its servers when dropped.
#[derive(Debug)]
pub struct MiniCluster {
    // Tablet servers first: they stop before the master that they report to.
    tservers: Vec<Server>,
    master: Server,
    binaries: Option<PathBuf>,
    start_timeout: Duration,
    /// Where the child processes keep their files; removed when the cluster goes.
    folder: Option<TempDir>,
}

/// What is known of one tablet server of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// 32 lower-case hex digits.
    pub uuid: String,
    /// `127.0.0.1:port`.
    pub address: String,
    /// Its unix socket in printable form, `@kudu-<uuid>`.
    pub unix_path: Option<String>,
    /// Its process, when it has one of its own.
    pub process_id: Option<u32>,
}

#[derive(Debug)]
struct Server {
    spec: Spec,
    address: HostPort,
    running: Option<Running>,
}

impl Server {
    fn start(
        mut spec: Spec,
        port: u16,
        binaries: Option<&Path>,
        deadline: Instant,
    ) -> Result<Self, ClusterError> {
        let running = Running::start(&spec, port, binaries, deadline)?;
        spec.uuid = running.uuid().parse().ok();
        Ok(Self { address: running.address(), spec, running: Some(running) })
    }

    fn start_again(&mut self, binaries: Option<&Path>, deadline: Instant) -> Result<(), ClusterError> {
        self.running = Some(Running::start(&self.spec, self.address.port, binaries, deadline)?);
        Ok(())
    }
}

fn deadline_after(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now + A_YEAR)
}

/// Places below the folder of what has to last, or below a temporary one.
fn place(lasting: Option<&Path>, folder: Option<&TempDir>, name: &str) -> Place {
    let above = lasting.or(folder.map(TempDir::path));
    let folder = above.map(|folder| folder.join(name)).unwrap_or_default();
    Place { name: name.to_owned(), folder, lasting: lasting.is_some() }
}

impl MiniCluster {
    /// A cluster of one master and one tablet server in this process, unless told otherwise.
    pub fn builder() -> MiniClusterBuilder {
        MiniClusterBuilder::default()
    }

    pub(crate) fn start(settings: MiniClusterBuilder) -> Result<Self, ClusterError> {
        let deadline = deadline_after(settings.start_timeout);
        let folder = match &settings.binaries {
            Some(_) if settings.data_dir.is_none() => Some(
                tempfile::Builder::new()
                    .prefix("nyala-")
                    .tempdir()
                    .map_err(ClusterError::os("cannot make a temporary folder"))?,
            ),
            _ => None,
        };
        let binaries = settings.binaries.as_deref();
        let lasting = settings.data_dir.as_deref();
        let spec = Spec {
            role: Role::Master,
            place: place(lasting, folder.as_ref(), "master"),
            flags: settings.master_flags.clone(),
            uuid: None,
        };
        let master = Server::start(spec, settings.port, binaries, deadline)?;
        let mut cluster = Self {
            tservers: Vec::with_capacity(settings.tservers),
            master,
            binaries: settings.binaries.clone(),
            start_timeout: settings.start_timeout,
            folder,
        };
        for index in 0..settings.tservers {
            let mut flags = vec![format!("--tserver_master_addrs={}", cluster.master.address)];
            flags.extend_from_slice(&settings.tserver_flags);
            let spec = Spec {
                role: Role::TabletServer,
                place: place(lasting, cluster.folder.as_ref(), &format!("tserver-{index}")),
                flags,
                uuid: None,
            };
            cluster.tservers.push(Server::start(spec, 0, binaries, deadline)?);
        }
        cluster.wait_until_ready(deadline)?;
        Ok(cluster)
    }

    fn wait_until_ready(&self, deadline: Instant) -> Result<(), ClusterError> {
        let uuids: Vec<String> = self
            .tservers
            .iter()
            .filter_map(|server| server.running.as_ref())
            .map(|running| running.uuid().to_owned())
            .collect();
        ready::wait_for_tservers(&self.master.address, &uuids, deadline)
    }

    /// The master's address, `127.0.0.1:port`: what a client connects to.
    #[must_use]
    pub fn master_address(&self) -> String {
        self.master.address.to_string()
    }

    /// The tablet servers that run now, in order.
    #[must_use]
    pub fn tservers(&self) -> Vec<ServerInfo> {
        let info = |server: &Server| {
            let running = server.running.as_ref()?;
            Some(ServerInfo {
                uuid: running.uuid().to_owned(),
                address: server.address.to_string(),
                unix_path: running.unix_path(),
                process_id: running.process_id(),
            })
        };
        self.tservers.iter().filter_map(info).collect()
    }

    /// The processes of the cluster, the master's first; empty for one in this process.
    #[must_use]
    pub fn process_ids(&self) -> Vec<u32> {
        std::iter::once(&self.master)
            .chain(&self.tservers)
            .filter_map(|server| server.running.as_ref()?.process_id())
            .collect()
    }

    /// Stops tablet server `index` (from 0) in an orderly way; its port is free afterwards.
    ///
    /// # Errors
    /// [`ClusterError::WrongServer`] when there is none or it is stopped already.
    pub fn stop_tserver(&mut self, index: usize) -> Result<(), ClusterError> {
        self.take_running(index)?.stop()
    }

    /// Ends tablet server `index` (from 0) at once: SIGKILL for a child process. One in this
    /// process cannot be killed; it is stopped.
    ///
    /// # Errors
    /// As [`MiniCluster::stop_tserver`].
    pub fn kill_tserver(&mut self, index: usize) -> Result<(), ClusterError> {
        self.take_running(index)?.kill()
    }

    /// Starts tablet server `index` (from 0) again, at the address that it had, and waits until it
    /// has registered.
    ///
    /// # Errors
    /// [`ClusterError::WrongServer`] when there is none or it runs; otherwise as for a start.
    pub fn start_tserver(&mut self, index: usize) -> Result<(), ClusterError> {
        let server = self
            .tservers
            .get_mut(index)
            .ok_or(ClusterError::WrongServer { index, problem: "there is none of that number" })?;
        if server.running.is_some() {
            return Err(ClusterError::WrongServer { index, problem: "it runs already" });
        }
        let deadline = deadline_after(self.start_timeout);
        server.start_again(self.binaries.as_deref(), deadline)?;
        self.wait_until_ready(deadline)
    }

    /// Stops the master in an orderly way; its port is free afterwards.
    ///
    /// # Errors
    /// [`ClusterError::WrongMaster`] when it is stopped already.
    pub fn stop_master(&mut self) -> Result<(), ClusterError> {
        self.take_master()?.stop()
    }

    /// Ends the master at once: SIGKILL for a child process. One in this process is stopped.
    ///
    /// # Errors
    /// As [`MiniCluster::stop_master`].
    pub fn kill_master(&mut self) -> Result<(), ClusterError> {
        self.take_master()?.kill()
    }

    /// Starts the master again, at the address that it had, and waits until all tablet servers have
    /// registered. Without a [`MiniClusterBuilder::data_dir`] it has forgotten all tables.
    ///
    /// # Errors
    /// [`ClusterError::WrongMaster`] when it runs; otherwise as for a start.
    pub fn start_master(&mut self) -> Result<(), ClusterError> {
        if self.master.running.is_some() {
            return Err(ClusterError::WrongMaster { problem: "it runs already" });
        }
        let deadline = deadline_after(self.start_timeout);
        self.master.start_again(self.binaries.as_deref(), deadline)?;
        self.wait_until_ready(deadline)
    }

    /// Stops everything in an orderly way, tablet servers first; dropping the cluster does the same
    /// but keeps quiet about errors.
    ///
    /// # Errors
    /// The first server that could not be stopped; the others are stopped all the same.
    pub fn shutdown(mut self) -> Result<(), ClusterError> {
        self.stop_all()
    }

    fn take_master(&mut self) -> Result<Running, ClusterError> {
        self.master.running.take().ok_or(ClusterError::WrongMaster { problem: "it is stopped already" })
    }

    fn take_running(&mut self, index: usize) -> Result<Running, ClusterError> {
        self.tservers
            .get_mut(index)
            .ok_or(ClusterError::WrongServer { index, problem: "there is none of that number" })?
            .running
            .take()
            .ok_or(ClusterError::WrongServer { index, problem: "it is stopped already" })
    }

    fn stop_all(&mut self) -> Result<(), ClusterError> {
        let mut result = Ok(());
        for server in self.tservers.iter_mut().chain(std::iter::once(&mut self.master)) {
            if let Some(running) = server.running.take() {
                let stopped = running.stop();
                if result.is_ok() {
                    result = stopped;
                }
            }
        }
        result
    }
}

impl Drop for MiniCluster {
    fn drop(&mut self) {
        if let Err(error) = self.stop_all() {
            tracing::warn!(%error, "a server of the mini cluster did not stop in an orderly way");
        }
    }
}

const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
