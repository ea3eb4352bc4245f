//! The tablets of a new table.

use super::{HashDimension, Partition, PartitionError, PartitionSchema, RangeBound, range::split_key};
use crate::{PartialRow, Schema};

/// Most tablets that one call makes; the master's own limits are lower.
const MOST: u64 = 100_000;

/// Cuts a table into tablets, sorted by partition key. Either custom ranges are in the partition schema (all ranges then,
/// also those hashed as the table is), or split rows and bounds are given: bounds alone cover what they cover, splits
/// cut within the bounds, and without bounds everything is covered.
pub fn create_partitions(
    schema: &Schema,
    partitioning: &PartitionSchema,
    splits: &[PartialRow],
    bounds: &[RangeBound],
) -> Result<Vec<Partition>, PartitionError> {
    partitioning.check(schema)?;
    let custom = &partitioning.custom_ranges;
    let plain = !splits.is_empty() || !bounds.is_empty();
    if !custom.is_empty() && plain {
        return Err(PartitionError::CustomAndPlain);
    }
    let mut ranges: Vec<(EncodedRange, &[HashDimension])> = if custom.is_empty() {
        let ranges = plain_ranges(schema, partitioning, splits, bounds)?;
        ranges.into_iter().map(|range| (range, &partitioning.hash_dimensions[..])).collect()
    } else {
        custom.iter().map(|r| ((r.lower.clone(), r.upper.clone()), &r.hash_dimensions[..])).collect()
    };
    ranges.sort_by(|a, b| a.0.cmp(&b.0));
    check_overlap(ranges.iter().map(|(range, _)| range))?;
    let tablets = |dimensions: &[HashDimension]| {
        dimensions.iter().map(|d| u64::from(d.buckets)).fold(1, u64::saturating_mul)
    };
    let partitions = ranges.iter().map(|(_, hash)| tablets(hash)).fold(0, u64::saturating_add);
    if partitions > MOST {
        return Err(PartitionError::TooManyPartitions { partitions, most: MOST });
    }
    let mut out = Vec::with_capacity(partitions as usize);
    for ((lower, upper), dimensions) in ranges {
        let mut buckets = vec![0; dimensions.len()];
        loop {
            out.push(partition(&buckets, &lower, &upper));
            // Count up, the last dimension first.
            let Some(place) = (0..buckets.len()).rev().find(|i| buckets[*i] + 1 < dimensions[*i].buckets)
            else {
                break;
            };
            buckets[place] += 1;
            buckets[place + 1..].fill(0);
        }
    }
    out.sort_by(|a, b| a.start.cmp(&b.start));
    Ok(out)
}

/// The tablet of these buckets and this range.
fn partition(buckets: &[u32], lower: &[u8], upper: &[u8]) -> Partition {
    let mut start = hash_prefix(buckets);
    let mut end = if upper.is_empty() { prefix_end(buckets) } else { start.clone() };
    start.extend_from_slice(lower);
    end.extend_from_slice(upper);
    Partition { hash_buckets: buckets.to_vec(), start, end }
}

pub(super) fn hash_prefix(buckets: &[u32]) -> Vec<u8> {
    buckets.iter().flat_map(|bucket| bucket.to_be_bytes()).collect()
}

/// What stands behind everything of these buckets: the last one plus 1.
pub(super) fn prefix_end(buckets: &[u32]) -> Vec<u8> {
    let mut buckets = buckets.to_vec();
    if let Some(last) = buckets.last_mut() {
        *last += 1;
    }
    hash_prefix(&buckets)
}

fn plain_ranges(
    schema: &Schema,
    partitioning: &PartitionSchema,
    splits: &[PartialRow],
    bounds: &[RangeBound],
) -> Result<Vec<EncodedRange>, PartitionError> {
    let mut keys =
        splits.iter().map(|row| split_key(schema, partitioning, row)).collect::<Result<Vec<_>, _>>()?;
    keys.sort();
    if keys.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(PartitionError::DuplicateSplit);
    }
    let mut ranges =
        bounds.iter().map(|bound| bound.encode(schema, partitioning)).collect::<Result<Vec<_>, _>>()?;
    if ranges.is_empty() {
        ranges.push((Vec::new(), Vec::new()));
    }
    ranges.sort();
    check_overlap(ranges.iter())?;
    let mut out = Vec::with_capacity(ranges.len() + keys.len());
    let mut keys = keys.into_iter().peekable();
    for (mut lower, upper) in ranges {
        while let Some(key) = keys.next_if(|key| upper.is_empty() || *key < upper) {
            if key <= lower {
                return Err(PartitionError::SplitOutOfBounds);
            }
            out.push((std::mem::replace(&mut lower, key.clone()), key));
        }
        out.push((lower, upper));
    }
    if keys.next().is_some() { Err(PartitionError::SplitOutOfBounds) } else { Ok(out) }
}

/// Ranges sorted by their lower bound must not meet.
fn check_overlap<'a>(ranges: impl Iterator<Item = &'a EncodedRange>) -> Result<(), PartitionError> {
    let mut previous: Option<&EncodedRange> = None;
    for range in ranges {
        if let Some(first) = previous
            && (first.1.is_empty() || range.0 < first.1)
        {
            return Err(PartitionError::Overlap { first: first.clone(), second: range.clone() });
        }
        previous = Some(range);
    }
    Ok(())
}

/// Encoded range keys `[lower, upper)`, empty where unbounded.
type EncodedRange = (Vec<u8>, Vec<u8>);
