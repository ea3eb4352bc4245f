//! What a cluster is made of, before it starts.

use std::path::PathBuf;
use std::time::Duration;

use crate::{ClusterError, MiniCluster};

/// The environment variable that names the folder of the server binaries for
/// [`MiniClusterBuilder::binaries_from_env`].
pub const BINARIES_VARIABLE: &str = "NYALA_BINARIES";

/// Settings of a [`MiniCluster`]; made by [`MiniCluster::builder`].
#[derive(Clone, Debug)]
#[must_use = "call start()"]
pub struct MiniClusterBuilder {
    pub(crate) tservers: usize,
    pub(crate) port: u16,
    pub(crate) binaries: Option<PathBuf>,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) master_flags: Vec<String>,
    pub(crate) tserver_flags: Vec<String>,
    pub(crate) start_timeout: Duration,
}

impl Default for MiniClusterBuilder {
    fn default() -> Self {
        Self {
            tservers: 1,
            port: 0,
            binaries: None,
            data_dir: None,
            master_flags: Vec::new(),
            tserver_flags: Vec::new(),
            start_timeout: Duration::from_secs(30),
        }
    }
}

impl MiniClusterBuilder {
    /// How many tablet servers; 1 when not said. 0 gives a master alone.
    pub fn tservers(mut self, tservers: usize) -> Self {
        self.tservers = tservers;
        self
    }

    /// The master's port on 127.0.0.1; 0, the default, takes a free one. Tablet servers always
    /// take free ports.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Start the servers as child processes from the executables in `folder`: `nyala-master` and
    /// `nyala-tserver`, or `kudu-master` and `kudu-tserver` of Apache Kudu, whichever are there.
    pub fn binaries(mut self, folder: impl Into<PathBuf>) -> Self {
        self.binaries = Some(folder.into());
        self
    }

    /// As [`MiniClusterBuilder::binaries`], with the folder that [`BINARIES_VARIABLE`] names; in process when
    /// it is not set.
    pub fn binaries_from_env(mut self) -> Self {
        self.binaries = std::env::var_os(BINARIES_VARIABLE).map(PathBuf::from);
        self
    }

    /// Keep everything in this folder, so that it is there again when servers or a whole cluster
    /// are started on it the next time. Without one, our servers keep everything in memory.
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(folder.into());
        self
    }

    /// One more flag for the master, as on its command line: `--table_locations_ttl_ms=500`.
    pub fn master_flag(mut self, flag: impl Into<String>) -> Self {
        self.master_flags.push(flag.into());
        self
    }

    /// One more flag for every tablet server, as on its command line.
    pub fn tserver_flag(mut self, flag: impl Into<String>) -> Self {
        self.tserver_flags.push(flag.into());
        self
    }

    /// How long the whole start may take; 30 s when not said. More than the clock can count = a year.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// Starts the cluster; returns once a table can be created. Works on any async runtime, as a
    /// thread of its own does the work.
    ///
    /// # Errors
    /// [`ClusterError`] names the server that did not start and why; what was started by then is
    /// stopped again.
    ///
    /// # Cancel safety
    /// Dropping the future lets the start finish in the background and then stops the cluster.
    pub async fn start(self) -> Result<MiniCluster, ClusterError> {
        let (tell, told) = tokio::sync::oneshot::channel();
        std::thread::Builder::new()
            .name("mini-cluster-start".into())
            .spawn(move || drop(tell.send(self.start_blocking())))
            .map_err(ClusterError::os("cannot start a thread"))?;
        told.await.unwrap_or(Err(ClusterError::Interrupted))
    }

    /// As [`MiniClusterBuilder::start`], for plain `#[test]`s and scripts.
    ///
    /// # Errors
    /// As [`MiniClusterBuilder::start`].
    pub fn start_blocking(self) -> Result<MiniCluster, ClusterError> {
        MiniCluster::start(self)
    }
}
