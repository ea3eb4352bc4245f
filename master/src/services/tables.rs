//! Tables: create, list, look at, delete, recall.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use proto::Method;
use proto::kudu::SchemaPb;
use proto::kudu::master::list_in_flight_tables_response_pb::TableInfo as InFlight;
use proto::kudu::master::list_tables_response_pb::{TableInfo, TabletWithPartition};
use proto::kudu::master::sys_tables_entry_pb::State;
use proto::kudu::master::{
    CreateTableRequestPb, CreateTableResponsePb, DeleteTableResponsePb, GetTableSchemaResponsePb,
    GetTableStatisticsResponsePb, IsCreateTableDoneResponsePb, ListInFlightTablesResponsePb,
    ListTablesResponsePb, RecallDeletedTableResponsePb,
};
use proto::methods::master_service as m;
use rpc_core::{RemoteError, RpcErrorCode};
use rpc_server::{Call, Reply};

use super::{Context, now, seconds};
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
    let created = ddl::create::plan(request, user, &context.options.limits)
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
pub(super) fn read<M: Method>(
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

pub(super) fn schema(context: &Arc<Context>, call: Call<m::GetTableSchema>) {
    read(
        context,
        call,
        |request| &request.table,
        |_, table| {
            let about = &table.about;
            // All tablets can serve the columns that are told.
            let schema = table.altered_from.as_ref().unwrap_or(&about.schema);
            GetTableSchemaResponsePb {
                schema: Some(SchemaPb::from(schema)),
                partition_schema: Some(about.partition_schema(schema)),
                num_replicas: Some(about.replicas),
                table_id: Some(Bytes::copy_from_slice(table.id.as_bytes())),
                table_name: Some(about.name.clone()),
                extra_configs: ddl::told_properties(&about.extra_config),
                owner: Some(about.owner.clone()),
                comment: Some(about.comment.clone()),
                ..Default::default()
            }
        },
        |fault| GetTableSchemaResponsePb { error: Some(fault.into()), ..Default::default() },
    );
}

pub(super) fn statistics(context: &Arc<Context>, call: Call<m::GetTableStatistics>) {
    let signed = |count: u64| Some(i64::try_from(count).unwrap_or(i64::MAX));
    // Where limits are not minded they are not told; where they are, -1 is none.
    let minded = context.options.limits_now().table_write_limit;
    let told = |limit: Option<i64>| minded.then(|| limit.unwrap_or(-1));
    read(
        context,
        call,
        |request| &request.table,
        |catalog, table| {
            let stats = catalog.statistics(table);
            GetTableStatisticsResponsePb {
                on_disk_size: signed(stats.on_disk_size),
                live_row_count: signed(stats.live_row_count),
                disk_size_limit: told(table.about.disk_size_limit),
                row_count_limit: told(table.about.row_count_limit),
                error: None,
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
        users
            && request.show_soft_deleted() == table.soft_deleted.is_some()
            && table.about.name.contains(request.name_filter())
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
                name: table.about.name.clone(),
                live_row_count: Some(catalog.statistics(table).live_row_count),
                num_tablets: i32::try_from(table.tablets.len()).ok(),
                num_replicas: Some(table.about.replicas),
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

/// Tables with tablets that are still being made.
pub(super) fn list_in_flight(context: &Arc<Context>, call: Call<m::ListInFlightTables>) {
    let tables = {
        let catalog = context.catalog.lock();
        let info = |table: &Table| {
            let in_flight = catalog.tablets_of(table).filter(|tablet| !tablet.running).count();
            let state = match (&table.soft_deleted, &table.altered_from) {
                (Some(_), _) => State::SoftDeleted,
                (None, Some(_)) => State::Altering,
                (None, None) => State::Running,
            };
            (in_flight > 0).then(|| InFlight {
                id: Bytes::copy_from_slice(table.id.as_bytes()),
                name: table.about.name.clone(),
                num_tablets: u32::try_from(table.tablets.len()).ok(),
                num_tablets_in_flight: u32::try_from(in_flight).ok(),
                state: Some(state.into()),
            })
        };
        catalog.tables().iter().filter_map(info).collect()
    };
    call.respond(&ListInFlightTablesResponsePb { tables, error: None });
}

pub(super) fn delete(context: &Arc<Context>, call: Call<m::DeleteTable>) {
    let reserve = call.request().reserve_seconds();
    let deleted = {
        let mut catalog = context.catalog.lock();
        let id = catalog.tables().find(&call.request().table).map(|table| table.id.clone());
        id.and_then(|id| {
            let deleted = match reserve {
                0 => catalog.delete_table(&id),
                _ => catalog.soft_delete_table(&id, reserve, seconds()),
            };
            deleted.map(|()| id)
        })
    };
    context.driver.wake();
    match deleted {
        Ok(id) => {
            tracing::info!(%id, user = call.user(), reserve, "table deleted");
            call.respond(&DeleteTableResponsePb::default());
        }
        Err(fault) => call.respond(&DeleteTableResponsePb { error: Some(fault.into()) }),
    }
}

pub(super) fn recall(context: &Arc<Context>, call: Call<m::RecallDeletedTable>) {
    let request = call.request();
    let recalled = {
        let mut catalog = context.catalog.lock();
        let id = match &request.table.table_id {
            Some(_) => catalog.tables().find(&request.table).map(|table| table.id.clone()),
            None => Err(Fault::NoIdNamed),
        };
        id.and_then(|id| {
            let name = request.new_table_name.as_deref();
            catalog.recall_table(&id, name, seconds()).map(|()| id)
        })
    };
    context.driver.wake();
    match recalled {
        Ok(id) => {
            tracing::info!(%id, user = call.user(), "table recalled");
            call.respond(&RecallDeletedTableResponsePb::default());
        }
        Err(fault) => call.respond(&RecallDeletedTableResponsePb { error: Some(fault.into()) }),
    }
}
