//! How a table is cut into tablets, and which of them a row belongs to.
//!
//! A partition key is, for each hash dimension, the bucket (4 bytes, big endian), then the range columns encoded like a
//! key. Tablets cover `[start, end)` of it.

use std::collections::HashSet;

pub use self::{
    create::create_partitions,
    hash::{hash_bucket, murmur2_64a},
    prune::{KeyRange, prune},
    range::{RangeBound, RangeSpec, decode_range_key},
    text::{describe_bounds, describe_range},
};
use crate::{Cell, ColumnId, DataType, Schema, key::encode_component};

mod create;
mod hash;
mod prune;
mod range;
mod text;

/// Hashes some key columns into buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashDimension {
    /// In any order: they are hashed in the order of their ids.
    pub columns: Vec<ColumnId>,
    /// At least 2.
    pub buckets: u32,
    /// Of the hash.
    pub seed: u32,
}

/// A range that is hashed in its own way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeWithHash {
    /// Encoded range key, inclusive; empty is unbounded.
    pub lower: Vec<u8>,
    /// Encoded range key, exclusive; empty is unbounded.
    pub upper: Vec<u8>,
    /// As many as the table's.
    pub hash_dimensions: Vec<HashDimension>,
}

/// How a table is partitioned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionSchema {
    /// For all ranges without hash dimensions of their own.
    pub hash_dimensions: Vec<HashDimension>,
    /// Key columns; empty if the table has no range partitions.
    pub range_columns: Vec<ColumnId>,
    /// Ranges with hash dimensions of their own.
    pub custom_ranges: Vec<RangeWithHash>,
}

/// The keys and buckets of one tablet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// One a hash dimension.
    pub hash_buckets: Vec<u32>,
    /// First partition key.
    pub start: Vec<u8>,
    /// One behind the last partition key; empty is unbounded.
    pub end: Vec<u8>,
}

impl Partition {
    /// Whether a partition key is of this tablet.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && (self.end.is_empty() || key < self.end.as_slice())
    }

    /// The encoded range key the tablet starts at; empty is unbounded.
    pub fn range_start(&self) -> &[u8] {
        self.start.get(self.hash_buckets.len() * 4..).unwrap_or_default()
    }

    /// The encoded range key the tablet ends before; empty is unbounded.
    pub fn range_end(&self) -> &[u8] {
        self.end.get(self.hash_buckets.len() * 4..).unwrap_or_default()
    }
}

impl PartitionSchema {
    /// Checks the partitioning against the table: known key columns, none in two dimensions, two buckets or more, the same
    /// number of dimensions for all ranges.
    pub fn check(&self, schema: &Schema) -> Result<(), PartitionError> {
        let dimensions = self.hash_dimensions.len();
        check_dimensions(schema, &self.hash_dimensions)?;
        for range in &self.custom_ranges {
            check_dimensions(schema, &range.hash_dimensions)?;
            if range.hash_dimensions.len() != dimensions {
                return Err(PartitionError::DimensionCount {
                    expected: dimensions,
                    given: range.hash_dimensions.len(),
                });
            }
        }
        if !self.custom_ranges.is_empty() && self.range_columns.is_empty() {
            return Err(PartitionError::NoRangeColumns);
        }
        let mut seen = HashSet::new();
        for id in &self.range_columns {
            let index = key_column(schema, *id)?;
            if !seen.insert(index) {
                return Err(PartitionError::RepeatedColumn { column: name(schema, index) });
            }
        }
        Ok(())
    }

    /// Resolves the columns, for many keys.
    pub fn partitioner(&self, schema: &Schema) -> Result<Partitioner, PartitionError> {
        Partitioner::new(self, schema)
    }

    /// The partition key of one row, whose cells are in the order of the table's columns. For many rows keep a
    /// [`Partitioner`].
    pub fn partition_key(&self, schema: &Schema, cells: &[Cell<'_>]) -> Result<Vec<u8>, PartitionError> {
        let mut key = Vec::new();
        self.partitioner(schema)?.encode(cells, &mut key)?;
        Ok(key)
    }

    /// Drops the ranges that are hashed as the table is, which need not be remembered, and sorts the others.
    pub fn simplify(&mut self) {
        self.custom_ranges.retain(|range| range.hash_dimensions != self.hash_dimensions);
        self.custom_ranges.sort_by(|a, b| a.lower.cmp(&b.lower));
    }
}

/// A [`PartitionSchema`] whose columns have been found.
#[derive(Clone, Debug)]
pub struct Partitioner {
    range: Vec<Source>,
    hash: Vec<ResolvedDimension>,
    /// By lower bound.
    custom: Vec<(Vec<u8>, Vec<u8>, Vec<ResolvedDimension>)>,
}

#[derive(Clone, Copy, Debug)]
struct Source {
    index: usize,
    data_type: DataType,
}

/// The bucket of rows that are hashed by one column: for many rows faster than their keys.
#[derive(Clone, Copy, Debug)]
pub struct SingleHash {
    column: Source,
    buckets: u32,
    seed: u32,
}

impl SingleHash {
    /// The column, by its index in the table's schema.
    pub fn column(&self) -> usize {
        self.column.index
    }

    /// Number of buckets.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// The bucket of a row by its raw cell, which its partition key starts with (4 bytes, big endian); `None` for what is no
    /// cell of the column.
    pub fn bucket(&self, raw: &[u8]) -> Option<u32> {
        let Self { column: Source { data_type, .. }, buckets, seed } = *self;
        if !data_type.fits(raw) {
            return None;
        }
        if data_type.is_varlen() {
            return Some(hash_bucket(raw, seed, buckets));
        }
        if let Ok(raw) = raw.try_into() {
            let encoded = (u64::from_le_bytes(raw) ^ 1 << 63).to_be_bytes();
            return Some(hash_bucket(&encoded, seed, buckets));
        }
        let mut encoded = [0; 16];
        encoded.iter_mut().zip(raw.iter().rev()).for_each(|(to, from)| *to = *from);
        encoded[0] ^= 0x80;
        Some(hash_bucket(encoded.get(..raw.len())?, seed, buckets))
    }
}

#[derive(Clone, Debug)]
struct ResolvedDimension {
    columns: Vec<Source>,
    buckets: u32,
    seed: u32,
}

impl Partitioner {
    fn new(partitioning: &PartitionSchema, schema: &Schema) -> Result<Self, PartitionError> {
        partitioning.check(schema)?;
        let mut custom = partitioning
            .custom_ranges
            .iter()
            .map(|range| {
                let hash = resolve_dimensions(&range.hash_dimensions, schema)?;
                Ok((range.lower.clone(), range.upper.clone(), hash))
            })
            .collect::<Result<Vec<_>, PartitionError>>()?;
        custom.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Self {
            range: resolve(&partitioning.range_columns, schema)?,
            hash: resolve_dimensions(&partitioning.hash_dimensions, schema)?,
            custom,
        })
    }

    /// The hash of one column that is the first part of each partition key, and all of it but for the range columns; `None` if
    /// rows are hashed otherwise.
    pub fn single_hash(&self) -> Option<SingleHash> {
        match &self.hash[..] {
            [ResolvedDimension { columns, buckets, seed }] if self.custom.is_empty() => {
                let [column] = columns[..] else { return None };
                Some(SingleHash { column, buckets: *buckets, seed: *seed })
            }
            _ => None,
        }
    }

    /// Appends the partition key of a row, whose cells are in the order of the table's columns.
    pub fn encode(&self, cells: &[Cell<'_>], out: &mut Vec<u8>) -> Result<(), PartitionError> {
        let start = out.len();
        let result = self.try_encode(cells, out);
        result.inspect_err(|_| out.truncate(start))
    }

    fn try_encode(&self, cells: &[Cell<'_>], out: &mut Vec<u8>) -> Result<(), PartitionError> {
        // What is only looked at goes to the end of `out` for a moment.
        let hash = if self.custom.is_empty() {
            &self.hash
        } else {
            let at = out.len();
            encode_sources(&self.range, cells, out)?;
            let hash = self.dimensions_at(&out[at..]);
            out.truncate(at);
            hash
        };
        for dimension in hash {
            let at = out.len();
            encode_sources(&dimension.columns, cells, out)?;
            let bucket = hash_bucket(&out[at..], dimension.seed, dimension.buckets);
            out.truncate(at);
            out.extend_from_slice(&bucket.to_be_bytes());
        }
        encode_sources(&self.range, cells, out)
    }

    fn dimensions_at(&self, range_key: &[u8]) -> &[ResolvedDimension] {
        let behind = self.custom.partition_point(|(lower, ..)| lower.as_slice() <= range_key);
        match behind.checked_sub(1).map(|at| &self.custom[at]) {
            Some((_, upper, hash)) if upper.is_empty() || range_key < upper.as_slice() => hash,
            _ => &self.hash,
        }
    }
}

fn encode_sources(sources: &[Source], cells: &[Cell<'_>], out: &mut Vec<u8>) -> Result<(), PartitionError> {
    for (place, source) in sources.iter().enumerate() {
        match cells.get(source.index) {
            Some(Cell::Value(raw)) if source.data_type.fits(raw) => {
                encode_component(source.data_type, raw, place + 1 == sources.len(), out);
            }
            _ => return Err(PartitionError::MissingCell { index: source.index }),
        }
    }
    Ok(())
}

fn resolve(columns: &[ColumnId], schema: &Schema) -> Result<Vec<Source>, PartitionError> {
    let one = |id: &ColumnId| {
        let index = key_column(schema, *id)?;
        Ok(Source { index, data_type: schema.columns()[index].data_type })
    };
    columns.iter().map(one).collect()
}

fn resolve_dimensions(
    dimensions: &[HashDimension],
    schema: &Schema,
) -> Result<Vec<ResolvedDimension>, PartitionError> {
    let one = |dimension: &HashDimension| {
        let mut columns = dimension.columns.clone();
        columns.sort_unstable();
        let columns = resolve(&columns, schema)?;
        Ok(ResolvedDimension { columns, buckets: dimension.buckets, seed: dimension.seed })
    };
    dimensions.iter().map(one).collect()
}

fn check_dimensions(schema: &Schema, dimensions: &[HashDimension]) -> Result<(), PartitionError> {
    let mut seen = HashSet::new();
    for dimension in dimensions {
        if dimension.columns.is_empty() {
            return Err(PartitionError::EmptyDimension);
        }
        if dimension.buckets < 2 {
            return Err(PartitionError::TooFewBuckets { buckets: dimension.buckets });
        }
        for id in &dimension.columns {
            let index = key_column(schema, *id)?;
            if !seen.insert(index) {
                return Err(PartitionError::RepeatedColumn { column: name(schema, index) });
            }
        }
    }
    Ok(())
}

fn key_column(schema: &Schema, id: ColumnId) -> Result<usize, PartitionError> {
    let index = schema.index_of_id(id).ok_or(PartitionError::NoSuchId { id: id.0 })?;
    if index < schema.key_columns() {
        Ok(index)
    } else {
        Err(PartitionError::NotKey { column: name(schema, index) })
    }
}

fn name(schema: &Schema, index: usize) -> String {
    schema.columns().get(index).map(|column| column.name.clone()).unwrap_or_default()
}

/// A partitioning that cannot be, or a row that has no place in it; the fault of whoever asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// A column id that the schema does not have.
    #[error("no column with id {id}")]
    NoSuchId {
        /// The id.
        id: u32,
    },
    /// A column name that the schema does not have.
    #[error("no column '{column}'")]
    NoSuchColumn {
        /// Name of the column.
        column: String,
    },
    /// A column that is given by nothing.
    #[error("a column of a partition schema has neither name nor id")]
    UnnamedColumn,
    /// Rows are told apart by key columns only.
    #[error("must specify only primary key columns for partitions, '{column}' is none")]
    NotKey {
        /// Name of the column.
        column: String,
    },
    /// A column may be in one hash dimension or among the range columns once.
    #[error("column '{column}' is used twice among hash dimensions or range columns")]
    RepeatedColumn {
        /// Name of the column.
        column: String,
    },
    /// A hash dimension without columns.
    #[error("must have at least one column in a hash dimension")]
    EmptyDimension,
    /// One bucket parts nothing.
    #[error("must have at least two hash buckets, not {buckets}")]
    TooFewBuckets {
        /// How many buckets were asked for.
        buckets: u32,
    },
    /// NOT_SUPPORTED; the others are INVALID_ARGUMENT.
    #[error(
        "varying number of hash dimensions per range is not yet supported ({given}, the table has {expected})"
    )]
    DimensionCount {
        /// Hash dimensions of the table.
        expected: usize,
        /// Hash dimensions of the range.
        given: usize,
    },
    /// Ranges hashed in their own way for a table that is not partitioned by range.
    #[error("ranges need range columns, the table has none")]
    NoRangeColumns,
    /// Two ways to give ranges that cannot be mixed.
    #[error("ranges with hash dimensions of their own exclude split rows and other range bounds")]
    CustomAndPlain,
    /// A bound sets a column that has no part in ranges.
    #[error("a value for column '{column}', which is no range column")]
    NotRangeColumn {
        /// Name of the column.
        column: String,
    },
    /// A split row that splits nowhere.
    #[error("split rows must contain a value for at least one range partition column")]
    EmptySplit,
    /// The same split row twice.
    #[error("duplicate split row")]
    DuplicateSplit,
    /// A split row that splits no range.
    #[error("a split row lies outside of the range bounds, or on one of them")]
    SplitOutOfBounds,
    /// A range without room.
    #[error("range partition lower bound must be less than the upper bound")]
    EmptyRange {
        /// Lower bound, encoded.
        lower: Vec<u8>,
        /// Upper bound, encoded.
        upper: Vec<u8>,
    },
    /// No key is above the bound.
    #[error("exclusive range partition lower bound must not have maximum values for all components")]
    LowerAtMaximum,
    /// Two ranges share keys.
    #[error("overlapping range partitions: [{}) and [{})", hex(.first), hex(.second))]
    Overlap {
        /// Lower and upper bound of the one range, encoded; empty = unbounded.
        first: (Vec<u8>, Vec<u8>),
        /// Lower and upper bound of the other range.
        second: (Vec<u8>, Vec<u8>),
    },
    /// An odd number of bounds.
    #[error("a range bound without its partner: lower and upper bounds come in pairs")]
    UnpairedBound,
    /// A bound's row is wrong.
    #[error("range bounds: {0}")]
    Bound(#[from] crate::RowFault),
    /// The bounds' columns are not those of the table.
    #[error("range bounds: {0}")]
    Columns(#[from] crate::projection::ProjectionError),
    /// The bytes of the bounds are wrong.
    #[error("range bounds: {0}")]
    Ops(#[from] crate::RowOpError),
    /// A range key that was not encoded by this partitioning.
    #[error("the encoded range key is cut or malformed")]
    RangeKey,
    /// More partitions than a table may have.
    #[error("{partitions} partitions, {most} at most")]
    TooManyPartitions {
        /// How many partitions there would be.
        partitions: u64,
        /// The most that is allowed.
        most: u64,
    },
    /// More rows than a request may have.
    #[error("{rows} split rows and bounds, {most} at most")]
    TooManyBounds {
        /// How many there are.
        rows: usize,
        /// The most that is allowed.
        most: usize,
    },
    /// A partition column is unset or NULL.
    #[error("the row has no value for partition column number {index}")]
    MissingCell {
        /// Its place among the partition columns, from 0.
        index: usize,
    },
}

impl PartitionError {
    /// True where Kudu says NOT_SUPPORTED instead of INVALID_ARGUMENT.
    pub const fn is_not_supported(&self) -> bool {
        matches!(self, Self::DimensionCount { .. })
    }

    /// Always false: the definition or the row itself is wrong.
    pub const fn is_retriable(&self) -> bool {
        false
    }
}

fn hex((lower, upper): &(Vec<u8>, Vec<u8>)) -> String {
    let one = |key: &[u8]| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("{}, {}", one(lower), one(upper))
}
