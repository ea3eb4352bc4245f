//! `kudu.tserver.TabletServerService`: rows in, rows out.

use std::time::Instant;

use proto::kudu::PartitionSchemaPb;
use proto::kudu::consensus::raft_peer_pb::Role;
use proto::kudu::tablet::TabletStatusPb;
use proto::kudu::tserver::list_tablets_response_pb::StatusAndSchemaPb;
use proto::kudu::tserver::{
    ChecksumResponsePb, ListTabletsRequestPb, ListTabletsResponsePb, PingResponsePb, ScanResponsePb,
    ScannerKeepAliveRequestPb, ScannerKeepAliveResponsePb, SplitKeyRangeResponsePb, WriteResponsePb,
};
use proto::methods::tablet_server_service::{
    Checksum, ListTablets, Ping, SERVICE, Scan, ScannerKeepAlive, SplitKeyRange, Write,
};
use rpc_server::Service;
use schema::wire;
use schema::wire::partition::Naming;
use tablet::TabletOptions;

use super::key_ranges;
use crate::node::{Node, SharedNode};
use crate::scanner::answers;
use crate::scanner::cost::Stopwatch;
use crate::scanner::turn::{self, Refusal};
use crate::tablets::Replica;
use crate::write_path;

/// The service, on `threads` threads; Ping and ScannerKeepAlive need none.
pub(crate) fn service(node: &SharedNode, threads: usize, queue_length: usize) -> Service {
    let node = || SharedNode::clone(node);
    let (write, scan, checksum, keep_alive) = (node(), node(), node(), node());
    let (list, split) = (node(), node());
    Service::builder(SERVICE)
        .features(&FEATURES)
        .threads(threads)
        .queue_length(queue_length)
        .function::<Ping>(|_| PingResponsePb::default())
        .method::<Write>(move |call| {
            if let Some(refusal) = write.memory.refusal() {
                return call.fail(refusal);
            }
            match write_path::write(&write, call.request(), call.arrival().request_id(), call.deadline()) {
                Ok((response, None)) => call.respond(&response),
                Ok((response, Some(until))) => {
                    write.commit_waits.answer(until, response, call.into_parts().2)
                }
                // Not remembered: the next attempt may find another tablet here.
                Err(fault) => {
                    let error = Some(fault.into());
                    call.respond_uncached(&WriteResponsePb { error, ..Default::default() });
                }
            }
        })
        .method::<Scan>(move |call| {
            let watch = Stopwatch::start(call.arrival().received);
            match answers::scan(&scan, call.request(), call.user(), watch) {
                Ok((response, sidecars)) => call.respond_with_sidecars(&response, sidecars),
                Err(Refusal::Fault(fault)) => {
                    call.respond(&ScanResponsePb { error: Some(fault.into()), ..Default::default() });
                }
                Err(Refusal::Malformed(text)) => call.fail_application(text),
            }
        })
        .method::<Checksum>(move |call| {
            let watch = Stopwatch::start(call.arrival().received);
            match answers::checksum(&checksum, call.request(), call.user(), watch) {
                Ok(response) => call.respond(&response),
                Err(Refusal::Fault(fault)) => {
                    call.respond(&ChecksumResponsePb { error: Some(fault.into()), ..Default::default() });
                }
                Err(Refusal::Malformed(text)) => call.fail_application(text),
            }
        })
        .cheap::<ScannerKeepAlive>(move |call| {
            let response = scanner_keep_alive(&keep_alive, call.request(), call.user());
            call.respond(&response);
        })
        .method::<ListTablets>(move |call| {
            let response = list_tablets(&list, call.request());
            call.respond(&response);
        })
        .method::<SplitKeyRange>(move |call| {
            let (ranges, error) = match key_ranges::split(&split, call.request()) {
                Ok(ranges) => (ranges, None),
                Err(fault) => (Vec::new(), Some(fault.into())),
            };
            call.respond(&SplitKeyRangeResponsePb { error, ranges });
        })
        .build()
}

fn scanner_keep_alive(
    node: &Node,
    request: &ScannerKeepAliveRequestPb,
    user: &str,
) -> ScannerKeepAliveResponsePb {
    let found = node.scanners.get(&request.scanner_id, user, Instant::now());
    ScannerKeepAliveResponsePb { error: found.is_none().then(|| turn::expired(&request.scanner_id).into()) }
}

fn list_tablets(node: &Node, request: &ListTabletsRequestPb) -> ListTabletsResponsePb {
    let one = |replica: &Replica| {
        let with_schema = request.need_schema_info();
        let about = replica.present();
        StatusAndSchemaPb {
            tablet_status: tablet_status(node, replica, &about),
            schema: with_schema.then(|| (&about.schema).into()),
            partition_schema: with_schema.then(|| partition_schema(&about)).flatten(),
            schema_version: Some(about.schema_version),
            role: Some(if replica.running().is_some() { Role::Leader } else { Role::NonParticipant }.into()),
        }
    };
    let status_and_schema = node.tablets.all().iter().map(|replica| one(replica)).collect();
    ListTabletsResponsePb { status_and_schema, error: None }
}

fn partition_schema(about: &TabletOptions) -> Option<PartitionSchemaPb> {
    let (partitioning, schema) = (&about.partition_schema, &about.schema);
    let described = wire::partition::partition_schema_to_pb(partitioning, schema, Naming::ById);
    described.inspect_err(|error| tracing::error!(tablet = about.id, %error, "partition schema")).ok()
}

fn tablet_status(node: &Node, replica: &Replica, about: &TabletOptions) -> TabletStatusPb {
    let partition = &about.partition;
    TabletStatusPb {
        tablet_id: replica.id().to_owned(),
        table_name: about.table_name.clone(),
        state: Some(replica.state().into()),
        tablet_data_state: Some(replica.data_state().into()),
        last_status: replica.last_status(),
        start_key: Some(partition.start.clone().into()),
        end_key: Some(partition.end.clone().into()),
        partition: Some(partition.into()),
        estimated_on_disk_size: Some(replica.bytes() as i64),
        data_dirs: node.store.iter().map(|store| store.folder_of(replica.id()).into()).collect(),
    }
}

/// Predicates, padded cells, quiescing, bloom filters, columnar layout. 4, the older bloom filter, hashes otherwise.
pub(super) const FEATURES: [u32; 5] = [1, 2, 3, 5, 6];
