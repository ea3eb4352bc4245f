//! What can go wrong, an enum an operation. Each names the host, the tablet and the table it was about.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use meta_cache::AnswerError;
use net_addr::HostPort;
use rpc_core::CallError;
use schema::row_ops::EncodeError;
use thiserror::Error;

use crate::code::{MasterCode, Refusal, TabletCode};

/// Why one try at one server failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum AttemptError {
    /// The server's name gave no address: the fault of the name service, or of what the server advertises.
    #[error("{host}: {source}")]
    Resolve {
        /// The server as the master, or the caller, names it.
        host: HostPort,
        /// What the resolver said.
        source: Arc<io::Error>,
    },
    /// The call failed: the network's or the server's fault.
    #[error("{host}: {source}")]
    Call {
        /// The server as the master, or the caller, names it.
        host: HostPort,
        /// What the RPC layer said.
        source: Box<CallError>,
    },
    /// A tablet server refused.
    #[error("tablet server {host}: {refusal}")]
    Tablet {
        /// Who refused.
        host: HostPort,
        /// What it said.
        refusal: Refusal<TabletCode>,
    },
    /// A master refused.
    #[error("master {host}: {refusal}")]
    Master {
        /// Who refused.
        host: HostPort,
        /// What it said.
        refusal: Refusal<MasterCode>,
    },
    /// A master answered, and does not lead.
    #[error("master {host} is not the leader")]
    NotLeader {
        /// Who answered.
        host: HostPort,
    },
    /// No replica of the tablet can be used at the moment.
    #[error("tablet {tablet}: no usable replica among [{servers}]")]
    NoReplica {
        /// The tablet.
        tablet: String,
        /// The servers the master named.
        servers: String,
    },
    /// An answer lacks what it must have: a bug of the server.
    #[error("{host} answered {method} without a usable {field}")]
    BadAnswer {
        /// Who answered.
        host: HostPort,
        /// The method called.
        method: &'static str,
        /// What is missing or wrong.
        field: &'static str,
    },
    /// The master's answer about tablets contradicts itself.
    #[error("{host}: {source}")]
    BadLocations {
        /// Who answered.
        host: HostPort,
        /// What is wrong with it.
        source: AnswerError,
    },
}

impl AttemptError {
    /// What the RPC layer said, if the call itself failed.
    pub fn call_error(&self) -> Option<&CallError> {
        match self {
            AttemptError::Call { source, .. } => Some(source),
            _ => None,
        }
    }

    pub(crate) fn call(host: &HostPort, source: CallError) -> AttemptError {
        AttemptError::Call { host: host.clone(), source: Box::new(source) }
    }
}

/// A question to the master that failed: list, exists, delete, statistics, and what other operations ask on the way.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum MasterError {
    /// The master said no; asking again does not help.
    #[error("{method} {about:?} failed: {source}")]
    Refused {
        /// The method called.
        method: &'static str,
        /// The table it was about, empty if about none.
        about: String,
        /// What happened.
        source: AttemptError,
    },
    /// No leading master answered in time.
    #[error("{method} {about:?}: no answer from the masters [{masters}] within {after:?}{}", because(.last))]
    TimedOut {
        /// The method called.
        method: &'static str,
        /// The table it was about, empty if about none.
        about: String,
        /// The masters asked.
        masters: String,
        /// The time allowed.
        after: Duration,
        /// Why the last try failed.
        last: Option<Box<AttemptError>>,
    },
}

impl MasterError {
    /// The master's code, if it was the master that refused.
    pub fn code(&self) -> Option<MasterCode> {
        match self {
            MasterError::Refused { source: AttemptError::Master { refusal, .. }, .. } => Some(refusal.code),
            _ => None,
        }
    }

    /// Whether the table does not exist.
    pub fn is_table_not_found(&self) -> bool {
        self.code() == Some(MasterCode::TABLE_NOT_FOUND)
    }

    /// Whether the table exists already.
    pub fn is_table_already_present(&self) -> bool {
        self.code() == Some(MasterCode::TABLE_ALREADY_PRESENT)
    }

    /// Whether the same question may be answered later.
    pub fn is_retriable(&self) -> bool {
        self.is_timeout()
    }

    /// Whether time ran out.
    pub fn is_timeout(&self) -> bool {
        matches!(self, MasterError::TimedOut { .. })
    }
}

/// A client that could not be made.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The list of masters is empty; the caller's fault.
    #[error("no master is given")]
    NoMasters,
    /// The list of masters cannot be read; the caller's fault.
    #[error("'{given}' is no list of masters: {source}")]
    Masters {
        /// What was given.
        given: String,
        /// What is wrong with it.
        source: net_addr::ParseError,
    },
    /// No master leads, or none can be reached.
    #[error("cannot connect to the cluster: {0}")]
    Master(#[from] MasterError),
    /// The thread of a blocking client could not be started.
    #[error("cannot start the client's thread: {source}")]
    Thread {
        /// What the system said.
        source: Arc<io::Error>,
    },
}

impl ConnectError {
    /// Whether connecting may work later.
    pub fn is_retriable(&self) -> bool {
        matches!(self, ConnectError::Master(error) if error.is_retriable())
    }

    /// Whether time ran out.
    pub fn is_timeout(&self) -> bool {
        matches!(self, ConnectError::Master(error) if error.is_timeout())
    }
}

/// A table that could not be opened.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum OpenTableError {
    /// The master did not give it.
    #[error(transparent)]
    Master(#[from] MasterError),
    /// It has columns that this client does not understand (a newer type, say).
    #[error("table '{table}' cannot be used by this client: {source}")]
    Unsupported {
        /// The table.
        table: String,
        /// What is not understood.
        source: schema::wire::WireError,
    },
}

impl OpenTableError {
    /// Whether the table does not exist.
    pub fn is_table_not_found(&self) -> bool {
        matches!(self, OpenTableError::Master(error) if error.is_table_not_found())
    }

    /// Whether opening may work later.
    pub fn is_retriable(&self) -> bool {
        matches!(self, OpenTableError::Master(error) if error.is_retriable())
    }

    /// Whether time ran out.
    pub fn is_timeout(&self) -> bool {
        matches!(self, OpenTableError::Master(error) if error.is_timeout())
    }
}

/// A table that could not be made.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum CreateTableError {
    /// A range bound or split row cannot be sent; the caller's fault.
    #[error("table '{table}': {source}")]
    Bounds {
        /// The table.
        table: String,
        /// What is wrong.
        source: EncodeError,
    },
    /// A partition names a column that the table does not have; the caller's fault.
    #[error("table '{table}': partitioned by '{column}', which is no column of it")]
    NoSuchColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// The master refused, or did not answer.
    #[error(transparent)]
    Master(#[from] MasterError),
    /// The table was made, its tablets did not come up in time. It may still come up; or delete it.
    #[error("table '{table}' was created, but its tablets were not running within {after:?}")]
    NotDone {
        /// The table.
        table: String,
        /// The time allowed.
        after: Duration,
    },
    /// The table was made and cannot be opened.
    #[error(transparent)]
    Open(Box<OpenTableError>),
}

impl CreateTableError {
    /// Whether the name is taken.
    pub fn is_already_present(&self) -> bool {
        matches!(self, CreateTableError::Master(error) if error.is_table_already_present())
    }

    /// Whether creating may work later.
    pub fn is_retriable(&self) -> bool {
        matches!(self, CreateTableError::Master(error) if error.is_retriable())
    }

    /// Whether time ran out.
    pub fn is_timeout(&self) -> bool {
        match self {
            CreateTableError::Master(error) => error.is_timeout(),
            CreateTableError::Open(error) => error.is_timeout(),
            CreateTableError::NotDone { .. } => true,
            _ => false,
        }
    }
}

/// A table that could not be altered.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum AlterTableError {
    /// A range bound cannot be sent; the caller's fault.
    #[error("table '{table}': {source}")]
    Bounds {
        /// The table.
        table: String,
        /// What is wrong.
        source: EncodeError,
    },
    /// The rows of the range bounds are not all of one schema; the caller's fault.
    #[error("table '{table}': the range bounds are rows of different schemas")]
    SeveralSchemas {
        /// The table.
        table: String,
    },
    /// The master refused, or did not answer.
    #[error(transparent)]
    Master(#[from] MasterError),
    /// The table was altered, some tablets did not hear of it in time. They will.
    #[error("table '{table}' was altered, but not all its tablets were within {after:?}")]
    NotDone {
        /// The table.
        table: String,
        /// The time allowed.
        after: Duration,
    },
    /// The table cannot be opened: before it was altered, to know its columns, or afterwards.
    #[error(transparent)]
    Open(Box<OpenTableError>),
}

impl AlterTableError {
    /// Whether there is no such table.
    pub fn is_table_not_found(&self) -> bool {
        match self {
            AlterTableError::Master(error) => error.is_table_not_found(),
            AlterTableError::Open(error) => error.is_table_not_found(),
            _ => false,
        }
    }

    /// Whether altering may work later.
    pub fn is_retriable(&self) -> bool {
        matches!(self, AlterTableError::Master(error) if error.is_retriable())
    }

    /// Whether time ran out.
    pub fn is_timeout(&self) -> bool {
        match self {
            AlterTableError::Master(error) => error.is_timeout(),
            AlterTableError::Open(error) => error.is_timeout(),
            AlterTableError::NotDone { .. } => true,
            _ => false,
        }
    }

    /// The code of the master's refusal, if it refused.
    pub fn code(&self) -> Option<MasterCode> {
        match self {
            AlterTableError::Master(error) => error.code(),
            _ => None,
        }
    }
}

/// Text for the last failed try, or nothing.
pub(crate) fn because<E: fmt::Display>(last: &Option<Box<E>>) -> String {
    last.as_ref().map_or_else(String::new, |last| format!("; last: {last}"))
}
