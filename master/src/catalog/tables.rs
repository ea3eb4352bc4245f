//! Tables, by id and by name.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use proto::kudu::master::TableIdentifierPb;
use proto::kudu::{PartitionPb, PartitionSchemaPb, TableExtraConfigPb};
use schema::wire::partition::{Naming, partition_schema_to_pb};
use schema::{PartitionSchema, Schema};

use crate::fault::{Fault, TableName};

/// A table that is to be created: everything checked that can be checked without looking at other tables and at servers.
#[derive(Debug, Clone)]
pub(crate) struct TablePlan {
    /// What it is to be.
    pub(crate) about: Definition,
    /// Its tablets, in order of their start keys.
    pub(crate) tablets: Vec<NewTablet>,
}

/// A tablet that is to be made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewTablet {
    /// Which rows it holds.
    pub(crate) partition: PartitionPb,
    /// Groups tablets for placement.
    pub(crate) dimension_label: Option<String>,
}

/// What is told of a table, apart from its tablets.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    /// Its name.
    pub(crate) name: String,
    /// Columns, with ids.
    pub(crate) schema: Schema,
    /// The id of the next new column.
    pub(crate) next_column_id: u32,
    /// How rows are spread over tablets.
    pub(crate) partitioning: PartitionSchema,
    /// Replicas of each tablet.
    pub(crate) replicas: i32,
    /// Who may drop it.
    pub(crate) owner: String,
    /// For people.
    pub(crate) comment: String,
    /// Properties.
    pub(crate) extra_config: TableExtraConfigPb,
    /// Bytes on disk that it is to have at most; told by its statistics.
    pub(crate) disk_size_limit: Option<i64>,
    /// Rows that it is to have at most; told by its statistics.
    pub(crate) row_count_limit: Option<i64>,
}

impl Definition {
    /// The partitioning, with bounds over the columns of `schema`, this table's now or before it was altered.
    pub(crate) fn partition_schema(&self, schema: &Schema) -> PartitionSchemaPb {
        let described = partition_schema_to_pb(&self.partitioning, schema, Naming::ById);
        // Key columns have the same ids in all schemas of a table.
        described.inspect_err(|error| tracing::error!(%error, "a partition schema")).unwrap_or_default()
    }
}

/// A table.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// 32 hex digits.
    pub(crate) id: String,
    /// What it is.
    pub(crate) about: Definition,
    /// Raised by each change that tablets are to hear of.
    pub(crate) schema_version: u32,
    /// While some tablets have not heard of the newest changes: the schema that all of them have.
    pub(crate) altered_from: Option<Schema>,
    /// Since when it is kept for a recall only, if so.
    pub(crate) soft_deleted: Option<SoftDeleted>,
    /// Start key and id of each tablet, in order of the start keys.
    pub(crate) tablets: Vec<(Bytes, String)>,
}

/// For how long a deleted table can be recalled. In seconds; times since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SoftDeleted {
    /// When it was deleted.
    pub(crate) at: u64,
    /// For how long it is kept.
    pub(crate) reserve: u32,
}

impl SoftDeleted {
    /// When it can no longer be recalled.
    pub(crate) fn expiry(self) -> u64 {
        self.at.saturating_add(self.reserve.into())
    }
}

/// All tables that are not deleted.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    by_id: HashMap<String, Table>,
    by_name: BTreeMap<String, String>,
}

impl Tables {
    /// The table that a request names; the id counts if both are given.
    pub(crate) fn find(&self, identifier: &TableIdentifierPb) -> Result<&Table, Fault> {
        let id = match (&identifier.table_id, &identifier.table_name) {
            (Some(id), _) => std::str::from_utf8(id).ok(),
            (None, Some(name)) => self.by_name.get(name).map(String::as_str),
            (None, None) => return Err(Fault::NoTableNamed),
        };
        let table = id.and_then(|id| self.by_id.get(id));
        table.ok_or_else(|| Fault::NoSuchTable(TableName(identifier.clone())))
    }

    /// By id.
    pub(crate) fn get(&self, id: &str) -> Option<&Table> {
        self.by_id.get(id)
    }

    /// The id of the table of this name.
    pub(crate) fn id_of(&self, name: &str) -> Option<&str> {
        self.by_name.get(name).map(String::as_str)
    }

    /// Adds a table; its name must be free.
    pub(crate) fn insert(&mut self, table: Table) {
        self.by_name.insert(table.about.name.clone(), table.id.clone());
        self.by_id.insert(table.id.clone(), table);
    }

    /// Takes a table out; its name is free at once.
    pub(crate) fn remove(&mut self, id: &str) -> Option<Table> {
        let table = self.by_id.remove(id)?;
        self.by_name.remove(&table.about.name);
        Some(table)
    }

    /// Puts a changed table in the place of what it was; a new name must be free.
    pub(crate) fn replace(&mut self, table: Table) {
        self.remove(&table.id);
        self.insert(table);
    }

    /// All tables, by name, with those that can be recalled.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Table> {
        self.by_name.values().filter_map(|id| self.by_id.get(id))
    }
}

impl Table {
    /// The tablets that a lookup from `start` to `end` yields, as Kudu does: from the last that starts at or before `start` (the
    /// first, if none does) up to and including one that starts exactly at `end`. An empty `end` is no end.
    pub(crate) fn lookup(&self, start: &[u8], end: &[u8]) -> Result<&[(Bytes, String)], Fault> {
        if !end.is_empty() && start > end {
            return Err(Fault::KeysReversed);
        }
        let behind = |key: &[u8]| self.tablets.partition_point(|(first, _)| &first[..] <= key);
        let first = behind(start).saturating_sub(1);
        let last = if end.is_empty() { self.tablets.len() } else { behind(end) };
        Ok(self.tablets.get(first..last).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tablets [0,10) [20,30) [30,40) of one int32 range column: the table of the vectors.
    fn table() -> Table {
        let key = |n: u32| Bytes::copy_from_slice(&(n ^ 0x8000_0000).to_be_bytes());
        let about = Definition {
            name: "t".into(),
            schema: Schema::new(Vec::new(), 0).unwrap(),
            next_column_id: 0,
            partitioning: PartitionSchema::default(),
            replicas: 1,
            owner: String::new(),
            comment: String::new(),
            extra_config: TableExtraConfigPb::default(),
            disk_size_limit: None,
            row_count_limit: None,
        };
        let tablets = [0, 20, 30].map(|n| (key(n), format!("[{n},{})", n + 10))).to_vec();
        let (altered_from, soft_deleted) = (None, None);
        Table { id: "id".into(), about, schema_version: 0, altered_from, soft_deleted, tablets }
    }

    fn key(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    }

    #[test]
    fn lookups_answer_as_real_masters_did() {
        let table = table();
        let all = ["[0,10)", "[20,30)", "[30,40)"];
        let cases: &[(&str, &str, &[&str])] = &[
            ("", "", &all),
            ("80000005", "", &all),
            ("8000000f", "", &all),
            ("7ffffffb", "", &all),
            ("80000064", "", &["[30,40)"]),
            ("80000014", "", &["[20,30)", "[30,40)"]),
            ("80000000", "80000014", &["[0,10)", "[20,30)"]),
            ("80000000", "80000013", &["[0,10)"]),
            ("80000019", "", &["[20,30)", "[30,40)"]),
            ("", "8000000f", &["[0,10)"]),
        ];
        for (start, end, expected) in cases {
            let found = table.lookup(&key(start), &key(end)).unwrap();
            let names: Vec<_> = found.iter().map(|(_, id)| id.as_str()).collect();
            assert_eq!(names, *expected, "{start} to {end}");
        }
        assert_eq!(table.lookup(b"b", b"a"), Err(Fault::KeysReversed));
    }
}
