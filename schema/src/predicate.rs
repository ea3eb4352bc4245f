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
pub enum Predicate {
    /// At least `lower` and less than `upper`; one of them may be absent, both must not be.
    Range {
        /// Index of the column in the table's schema.
        column: usize,
        /// Inclusive; absent = unbounded.
        lower: Option<Bytes>,
        /// Exclusive; absent = unbounded.
        upper: Option<Bytes>,
    },
    /// Equal to the value.
    Equality {
        /// Index of the column in the table's schema.
        column: usize,
        /// Raw cell of the column's type.
        value: Bytes,
    },
    /// Equal to one of the values, which may come in any order and repeatedly; an empty list matches nothing.
    InList {
        /// Index of the column in the table's schema.
        column: usize,
        /// Raw cells of the column's type.
        values: Vec<Bytes>,
    },
    /// NULL.
    IsNull {
        /// Index of the column in the table's schema.
        column: usize,
    },
    /// Not NULL.
    IsNotNull {
        /// Index of the column in the table's schema.
        column: usize,
    },
    /// In all of the filters (perhaps: they err on the side of a match), and within the bounds.
    InBloomFilter {
        /// Index of the column in the table's schema.
        column: usize,
        /// The filters.
        filters: Vec<BlockBloomFilter>,
        /// Inclusive; absent = unbounded.
        lower: Option<Bytes>,
        /// Exclusive; absent = unbounded.
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
pub enum PredicateError {
    /// A column that the table does not have, by index.
    #[error("a predicate on column number {column}, but there are only {columns}")]
    NoSuchIndex {
        /// The index.
        column: usize,
        /// How many columns there are.
        columns: usize,
    },
    /// A column that the table does not have, by name.
    #[error("a predicate on unknown column '{column}'")]
    NoSuchColumn {
        /// Name of the column.
        column: String,
    },
    /// A message that says nothing about the column.
    #[error("a predicate without a kind on column '{column}'")]
    NoKind {
        /// Name of the column.
        column: String,
    },
    /// A raw value that is not as wide as its type.
    #[error("a predicate value of {bytes} bytes for column '{column}', {expected} are needed")]
    Width {
        /// Name of the column.
        column: String,
        /// How wide it is.
        bytes: usize,
        /// How wide it should be.
        expected: usize,
    },
    /// A range without lower and upper bound.
    #[error("a range predicate without bounds on column '{column}'")]
    NoBounds {
        /// Name of the column.
        column: String,
    },
    /// An equality with nothing.
    #[error("an equality predicate without a value on column '{column}'")]
    NoValue {
        /// Name of the column.
        column: String,
    },
    /// A bloom filter predicate without filters.
    #[error("a bloom filter predicate without filters on column '{column}'")]
    NoFilters {
        /// Name of the column.
        column: String,
    },
    /// One of the filters is wrong.
    #[error("bloom filter predicate on column '{column}': {source}")]
    Bloom {
        /// Name of the column.
        column: String,
        /// What is wrong with it.
        source: crate::bloom::BloomError,
    },
}

impl PredicateError {
    /// Always false: the predicate itself is wrong.
    pub const fn is_retriable(&self) -> bool {
        false
    }
}
