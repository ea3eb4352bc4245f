//! `kudu.tserver.TabletServerAdminService`: what masters and administrators ask for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tablet::TabletDataState;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::kudu::tserver::{
    CreateTabletRequestPb, CreateTabletResponsePb, DeleteTabletRequestPb, DeleteTabletResponsePb,
    QuiesceTabletServerRequestPb, QuiesceTabletServerResponsePb,
};
use proto::methods::tablet_server_admin_service::{CreateTablet, DeleteTablet, Quiesce};
use rpc_server::Service;
use schema::{Partition, Schema, wire};
use tablet::{Tablet, TabletOptions};

use crate::fault::Fault;
use crate::node::{Node, SharedNode};
use crate::tablets::Replica;

/// The service, on `threads` threads.
pub(crate) fn service(node: &SharedNode, threads: usize, queue_length: usize) -> Service {
    let (create, delete, quiesce) =
        (SharedNode::clone(node), SharedNode::clone(node), SharedNode::clone(node));
    Service::builder("kudu.tserver.TabletServerAdminService")
        .features(&[1, 2, 3, 6])
        .threads(threads)
        .queue_length(queue_length)
        .method::<CreateTablet>(move |call| {
            let error = create_tablet(&create, call.request()).err().map(Into::into);
            call.respond(&CreateTabletResponsePb { error });
        })
        .method::<DeleteTablet>(move |call| {
            let error = delete_tablet(&delete, call.request()).err().map(Into::into);
            call.respond(&DeleteTabletResponsePb { error });
        })
        .cheap::<Quiesce>(move |call| {
            let response = quiesce_server(&quiesce, call.request());
            call.respond(&response);
        })
        .build()
}

fn create_tablet(node: &Node, request: &CreateTabletRequestPb) -> Result<(), Fault> {
    Fault::check_destination(request.dest_uuid.as_deref(), node.uuid())?;
    let id = text(&request.tablet_id, "tablet_id")?;
    let table_id = text(&request.table_id, "table_id")?;
    let bad = |error: &dyn std::fmt::Display| Fault::invalid(Code::InvalidSchema, error.to_string());
    let schema = Schema::try_from(&request.schema).map_err(|error| bad(&error))?;
    // Without ids or partition Kudu 1.18.1 ends its process here.
    let partition = request.partition.as_ref().ok_or_else(|| bad(&"a tablet needs a partition"))?;
    let partition = Partition::try_from(partition).map_err(|error| bad(&error))?;
    let partition_schema = request.partition_schema.clone().unwrap_or_default();
    let partition_schema =
        wire::partition::partition_schema_from_pb(&partition_schema, &schema).map_err(|error| bad(&error))?;
    let about = TabletOptions {
        id: id.clone(),
        table_id,
        table_name: request.table_name.clone(),
        schema,
        partition_schema,
        partition,
        schema_version: 0,
    };
    let mut config = request.config.clone();
    config.opid_index.get_or_insert(NO_CONFIG_INDEX);
    let tablet = Tablet::open(about.clone(), Arc::clone(node.clock.hybrid())).map_err(|error| bad(&error))?;
    node.tablets.add(Replica { about, config, tablet: Some(tablet) })?;
    tracing::info!(tablet = id, table = request.table_name, "tablet created");
    Ok(())
}

fn delete_tablet(node: &Node, request: &DeleteTabletRequestPb) -> Result<(), Fault> {
    Fault::check_destination(request.dest_uuid.as_deref(), node.uuid())?;
    let keep_tombstone = match request.delete_type() {
        TabletDataState::TabletDataDeleted => false,
        TabletDataState::TabletDataTombstoned => true,
        other => {
            let text = format!(
                "delete_type must be TABLET_DATA_DELETED or TABLET_DATA_TOMBSTONED, not {}",
                other.as_str_name()
            );
            return Err(Fault::invalid(Code::UnknownError, text));
        }
    };
    let replica = node.tablets.get(&request.tablet_id)?;
    let index = replica.config.opid_index.unwrap_or(NO_CONFIG_INDEX);
    if let Some(limit) = request.cas_config_opid_index_less_or_equal.filter(|limit| index > *limit) {
        let text = format!("the committed config has opid_index {index}, the request allows at most {limit}");
        return Err(Fault::new(Code::CasFailed, ErrorCode::IllegalState, text));
    }
    node.tablets.remove(replica.id(), keep_tombstone);
    tracing::info!(tablet = replica.id(), keep_tombstone, reason = request.reason(), "tablet deleted");
    Ok(())
}

fn quiesce_server(node: &Node, request: &QuiesceTabletServerRequestPb) -> QuiesceTabletServerResponsePb {
    if let Some(quiesce) = request.quiesce {
        node.quiescing.store(quiesce, Ordering::Release);
        tracing::info!(quiesce, "quiescing was switched");
    }
    let mut response = QuiesceTabletServerResponsePb {
        is_quiescing: Some(node.quiescing.load(Ordering::Acquire)),
        ..Default::default()
    };
    if request.return_stats() {
        let leaders = node.tablets.all().iter().filter(|replica| replica.tablet.is_some()).count();
        response.num_leaders = Some(i32::try_from(leaders).unwrap_or(i32::MAX));
        response.num_active_scanners = Some(i32::try_from(node.scanners.count()).unwrap_or(i32::MAX));
    }
    response
}

fn text(bytes: &[u8], field: &str) -> Result<String, Fault> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty());
    let wrong = || Fault::invalid(Code::UnknownError, format!("{field} is empty or not UTF-8"));
    text.map(str::to_owned).ok_or_else(wrong)
}

/// The index of a configuration that came with the tablet and was never changed.
const NO_CONFIG_INDEX: i64 = -1;
