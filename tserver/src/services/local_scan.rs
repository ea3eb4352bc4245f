//! `nyala.tserver.LocalScanService`, our own: scans by shared memory.

use proto::kudu::tserver::ScanResponsePb;
use proto::methods::local_scan_service::{SERVICE, Scan};
use proto::nyala::tserver::LocalScanResponsePb;
use rpc_server::Service;

use crate::node::SharedNode;
use crate::scanner::cost::Stopwatch;
use crate::scanner::local::{self, LocalAnswer};
use crate::scanner::turn::Refusal;

/// The service, on `threads` threads.
pub(crate) fn service(node: &SharedNode, threads: usize, queue_length: usize) -> Service {
    let node = SharedNode::clone(node);
    Service::builder(SERVICE)
        .features(&super::tablet::FEATURES)
        .threads(threads)
        .queue_length(queue_length)
        .method::<Scan>(move |call| {
            let connection = call.connection().clone();
            let watch = Stopwatch::start(call.arrival().received);
            match local::scan(&node, call.request(), &connection, watch) {
                Ok(LocalAnswer { response, sidecars, memories }) => {
                    let generation = call.request().generation;
                    let (ids, descriptors): (Vec<u64>, Vec<_>) = memories.into_iter().unzip();
                    call.respond_with_descriptors(&response, sidecars, descriptors);
                    // Not before: an answer that is given meanwhile must bring them itself.
                    node.shared.sent(&connection, generation, &ids);
                }
                Err(Refusal::Fault(fault)) => {
                    let scan = ScanResponsePb { error: Some(fault.into()), ..Default::default() };
                    call.respond(&LocalScanResponsePb { scan, ..Default::default() });
                }
                Err(Refusal::Malformed(text)) => call.fail_application(text),
            }
        })
        .build()
}
