//! Why a tablet server does not start.

use rpc_server::BindError;
use server_base::OptionsError;
use server_base::data_folder::DataFolderError;
use server_base::info_file::InfoFileError;

/// A tablet server that cannot start. Nothing of it is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The operator's fault: the flags.
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
    /// The tablets in it cannot be listed.
    #[error("--fs_wal_dir: {0}")]
    Tablets(Box<dyn std::error::Error + Send + Sync>),
    /// The system gives no more threads or file descriptors.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl StartError {
    /// True if the cause may pass: a port in use, a name that is not known yet, too many threads.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Options(error) => error.is_retriable(),
            Self::Bind(_) | Self::Thread(_) => true,
            Self::DataFolder(error) => error.is_retriable(),
            Self::InfoFile(_) | Self::Tablets(_) => false,
        }
    }
}

impl From<crate::storage::StoreError> for StartError {
    fn from(error: crate::storage::StoreError) -> Self {
        Self::Tablets(Box::new(error))
    }
}
