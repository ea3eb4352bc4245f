//! PartitionSchemaPB, PartitionPB, and the split rows and bounds of RowOperationsPB.

use proto::kudu::{
    HashAlgorithm, PartitionPb, PartitionSchemaPb, RowOperationsPb,
    partition_schema_pb::{
        ColumnIdentifierPb, HashBucketSchemaPb, RangeSchemaPb, RangeWithHashSchemaPb,
        column_identifier_pb::Identifier,
    },
};

use super::WireError;
use crate::{
    ColumnId, HashDimension, OpKind, PartialRow, Partition, PartitionError, PartitionSchema, RangeWithHash,
    Schema,
    partition::{RangeBound, RangeSpec, decode_range_key},
    row_ops::Encoder,
};

/// Reads and checks a partition schema over the table's schema. A missing range part means the whole key but for a column that counts by itself, an empty one
/// none.
pub fn partition_schema_from_pb(
    pb: &PartitionSchemaPb,
    schema: &Schema,
) -> Result<PartitionSchema, WireError> {
    let range_columns = match &pb.range_schema {
        Some(range) => ids(&range.columns, schema)?,
        // A number that the tablet gives is no part of the partition key: nobody has it before the tablet is found.
        None => {
            let counts =
                |index: &usize| schema.columns().get(*index).is_some_and(|column| column.auto_incrementing);
            (0..schema.key_columns()).filter(|index| !counts(index)).map(|index| schema.id(index)).collect()
        }
    };
    let mut partitioning = PartitionSchema {
        hash_dimensions: hash_dimensions_from_pb(&pb.hash_schema, schema)?,
        range_columns,
        ..Default::default()
    };
    partitioning.check(schema)?;
    for range in &pb.custom_hash_schema_ranges {
        let rows = range.range_bounds.clone().unwrap_or_default();
        let spec = range_spec_from_pb(&rows, schema)?;
        let ([bound], []) = (&spec.bounds[..], &spec.splits[..]) else {
            return Err(WireError::CustomBounds { ranges: spec.bounds.len() });
        };
        let (lower, upper) = bound.encode(schema, &partitioning)?;
        let hash_dimensions = hash_dimensions_from_pb(&range.hash_schema, schema)?;
        partitioning.custom_ranges.push(RangeWithHash { lower, upper, hash_dimensions });
    }
    partitioning.check(schema)?;
    Ok(partitioning)
}

/// Reads hash dimensions over the table's schema; [`PartitionSchema::check`] says whether they can be.
pub fn hash_dimensions_from_pb(
    hash: &[HashBucketSchemaPb],
    schema: &Schema,
) -> Result<Vec<HashDimension>, WireError> {
    let one = |pb: &HashBucketSchemaPb| {
        match pb.hash_algorithm.unwrap_or_default() {
            number if number == HashAlgorithm::UnknownHash as i32 => {}
            number if number == HashAlgorithm::MurmurHash2 as i32 => {}
            number => return Err(WireError::HashAlgorithm { number }),
        }
        Ok(HashDimension {
            columns: ids(&pb.columns, schema)?,
            // A negative number is as wrong as none.
            buckets: u32::try_from(pb.num_buckets).unwrap_or(0),
            seed: pb.seed(),
        })
    };
    hash.iter().map(one).collect()
}

fn ids(columns: &[ColumnIdentifierPb], schema: &Schema) -> Result<Vec<ColumnId>, WireError> {
    let one = |pb: &ColumnIdentifierPb| match &pb.identifier {
        Some(Identifier::Id(id)) => Ok(ColumnId(*id as u32)),
        Some(Identifier::Name(name)) => {
            let index = schema.index_of(name);
            index
                .map(|index| schema.id(index))
                .ok_or_else(|| PartitionError::NoSuchColumn { column: name.clone() })
        }
        None => Err(PartitionError::UnnamedColumn),
    };
    Ok(columns.iter().map(one).collect::<Result<_, _>>()?)
}

/// How columns are named in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// As clients do that create a table.
    ByName,
    /// As the master does.
    ById,
}

/// Writes a partition schema; the bounds of custom ranges are over the table's columns.
pub fn partition_schema_to_pb(
    partitioning: &PartitionSchema,
    schema: &Schema,
    naming: Naming,
) -> Result<PartitionSchemaPb, WireError> {
    let column = |id: &ColumnId| {
        let name = || schema.index_of_id(*id).and_then(|index| schema.columns().get(index));
        let identifier = match naming {
            Naming::ById => Identifier::Id(id.0 as i32),
            Naming::ByName => {
                Identifier::Name(name().ok_or(PartitionError::NoSuchId { id: id.0 })?.name.clone())
            }
        };
        Ok(ColumnIdentifierPb { identifier: Some(identifier) })
    };
    let columns = |ids: &[ColumnId]| ids.iter().map(column).collect::<Result<Vec<_>, PartitionError>>();
    let hash = |dimensions: &[HashDimension]| {
        let one = |dimension: &HashDimension| {
            Ok(HashBucketSchemaPb {
                columns: columns(&dimension.columns)?,
                num_buckets: i32::try_from(dimension.buckets).unwrap_or(i32::MAX),
                seed: Some(dimension.seed),
                hash_algorithm: None,
            })
        };
        dimensions.iter().map(one).collect::<Result<Vec<_>, PartitionError>>()
    };
    let range = |range: &RangeWithHash| {
        let row = |key: &[u8]| decode_range_key(schema, &partitioning.range_columns, key);
        let bound = RangeBound::new(row(&range.lower)?, row(&range.upper)?);
        let spec = RangeSpec { splits: Vec::new(), bounds: vec![bound] };
        Ok(RangeWithHashSchemaPb {
            range_bounds: Some(range_spec_to_pb(&spec, schema)?),
            hash_schema: hash(&range.hash_dimensions)?,
        })
    };
    Ok(PartitionSchemaPb {
        hash_schema: hash(&partitioning.hash_dimensions)?,
        range_schema: Some(RangeSchemaPb { columns: columns(&partitioning.range_columns)? }),
        custom_hash_schema_ranges: partitioning
            .custom_ranges
            .iter()
            .map(range)
            .collect::<Result<_, WireError>>()?,
    })
}

/// Reads split rows and bounds, whose columns are those of the table's schema.
pub fn range_spec_from_pb(pb: &RowOperationsPb, schema: &Schema) -> Result<RangeSpec, WireError> {
    Ok(RangeSpec::decode(schema, pb.rows(), pb.indirect_data())?)
}

/// As [`range_spec_from_pb`], where the columns are those that a client believes the table to have.
pub fn range_bounds_from_pb(
    pb: &RowOperationsPb,
    client: &Schema,
    schema: &Schema,
) -> Result<RangeSpec, WireError> {
    Ok(RangeSpec::decode_for(client, schema, pb.rows(), pb.indirect_data())?)
}

/// Writes split rows and bounds.
pub fn range_spec_to_pb(spec: &RangeSpec, schema: &Schema) -> Result<RowOperationsPb, WireError> {
    let mut encoder = Encoder::new(schema);
    // Rows of this schema always fit, those of another are the caller's mistake.
    let mut push = |kind, row: &PartialRow| encoder.push(kind, row).map_err(|_| PartitionError::RangeKey);
    for row in &spec.splits {
        push(OpKind::SplitRow, row)?;
    }
    for bound in &spec.bounds {
        let lower =
            if bound.lower_exclusive { OpKind::ExclusiveRangeLowerBound } else { OpKind::RangeLowerBound };
        let upper =
            if bound.upper_inclusive { OpKind::InclusiveRangeUpperBound } else { OpKind::RangeUpperBound };
        push(lower, &bound.lower)?;
        push(upper, &bound.upper)?;
    }
    Ok(encoder.into())
}

impl TryFrom<&PartitionPb> for Partition {
    type Error = WireError;

    fn try_from(pb: &PartitionPb) -> Result<Self, WireError> {
        let bucket = |bucket: &i32| u32::try_from(*bucket).map_err(|_| WireError::Bucket { bucket: *bucket });
        Ok(Self {
            hash_buckets: pb.hash_buckets.iter().map(bucket).collect::<Result<_, _>>()?,
            start: pb.partition_key_start().to_vec(),
            end: pb.partition_key_end().to_vec(),
        })
    }
}

impl From<&Partition> for PartitionPb {
    fn from(partition: &Partition) -> Self {
        let bucket = |bucket: &u32| i32::try_from(*bucket).unwrap_or(i32::MAX);
        Self {
            hash_buckets: partition.hash_buckets.iter().map(bucket).collect(),
            partition_key_start: Some(partition.start.clone().into()),
            partition_key_end: Some(partition.end.clone().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, DataType};

    #[test]
    fn without_ranges_the_key_is_the_range_but_for_the_number_that_a_tablet_gives() {
        let number = Column::new("number", DataType::Int64).auto_incrementing(true);
        let columns = vec![Column::new("k", DataType::Int32), number, Column::new("v", DataType::String)];
        let schema = Schema::new(columns, 2).unwrap().with_sequential_ids(10);
        let partitioning = partition_schema_from_pb(&PartitionSchemaPb::default(), &schema).unwrap();
        assert_eq!(partitioning.range_columns, [ColumnId(10)]);
    }
}
