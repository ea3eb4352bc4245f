//! Steps that add and drop ranges.

use std::collections::{BTreeMap, HashSet};

use proto::kudu::master::alter_table_request_pb::{AddRangePartition, Step};
use proto::kudu::{PartitionPb, RowOperationsPb};
use schema::partition::{RangeBound, create_partitions, describe_range};
use schema::wire::partition::{hash_dimensions_from_pb, range_bounds_from_pb};
use schema::{PartitionError, PartitionSchema, RangeWithHash, Schema};

use crate::catalog::tables::NewTablet;
use crate::catalog::tablets::Tablet;
use crate::fault::Fault;

/// A range, as encoded keys `[lower, upper)`, empty where unbounded.
type Range = (Vec<u8>, Vec<u8>);

/// The ranges of a table while steps change them.
pub(super) struct Ranges<'a> {
    schema: &'a Schema,
    /// What the client takes for the schema; its bounds are rows of it.
    client: &'a Schema,
    partitioning: PartitionSchema,
    /// Ranges that are there, and their tablets.
    present: BTreeMap<Range, Vec<String>>,
    added: BTreeMap<Range, Vec<NewTablet>>,
    dropped: HashSet<String>,
}

impl<'a> Ranges<'a> {
    pub(super) fn of<'t>(
        schema: &'a Schema,
        client: &'a Schema,
        partitioning: &PartitionSchema,
        tablets: impl Iterator<Item = &'t Tablet>,
    ) -> Result<Self, Fault> {
        let mut present: BTreeMap<Range, Vec<String>> = BTreeMap::new();
        for tablet in tablets {
            let partition = schema::Partition::try_from(&tablet.partition).map_err(Fault::BadBounds)?;
            let range = (partition.range_start().to_vec(), partition.range_end().to_vec());
            present.entry(range).or_default().push(tablet.id.clone());
        }
        let (added, dropped) = (BTreeMap::new(), HashSet::new());
        Ok(Self { schema, client, partitioning: partitioning.clone(), present, added, dropped })
    }

    pub(super) fn add(&mut self, step: &Step) -> Result<(), Fault> {
        let wanted = step.add_range_partition.clone().unwrap_or_default();
        let AddRangePartition { range_bounds, dimension_label, custom_hash_schema } = wanted;
        let bound = self.bound(range_bounds.as_ref())?;
        let own_hash = match custom_hash_schema {
            None => None,
            Some(own) => {
                let own = hash_dimensions_from_pb(&own.hash_schema, self.schema).map_err(Fault::BadRange)?;
                let (expected, given) = (self.partitioning.hash_dimensions.len(), own.len());
                if expected != given {
                    return Err(PartitionError::DimensionCount { expected, given }.into());
                }
                (own != self.partitioning.hash_dimensions).then_some(own)
            }
        };
        let range = self.encode(&bound)?;
        self.is_free(&range)?;
        let of_range = PartitionSchema {
            hash_dimensions: own_hash.clone().unwrap_or_else(|| self.partitioning.hash_dimensions.clone()),
            range_columns: self.partitioning.range_columns.clone(),
            custom_ranges: Vec::new(),
        };
        let partitions = create_partitions(self.schema, &of_range, &[], &[bound])?;
        let tablet = |partition| NewTablet {
            partition: PartitionPb::from(partition),
            dimension_label: dimension_label.clone(),
        };
        let tablets = partitions.iter().map(tablet).collect();
        if let Some(hash_dimensions) = own_hash {
            let (lower, upper) = range.clone();
            self.partitioning.custom_ranges.push(RangeWithHash { lower, upper, hash_dimensions });
        }
        self.added.insert(range, tablets);
        Ok(())
    }

    pub(super) fn remove(&mut self, step: &Step) -> Result<(), Fault> {
        let bounds = step.drop_range_partition.as_ref().and_then(|wanted| wanted.range_bounds.as_ref());
        let bound = self.bound(bounds)?;
        let range = self.encode(&bound)?;
        if let Some(tablets) = self.present.remove(&range) {
            self.dropped.extend(tablets);
        } else if self.added.remove(&range).is_none() {
            return Err(Fault::NoSuchRange(self.describe(&range)));
        }
        self.partitioning.custom_ranges.retain(|own| (&own.lower, &own.upper) != (&range.0, &range.1));
        Ok(())
    }

    /// The partitioning afterwards, the tablets to be made and those to be dropped.
    pub(super) fn finish(mut self) -> (PartitionSchema, Vec<NewTablet>, HashSet<String>) {
        self.partitioning.simplify();
        (self.partitioning, self.added.into_values().flatten().collect(), self.dropped)
    }

    fn bound(&self, rows: Option<&RowOperationsPb>) -> Result<RangeBound, Fault> {
        let none = RowOperationsPb::default();
        let rows = range_bounds_from_pb(rows.unwrap_or(&none), self.client, self.schema);
        let spec = match rows {
            Err(schema::wire::WireError::Partition(PartitionError::UnpairedBound)) => {
                return Err(Fault::NotOneRange);
            }
            other => other.map_err(Fault::BadRange)?,
        };
        let mut bounds = spec.bounds;
        match (bounds.pop(), &bounds[..], &spec.splits[..]) {
            (Some(bound), [], []) => Ok(bound),
            _ => Err(Fault::NotOneRange),
        }
    }

    fn encode(&self, bound: &RangeBound) -> Result<Range, Fault> {
        bound.encode(self.schema, &self.partitioning).map_err(|error| match error {
            PartitionError::EmptyRange { lower, upper } => {
                Fault::RangeReversed(self.describe(&(lower, upper)))
            }
            other => other.into(),
        })
    }

    fn is_free(&self, range: &Range) -> Result<(), Fault> {
        let describe = || self.describe(range);
        if self.present.contains_key(range) {
            return Err(Fault::RangeExists(describe()));
        }
        if self.added.contains_key(range) {
            return Err(Fault::RangeAddedTwice(describe()));
        }
        if self.present.keys().any(|other| overlap(other, range)) {
            return Err(Fault::RangeConflicts(describe()));
        }
        if self.added.keys().any(|other| overlap(other, range)) {
            return Err(Fault::RangesConflict(describe()));
        }
        Ok(())
    }

    fn describe(&self, (lower, upper): &Range) -> String {
        let described = describe_range(self.schema, &self.partitioning.range_columns, lower, upper);
        described.unwrap_or_else(|error| error.to_string())
    }
}

fn overlap(one: &Range, other: &Range) -> bool {
    let below = |upper: &[u8], lower: &[u8]| !upper.is_empty() && upper <= lower;
    !below(&one.1, &other.0) && !below(&other.1, &one.0)
}
