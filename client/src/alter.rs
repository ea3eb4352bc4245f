//! Altering tables.

use std::time::Duration;

use proto::kudu::master::alter_table_request_pb::{
    AddColumn, AddRangePartition, AlterColumn, DropColumn, DropRangePartition, RenameColumn, Step, StepType,
    add_range_partition::CustomHashSchema,
};
use proto::kudu::master::{AlterTableRequestPb, IsAlterTableDoneRequestPb, TableIdentifierPb};
use proto::kudu::{ColumnSchemaDeltaPb, ColumnSchemaPb, CompressionType, EncodingType, RowOperationsPb};
use proto::methods::master_service::{AlterTable, IsAlterTableDone};
use schema::row_ops::Encoder;
use schema::wire::schema_without_ids;
use schema::{Column, Compression, Encoding, Schema, Value};

use crate::client::{Client, by_id, text};
use crate::create::FEATURE_RANGE_SPECIFIC_HASH_SCHEMA;
use crate::error::AlterTableError;
use crate::range::{Hash, RangePartition};
use crate::retry::{Backoff, Deadline};
use crate::table::Table;

/// Changes to a table, in the order in which they are to be made: all of them happen or none. Made by
/// [`Client::alter_table`].
#[derive(Clone, Debug)]
#[must_use = "call alter()"]
pub struct TableAlterer {
    client: Client,
    name: String,
    table: TableIdentifierPb,
    steps: Vec<Planned>,
    request: AlterTableRequestPb,
    timeout: Duration,
    wait: bool,
}

/// A step; the bounds of ranges are encoded when the table's columns are known.
#[derive(Clone, Debug)]
enum Planned {
    Column(Box<Step>),
    AddRange(RangePartition),
    DropRange(RangePartition),
}

impl TableAlterer {
    pub(crate) fn new(client: Client, table: TableIdentifierPb, name: String) -> TableAlterer {
        let timeout = client.shared.options.admin_timeout;
        let request = AlterTableRequestPb::default();
        TableAlterer { client, name, table, steps: Vec::new(), request, timeout, wait: true }
    }

    /// Adds a column. One that is not nullable needs a default, which old rows show from then on.
    pub fn add_column(self, column: &Column) -> TableAlterer {
        let schema = ColumnSchemaPb::from(column);
        self.step(Step { add_column: Some(AddColumn { schema }), ..of_kind(StepType::AddColumn) })
    }

    /// Drops a column, which must not be of the key. A column that is later added under the name is another one.
    pub fn drop_column(self, name: impl Into<String>) -> TableAlterer {
        let drop_column = Some(DropColumn { name: name.into() });
        self.step(Step { drop_column, ..of_kind(StepType::DropColumn) })
    }

    /// Renames a column. Handles opened before keep the old name, which servers refuse from then on.
    pub fn rename_column(self, old: impl Into<String>, new: impl Into<String>) -> TableAlterer {
        let rename_column = Some(RenameColumn { old_name: old.into(), new_name: new.into() });
        self.step(Step { rename_column, ..of_kind(StepType::RenameColumn) })
    }

    /// Sets what rows get that do not set the column. Rows that are there stay as they are.
    pub fn set_default(self, column: impl Into<String>, value: impl Into<Value>) -> TableAlterer {
        let default_value = Some(value.into().to_raw());
        self.change(column, ColumnSchemaDeltaPb { default_value, ..Default::default() })
    }

    /// From now on a row that does not set the column gets NULL, or is refused if the column is not nullable.
    pub fn remove_default(self, column: impl Into<String>) -> TableAlterer {
        self.change(column, ColumnSchemaDeltaPb { remove_default: Some(true), ..Default::default() })
    }

    /// Sets a storage hint, for data that are written from then on.
    pub fn set_encoding(self, column: impl Into<String>, encoding: Encoding) -> TableAlterer {
        let encoding = Some(EncodingType::from(encoding).into());
        self.change(column, ColumnSchemaDeltaPb { encoding, ..Default::default() })
    }

    /// Sets a storage hint, for data that are written from then on.
    pub fn set_compression(self, column: impl Into<String>, compression: Compression) -> TableAlterer {
        let compression = Some(CompressionType::from(compression).into());
        self.change(column, ColumnSchemaDeltaPb { compression, ..Default::default() })
    }

    /// Sets the size of storage blocks in bytes, a hint; 0 is the server's choice.
    pub fn set_block_size(self, column: impl Into<String>, bytes: i32) -> TableAlterer {
        self.change(column, ColumnSchemaDeltaPb { block_size: Some(bytes), ..Default::default() })
    }

    /// Sets the comment of a column.
    pub fn set_column_comment(self, column: impl Into<String>, comment: impl Into<String>) -> TableAlterer {
        self.change(column, ColumnSchemaDeltaPb { new_comment: Some(comment.into()), ..Default::default() })
    }

    /// Makes the cells of a column refuse updates, or take them again.
    pub fn set_immutable(self, column: impl Into<String>, immutable: bool) -> TableAlterer {
        self.change(column, ColumnSchemaDeltaPb { immutable: Some(immutable), ..Default::default() })
    }

    /// Adds a range; it may have hash partitions of its own, in as many dimensions as the table has. Rows of it can be
    /// written by handles that are opened afterwards.
    pub fn add_range(mut self, range: RangePartition) -> TableAlterer {
        self.steps.push(Planned::AddRange(range));
        self
    }

    /// Drops the range of exactly these bounds, and all rows in it.
    pub fn drop_range(mut self, range: RangePartition) -> TableAlterer {
        self.steps.push(Planned::DropRange(range));
        self
    }

    /// Renames the table. Open handles go on.
    pub fn rename_to(mut self, name: impl Into<String>) -> TableAlterer {
        self.request.new_table_name = Some(name.into());
        self
    }

    /// Gives the table to somebody else.
    pub fn owner(mut self, owner: impl Into<String>) -> TableAlterer {
        self.request.new_table_owner = Some(owner.into());
        self
    }

    /// Sets the table's comment.
    pub fn comment(mut self, comment: impl Into<String>) -> TableAlterer {
        self.request.new_table_comment = Some(comment.into());
        self
    }

    /// Sets an extra configuration, such as `kudu.table.history_max_age_sec`; an empty value takes it away.
    pub fn extra_config(mut self, key: impl Into<String>, value: impl Into<String>) -> TableAlterer {
        self.request.new_extra_configs.insert(key.into(), value.into());
        self
    }

    /// Sets how many bytes the table is to have on disk at most, or no limit. Refused unless the master runs with
    /// `--enable_table_write_limit`.
    pub fn disk_size_limit(mut self, bytes: Option<u64>) -> TableAlterer {
        self.request.disk_size_limit = Some(limit(bytes));
        self
    }

    /// Sets how many rows the table is to have at most, or no limit. Refused unless the master runs with
    /// `--enable_table_write_limit`.
    pub fn row_count_limit(mut self, rows: Option<u64>) -> TableAlterer {
        self.request.row_count_limit = Some(limit(rows));
        self
    }

    /// How long altering may take, the wait for the tablets included. Default: the client's admin timeout.
    pub fn timeout(mut self, timeout: Duration) -> TableAlterer {
        self.timeout = timeout;
        self
    }

    /// Whether to wait until all tablets have the new columns. Default: true.
    pub fn wait(mut self, wait: bool) -> TableAlterer {
        self.wait = wait;
        self
    }

    /// Alters the table and opens it as it is then.
    ///
    /// # Errors
    /// [`AlterTableError`]; nothing has changed then, but for [`AlterTableError::NotDone`], [`AlterTableError::Open`] and a
    /// master that did not answer. When the answer to a first try gets lost, the second one may find done what it asks for,
    /// and be refused. Cancelled, the table may or may not be altered.
    pub async fn alter(self) -> Result<Table, AlterTableError> {
        let deadline = Deadline::after(self.timeout);
        let shared = &self.client.shared;
        let (request, features) = self.encode(&deadline).await?;
        let answer = shared.ask_master::<AlterTable>(&request, &features, &self.name, &deadline).await?;
        let id = answer.table_id.as_deref().map(text).unwrap_or_default();
        if self.wait {
            self.wait_until_done(&id, &deadline).await?;
        }
        // Ranges may have come and gone.
        shared.cache.forget_table(&id);
        let opened = Table::open(&self.client, by_id(&id), &self.name, &deadline).await;
        opened.map_err(|error| AlterTableError::Open(Box::new(error)))
    }

    async fn wait_until_done(&self, id: &str, deadline: &Deadline) -> Result<(), AlterTableError> {
        let mut backoff = Backoff::default();
        let request = IsAlterTableDoneRequestPb { table: by_id(id) };
        loop {
            let answer =
                self.client.shared.ask_master::<IsAlterTableDone>(&request, &[], &self.name, deadline);
            if answer.await?.done() {
                return Ok(());
            }
            if !deadline.pause(backoff.next()).await {
                return Err(AlterTableError::NotDone { table: self.name.clone(), after: deadline.given() });
            }
        }
    }

    async fn encode(&self, deadline: &Deadline) -> Result<(AlterTableRequestPb, Vec<u32>), AlterTableError> {
        let mut request = AlterTableRequestPb { table: self.table.clone(), ..self.request.clone() };
        let ranges = || {
            self.steps.iter().filter_map(|step| match step {
                Planned::Column(_) => None,
                Planned::AddRange(range) | Planned::DropRange(range) => Some(range),
            })
        };
        let schema = match ranges().find_map(RangePartition::schema) {
            Some(schema) => schema.clone(),
            None if ranges().next().is_none() => return Ok((self.only_columns(request), self.features())),
            None => {
                let opened = Table::open(&self.client, self.table.clone(), &self.name, deadline).await;
                opened.map_err(|error| AlterTableError::Open(Box::new(error)))?.schema().clone()
            }
        };
        if !ranges().all(|range| range.is_of(&schema)) {
            return Err(AlterTableError::SeveralSchemas { table: self.name.clone() });
        }
        request.schema = Some(schema_without_ids(&schema));
        for step in &self.steps {
            request.alter_schema_steps.push(match step {
                Planned::Column(step) => Step::clone(step),
                Planned::AddRange(range) => {
                    let own = range.hash.as_ref();
                    let custom = |hash: &Vec<Hash>| CustomHashSchema {
                        hash_schema: hash.iter().map(Hash::message).collect(),
                    };
                    let add_range_partition = Some(AddRangePartition {
                        range_bounds: Some(self.bounds(range, &schema)?),
                        dimension_label: range.dimension_label.clone(),
                        custom_hash_schema: own.map(custom),
                    });
                    Step { add_range_partition, ..of_kind(StepType::AddRangePartition) }
                }
                Planned::DropRange(range) => {
                    let range_bounds = Some(self.bounds(range, &schema)?);
                    let drop_range_partition = Some(DropRangePartition { range_bounds });
                    Step { drop_range_partition, ..of_kind(StepType::DropRangePartition) }
                }
            });
        }
        Ok((request, self.features()))
    }

    fn only_columns(&self, mut request: AlterTableRequestPb) -> AlterTableRequestPb {
        let columns = |step: &Planned| match step {
            Planned::Column(step) => Some(Step::clone(step)),
            _ => None,
        };
        request.alter_schema_steps = self.steps.iter().filter_map(columns).collect();
        request
    }

    fn bounds(&self, range: &RangePartition, schema: &Schema) -> Result<RowOperationsPb, AlterTableError> {
        let mut rows = Encoder::new(schema);
        let pushed = range.push_bounds(&mut rows, schema);
        pushed.map_err(|source| AlterTableError::Bounds { table: self.name.clone(), source })?;
        Ok(rows.into())
    }

    /// What the master must be able to do.
    fn features(&self) -> Vec<u32> {
        let any = |test: fn(&Planned) -> bool| self.steps.iter().any(test);
        let own_hash = any(|step| matches!(step, Planned::AddRange(range) if range.hash.is_some()));
        let immutable = any(|step| match step {
            Planned::Column(step) => {
                let added = step.add_column.as_ref().is_some_and(|added| added.schema.immutable());
                let delta = step.alter_column.as_ref().and_then(|changed| changed.delta.as_ref());
                added || delta.is_some_and(|delta| delta.immutable.is_some())
            }
            _ => false,
        });
        let needed = [
            (FEATURE_ADD_DROP_RANGE_PARTITIONS, any(|step| !matches!(step, Planned::Column(_)))),
            (FEATURE_RANGE_SPECIFIC_HASH_SCHEMA, own_hash),
            (FEATURE_IMMUTABLE_COLUMN_ATTRIBUTE, immutable),
        ];
        needed.into_iter().filter(|(_, needed)| *needed).map(|(feature, _)| feature).collect()
    }

    fn change(self, column: impl Into<String>, delta: ColumnSchemaDeltaPb) -> TableAlterer {
        let delta = Some(ColumnSchemaDeltaPb { name: Some(column.into()), ..delta });
        self.step(Step { alter_column: Some(AlterColumn { delta }), ..of_kind(StepType::AlterColumn) })
    }

    fn step(mut self, step: Step) -> TableAlterer {
        self.steps.push(Planned::Column(Box::new(step)));
        self
    }
}

fn of_kind(kind: StepType) -> Step {
    Step { r#type: Some(kind.into()), ..Default::default() }
}

/// -1 is no limit.
fn limit(limit: Option<u64>) -> i64 {
    limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX))
}

/// `MasterFeatures::ADD_DROP_RANGE_PARTITIONS`.
const FEATURE_ADD_DROP_RANGE_PARTITIONS: u32 = 2;
/// `MasterFeatures::IMMUTABLE_COLUMN_ATTRIBUTE`.
const FEATURE_IMMUTABLE_COLUMN_ATTRIBUTE: u32 = 10;
