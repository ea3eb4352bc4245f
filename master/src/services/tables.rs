//! Tables: create, list, look at, delete.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use proto::Method;
use proto::kudu::master::list_tables_response_pb::{TableInfo, TabletWithPartition};
use proto::kudu::master::{
    CreateTableRequestPb, CreateTableResponsePb, DeleteTableResponsePb, GetTableSchemaResponsePb,
    GetTableStatisticsResponsePb, IsAlterTableDoneResponsePb, IsCreateTableDoneResponsePb,
    ListTablesResponsePb,
};
use proto::methods::master_service as m;
use rpc_core::{RemoteError, RpcErrorCode};
use rpc_server::{Call, Reply};

use super::{Context, now};
use crate::catalog::Catalog;
use crate::catalog::tables::Table;
use crate::ddl;
use crate::fault::Fault;

/// Answers at once; only in a cluster whose first tablet server has not called yet it waits for that one.
pub(super) fn create(context: &Arc<Context>, call: Call<m::CreateTable>) {
    let user = call.user().to_owned();
    let (request, arrival, reply) = call.into_parts();
    if !context.catalog.lock().servers().is_empty() {
        return create_now(context, request, &user, reply);
    }
    let latest = now() + context.options.first_server_wait;
    // Leaves the client the time to hear a refusal.
    let deadline = arrival.deadline.map_or(latest, |deadline| latest.min(halfway(now(), deadline)));
    let Ok(place) = Arc::clone(&context.waiting_creates).try_acquire_owned() else {
        let text = "Service unavailable: too many tables wait for the first tablet server";
        return reply.fail(RemoteError::new(RpcErrorCode::ERROR_SERVER_TOO_BUSY, text));
    };
    let waiting = Arc::clone(context);
    context.driver.spawn(async move {
        let mut registered = waiting.registered.subscribe();
        let first = registered.wait_for(|count| *count > 0);
        let _ = tokio::time::timeout_at(deadline.into(), first).await;
        drop(place);
        // Partitions may take a while to count: not on the thread that sends.
        let driver = waiting.driver.clone();
        driver.spawn_blocking(move || create_now(&waiting, request, &user, reply));
    });
}

fn halfway(now: Instant, deadline: Instant) -> Instant {
    now + deadline.saturating_duration_since(now) / 2
}

fn create_now(
    context: &Arc<Context>,
    request: CreateTableRequestPb,
    user: &str,
    reply: Reply<m::CreateTable>,
) {
    let name = request.name.clone();
    let created = ddl::plan(request, user, &context.options.limits)
        .and_then(|plan| context.catalog.lock().create_table(plan, now()));
    context.driver.wake();
    let response = match created {
        Ok(id) => {
            tracing::info!(table = ?name, %id, user, "table created");
            CreateTableResponsePb { table_id: Some(id.into()), error: None }
        }
        Err(fault) => {
            tracing::info!(table = ?name, user, %fault, "table refused");
            CreateTableResponsePb { error: Some(fault.into()), table_id: None }
        }
    };
    reply.respond(&response);
}

/// Reads the table that a call names and answers.
fn read<M: Method>(
    context: &Arc<Context>,
    call: Call<M>,
    table: impl Fn(&M::Request) -> &proto::kudu::master::TableIdentifierPb,
    answer: impl Fn(&Catalog, &Table) -> M::Response,
    refusal: impl Fn(Fault) -> M::Response,
) {
    let response = {
        let catalog = context.catalog.lock();
        match catalog.tables().find(table(call.request())) {
            Ok(table) => answer(&catalog, table),
            Err(fault) => refusal(fault),
        }
    };
    call.respond(&response);
}

pub(super) fn is_create_done(context: &Arc<Context>, call: Call<m::IsCreateTableDone>) {
    read(
        context,
        call,
        |request| &request.table,
        |catalog, table| IsCreateTableDoneResponsePb {
            done: Some(catalog.is_created(table)),
            error: catalog.refused(table).map(Into::into),
        },
        |fault| IsCreateTableDoneResponsePb { error: Some(fault.into()), done: None },
    );
}

pub(super) fn is_alter_done(context: &Arc<Context>, call: Call<m::IsAlterTableDone>) {
    read(
        context,
        call,
        |request| &request.table,
        |_, table| IsAlterTableDoneResponsePb {
            schema_version: Some(table.schema_version),
            done: Some(true),
            error: None,
        },
        |fault| IsAlterTableDoneResponsePb { error: Some(fault.into()), ..Default::default() },
    );
}

pub(super) fn schema(context: &Arc<Context>, call: Call<m::GetTableSchema>) {
    read(
        context,
        call,
        |request| &request.table,
        |_, table| GetTableSchemaResponsePb {
            schema: Some(table.plan.schema.clone()),
            partition_schema: Some(table.plan.partition_schema.clone()),
            num_replicas: Some(table.plan.replicas),
            table_id: Some(Bytes::copy_from_slice(table.id.as_bytes())),
            table_name: Some(table.plan.name.clone()),
            extra_configs: table.plan.extra_configs.clone(),
            owner: Some(table.plan.owner.clone()),
            comment: Some(table.plan.comment.clone()),
            ..Default::default()
        },
        |fault| GetTableSchemaResponsePb { error: Some(fault.into()), ..Default::default() },
    );
}

pub(super) fn statistics(context: &Arc<Context>, call: Call<m::GetTableStatistics>) {
    let signed = |count: u64| Some(i64::try_from(count).unwrap_or(i64::MAX));
    read(
        context,
        call,
        |request| &request.table,
        |catalog, table| {
            let stats = catalog.statistics(table);
            GetTableStatisticsResponsePb {
                on_disk_size: signed(stats.on_disk_size),
                live_row_count: signed(stats.live_row_count),
                ..Default::default()
            }
        },
        |fault| GetTableStatisticsResponsePb { error: Some(fault.into()), ..Default::default() },
    );
}

pub(super) fn list(context: &Arc<Context>, call: Call<m::ListTables>) {
    let request = call.request();
    // There are no other tables than those of users, so a filter of types can only leave all or none.
    let users = request.type_filter.is_empty()
        || request.type_filter.contains(&(proto::kudu::TableTypePb::DefaultTable as i32));
    let wanted = |table: &&Table| {
        users && !request.show_soft_deleted() && table.plan.name.contains(request.name_filter())
    };
    let tables = {
        let catalog = context.catalog.lock();
        let info = |table: &Table| {
            let partition = |tablet: &crate::catalog::tablets::Tablet| TabletWithPartition {
                tablet_id: Some(tablet.id.clone()),
                partition: Some(tablet.partition.clone()),
            };
            let with_partitions = request.list_tablet_with_partition();
            TableInfo {
                id: Bytes::copy_from_slice(table.id.as_bytes()),
                name: table.plan.name.clone(),
                live_row_count: Some(catalog.statistics(table).live_row_count),
                num_tablets: i32::try_from(table.tablets.len()).ok(),
                num_replicas: Some(table.plan.replicas),
                tablet_with_partition: catalog
                    .tablets_of(table)
                    .filter(|_| with_partitions)
                    .map(partition)
                    .collect(),
            }
        };
        catalog.tables().iter().filter(wanted).map(info).collect()
    };
    call.respond(&ListTablesResponsePb { tables, error: None });
}

pub(super) fn delete(context: &Arc<Context>, call: Call<m::DeleteTable>) {
    let deleted = if call.request().reserve_seconds() > 0 {
        Err(Fault::NoSoftDeleteYet)
    } else {
        let mut catalog = context.catalog.lock();
        let id = catalog.tables().find(&call.request().table).map(|table| table.id.clone());
        id.and_then(|id| catalog.delete_table(&id).map(|()| id))
    };
    context.driver.wake();
    match deleted {
        Ok(id) => {
            tracing::info!(%id, user = call.user(), "table deleted");
            call.respond(&DeleteTableResponsePb::default());
        }
        Err(fault) => call.respond(&DeleteTableResponsePb { error: Some(fault.into()) }),
    }
}
