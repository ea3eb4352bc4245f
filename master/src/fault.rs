//! What the master answers when it cannot do what it was asked.

use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::master::master_error_pb::Code;
use proto::kudu::master::{MasterErrorPb, TableIdentifierPb};
use proto::kudu::{AppStatusPb, app_status_pb};
use schema::wire::WireError;
use schema::{PartitionError, SchemaError};
use server_base::consensus::status;
use thiserror::Error;

/// A refusal, worded as Kudu words it, since its tools and tests look for some of these texts.
#[derive(Debug, Clone, PartialEq, Error)]
pub(crate) enum Fault {
    /// The request does not say which table it means.
    #[error("missing table ID or table name")]
    NoTableNamed,
    /// There is no such table (any more).
    #[error("the table does not exist: {0}")]
    NoSuchTable(TableName),
    /// The name is taken.
    #[error("table {name} already exists with id {id}")]
    TableExists {
        /// The name asked for.
        name: String,
        /// The table that has it.
        id: String,
    },
    /// A name or comment breaks the rules of identifiers.
    #[error("invalid {what}: {why}")]
    BadIdentifier {
        /// What it would have named, e.g. `table name`.
        what: &'static str,
        /// Which rule it breaks.
        why: IdentifierFault,
    },
    /// More columns than allowed.
    #[error("number of columns {columns} is greater than the permitted maximum {max}")]
    TooManyColumns {
        /// Asked for.
        columns: usize,
        /// Allowed.
        max: usize,
    },
    /// A table needs a key.
    #[error("must specify at least one key column")]
    NoKey,
    /// Column ids are the master's business.
    #[error("user requests should not have Column IDs")]
    ColumnIdGiven,
    /// As [`Fault::ColumnIdGiven`], for a column that is added.
    #[error("column {column}: client should not specify column ID")]
    NewColumnHasId {
        /// Its name.
        column: String,
    },
    /// Such columns exist in scans only.
    #[error("may not create virtual column of type 'is_deleted' (column '{column}')")]
    VirtualColumn {
        /// Its name.
        column: String,
    },
    /// The name belongs to the column that counts by itself.
    #[error("auto_incrementing_id is a reserved column name")]
    ReservedColumn,
    /// Cells of this type are not stored so.
    #[error("invalid encoding for column '{column}': encoding {encoding} not supported for type {data_type}")]
    Encoding {
        /// Its name.
        column: String,
        /// Asked for.
        encoding: &'static str,
        /// Its type.
        data_type: schema::DataType,
    },
    /// Rows that are there already need a value for the new column.
    #[error("column `{column}`: NOT NULL columns must have a default")]
    NoDefault {
        /// Its name.
        column: String,
    },
    /// What old rows show and what new ones get is the same at first.
    #[error("column '{column}' has mismatched read/write defaults")]
    DefaultsDiffer {
        /// Its name.
        column: String,
    },
    /// A default that is no cell of the column's type.
    #[error("wrong size for default value")]
    DefaultSize,
    /// The name of a column is taken.
    #[error("The column already exists: {column}")]
    ColumnExists {
        /// The name.
        column: String,
    },
    /// A step names a column that is not there.
    #[error("The specified column does not exist: {column}")]
    NoSuchColumn {
        /// The name.
        column: String,
    },
    /// Key columns stay.
    #[error("cannot remove a key column: {column}")]
    DropsKey {
        /// Its name.
        column: String,
    },
    /// A column keeps a name.
    #[error("column name must be non-empty")]
    EmptyNewName,
    /// A step of a kind that this version does not know.
    #[error("Invalid alter step type")]
    UnknownStep,
    /// A step says what to do, but not with what.
    #[error("{step} missing column info")]
    StepLacksColumn {
        /// Kind of the step.
        step: &'static str,
    },
    /// A step about a range names none, or several.
    #[error("expected two row operations for alter range partition step")]
    NotOneRange,
    /// The range is there.
    #[error("range partition already exists: {0}")]
    RangeExists(String),
    /// It shares keys with one that is there.
    #[error("new range partition conflicts with existing one: {0}")]
    RangeConflicts(String),
    /// The same request adds it already.
    #[error("new range partition duplicates another newly added one: {0}")]
    RangeAddedTwice(String),
    /// It shares keys with another one of the same request.
    #[error("new range partition conflicts with another newly added one: {0}")]
    RangesConflict(String),
    /// It has no room.
    #[error("range partition lower bound must be less than the upper bound: {0}")]
    RangeReversed(String),
    /// There is no range of exactly these bounds.
    #[error("no range partition to drop: {0}")]
    NoSuchRange(String),
    /// A new owner whose name breaks the rules of identifiers.
    #[error("{0}: invalid owner name")]
    BadOwner(IdentifierFault),
    /// The servers are told not to mind limits of tables.
    #[error("altering table limit is not supported because --enable_table_write_limit is not enabled")]
    NoTableLimits,
    /// Limits are set by a request of their own.
    #[error("altering table limit cannot be combined with other alterations")]
    TableLimitsAlone,
    /// -1 is no limit.
    #[error("the limit of a table must be -1 or greater, not {0}")]
    TableLimit(i64),
    /// A deleted table is as it was until it is recalled.
    #[error("soft_deleted table {table} should not be altered")]
    SoftDeleted {
        /// Its name.
        table: String,
    },
    /// Its time runs already.
    #[error("soft_deleted table {table} should not be soft deleted again")]
    SoftDeletedTwice {
        /// Its name.
        table: String,
    },
    /// The table is not deleted, or was deleted too long ago.
    #[error("the table {id} soft-deleted state {expired}, expired state {expired}, can't recall")]
    NotRecallable {
        /// Its id.
        id: String,
        /// It was deleted too long ago.
        expired: bool,
    },
    /// Tables are recalled by id.
    #[error("missing table ID")]
    NoIdNamed,
    /// A tablet server will not make a tablet of the table, however often it is asked.
    #[error("the table cannot be created: tablet server {server} refuses tablet {tablet}: {why}")]
    TabletRefused {
        /// Which server.
        server: String,
        /// Which tablet.
        tablet: String,
        /// In its words.
        why: String,
    },
    /// Old rows would show nothing where new ones have a value.
    #[error("column '{column}' has write_default field set but no read_default")]
    WriteDefaultAlone {
        /// Its name.
        column: String,
    },
    /// The schema makes no sense.
    #[error("Bad schema: {0}")]
    BadSchema(WireError),
    /// The partitions make no sense.
    #[error("{0}")]
    BadPartitions(#[from] PartitionError),
    /// Hash dimensions, range columns or ranges with hash dimensions of their own that make no sense.
    #[error("{0}")]
    BadPartitioning(WireError),
    /// Split rows, range bounds or hash dimensions of one range that make no sense.
    #[error("{0}")]
    BadRange(WireError),
    /// The partition of a tablet in the catalog makes no sense.
    #[error("{0}")]
    BadBounds(WireError),
    /// Bounds may come in one place only.
    #[error("both range bounds and custom hash schema ranges must not be populated at the same time")]
    BoundsTwice,
    /// Not one of the properties of tables.
    #[error("invalid extra configuration property: {0}")]
    UnknownExtraConfig(String),
    /// The value of a table's property cannot be used.
    #[error("unable to parse {property}: {value}")]
    BadExtraConfig {
        /// The property.
        property: &'static str,
        /// Its value.
        value: String,
    },
    /// Fewer replicas than allowed.
    #[error(
        "illegal replication factor {asked}: minimum allowed replication factor is {min} (controlled by --min_num_replicas)"
    )]
    TooFewReplicas {
        /// Asked for.
        asked: i32,
        /// Allowed.
        min: i32,
    },
    /// More replicas than allowed.
    #[error(
        "illegal replication factor {asked}: maximum allowed replication factor is {max} (controlled by --max_num_replicas)"
    )]
    TooManyReplicas {
        /// Asked for.
        asked: i32,
        /// Allowed.
        max: i32,
    },
    /// An even number of replicas has no better majority than one less.
    #[error("illegal replication factor {0}: replication factor must be odd")]
    EvenReplicas(i32),
    /// More replicas than living tablet servers.
    #[error(
        "not enough live tablet servers to {verb} a table with the requested replication factor {asked}; {live} tablet servers are alive"
    )]
    NotEnoughServers {
        /// What was to be done.
        verb: &'static str,
        /// Replicas asked for.
        asked: i32,
        /// Tablet servers alive.
        live: usize,
    },
    /// Tablets are not replicated here yet.
    #[error(
        "replication factor {0} is not supported yet: these servers keep one replica of each tablet; ask for 1"
    )]
    NoReplicationYet(i32),
    /// More replicas at creation than the living tablet servers are to carry.
    #[error(
        "the requested number of tablet replicas is over the maximum permitted at creation time ({0}), additional tablets may be added by adding range partitions to the table post-creation"
    )]
    TooManyTablets(usize),
    /// The first key of a range of locations lies behind its last one.
    #[error("start partition key is greater than the end partition key")]
    KeysReversed,
    /// Asked for at most no location.
    #[error("max_returned_locations must be greater than 0 if specified")]
    NoLocationsWanted,
    /// A kind of replicas that this version does not know.
    #[error("{0}: unsupported replica type filter")]
    UnknownReplicaFilter(i32),
    /// A tablet of the answer is still being created.
    #[error("Tablet not running")]
    TabletNotRunning,
    /// No tablet of that id.
    #[error("Unknown tablet {0}")]
    UnknownTablet(String),
    /// A tablet server whose replicas would be replaced by other rules than this master's.
    #[error(
        "replica replacement scheme ({theirs}) of the tablet server {uuid} at {peer} differs from the catalog manager's (PREPARE_REPLACEMENT_BEFORE_EVICTION); they must be run with the same scheme (controlled by the --raft_prepare_replacement_before_eviction flag)"
    )]
    ReplacementScheme {
        /// Its scheme.
        theirs: &'static str,
        /// Its id.
        uuid: String,
        /// Where it called from.
        peer: String,
    },
    /// The disk refused the change; it did not happen.
    #[error(transparent)]
    Store(#[from] crate::catalog::store::StoreError),
    /// No tablet server of this uuid has registered.
    #[error("Requested tserver {0} has not been registered")]
    UnknownServer(String),
    /// It called not long ago.
    #[error("TServer {0} is not presumed dead.")]
    ServerLives(String),
    /// A request that does not say which tablet server, or what to do with it.
    #[error("{0}")]
    BadServerChange(&'static str),
    /// This master is alone, and stays.
    #[error("Can't remove master {0} in a single master configuration")]
    OnlyMaster(String),
    /// No such master in this cluster.
    #[error("Master {0} not found")]
    UnknownMaster(String),
    /// The master is part of the cluster already.
    #[error("Master {0} already present")]
    MasterPresent(String),
    /// Several masters need replication.
    #[error("adding master {0}: a cluster of several masters is not supported")]
    NoSecondMaster(String),
    /// A client came by a proxy, but this tablet server has told no address for such clients.
    #[error("server {0} lacks proxy advertised addresses")]
    NoProxyAddress(String),
}

/// How a request named a table, printed as Kudu prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableName(pub(crate) TableIdentifierPb);

impl std::fmt::Display for TableName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = self.0.table_id.as_ref().map(|id| format!("table_id: \"{}\"", id.escape_ascii()));
        let name = self.0.table_name.as_ref().map(|name| format!("table_name: {name:?}"));
        f.write_str(&[id, name].into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

/// A broken rule of identifiers.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum IdentifierFault {
    /// Nothing at all.
    #[error("empty string not a valid identifier")]
    Empty,
    /// Nobody cannot own a table.
    #[error("empty string is not a valid owner")]
    EmptyOwner,
    /// Longer than allowed, in bytes.
    #[error("identifier '{text}' longer than maximum permitted length {max}")]
    TooLong {
        /// The text.
        text: String,
        /// Allowed.
        max: usize,
    },
    /// Zero bytes end strings elsewhere.
    #[error("identifier must not contain null bytes")]
    ZeroByte,
}

impl Fault {
    /// The two codes that go with the text: the master's own, and the one that clients mostly look at.
    pub(crate) fn codes(&self) -> (Code, app_status_pb::ErrorCode) {
        use Fault as F;
        match self {
            F::NoTableNamed | F::KeysReversed | F::NoLocationsWanted | F::UnknownReplicaFilter(_) => {
                (Code::UnknownError, ErrorCode::InvalidArgument)
            }
            F::UnknownExtraConfig(_) | F::BadExtraConfig { .. } | F::BoundsTwice => {
                (Code::UnknownError, ErrorCode::InvalidArgument)
            }
            F::NoSuchTable(_) => (Code::TableNotFound, ErrorCode::NotFound),
            F::TableExists { .. } => (Code::TableAlreadyPresent, ErrorCode::AlreadyPresent),
            F::BadSchema(WireError::KeyNotFirst { .. } | WireError::MixedIds)
            | F::BadSchema(WireError::Schema(
                SchemaError::DuplicateName { .. } | SchemaError::NullableKey { .. },
            )) => (Code::UnknownError, ErrorCode::InvalidArgument),
            F::BadPartitioning(WireError::Partition(PartitionError::DimensionCount { .. })) => {
                (Code::UnknownError, ErrorCode::NotSupported)
            }
            F::BadPartitioning(_)
            | F::BadSchema(_)
            | F::VirtualColumn { .. }
            | F::WriteDefaultAlone { .. }
            | F::DefaultsDiffer { .. }
            | F::DefaultSize
            | F::NoDefault { .. }
            | F::DropsKey { .. }
            | F::EmptyNewName
            | F::ReservedColumn
            | F::StepLacksColumn { .. }
            | F::BadIdentifier { .. }
            | F::BadOwner(_)
            | F::TooManyColumns { .. }
            | F::NoKey
            | F::ColumnIdGiven
            | F::NewColumnHasId { .. } => (Code::InvalidSchema, ErrorCode::InvalidArgument),
            F::Encoding { .. } => (Code::InvalidSchema, ErrorCode::NotSupported),
            F::NoSuchColumn { .. } => (Code::InvalidSchema, ErrorCode::NotFound),
            F::ColumnExists { .. } => (Code::InvalidSchema, ErrorCode::AlreadyPresent),
            F::BadPartitions(error) => (Code::UnknownError, partition_status(error)),
            F::BadRange(error) | F::BadBounds(error) => match error {
                WireError::Partition(error) => (Code::UnknownError, partition_status(error)),
                _ => (Code::UnknownError, ErrorCode::InvalidArgument),
            },
            F::UnknownStep
            | F::NotOneRange
            | F::RangeConflicts(_)
            | F::RangesConflict(_)
            | F::RangeReversed(_)
            | F::NoSuchRange(_)
            | F::TableLimit(_)
            | F::NoIdNamed => (Code::UnknownError, ErrorCode::InvalidArgument),
            F::RangeExists(_) | F::RangeAddedTwice(_) => (Code::UnknownError, ErrorCode::AlreadyPresent),
            F::NoTableLimits => (Code::UnknownError, ErrorCode::NotSupported),
            F::TableLimitsAlone => (Code::UnknownError, ErrorCode::ConfigurationError),
            F::SoftDeleted { .. } | F::SoftDeletedTwice { .. } => {
                (Code::TableSoftDeleted, ErrorCode::InvalidArgument)
            }
            F::NotRecallable { .. } => (Code::TableNotFound, ErrorCode::NotFound),
            F::TooFewReplicas { .. } => (Code::IllegalReplicationFactor, ErrorCode::InvalidArgument),
            F::EvenReplicas(_) => (Code::EvenReplicationFactor, ErrorCode::InvalidArgument),
            F::TooManyReplicas { .. } | F::NotEnoughServers { .. } => {
                (Code::ReplicationFactorTooHigh, ErrorCode::InvalidArgument)
            }
            F::NoReplicationYet(_) => (Code::IllegalReplicationFactor, ErrorCode::NotSupported),
            F::TabletRefused { .. } => (Code::UnknownError, ErrorCode::InvalidArgument),
            F::TooManyTablets(_) => (Code::TooManyTablets, ErrorCode::InvalidArgument),
            F::TabletNotRunning => (Code::TabletNotRunning, ErrorCode::ServiceUnavailable),
            F::UnknownTablet(_) => (Code::UnknownError, ErrorCode::NotFound),
            F::ReplacementScheme { .. } => {
                (Code::IncompatibleReplicaManagement, ErrorCode::ConfigurationError)
            }
            F::Store(_) => (Code::UnknownError, ErrorCode::IoError),
            F::UnknownServer(_) | F::UnknownMaster(_) => (Code::UnknownError, ErrorCode::NotFound),
            F::ServerLives(_) => (Code::UnknownError, ErrorCode::IllegalState),
            F::BadServerChange(_) | F::OnlyMaster(_) => (Code::UnknownError, ErrorCode::InvalidArgument),
            F::MasterPresent(_) => (Code::UnknownError, ErrorCode::AlreadyPresent),
            F::NoSecondMaster(_) => (Code::UnknownError, ErrorCode::NotSupported),
            F::NoProxyAddress(_) => (Code::UnknownError, ErrorCode::IllegalState),
        }
    }

    /// The status alone, as it stands in lists of errors.
    pub(crate) fn status(&self) -> AppStatusPb {
        status(self.codes().1, self.to_string())
    }
}

/// The status that goes with a partitioning that cannot be.
fn partition_status(error: &PartitionError) -> ErrorCode {
    match error {
        PartitionError::Ops(error) if error.is_corruption() => ErrorCode::Corruption,
        error if error.is_not_supported() => ErrorCode::NotSupported,
        _ => ErrorCode::InvalidArgument,
    }
}

impl From<Fault> for MasterErrorPb {
    fn from(fault: Fault) -> Self {
        let (code, _) = fault.codes();
        MasterErrorPb { code: code as i32, status: fault.status() }
    }
}
