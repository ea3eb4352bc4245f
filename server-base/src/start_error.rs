//! Why a server does not start.

use std::io;

use rpc_server::BindError;

use crate::OptionsError;
use crate::data_folder::DataFolderError;
use crate::flags::FlagError;
use crate::info_file::InfoFileError;

/// A server that cannot start. Nothing of it is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The operator's fault: a flag that there is not, or a value that it cannot have.
    #[error(transparent)]
    Flags(#[from] FlagError),
    /// The operator's fault, or the name server's: flags that cannot be followed.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// An address that cannot be listened on, e.g. because another server does.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The file that is to tell where the server listens.
    #[error(transparent)]
    InfoFile(#[from] InfoFileError),
    /// The folder of what has to last cannot be used.
    #[error("--fs_wal_dir: {0}")]
    DataFolder(#[from] DataFolderError),
    /// What is in that folder cannot be read.
    #[error("--fs_wal_dir: {source}")]
    #[non_exhaustive]
    Stored {
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
        /// Whether that may pass.
        retriable: bool,
    },
    /// The system gives no more threads or file descriptors.
    #[error("cannot start a thread: {0}")]
    Threads(#[from] io::Error),
}

impl StartError {
    /// What is stored cannot be read, because of `source`; `retriable` if that may pass.
    pub fn stored(source: impl std::error::Error + Send + Sync + 'static, retriable: bool) -> Self {
        Self::Stored { source: Box::new(source), retriable }
    }

    /// True if the same start may work later: a port in use, a name that is not known yet, too many threads.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Flags(_) | Self::InfoFile(_) => false,
            Self::Options(error) => error.is_retriable(),
            Self::Bind(error) => error.is_retriable(),
            Self::DataFolder(error) => error.is_retriable(),
            Self::Stored { retriable, .. } => *retriable,
            Self::Threads(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{FlagSet, Role};

    #[test]
    fn only_what_may_pass_is_worth_another_try() {
        let flags = FlagSet::builder(Role::Master, "test").build();
        let wrong = StartError::from(flags.parse(["--no_such_flag=1"]).unwrap_err());
        assert!(!wrong.is_retriable());
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address: net_addr::SockAddr = taken.local_addr().unwrap().into();
        let bind = rpc_server::Server::builder().bind(address.clone()).start().unwrap_err();
        let error = StartError::from(bind);
        assert!(error.is_retriable() && error.to_string().contains(&address.to_string()), "{error}");
        assert!(!StartError::stored(io::Error::other("damaged"), false).is_retriable());
    }
}
