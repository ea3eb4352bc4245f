//! Defining and making tables.

use std::collections::BTreeMap;
use std::time::Duration;

use proto::kudu::master::{CreateTableRequestPb, IsCreateTableDoneRequestPb};
use proto::kudu::partition_schema_pb::{RangeSchemaPb, RangeWithHashSchemaPb};
use proto::kudu::{PartitionSchemaPb, RowOperationsPb, SchemaPb};
use proto::methods::master_service::{CreateTable, IsCreateTableDone};
use schema::row_ops::Encoder;
use schema::{OpKind, PartialRow, Schema};

use crate::client::{Client, by_id, text};
use crate::error::CreateTableError;
use crate::range::{Hash, RangePartition, identifier, owned};
use crate::retry::{Backoff, Deadline};
use crate::table::Table;

/// The definition of a new table. Made by [`Client::create_table`].
#[derive(Clone, Debug)]
#[must_use = "call create()"]
pub struct TableCreator {
    client: Client,
    name: String,
    schema: Schema,
    hash: Vec<Hash>,
    range_columns: Option<Vec<String>>,
    ranges: Vec<RangePartition>,
    splits: Vec<PartialRow>,
    replicas: Option<u32>,
    owner: Option<String>,
    comment: Option<String>,
    extra_configs: BTreeMap<String, String>,
    dimension_label: Option<String>,
    timeout: Duration,
    wait: bool,
}

impl TableCreator {
    pub(crate) fn new(client: Client, name: String, schema: Schema) -> TableCreator {
        let timeout = client.shared.options.admin_timeout;
        TableCreator {
            client,
            name,
            schema,
            hash: Vec::new(),
            range_columns: None,
            ranges: Vec::new(),
            splits: Vec::new(),
            replicas: None,
            owner: None,
            comment: None,
            extra_configs: BTreeMap::new(),
            dimension_label: None,
            timeout,
            wait: true,
        }
    }

    /// Spreads the rows over `buckets` (2 or more) by a hash of these key columns; more calls add dimensions.
    pub fn hash_partition(self, columns: &[&str], buckets: u32) -> TableCreator {
        self.hash_partition_seeded(columns, buckets, 0)
    }

    /// As [`hash_partition`](Self::hash_partition), with a seed.
    pub fn hash_partition_seeded(mut self, columns: &[&str], buckets: u32, seed: u32) -> TableCreator {
        self.hash.push(Hash { columns: owned(columns), buckets, seed });
        self
    }

    /// Parts the rows by ranges of these key columns, in this order. With an empty list there are no ranges. Default:
    /// one range over the whole key.
    pub fn range_columns(mut self, columns: &[&str]) -> TableCreator {
        self.range_columns = Some(owned(columns));
        self
    }

    /// Adds a range. With no range at all one covers everything.
    pub fn range(mut self, range: RangePartition) -> TableCreator {
        self.ranges.push(range);
        self
    }

    /// Parts the range that holds this row at it.
    pub fn split(mut self, row: PartialRow) -> TableCreator {
        self.splits.push(row);
        self
    }

    /// Replicas of each tablet: odd, and not more than there are tablet servers. Default: the cluster's (3).
    pub fn replicas(mut self, replicas: u32) -> TableCreator {
        self.replicas = Some(replicas);
        self
    }

    /// The owner. Default: the user who creates it.
    pub fn owner(mut self, owner: impl Into<String>) -> TableCreator {
        self.owner = Some(owner.into());
        self
    }

    /// A comment.
    pub fn comment(mut self, comment: impl Into<String>) -> TableCreator {
        self.comment = Some(comment.into());
        self
    }

    /// An extra configuration, such as `kudu.table.history_max_age_sec`.
    pub fn extra_config(mut self, key: impl Into<String>, value: impl Into<String>) -> TableCreator {
        self.extra_configs.insert(key.into(), value.into());
        self
    }

    /// A label by which the master spreads the tablets over servers.
    pub fn dimension_label(mut self, label: impl Into<String>) -> TableCreator {
        self.dimension_label = Some(label.into());
        self
    }

    /// How long creating may take, the wait for the tablets included. Default: the client's admin timeout.
    pub fn timeout(mut self, timeout: Duration) -> TableCreator {
        self.timeout = timeout;
        self
    }

    /// Whether to wait until all tablets run. Default: true.
    pub fn wait(mut self, wait: bool) -> TableCreator {
        self.wait = wait;
        self
    }

    /// Makes the table and opens it.
    ///
    /// # Errors
    /// [`CreateTableError`]. When the answer to a first try gets lost, the second one may find the name taken by the table
    /// that the first made. Cancelled, the table may or may not come to be.
    pub async fn create(self) -> Result<Table, CreateTableError> {
        let deadline = Deadline::after(self.timeout);
        let (request, features) = self.request()?;
        let shared = &self.client.shared;
        let answer = shared.ask_master::<CreateTable>(&request, &features, &self.name, &deadline).await?;
        let id = answer.table_id.as_deref().map(text).unwrap_or_default();
        if self.wait {
            self.wait_until_done(&id, &deadline).await?;
        }
        let opened = Table::open(&self.client, by_id(&id), &self.name, &deadline).await;
        opened.map_err(|error| CreateTableError::Open(Box::new(error)))
    }

    async fn wait_until_done(&self, id: &str, deadline: &Deadline) -> Result<(), CreateTableError> {
        let mut backoff = Backoff::default();
        let request = IsCreateTableDoneRequestPb { table: by_id(id) };
        loop {
            let answer =
                self.client.shared.ask_master::<IsCreateTableDone>(&request, &[], &self.name, deadline);
            if answer.await?.done() {
                return Ok(());
            }
            if !deadline.pause(backoff.next()).await {
                return Err(CreateTableError::NotDone { table: self.name.clone(), after: deadline.given() });
            }
        }
    }

    fn request(&self) -> Result<(CreateTableRequestPb, Vec<u32>), CreateTableError> {
        let names = self.hash.iter().chain(self.ranges.iter().flat_map(|range| range.hash.iter().flatten()));
        let names = names.flat_map(|hash| &hash.columns).chain(self.range_columns.iter().flatten());
        for name in names {
            if self.schema.index_of(name).is_none() {
                return Err(CreateTableError::NoSuchColumn {
                    table: self.name.clone(),
                    column: name.clone(),
                });
            }
        }
        let own_hash = self.ranges.iter().any(|range| range.hash.is_some());
        let mut partitions = PartitionSchemaPb {
            hash_schema: self.hash.iter().map(Hash::message).collect(),
            range_schema: self
                .range_columns
                .as_ref()
                .map(|columns| RangeSchemaPb { columns: columns.iter().map(identifier).collect() }),
            ..Default::default()
        };
        let mut rows = Encoder::new(&self.schema);
        let failed = |source| CreateTableError::Bounds { table: self.name.clone(), source };
        for range in &self.ranges {
            if own_hash {
                let mut bounds = Encoder::new(&self.schema);
                range.push_bounds(&mut bounds, &self.schema).map_err(failed)?;
                partitions.custom_hash_schema_ranges.push(RangeWithHashSchemaPb {
                    range_bounds: Some(RowOperationsPb::from(bounds)),
                    hash_schema: range
                        .hash
                        .as_ref()
                        .unwrap_or(&self.hash)
                        .iter()
                        .map(Hash::message)
                        .collect(),
                });
            } else {
                range.push_bounds(&mut rows, &self.schema).map_err(failed)?;
            }
        }
        for split in &self.splits {
            rows.push(OpKind::SplitRow, split).map_err(failed)?;
        }
        let counts = self.schema.columns().iter().any(|column| column.auto_incrementing);
        let needed = [
            (FEATURE_RANGE_PARTITION_BOUNDS, !self.ranges.is_empty()),
            (FEATURE_RANGE_SPECIFIC_HASH_SCHEMA, own_hash),
            (FEATURE_AUTO_INCREMENTING_COLUMN, counts),
        ];
        let features = needed.into_iter().filter(|(_, needed)| *needed).map(|(feature, _)| feature).collect();
        let request = CreateTableRequestPb {
            name: self.name.clone(),
            schema: SchemaPb::from(&self.schema),
            split_rows_range_bounds: (!rows.is_empty()).then(|| RowOperationsPb::from(rows)),
            partition_schema: Some(partitions),
            num_replicas: self.replicas.map(|replicas| i32::try_from(replicas).unwrap_or(i32::MAX)),
            owner: self.owner.clone(),
            comment: self.comment.clone(),
            extra_configs: self.extra_configs.clone(),
            dimension_label: self.dimension_label.clone(),
            ..Default::default()
        };
        Ok((request, features))
    }
}

/// `MasterFeatures::AUTO_INCREMENTING_COLUMN`.
const FEATURE_AUTO_INCREMENTING_COLUMN: u32 = 11;
/// `MasterFeatures::RANGE_PARTITION_BOUNDS`.
const FEATURE_RANGE_PARTITION_BOUNDS: u32 = 1;
/// `MasterFeatures::RANGE_SPECIFIC_HASH_SCHEMA`.
pub(crate) const FEATURE_RANGE_SPECIFIC_HASH_SCHEMA: u32 = 8;
