//! Why a cluster, or one server of it, did not start or stop.

use std::path::PathBuf;
use std::time::Duration;

use server_base::StartError;

/// Why a [`crate::MiniCluster`] could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// A server of this process refused its flags or could not start (a port in use, say).
    #[error("{server} did not start: {source}")]
    Start {
        /// Which server.
        server: String,
        /// What it said.
        #[source]
        source: StartError,
    },
    /// A binary is not where it was looked for.
    #[error("no executable `{name}` (or `{other}`) in {}", folder.display())]
    NoBinary {
        /// The name of our own binary.
        name: &'static str,
        /// The name of Apache Kudu's binary.
        other: &'static str,
        /// The folder that was looked into.
        folder: PathBuf,
    },
    /// The operating system refused to start a child process, or to prepare its folder.
    #[error("{what}: {source}")]
    Os {
        /// What was being done.
        what: String,
        /// The operating system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A child process ended before it was ready; its last lines tell why.
    #[error("{server} ended with {status}: {last_lines}")]
    Exited {
        /// Which server.
        server: String,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// The end of what it wrote to standard error.
        last_lines: String,
    },
    /// The servers are up, but the cluster was not ready in time.
    #[error("the cluster was not ready within {waited:?}: {state}")]
    NotReady {
        /// How long it was waited for.
        waited: Duration,
        /// What was still missing.
        state: String,
    },
    /// The master is not in the state that the call needs.
    #[error("master: {problem}")]
    WrongMaster {
        /// What is wrong.
        problem: &'static str,
    },
    /// There is no tablet server of that number, or it is not in the state that the call needs.
    #[error("tablet server {index}: {problem}")]
    WrongServer {
        /// The number given.
        index: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The thread that starts the cluster ended without an answer.
    #[error("the thread that starts the cluster ended without an answer")]
    Interrupted,
}

impl ClusterError {
    /// Whether the same call may succeed when it is simply tried again.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Start { source, .. } => source.is_retriable(),
            Self::NotReady { .. } | Self::Interrupted => true,
            _ => false,
        }
    }

    pub(crate) fn os(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Os { what, source }
    }
}
