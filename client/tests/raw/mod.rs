//! Requests made by hand, sent to the master of the cluster under test.
#![allow(dead_code)]

use std::time::Duration;

use bytes::Bytes;
use client::schema::row_ops::Encoder;
use client::schema::{Column, DataType, OpKind, PartialRow, Schema};
use net_addr::{HostPort, SystemResolver};
use proto::Method;
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::master::alter_table_request_pb::{
    AddColumn, AddRangePartition, AlterColumn, DropColumn, DropRangePartition, RenameColumn, Step, StepType,
};
use proto::kudu::master::master_error_pb::Code;
use proto::kudu::master::{
    AlterTableRequestPb, CreateTableRequestPb, GetTableSchemaRequestPb, IsAlterTableDoneRequestPb,
    IsCreateTableDoneRequestPb, MasterErrorPb, TableIdentifierPb,
};
use proto::kudu::partition_schema_pb::column_identifier_pb::Identifier;
use proto::kudu::partition_schema_pb::{ColumnIdentifierPb, HashBucketSchemaPb, RangeSchemaPb};
use proto::kudu::{ColumnSchemaDeltaPb, ColumnSchemaPb, PartitionSchemaPb, RowOperationsPb, SchemaPb};
use proto::methods::master_service as m;
use rpc_core::{Messenger, Proxy};

/// The master, asked without the client.
pub(crate) struct Master(Proxy);

impl Master {
    pub(crate) fn connect(address: &str) -> Master {
        let address: HostPort = address.parse().expect("host:port");
        let remote = address.resolve(&SystemResolver).expect("a known host").remove(0);
        Master(Proxy::new(&Messenger::builder().build(), remote, &address.host))
    }

    pub(crate) async fn ask<M: Method>(&self, request: &M::Request) -> M::Response {
        let sent = self.0.call::<M>(request).timeout(Duration::from_secs(120)).send().await;
        sent.expect("the master answers").message
    }

    pub(crate) async fn create(&self, request: &CreateTableRequestPb) -> Result<(), MasterErrorPb> {
        if let Some(error) = self.ask::<m::CreateTable>(request).await.error {
            return Err(error);
        }
        let done = IsCreateTableDoneRequestPb { table: named(&request.name) };
        while !self.ask::<m::IsCreateTableDone>(&done).await.done() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Alters and waits; the schema's version afterwards.
    pub(crate) async fn alter(&self, request: &AlterTableRequestPb) -> Result<u32, MasterErrorPb> {
        let answer = self.ask::<m::AlterTable>(request).await;
        if let Some(error) = answer.error {
            return Err(error);
        }
        let table = TableIdentifierPb { table_id: answer.table_id, table_name: None };
        loop {
            let done =
                self.ask::<m::IsAlterTableDone>(&IsAlterTableDoneRequestPb { table: table.clone() }).await;
            if let Some(error) = done.error {
                return Err(error);
            }
            if done.done() {
                return Ok(done.schema_version());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn describe(&self, name: &str) -> proto::kudu::master::GetTableSchemaResponsePb {
        let mut answer = self.ask::<m::GetTableSchema>(&GetTableSchemaRequestPb { table: named(name) }).await;
        // Signed anew each time.
        answer.authz_token = None;
        answer
    }
}

/// The two codes of a refusal, and its text.
pub(crate) fn refusal(error: &MasterErrorPb) -> (Code, ErrorCode, String) {
    (error.code(), error.status.code(), error.status.message().to_owned())
}

pub(crate) fn named(name: &str) -> TableIdentifierPb {
    TableIdentifierPb { table_id: None, table_name: Some(name.to_owned()) }
}

/// `key` INT32, `v` INT32 nullable, `s` STRING not null with default, `im` INT32 nullable immutable.
pub(crate) fn base_schema() -> Schema {
    let columns = vec![
        Column::new("key", DataType::Int32),
        Column::new("v", DataType::Int32).nullable(true),
        Column::new("s", DataType::String).default_value("x".to_owned()),
        Column::new("im", DataType::Int32).nullable(true).immutable(true),
    ];
    Schema::new(columns, 1).expect("a good schema")
}

pub(crate) fn bounds(pairs: &[(i32, i32)]) -> RowOperationsPb {
    let schema = base_schema();
    let mut rows = Encoder::new(&schema);
    let row = |key: i32| {
        let mut row = PartialRow::new(&schema);
        row.set("key", key).expect("an INT32");
        row
    };
    for (lower, upper) in pairs {
        rows.push(OpKind::RangeLowerBound, &row(*lower)).expect("fits");
        rows.push(OpKind::RangeUpperBound, &row(*upper)).expect("fits");
    }
    rows.into()
}

pub(crate) fn column_name(name: &str) -> ColumnIdentifierPb {
    ColumnIdentifierPb { identifier: Some(Identifier::Name(name.to_owned())) }
}

pub(crate) fn hash(columns: &[&str], buckets: i32) -> HashBucketSchemaPb {
    HashBucketSchemaPb {
        columns: columns.iter().map(|name| column_name(name)).collect(),
        num_buckets: buckets,
        ..Default::default()
    }
}

/// A table of [`base_schema`] with the ranges [0, 100) and [100, 200).
pub(crate) fn base_table(name: &str) -> CreateTableRequestPb {
    CreateTableRequestPb {
        name: name.to_owned(),
        schema: SchemaPb::from(&base_schema()),
        split_rows_range_bounds: Some(bounds(&[(0, 100), (100, 200)])),
        partition_schema: Some(PartitionSchemaPb {
            range_schema: Some(RangeSchemaPb { columns: vec![column_name("key")] }),
            ..Default::default()
        }),
        num_replicas: Some(1),
        owner: Some("me".to_owned()),
        ..Default::default()
    }
}

pub(crate) fn alter(table: &str, steps: Vec<Step>) -> AlterTableRequestPb {
    AlterTableRequestPb {
        table: named(table),
        alter_schema_steps: steps,
        schema: Some(SchemaPb::from(&base_schema())),
        ..Default::default()
    }
}

pub(crate) fn step(kind: StepType) -> Step {
    Step { r#type: Some(kind as i32), ..Default::default() }
}

pub(crate) fn int32(name: &str) -> ColumnSchemaPb {
    ColumnSchemaPb {
        name: name.to_owned(),
        r#type: proto::kudu::DataType::Int32 as i32,
        is_nullable: Some(true),
        ..Default::default()
    }
}

pub(crate) fn add(schema: ColumnSchemaPb) -> Step {
    Step { add_column: Some(AddColumn { schema }), ..step(StepType::AddColumn) }
}

pub(crate) fn drop(name: &str) -> Step {
    Step { drop_column: Some(DropColumn { name: name.to_owned() }), ..step(StepType::DropColumn) }
}

pub(crate) fn rename(old: &str, new: &str) -> Step {
    let rename = RenameColumn { old_name: old.to_owned(), new_name: new.to_owned() };
    Step { rename_column: Some(rename), ..step(StepType::RenameColumn) }
}

pub(crate) fn change(delta: ColumnSchemaDeltaPb) -> Step {
    Step { alter_column: Some(AlterColumn { delta: Some(delta) }), ..step(StepType::AlterColumn) }
}

pub(crate) fn delta(name: &str) -> ColumnSchemaDeltaPb {
    ColumnSchemaDeltaPb { name: Some(name.to_owned()), ..Default::default() }
}

pub(crate) fn add_range(pairs: &[(i32, i32)]) -> Step {
    let range = AddRangePartition { range_bounds: Some(bounds(pairs)), ..Default::default() };
    Step { add_range_partition: Some(range), ..step(StepType::AddRangePartition) }
}

pub(crate) fn drop_range(pairs: &[(i32, i32)]) -> Step {
    let range = DropRangePartition { range_bounds: Some(bounds(pairs)) };
    Step { drop_range_partition: Some(range), ..step(StepType::DropRangePartition) }
}

pub(crate) fn raw_int(value: i32) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(&value.to_le_bytes()))
}
