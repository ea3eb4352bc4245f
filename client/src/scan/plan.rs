//! A scan that fits its table.

use std::time::Duration;

use proto::kudu::ColumnPredicatePb;
use schema::partition::{self, KeyRange};
use schema::wire::predicate::predicate_to_pb;
use schema::{Column, DataType, PartialRow, Predicate, Schema, Timestamp, key};

use super::builder::{Projection, ScanBuilder};
use super::{Layout, ReadMode, ReplicaSelection, ScanError};
use crate::table::Table;

/// The part of a table that a token is for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) partitions: KeyRange,
    /// Encoded primary keys, empty where unbounded.
    pub(crate) lower_key: Vec<u8>,
    pub(crate) upper_key: Vec<u8>,
}

/// All that the calls of a scan need.
pub(crate) struct Plan {
    pub(crate) table: Table,
    /// The wanted columns of the table; the projection may have a virtual one behind them.
    pub(crate) columns: Vec<usize>,
    pub(crate) projection: Schema,
    pub(crate) predicates: Vec<ColumnPredicatePb>,
    pub(crate) has_bloom_filter: bool,
    pub(crate) ranges: Vec<KeyRange>,
    pub(crate) lower_key: Vec<u8>,
    pub(crate) upper_key: Vec<u8>,
    pub(crate) limit: Option<u64>,
    pub(crate) read_mode: ReadMode,
    /// Changes since then are wanted, and no state.
    pub(crate) since: Option<Timestamp>,
    pub(crate) layout: Layout,
    pub(crate) batch_bytes: Option<u32>,
    pub(crate) selection: ReplicaSelection,
    pub(crate) is_fault_tolerant: bool,
    pub(crate) timeout: Duration,
    pub(crate) keep_alive: Duration,
    pub(crate) cache_blocks: bool,
    pub(crate) query_id: String,
}

impl ScanBuilder {
    pub(crate) fn plan(self) -> Result<Plan, ScanError> {
        let table_schema = self.table.schema();
        let columns = columns(table_schema, &self.projection)?;
        let projection = projection(&self.table, &columns, self.diff.is_some())?;
        let mut predicates: Vec<Predicate> =
            self.filters.iter().map(|filter| filter.resolve(table_schema)).collect::<Result<_, _>>()?;
        predicates.extend(self.predicates);
        let key = |row: &Option<PartialRow>| match row {
            Some(row) => {
                key::encode_key(table_schema, &row.cells()).map_err(|source| ScanError::Key { source })
            }
            None => Ok(Vec::new()),
        };
        let lower_key = key(&self.lower)?.max(self.part.lower_key);
        let upper_key = earlier_end(key(&self.upper)?, self.part.upper_key);
        let partitioning = self.table.partition_schema();
        let ranges = partition::prune(table_schema, partitioning, &predicates, &lower_key, &upper_key);
        let ranges = ranges.into_iter().filter_map(|range| common(range, &self.part.partitions)).collect();
        let messages = predicates.iter().map(|predicate| predicate_to_pb(predicate, table_schema));
        let messages =
            messages.collect::<Result<_, _>>().map_err(|source| ScanError::Predicate { source })?;
        let read_mode = match (self.diff, self.read_mode) {
            (Some((_, end)), _) => ReadMode::Snapshot(end),
            // Servers scan in order on snapshots only; the timestamp sent along makes this one hold the own writes.
            (None, ReadMode::Latest | ReadMode::ReadYourWrites) if self.is_fault_tolerant => {
                ReadMode::SnapshotNow
            }
            (None, mode) => mode,
        };
        let is_bloom_filter = |predicate: &Predicate| matches!(predicate, Predicate::InBloomFilter { .. });
        Ok(Plan {
            columns,
            projection,
            has_bloom_filter: predicates.iter().any(is_bloom_filter),
            predicates: messages,
            ranges,
            lower_key,
            upper_key,
            limit: self.limit,
            read_mode,
            since: self.diff.map(|(start, _)| start),
            layout: self.layout,
            batch_bytes: self.batch_bytes,
            selection: self.selection,
            is_fault_tolerant: self.is_fault_tolerant || self.diff.is_some(),
            timeout: self.timeout,
            keep_alive: self.keep_alive,
            cache_blocks: self.cache_blocks,
            query_id: self.query_id.unwrap_or_else(|| format!("{:032x}", fastrand::u128(..))),
            table: self.table,
        })
    }
}

fn columns(table: &Schema, wanted: &Projection) -> Result<Vec<usize>, ScanError> {
    let index_of = |column: &String| {
        table.index_of(column).ok_or_else(|| ScanError::NoSuchColumn { column: column.clone() })
    };
    match wanted {
        Projection::All => Ok((0..table.len()).collect()),
        Projection::Names(names) => names.iter().map(index_of).collect(),
        Projection::Indexes(indexes) => Ok(indexes.clone()),
    }
}

fn projection(table: &Table, columns: &[usize], tells_deleted: bool) -> Result<Schema, ScanError> {
    let schema_error = |source| ScanError::Projection { table: table.name().to_owned(), source };
    let projection = table.schema().project(columns).map_err(schema_error)?;
    if !tells_deleted {
        return Ok(projection);
    }
    let mut name = String::from("is_deleted");
    while table.schema().index_of(&name).is_some() {
        name.push('_');
    }
    let virtual_column = Column::new(name, DataType::IsDeleted);
    let columns = projection.columns().iter().cloned().chain([virtual_column]).collect();
    Schema::new(columns, 0).map_err(schema_error)
}

/// The end that comes first; empty is no end.
fn earlier_end(one: Vec<u8>, other: Vec<u8>) -> Vec<u8> {
    match (one.is_empty(), other.is_empty()) {
        (_, true) => one,
        (true, false) => other,
        (false, false) => one.min(other),
    }
}

/// What two ranges have in common, if anything.
fn common(one: KeyRange, other: &KeyRange) -> Option<KeyRange> {
    let start = one.start.max(other.start.clone());
    let end = earlier_end(one.end, other.end.clone());
    (end.is_empty() || start < end).then_some(KeyRange { start, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_in_common_what_lies_in_both() {
        let range = |start: &str, end: &str| KeyRange { start: start.into(), end: end.into() };
        let all = KeyRange::default();
        assert_eq!(common(range("b", "d"), &all), Some(range("b", "d")));
        assert_eq!(common(all, &range("b", "d")), Some(range("b", "d")));
        assert_eq!(common(range("a", "c"), &range("b", "")), Some(range("b", "c")));
        assert_eq!(common(range("b", ""), &range("a", "c")), Some(range("b", "c")));
        assert_eq!(common(range("a", "b"), &range("b", "c")), None);
    }
}
