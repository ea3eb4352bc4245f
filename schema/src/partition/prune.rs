//! Which partition keys a scan has to look at.

use bytes::Bytes;

use super::{
    PartitionSchema, ResolvedDimension, Source,
    create::{hash_prefix, prefix_end},
    hash_bucket,
    range::{End, encode_end, minimum, step_up},
    resolve, resolve_dimensions,
};
use crate::{
    Column, DataType, Predicate, Schema, bounds,
    key::{decode_key, encode_component},
};

/// Partition keys `[start, end)`; an empty end is unbounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// First key.
    pub start: Vec<u8>,
    /// One behind the last key; empty is unbounded.
    pub end: Vec<u8>,
}

impl KeyRange {
    /// Whether a key is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && (self.end.is_empty() || key < self.end.as_slice())
    }

    /// Whether a tablet has keys in the range.
    pub fn overlaps(&self, partition: &super::Partition) -> bool {
        (self.end.is_empty() || partition.start < self.end)
            && (partition.end.is_empty() || self.start < partition.end)
    }
}

/// The partition keys of all rows that may meet the predicates and lie in `[lower_key, upper_key)` (encoded primary keys,
/// empty where unbounded): ascending and disjoint ranges, none if no row can match.
///
/// Never leaves out a row that matches. What it cannot use (values of the wrong width, malformed keys, partition
/// schemas of another table) it does not prune by.
pub fn prune(
    schema: &Schema,
    partitioning: &PartitionSchema,
    predicates: &[Predicate],
    lower_key: &[u8],
    upper_key: &[u8],
) -> Vec<KeyRange> {
    let everything = vec![KeyRange::default()];
    if !upper_key.is_empty() && lower_key >= upper_key {
        return Vec::new();
    }
    let Some(constraints) = Constraint::collect(schema, predicates) else { return Vec::new() };
    let Ok(range_columns) = resolve(&partitioning.range_columns, schema) else { return everything };
    let (Ok(hash), Ok(custom)) = (
        resolve_dimensions(&partitioning.hash_dimensions, schema),
        partitioning
            .custom_ranges
            .iter()
            .map(|range| resolve_dimensions(&range.hash_dimensions, schema))
            .collect::<Result<Vec<_>, _>>(),
    ) else {
        return everything;
    };
    let Some((lower, upper)) = range_ends(schema, &range_columns, &constraints, lower_key, upper_key) else {
        return Vec::new();
    };

    if lower.is_empty() && upper.is_empty() && constraints.iter().all(|known| known.values.is_none()) {
        return everything;
    }

    // The range space, cut where the hashing changes.
    let mut pieces: Vec<(&[u8], &[u8], &[ResolvedDimension])> = partitioning
        .custom_ranges
        .iter()
        .zip(&custom)
        .map(|(range, dimensions)| (&range.lower[..], &range.upper[..], &dimensions[..]))
        .collect();
    pieces.sort_by_key(|(lower, ..)| *lower);
    let mut out = Vec::new();
    let mut covered: Option<&[u8]> = Some(&[]);
    for piece in pieces {
        if let Some(from) = covered
            && from < piece.0
        {
            emit((from, piece.0, &hash), (&lower, &upper), &constraints, &mut out);
        }
        emit(piece, (&lower, &upper), &constraints, &mut out);
        covered = (!piece.1.is_empty()).then_some(piece.1);
    }
    if let Some(from) = covered {
        emit((from, &[], &hash), (&lower, &upper), &constraints, &mut out);
    }
    merge(out)
}

/// What is known of a column.
#[derive(Clone, Debug, Default)]
struct Constraint {
    /// The only values it may have, ascending and without duplicates.
    values: Option<Vec<Bytes>>,
    /// Inclusive.
    lower: Option<Bytes>,
    /// Exclusive.
    upper: Option<Bytes>,
}

impl Constraint {
    /// One a key column; `None` if they cannot all hold.
    fn collect(schema: &Schema, predicates: &[Predicate]) -> Option<Vec<Self>> {
        let mut all = vec![Self::default(); schema.key_columns()];
        for predicate in predicates {
            let Some(column) = schema.columns().get(predicate.column()) else { continue };
            match predicate {
                Predicate::IsNull { .. } if !column.nullable => return None,
                Predicate::InList { values, .. } if values.is_empty() => return None,
                _ => {}
            }
            let Some(constraint) = all.get_mut(predicate.column()) else { continue };
            if predicate.values().all(|value| column.data_type.fits(value)) {
                constraint.add(column.data_type, predicate);
            }
        }
        for (constraint, column) in all.iter_mut().zip(schema.columns()) {
            constraint.settle(column.data_type)?;
        }
        Some(all)
    }

    fn add(&mut self, data_type: DataType, predicate: &Predicate) {
        let less = |a: &Bytes, b: &Bytes| order(data_type, a, b).is_lt();
        match predicate {
            Predicate::Range { lower, upper, .. } | Predicate::InBloomFilter { lower, upper, .. } => {
                if let Some(lower) = lower
                    && self.lower.as_ref().is_none_or(|known| less(known, lower))
                {
                    self.lower = Some(lower.clone());
                }
                if let Some(upper) = upper
                    && self.upper.as_ref().is_none_or(|known| less(upper, known))
                {
                    self.upper = Some(upper.clone());
                }
            }
            Predicate::Equality { .. } | Predicate::InList { .. } => {
                let mut values: Vec<Bytes> = predicate.values().cloned().collect();
                values.sort_by(|a, b| order(data_type, a, b));
                values.dedup();
                if let Some(known) = &self.values {
                    values.retain(|value| known.binary_search_by(|k| order(data_type, k, value)).is_ok());
                }
                self.values = Some(values);
            }
            Predicate::IsNull { .. } | Predicate::IsNotNull { .. } => {}
        }
    }

    /// Takes bounds and values together; `None` if nothing is left.
    fn settle(&mut self, data_type: DataType) -> Option<()> {
        if let Some(values) = &mut self.values {
            values.retain(|value| {
                self.lower.as_ref().is_none_or(|lower| order(data_type, lower, value).is_le())
                    && self.upper.as_ref().is_none_or(|upper| order(data_type, value, upper).is_lt())
            });
            return (!values.is_empty()).then_some(());
        }
        match (&self.lower, &self.upper) {
            (Some(lower), Some(upper)) if order(data_type, lower, upper).is_ge() => None,
            _ => Some(()),
        }
    }

    fn single(&self) -> Option<&Bytes> {
        self.values.as_ref().filter(|values| values.len() == 1)?.first()
    }
}

/// Compares raw cells of a key column.
fn order(data_type: DataType, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    if data_type.is_varlen() { a.cmp(b) } else { bounds::signed(a).cmp(&bounds::signed(b)) }
}

/// Encoded range keys `[lower, upper)` of all rows that can match, empty where unbounded; `None` if no row can.
fn range_ends(
    schema: &Schema,
    range_columns: &[Source],
    constraints: &[Constraint],
    lower_key: &[u8],
    upper_key: &[u8],
) -> Option<(Vec<u8>, Vec<u8>)> {
    let columns: Vec<&Column> = range_columns.iter().map(|source| &schema.columns()[source.index]).collect();
    let (mut lower, mut upper) = (Vec::new(), Vec::new());
    let mut inclusive = true;
    for constraint in range_columns.iter().map(|source| &constraints[source.index]) {
        if let Some(value) = constraint.single() {
            lower.push(Some(value.to_vec()));
            upper.push(Some(value.to_vec()));
            continue;
        }
        let values = constraint.values.as_deref().unwrap_or_default();
        if let Some(first) = values.first().or(constraint.lower.as_ref()) {
            lower.push(Some(first.to_vec()));
        }
        if let Some(last) = values.last() {
            upper.push(Some(last.to_vec()));
        } else if let Some(end) = &constraint.upper {
            upper.push(Some(end.to_vec()));
            inclusive = false;
        }
        break;
    }
    // One step behind the known columns is behind every row that starts with them.
    if inclusive && !step_up(&columns[..upper.len()], &mut upper) {
        upper.clear();
    }
    let fill = |mut cells: Vec<Option<Vec<u8>>>| {
        cells.resize(columns.len(), None);
        cells
    };
    let lower = match encode_end(&columns, fill(lower), false) {
        End::At(key) => key,
        _ => Vec::new(),
    };
    let upper = match encode_end(&columns, fill(upper), false) {
        End::At(key) if key.is_empty() => return None,
        End::At(key) => key,
        _ => Vec::new(),
    };
    let (key_lower, key_upper) = key_ends(schema, range_columns, &columns, lower_key, upper_key);
    let lower = lower.max(key_lower);
    let upper = match (upper.is_empty(), key_upper.is_empty()) {
        (true, _) => key_upper,
        (_, true) => upper,
        _ => upper.min(key_upper),
    };
    (upper.is_empty() || lower < upper).then_some((lower, upper))
}

/// The same from primary key bounds, if the range columns are the first key columns.
fn key_ends(
    schema: &Schema,
    range_columns: &[Source],
    columns: &[&Column],
    lower_key: &[u8],
    upper_key: &[u8],
) -> (Vec<u8>, Vec<u8>) {
    let (mut lower, mut upper) = (Vec::new(), Vec::new());
    if range_columns.iter().enumerate().any(|(place, source)| place != source.index) {
        return (lower, upper);
    }
    let cells = |key: &[u8]| -> Option<(Vec<Option<Vec<u8>>>, bool)> {
        let row = decode_key(schema, key).ok()?;
        let cell = |index: usize| row.cell(index).value().map(<[u8]>::to_vec);
        let is_minimum = |index: usize| cell(index) == Some(minimum(schema.columns()[index].data_type));
        let whole = (columns.len()..schema.key_columns()).all(is_minimum);
        Some(((0..columns.len()).map(cell).collect(), whole))
    };
    if !lower_key.is_empty()
        && let Some((cells, _)) = cells(lower_key)
        && let End::At(key) = encode_end(columns, cells, false)
    {
        lower = key;
    }
    if !upper_key.is_empty()
        && let Some((cells, whole)) = cells(upper_key)
        && let End::At(key) = encode_end(columns, cells, !whole)
    {
        upper = key;
    }
    (lower, upper)
}

/// Adds the partition keys of one piece of the range space.
fn emit(
    (from, to, dimensions): (&[u8], &[u8], &[ResolvedDimension]),
    (lower, upper): (&[u8], &[u8]),
    constraints: &[Constraint],
    out: &mut Vec<KeyRange>,
) {
    let lower = lower.max(from);
    let upper = match (upper.is_empty(), to.is_empty()) {
        (true, _) => to,
        (_, true) => upper,
        _ => upper.min(to),
    };
    if !upper.is_empty() && lower >= upper {
        return;
    }
    let allowed: Vec<_> =
        dimensions.iter().map(|dimension| allowed_buckets(dimension, constraints)).collect();
    let bounded = !(lower.is_empty() && upper.is_empty());
    let constrained = allowed.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    let depth = if bounded { dimensions.len() } else { constrained };
    if depth == 0 {
        return out.push(KeyRange { start: lower.to_vec(), end: upper.to_vec() });
    }
    let combinations = dimensions[..depth].iter().map(|d| u64::from(d.buckets)).fold(1, u64::saturating_mul);
    if combinations > MOST_BUCKETS {
        return out.push(KeyRange::default());
    }
    let lists: Vec<Vec<u32>> = allowed
        .into_iter()
        .zip(dimensions)
        .take(depth)
        .map(|(allowed, dimension)| allowed.unwrap_or_else(|| (0..dimension.buckets).collect()))
        .collect();
    each_combination(&lists.iter().map(Vec::len).collect::<Vec<_>>(), |places| {
        let buckets: Vec<u32> = places.iter().zip(&lists).map(|(place, list)| list[*place]).collect();
        let mut start = hash_prefix(&buckets);
        let mut end = if upper.is_empty() { prefix_end(&buckets) } else { start.clone() };
        start.extend_from_slice(lower);
        end.extend_from_slice(upper);
        out.push(KeyRange { start, end });
        true
    });
}

/// Buckets that rows which match may be in, ascending; `None` if nothing is known.
fn allowed_buckets(dimension: &ResolvedDimension, constraints: &[Constraint]) -> Option<Vec<u32>> {
    let lists = dimension
        .columns
        .iter()
        .map(|source| constraints.get(source.index)?.values.as_ref())
        .collect::<Option<Vec<_>>>()?;
    let lengths: Vec<_> = lists.iter().map(|list| list.len()).collect();
    let combinations = lengths.iter().map(|length| *length as u64).fold(1, u64::saturating_mul);
    if u64::from(dimension.buckets) > MOST_BUCKETS || (lists.len() > 1 && combinations > MOST_HASHES) {
        return None;
    }
    let mut hit = vec![false; dimension.buckets as usize];
    let mut missing = hit.len();
    let mut encoded = Vec::new();
    each_combination(&lengths, |places| {
        encoded.clear();
        for (index, ((source, list), place)) in dimension.columns.iter().zip(&lists).zip(places).enumerate() {
            encode_component(source.data_type, &list[*place], index + 1 == lists.len(), &mut encoded);
        }
        let bucket = hash_bucket(&encoded, dimension.seed, dimension.buckets) as usize;
        missing -= usize::from(!std::mem::replace(&mut hit[bucket], true));
        missing > 0
    });
    (missing > 0).then(|| (0..dimension.buckets).filter(|bucket| hit[*bucket as usize]).collect())
}

/// Calls with every choice of one place a list, the last list fastest, until told to stop. Lists are not empty.
fn each_combination(lengths: &[usize], mut call: impl FnMut(&[usize]) -> bool) {
    let mut places = vec![0; lengths.len()];
    while call(&places) {
        let Some(up) = (0..places.len()).rev().find(|i| places[*i] + 1 < lengths[*i]) else { return };
        places[up] += 1;
        places[up + 1..].fill(0);
    }
}

/// Puts ranges in order and joins those that touch.
fn merge(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.sort_by(|a, b| a.start.cmp(&b.start));
    let mut out: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if last.end.is_empty() || range.start <= last.end => {
                if !last.end.is_empty() && (range.end.is_empty() || range.end > last.end) {
                    last.end = range.end;
                }
            }
            _ => out.push(range),
        }
    }
    out
}

/// Above so many buckets, or combinations of them, hashing is not used to prune.
const MOST_BUCKETS: u64 = 1 << 17;
/// Above so many combinations of values they are not hashed; lists on one column always are.
const MOST_HASHES: u64 = 1 << 16;
