//! What can go wrong, an enum an operation. Each names the host, the tablet and the table it was about.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use meta_cache::AnswerError;
use net_addr::HostPort;
use proto::kudu::AppStatusPb;
use rpc_core::CallError;
use schema::row_ops::EncodeError;
use thiserror::Error;

/// The kind of a status that a Kudu server reports. A newtype, so that a newer server's kind survives.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StatusCode(
    /// The number on the wire.
    pub i32,
);

macro_rules! numbers {
    ($type:ident: $($(#[$doc:meta])* $name:ident = $value:literal $text:literal,)*) => {
        impl $type {
            $($(#[$doc])* pub const $name: Self = Self($value);)*
        }
        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    $($value => formatter.write_str($text),)*
                    other => write!(formatter, "code {other}"),
                }
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{}({self})", stringify!($type))
            }
        }
    };
}

numbers! { StatusCode:
    /// The thing asked for does not exist.
    NOT_FOUND = 1 "Not found",
    /// Data that make no sense.
    CORRUPTION = 2 "Corruption",
    /// The server cannot do that.
    NOT_SUPPORTED = 3 "Not implemented",
    /// The request is wrong.
    INVALID_ARGUMENT = 4 "Invalid argument",
    /// Disk trouble.
    IO_ERROR = 5 "IO error",
    /// The thing exists already.
    ALREADY_PRESENT = 6 "Already present",
    /// Trouble without a kind of its own.
    RUNTIME_ERROR = 7 "Runtime error",
    /// Trouble on the network.
    NETWORK_ERROR = 8 "Network error",
    /// Not possible in this state; from a tablet replica: not the leader.
    ILLEGAL_STATE = 9 "Illegal state",
    /// The user may not do that.
    NOT_AUTHORIZED = 10 "Not authorized",
    /// Given up; from a tablet replica: no longer the leader.
    ABORTED = 11 "Aborted",
    /// Another server failed.
    REMOTE_ERROR = 12 "Remote error",
    /// Try again later.
    SERVICE_UNAVAILABLE = 13 "Service unavailable",
    /// Took too long.
    TIMED_OUT = 14 "Timed out",
    /// Not ready yet.
    UNINITIALIZED = 15 "Uninitialized",
    /// Wrongly configured.
    CONFIGURATION_ERROR = 16 "Configuration error",
    /// Only a part is there.
    INCOMPLETE = 17 "Incomplete",
    /// No more data.
    END_OF_FILE = 18 "End of file",
    /// Cancelled.
    CANCELLED = 19 "Cancelled",
    /// An immutable column would have changed.
    IMMUTABLE = 20 "Immutable",
}

/// The code of a master's refusal (`MasterErrorPB.Code`).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MasterCode(
    /// The number on the wire.
    pub i32,
);

numbers! { MasterCode:
    /// See the status.
    UNKNOWN_ERROR = 1 "UNKNOWN_ERROR",
    /// Bad columns, buckets or steps.
    INVALID_SCHEMA = 2 "INVALID_SCHEMA",
    /// No such table.
    TABLE_NOT_FOUND = 3 "TABLE_NOT_FOUND",
    /// The name is taken.
    TABLE_ALREADY_PRESENT = 4 "TABLE_ALREADY_PRESENT",
    /// More tablets than the cluster allows.
    TOO_MANY_TABLETS = 5 "TOO_MANY_TABLETS",
    /// The master is still starting.
    CATALOG_MANAGER_NOT_INITIALIZED = 6 "CATALOG_MANAGER_NOT_INITIALIZED",
    /// Another master leads.
    NOT_THE_LEADER = 7 "NOT_THE_LEADER",
    /// More replicas than tablet servers.
    REPLICATION_FACTOR_TOO_HIGH = 8 "REPLICATION_FACTOR_TOO_HIGH",
    /// A tablet has no leader yet.
    TABLET_NOT_RUNNING = 9 "TABLET_NOT_RUNNING",
    /// An even number of replicas.
    EVEN_REPLICATION_FACTOR = 10 "EVEN_REPLICATION_FACTOR",
    /// A number of replicas that cannot be.
    ILLEGAL_REPLICATION_FACTOR = 11 "ILLEGAL_REPLICATION_FACTOR",
    /// The user may not do that.
    NOT_AUTHORIZED = 14 "NOT_AUTHORIZED",
    /// The table is deleted and has to be recalled first.
    TABLE_SOFT_DELETED = 16 "TABLE_SOFT_DELETED",
}

/// The code of a tablet server's refusal (`TabletServerErrorPB.Code`).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TabletCode(
    /// The number on the wire.
    pub i32,
);

numbers! { TabletCode:
    /// See the status.
    UNKNOWN_ERROR = 1 "UNKNOWN_ERROR",
    /// The projection is wrong.
    INVALID_SCHEMA = 2 "INVALID_SCHEMA",
    /// The client's columns are not the tablet's.
    MISMATCHED_SCHEMA = 5 "MISMATCHED_SCHEMA",
    /// The server does not hold the tablet.
    TABLET_NOT_FOUND = 6 "TABLET_NOT_FOUND",
    /// The scanner is unknown: closed, or idle for too long.
    SCANNER_EXPIRED = 7 "SCANNER_EXPIRED",
    /// The scan asks for something that cannot be.
    INVALID_SCAN_SPEC = 8 "INVALID_SCAN_SPEC",
    /// The replica is starting, or the server is quiescing.
    TABLET_NOT_RUNNING = 12 "TABLET_NOT_RUNNING",
    /// A snapshot too old or in the future.
    INVALID_SNAPSHOT = 13 "INVALID_SNAPSHOT",
    /// A batch was asked for out of order.
    INVALID_SCAN_CALL_SEQ_ID = 14 "INVALID_SCAN_CALL_SEQ_ID",
    /// Another replica leads.
    NOT_THE_LEADER = 15 "NOT_THE_LEADER",
    /// The server is overloaded.
    THROTTLED = 19 "THROTTLED",
    /// The replica is broken.
    TABLET_FAILED = 20 "TABLET_FAILED",
}

/// A refusal inside an otherwise good answer: whose code, and the status in the server's words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{status}: {message} [{code}]")]
pub struct Refusal<Code: fmt::Display> {
    /// What is refused, by the server's own list.
    pub code: Code,
    /// The kind of the status.
    pub status: StatusCode,
    /// The server's words.
    pub message: String,
}

impl<Code: fmt::Display> Refusal<Code> {
    pub(crate) fn new(code: Code, status: &AppStatusPb) -> Refusal<Code> {
        let message = status.message.clone().unwrap_or_default();
        Refusal { code, status: StatusCode(status.code), message }
    }
}

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
