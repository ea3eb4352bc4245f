//! TSHeartbeat.

use std::sync::Arc;

use proto::kudu::master::TsHeartbeatResponsePb;
use proto::methods::master_service::TSHeartbeat;
use rpc_server::Call;

use super::{Context, now, seconds};
use crate::heartbeat::{self, Refused};

pub(super) fn receive(context: &Arc<Context>, mut call: Call<TSHeartbeat>) {
    let request = call.take_request();
    let master = context.identity.node_instance();
    let (outcome, known) = {
        let mut catalog = context.catalog.lock();
        let outcome = heartbeat::receive(&mut catalog, request, &master, &call.connection().peer, now());
        catalog.delete_expired(seconds());
        (outcome, catalog.servers().len())
    };
    // The report may have brought tablets to delete.
    context.driver.wake();
    context.registered.send_if_modified(|count| std::mem::replace(count, known) != known);
    match outcome {
        Ok(response) => call.respond(&response),
        Err(Refused::Fault(fault)) => {
            call.respond(&TsHeartbeatResponsePb { error: Some(fault.into()), ..Default::default() });
        }
        Err(Refused::Register(error)) => {
            let kind = match error {
                crate::catalog::servers::RegisterError::Outdated { .. } => "Already present",
                crate::catalog::servers::RegisterError::NoAddress => "Invalid argument",
            };
            call.fail_application(format!("{kind}: {error}"));
        }
    }
}
