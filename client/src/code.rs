//! The codes that servers refuse with, each a newtype: what a newer server says survives.

use std::fmt;

use proto::kudu::AppStatusPb;
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
