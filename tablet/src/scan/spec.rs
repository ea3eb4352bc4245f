//! What a scan is asked for.

use schema::{Predicate, Schema, Timestamp};

/// A scan of one tablet. The default reads all rows of the newest snapshot and gives no column of them (a count).
#[derive(Clone, Debug, Default)]
pub struct ScanSpec {
    /// The schema that indexes refer to, which the tablet has or had; `None` for the one it has when the scan is opened.
    pub schema: Option<Schema>,
    /// Columns of the result, in this order, as indexes into the schema. Repeats are allowed.
    pub projection: Vec<usize>,
    /// All of them must hold.
    pub predicates: Vec<Predicate>,
    /// Shows the writes whose timestamp is below; `None` shows all that were done when the scan was opened.
    pub snapshot: Option<Timestamp>,
    /// Shows only what changed between this snapshot and `snapshot`, by key: rows that came or were changed, as they are then;
    /// and rows that are gone, as they were last, if [`ScanSpec::IS_DELETED`] is projected, which tells them. What came and went is not shown.
    pub since: Option<Timestamp>,
    /// Encoded primary key, inclusive.
    pub lower_key: Option<Vec<u8>>,
    /// Encoded primary key, exclusive.
    pub upper_key: Option<Vec<u8>>,
    /// Encoded primary key of the last row already seen, exclusive; wins over `lower_key`.
    pub last_key: Option<Vec<u8>>,
    /// Gives rows in the order of their primary keys.
    pub ordered: bool,
    /// Rows at most; `Some(0)` gives none.
    pub limit: Option<u64>,
}

impl ScanSpec {
    /// In the projection of a scan of changes: a virtual column, BOOL, whether the row is gone.
    pub const IS_DELETED: usize = usize::MAX;
}
