//! Predicates of a scan, and their evaluation over a column into a [`Selection`](crate::Selection).
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

use bytes::Bytes;

pub use self::evaluate::Prepared;
use crate::{Schema, bloom::BlockBloomFilter};

mod evaluate;

/// A condition on one column, given by its index in the table's schema. All predicates of a scan are ANDed, and several
/// may be on one column. Values are raw cells: little endian, or the content. NULL cells meet none but `IsNull`.
///
/// Numbers compare by `<` of their type: a float that is not a number counts as equal to everything, -0.0 as 0.0.
/// Variable-length cells compare bytewise.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Predicate {
    /// At least `lower` and less than `upper`; one of them may be absent, both must not be.
    Range { column: usize, lower: Option<Bytes>, upper: Option<Bytes> },
    /// Equal to the value.
    Equality { column: usize, value: Bytes },
    /// Equal to one of the values, which may come in any order and repeatedly; an empty list matches nothing.
    InList { column: usize, values: Vec<Bytes> },
    /// NULL.
    IsNull { column: usize },
    /// Not NULL.
    IsNotNull { column: usize },
    /// In all of the filters (perhaps: they err on the side of a match), and within the bounds.
    InBloomFilter {
        column: usize,
        filters: Vec<BlockBloomFilter>,
        lower: Option<Bytes>,
        upper: Option<Bytes>,
    },
}

impl Predicate {
    /// Index of the column in the table's schema.
    pub const fn column(&self) -> usize {
        match self {
            Self::Range { column, .. }
            | Self::Equality { column, .. }
            | Self::InList { column, .. }
            | Self::IsNull { column }
            | Self::IsNotNull { column }
            | Self::InBloomFilter { column, .. } => *column,
        }
    }

    /// Checks the predicate against the table and turns it into a form that evaluates fast. Do it once a scan.
    pub fn prepare(&self, schema: &Schema) -> Result<Prepared, PredicateError> {
        Prepared::new(self, schema)
    }

    /// The raw values that the predicate compares with.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Bytes> {
        let (bounds, values) = match self {
            Self::Range { lower, upper, .. } | Self::InBloomFilter { lower, upper, .. } => {
                ([lower.as_ref(), upper.as_ref()], &[][..])
            }
            Self::Equality { value, .. } => ([Some(value), None], &[][..]),
            Self::InList { values, .. } => ([None, None], values.as_slice()),
            Self::IsNull { .. } | Self::IsNotNull { .. } => ([None, None], &[][..]),
        };
        bounds.into_iter().flatten().chain(values)
    }
}

/// A predicate that the table cannot answer; the fault of the client that sent it (INVALID_SCAN_SPEC).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum PredicateError {
    #[error("a predicate on column number {column}, but there are only {columns}")]
    NoSuchIndex { column: usize, columns: usize },
    #[error("a predicate on unknown column '{column}'")]
    NoSuchColumn { column: String },
    #[error("a predicate without a kind on column '{column}'")]
    NoKind { column: String },
    #[error("a predicate value of {bytes} bytes for column '{column}', {expected} are needed")]
    Width { column: String, bytes: usize, expected: usize },
    #[error("a range predicate without bounds on column '{column}'")]
    NoBounds { column: String },
    #[error("an equality predicate without a value on column '{column}'")]
    NoValue { column: String },
    #[error("a bloom filter predicate without filters on column '{column}'")]
    NoFilters { column: String },
    #[error("bloom filter predicate on column '{column}': {source}")]
    Bloom { column: String, source: crate::bloom::BloomError },
}

impl PredicateError {
    /// Always false: the predicate itself is wrong.
    pub const fn is_retriable(&self) -> bool {
        false
    }
}
