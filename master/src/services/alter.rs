//! Tables that change.

use std::sync::Arc;

use bytes::Bytes;
use proto::kudu::master::{AlterTableResponsePb, IsAlterTableDoneResponsePb};
use proto::methods::master_service as m;
use rpc_server::Call;

use super::{Context, now, tables};
use crate::catalog::Catalog;
use crate::ddl;
use crate::fault::Fault;

/// Answers when the change is safe; tablets hear of it afterwards.
pub(super) fn alter(context: &Arc<Context>, call: Call<m::AlterTable>) {
    let request = call.request();
    let (mut table_id, limits) = (None, context.options.limits_now());
    let altered = {
        let mut catalog = context.catalog.lock();
        let id = catalog.tables().find(&request.table).map(|table| table.id.clone());
        id.and_then(|id| {
            table_id = Some(Bytes::copy_from_slice(id.as_bytes()));
            apply(&mut catalog, &id, request, &limits)
        })
    };
    context.driver.wake();
    let id = table_id.as_deref().unwrap_or_default();
    let error = match altered {
        Ok(version) => {
            tracing::info!(id = %id.escape_ascii(), user = call.user(), version, "table altered");
            None
        }
        Err(fault) => {
            tracing::info!(id = %id.escape_ascii(), user = call.user(), %fault, "alteration refused");
            Some(fault.into())
        }
    };
    call.respond(&AlterTableResponsePb { error, table_id, schema_version: None });
}

fn apply(
    catalog: &mut Catalog,
    id: &str,
    request: &proto::kudu::master::AlterTableRequestPb,
    limits: &crate::options::Limits,
) -> Result<u32, Fault> {
    let Some(table) = catalog.tables().get(id) else { return Ok(0) };
    let altered = ddl::alter::alter(table, catalog.tablets_of(table), request, limits)?;
    catalog.alter_table(id, altered, now())?;
    Ok(catalog.tables().get(id).map_or(0, |table| table.schema_version))
}

pub(super) fn is_done(context: &Arc<Context>, call: Call<m::IsAlterTableDone>) {
    tables::read(
        context,
        call,
        |request| &request.table,
        |_, table| IsAlterTableDoneResponsePb {
            schema_version: Some(table.schema_version),
            done: Some(table.altered_from.is_none()),
            error: None,
        },
        |fault| IsAlterTableDoneResponsePb { error: Some(fault.into()), ..Default::default() },
    );
}
