//! Range partitions, for tables that are made or altered.

use proto::kudu::partition_schema_pb::{
    ColumnIdentifierPb, HashBucketSchemaPb, column_identifier_pb::Identifier,
};
use schema::row_ops::{EncodeError, Encoder};
use schema::{OpKind, PartialRow, Schema};

/// One end of a range partition.
#[derive(Clone, Debug, PartialEq)]
pub enum RangeBound {
    /// No end.
    Unbounded,
    /// The row itself belongs to the range.
    Inclusive(PartialRow),
    /// The row itself does not belong to the range.
    Exclusive(PartialRow),
}

/// One range partition, with hash partitions of its own if wanted. Only range columns of the rows may be set; those
/// that are not count as their lowest value.
#[derive(Clone, Debug, PartialEq)]
pub struct RangePartition {
    lower: RangeBound,
    upper: RangeBound,
    pub(crate) hash: Option<Vec<Hash>>,
    pub(crate) dimension_label: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hash {
    pub(crate) columns: Vec<String>,
    pub(crate) buckets: u32,
    pub(crate) seed: u32,
}

impl RangePartition {
    /// A range between two bounds of any kind.
    pub fn new(lower: RangeBound, upper: RangeBound) -> RangePartition {
        RangePartition { lower, upper, hash: None, dimension_label: None }
    }

    /// The usual range: `lower` belongs to it, `upper` does not.
    pub fn between(lower: PartialRow, upper: PartialRow) -> RangePartition {
        RangePartition::new(RangeBound::Inclusive(lower), RangeBound::Exclusive(upper))
    }

    /// Gives this range hash partitions of its own in place of the table's; more calls add dimensions.
    #[must_use]
    pub fn hash(self, columns: &[&str], buckets: u32) -> RangePartition {
        self.hash_seeded(columns, buckets, 0)
    }

    /// As [`hash`](Self::hash), with a seed.
    #[must_use]
    pub fn hash_seeded(mut self, columns: &[&str], buckets: u32, seed: u32) -> RangePartition {
        self.hash.get_or_insert_default().push(Hash { columns: owned(columns), buckets, seed });
        self
    }

    /// Says that this range is not hash partitioned at all, whatever the table is.
    #[must_use]
    pub fn no_hash(mut self) -> RangePartition {
        self.hash = Some(Vec::new());
        self
    }

    /// A label by which the master spreads the tablets over servers, for a range that is added to a table.
    #[must_use]
    pub fn dimension_label(mut self, label: impl Into<String>) -> RangePartition {
        self.dimension_label = Some(label.into());
        self
    }

    /// The schema that the rows of the bounds are of, if there is such a row.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        [&self.lower, &self.upper].into_iter().find_map(RangeBound::row).map(PartialRow::schema)
    }

    /// Whether the rows of the bounds are of this schema.
    pub(crate) fn is_of(&self, schema: &Schema) -> bool {
        let rows = [&self.lower, &self.upper].into_iter().filter_map(RangeBound::row);
        rows.map(PartialRow::schema).all(|other| other == schema)
    }

    /// Appends both bounds, whose rows are of `schema`.
    pub(crate) fn push_bounds(&self, rows: &mut Encoder, schema: &Schema) -> Result<(), EncodeError> {
        let unbounded = PartialRow::new(schema);
        let (kind, row) = match &self.lower {
            RangeBound::Unbounded => (OpKind::RangeLowerBound, &unbounded),
            RangeBound::Inclusive(row) => (OpKind::RangeLowerBound, row),
            RangeBound::Exclusive(row) => (OpKind::ExclusiveRangeLowerBound, row),
        };
        rows.push(kind, row)?;
        let (kind, row) = match &self.upper {
            RangeBound::Unbounded => (OpKind::RangeUpperBound, &unbounded),
            RangeBound::Exclusive(row) => (OpKind::RangeUpperBound, row),
            RangeBound::Inclusive(row) => (OpKind::InclusiveRangeUpperBound, row),
        };
        rows.push(kind, row)
    }
}

impl RangeBound {
    fn row(&self) -> Option<&PartialRow> {
        match self {
            RangeBound::Unbounded => None,
            RangeBound::Inclusive(row) | RangeBound::Exclusive(row) => Some(row),
        }
    }
}

impl Hash {
    pub(crate) fn message(&self) -> HashBucketSchemaPb {
        HashBucketSchemaPb {
            columns: self.columns.iter().map(identifier).collect(),
            // More buckets than that are refused by the master, as they should be.
            num_buckets: i32::try_from(self.buckets).unwrap_or(i32::MAX),
            seed: Some(self.seed),
            ..Default::default()
        }
    }
}

pub(crate) fn identifier(name: impl Into<String>) -> ColumnIdentifierPb {
    ColumnIdentifierPb { identifier: Some(Identifier::Name(name.into())) }
}

pub(crate) fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
