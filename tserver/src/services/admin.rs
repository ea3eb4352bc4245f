//! `kudu.tserver.TabletServerAdminService`: what masters and administrators ask for.

use std::sync::atomic::Ordering;

use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tablet::TabletDataState;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::kudu::tserver::{
    AlterSchemaResponsePb, CreateTabletRequestPb, CreateTabletResponsePb, DeleteTabletRequestPb,
    DeleteTabletResponsePb, QuiesceTabletServerRequestPb, QuiesceTabletServerResponsePb,
};
use proto::methods::tablet_server_admin_service::{
    AlterSchema, CreateTablet, DeleteTablet, Quiesce, SERVICE,
};
use rpc_server::Service;
use server_base::consensus::wrong_destination;

use crate::fault::Fault;
use crate::node::{Node, SharedNode};
use crate::replicas::{self, NO_CONFIG_INDEX};

/// The service, on `threads` threads.
pub(crate) fn service(node: &SharedNode, threads: usize, queue_length: usize) -> Service {
    let node = || SharedNode::clone(node);
    let (create, alter, delete, quiesce) = (node(), node(), node(), node());
    Service::builder(SERVICE)
        .features(&[1, 2, 3, 6])
        .threads(threads)
        .queue_length(queue_length)
        .method::<CreateTablet>(move |call| {
            let wrong = wrong_destination(call.request().dest_uuid.as_deref(), create.uuid());
            let error = wrong.or_else(|| create_tablet(&create, call.request()).err().map(Into::into));
            call.respond(&CreateTabletResponsePb { error });
        })
        .method::<AlterSchema>(move |call| {
            let wrong = wrong_destination(call.request().dest_uuid.as_deref(), alter.uuid());
            let error = wrong.or_else(|| replicas::alter(&alter, call.request()).err().map(Into::into));
            let timestamp = error.is_none().then(|| alter.clock.now().0);
            call.respond(&AlterSchemaResponsePb { error, timestamp });
        })
        .method::<DeleteTablet>(move |call| {
            let wrong = wrong_destination(call.request().dest_uuid.as_deref(), delete.uuid());
            let error = wrong.or_else(|| delete_tablet(&delete, call.request()).err().map(Into::into));
            call.respond(&DeleteTabletResponsePb { error });
        })
        .method::<Quiesce>(move |call| {
            let response = quiesce_server(&quiesce, call.request());
            call.respond(&response);
        })
        .build()
}

fn create_tablet(node: &Node, request: &CreateTabletRequestPb) -> Result<(), Fault> {
    replicas::create(node, request)?;
    let id = String::from_utf8_lossy(&request.tablet_id);
    tracing::info!(tablet = %id, table = request.table_name, "tablet created");
    Ok(())
}

fn delete_tablet(node: &Node, request: &DeleteTabletRequestPb) -> Result<(), Fault> {
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
    replicas::remove(node, &replica, keep_tombstone)?;
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
        response.num_leaders = Some(i32::try_from(node.tablets.count_running()).unwrap_or(i32::MAX));
        response.num_active_scanners = Some(i32::try_from(node.scanners.count()).unwrap_or(i32::MAX));
    }
    response
}
