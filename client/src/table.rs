//! An open table.

use std::collections::BTreeMap;
use std::sync::Arc;

use meta_cache::{Reach, Replica, Role, Tablet};
use net_addr::HostPort;
use parking_lot::Mutex;
use proto::kudu::SchemaPb;
use proto::kudu::client::TableMetadataPb;
use proto::kudu::master::{GetTableSchemaRequestPb, GetTableSchemaResponsePb, TableIdentifierPb};
use proto::kudu::security::SignedTokenPb;
use proto::methods::master_service::GetTableSchema;
use schema::partition::Partitioner;
use schema::wire::partition::{Naming, partition_schema_from_pb, partition_schema_to_pb};
use schema::wire::{WireError, schema_without_ids};
use schema::{OpKind, PartialRow, Partition, PartitionSchema, Schema};

use crate::bloom::BloomFilterBuilder;
use crate::client::{Client, Shared, by_id, count, text};
use crate::error::{MasterError, OpenTableError};
use crate::locate::Place;
use crate::op::Operation;
use crate::retry::Deadline;
use crate::scan::{ScanBuilder, ScanError};

/// A table as it was when it was opened. Cheap to clone. It names the table by id: after a rename it is still the same
/// table, after a delete it is none, even if another table has the name.
#[derive(Clone)]
pub struct Table {
    pub(crate) client: Client,
    inner: Arc<Inner>,
}

struct Inner {
    id: String,
    name: String,
    schema: Schema,
    /// The schema as writes carry it: without column ids.
    write_schema: SchemaPb,
    partitions: PartitionSchema,
    partitioner: Partitioner,
    replicas: u32,
    owner: String,
    comment: String,
    extra_configs: BTreeMap<String, String>,
    authz_token: Mutex<Option<SignedTokenPb>>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Table")
            .field("name", &self.name())
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

impl Table {
    pub(crate) async fn open(
        client: &Client,
        table: TableIdentifierPb,
        name: &str,
        deadline: &Deadline,
    ) -> Result<Table, OpenTableError> {
        let answer = Table::describe(client, table, name, deadline).await?;
        let metadata = TableMetadataPb {
            table_id: answer.table_id.as_deref().map(text),
            table_name: answer.table_name,
            num_replicas: answer.num_replicas,
            schema: answer.schema,
            partition_schema: answer.partition_schema,
            extra_configs: answer.extra_configs,
            owner: answer.owner,
            comment: answer.comment,
        };
        Table::from_metadata(client, &metadata, answer.authz_token)
            .map_err(|source| OpenTableError::Unsupported { table: name.to_owned(), source })
    }

    /// A table as the master, or a scan token, describes it.
    pub(crate) fn from_metadata(
        client: &Client,
        metadata: &TableMetadataPb,
        authz_token: Option<SignedTokenPb>,
    ) -> Result<Table, WireError> {
        let schema = Schema::try_from(metadata.schema.as_ref().unwrap_or(&SchemaPb::default()))?;
        let partitions = metadata.partition_schema.clone().unwrap_or_default();
        let partitions = partition_schema_from_pb(&partitions, &schema)?;
        let partitioner = partitions.partitioner(&schema)?;
        let write_schema = schema_without_ids(&schema);
        let inner = Inner {
            id: metadata.table_id().to_owned(),
            name: metadata.table_name().to_owned(),
            schema,
            write_schema,
            partitions,
            partitioner,
            replicas: count(metadata.num_replicas()),
            owner: metadata.owner().to_owned(),
            comment: metadata.comment().to_owned(),
            extra_configs: metadata.extra_configs.clone(),
            authz_token: Mutex::new(authz_token),
        };
        Ok(Table { client: client.clone(), inner: Arc::new(inner) })
    }

    /// The table as scan tokens describe it.
    pub(crate) fn metadata(&self) -> Result<TableMetadataPb, WireError> {
        let inner = &self.inner;
        Ok(TableMetadataPb {
            table_id: Some(inner.id.clone()),
            table_name: Some(inner.name.clone()),
            num_replicas: Some(i32::try_from(inner.replicas).unwrap_or(i32::MAX)),
            schema: Some((&inner.schema).into()),
            partition_schema: Some(partition_schema_to_pb(&inner.partitions, &inner.schema, Naming::ById)?),
            extra_configs: inner.extra_configs.clone(),
            owner: Some(inner.owner.clone()),
            comment: Some(inner.comment.clone()),
        })
    }

    pub(crate) async fn describe(
        client: &Client,
        table: TableIdentifierPb,
        name: &str,
        deadline: &Deadline,
    ) -> Result<GetTableSchemaResponsePb, MasterError> {
        let request = GetTableSchemaRequestPb { table };
        client
            .shared
            .ask_master::<GetTableSchema>(&request, &[FEATURE_GENERATE_AUTHZ_TOKEN], name, deadline)
            .await
    }

    /// The client it was opened with.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The table's id, 32 hex digits.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// The table's name when it was opened.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its columns, with their ids, key columns first.
    pub fn schema(&self) -> &Schema {
        &self.inner.schema
    }

    /// How it is partitioned.
    pub fn partition_schema(&self) -> &PartitionSchema {
        &self.inner.partitions
    }

    /// Replicas of each tablet.
    pub fn replicas(&self) -> u32 {
        self.inner.replicas
    }

    /// Who owns it.
    pub fn owner(&self) -> &str {
        &self.inner.owner
    }

    /// Its comment.
    pub fn comment(&self) -> &str {
        &self.inner.comment
    }

    /// Its extra configurations (`kudu.table.*`).
    pub fn extra_configs(&self) -> &BTreeMap<String, String> {
        &self.inner.extra_configs
    }

    /// An empty row of this table, for bounds and the like.
    pub fn row(&self) -> PartialRow {
        PartialRow::new(&self.inner.schema)
    }

    /// A new row; an error if its key exists.
    pub fn insert(&self) -> Operation {
        Operation::new(self, OpKind::Insert)
    }

    /// A new row; nothing happens if its key exists.
    pub fn insert_ignore(&self) -> Operation {
        Operation::new(self, OpKind::InsertIgnore)
    }

    /// A new row, or new values for the set columns of the row that has the key.
    pub fn upsert(&self) -> Operation {
        Operation::new(self, OpKind::Upsert)
    }

    /// As [`upsert`](Self::upsert), leaving immutable columns of an existing row alone.
    pub fn upsert_ignore(&self) -> Operation {
        Operation::new(self, OpKind::UpsertIgnore)
    }

    /// New values for the set columns; an error if no row has the key.
    pub fn update(&self) -> Operation {
        Operation::new(self, OpKind::Update)
    }

    /// New values for the set columns; nothing happens if no row has the key.
    pub fn update_ignore(&self) -> Operation {
        Operation::new(self, OpKind::UpdateIgnore)
    }

    /// Deletes the row of the key; an error if there is none. Only key columns may be set.
    pub fn delete(&self) -> Operation {
        Operation::new(self, OpKind::Delete)
    }

    /// Deletes the row of the key, if there is one.
    pub fn delete_ignore(&self) -> Operation {
        Operation::new(self, OpKind::DeleteIgnore)
    }

    /// Starts the definition of a scan. Without more it gives all columns of all rows.
    pub fn scan(&self) -> ScanBuilder {
        ScanBuilder::new(self.clone())
    }

    /// Starts a bloom filter over values of a column, of the size for so many `values`, through which about the share
    /// `false_positives` (0.01, say) of other values passes. See
    /// [`in_bloom_filters`](crate::FilterColumn::in_bloom_filters).
    ///
    /// # Errors
    /// [`ScanError::NoSuchColumn`].
    pub fn bloom_filter(
        &self,
        column: &str,
        values: usize,
        false_positives: f64,
    ) -> Result<BloomFilterBuilder, ScanError> {
        let missing = || ScanError::NoSuchColumn { column: column.to_owned() };
        let index = self.schema().index_of(column).ok_or_else(missing)?;
        let column = self.schema().columns().get(index).ok_or_else(missing)?;
        Ok(BloomFilterBuilder::new(column.clone(), values, false_positives))
    }

    /// Where the table's tablets are, by partition key; ranges without tablet are left out.
    ///
    /// # Errors
    /// [`MasterError`]. **Cancel safe.**
    pub async fn tablets(&self) -> Result<Vec<TabletLocation>, MasterError> {
        let deadline = Deadline::after(self.shared().options.admin_timeout);
        let (mut tablets, mut key) = (Vec::new(), Vec::new());
        loop {
            key = match self.shared().locate(self, &key, Reach::Range, &deadline).await? {
                Place::Gap { end } => end,
                Place::Tablet(tablet) => {
                    tablets.push(TabletLocation::new(self, &tablet));
                    tablet.end().to_vec()
                }
            };
            if key.is_empty() {
                return Ok(tablets);
            }
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.client.shared
    }

    pub(crate) fn key_partitioner(&self) -> &Partitioner {
        &self.inner.partitioner
    }

    pub(crate) fn write_schema(&self) -> &SchemaPb {
        &self.inner.write_schema
    }

    pub(crate) fn authz_token(&self) -> Option<SignedTokenPb> {
        self.inner.authz_token.lock().clone()
    }

    /// Gets a new token after a server refused the old one.
    pub(crate) async fn renew_authz_token(&self, deadline: &Deadline) -> Result<(), MasterError> {
        let answer = Table::describe(&self.client, by_id(self.id()), self.name(), deadline).await?;
        *self.inner.authz_token.lock() = answer.authz_token;
        Ok(())
    }

    /// Whether two handles came from the same opening, so that their schemas are one.
    pub(crate) fn is_same_handle(&self, other: &Table) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

/// Where one tablet is, as this client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TabletLocation {
    /// The tablet's id, 32 hex digits.
    pub id: String,
    /// First partition key, inclusive.
    pub start: Vec<u8>,
    /// End of the partition keys, exclusive; empty = without end.
    pub end: Vec<u8>,
    /// The bucket of each hash dimension.
    pub hash_buckets: Vec<u32>,
    /// Buckets and range as Kudu prints them: `HASH (a) PARTITION 0, RANGE (b) PARTITION 10 <= VALUES < 20`; empty if the
    /// table is not partitioned.
    pub partition: String,
    /// Its replicas.
    pub replicas: Vec<ReplicaLocation>,
}

/// Where one replica is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplicaLocation {
    /// The tablet server's id, 32 hex digits.
    pub server: String,
    /// The tablet server's first RPC address.
    pub address: HostPort,
    /// Whether it takes the writes.
    pub is_leader: bool,
    /// Whether the tablet server is on this machine.
    pub is_local: bool,
}

impl TabletLocation {
    pub(crate) fn new(table: &Table, tablet: &Tablet) -> TabletLocation {
        let (schema, partitioning) = (table.schema(), table.partition_schema());
        let hash_buckets = partitioning.hash_buckets(tablet.start());
        let (start, end) = (tablet.start().to_vec(), tablet.end().to_vec());
        let partition = Partition { hash_buckets, start, end };
        // Keys that do not fit are of a partitioning that is not this handle's any more.
        let text = partitioning.describe(schema, &partition).unwrap_or_default();
        let replica = |replica: &Replica| ReplicaLocation {
            server: replica.server().uuid().to_owned(),
            address: replica.server().host_port(),
            is_leader: replica.role() == Role::Leader,
            is_local: replica.server().is_local(),
        };
        TabletLocation {
            id: tablet.id().to_owned(),
            start: partition.start,
            end: partition.end,
            hash_buckets: partition.hash_buckets,
            partition: text,
            replicas: tablet.replicas().iter().map(replica).collect(),
        }
    }
}

/// `MasterFeatures::GENERATE_AUTHZ_TOKEN`.
const FEATURE_GENERATE_AUTHZ_TOKEN: u32 = 5;
