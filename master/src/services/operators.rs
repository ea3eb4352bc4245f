//! What operators ask of a master: maintenance, unregistering, other masters.

use std::sync::Arc;

use proto::kudu::HostPortPb;
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::master::change_t_server_state_request_pb::HandleMissingTs;
use proto::kudu::master::t_server_state_change_pb::StateChange;
use proto::kudu::master::{
    AddMasterResponsePb, ChangeTServerStateRequestPb, ChangeTServerStateResponsePb,
    RefreshAuthzCacheResponsePb, RemoveMasterRequestPb, ReplaceTabletResponsePb, UnregisterTServerResponsePb,
};
use proto::methods::master_service as m;
use rpc_server::Call;

use super::{Context, now};
use crate::fault::Fault;

pub(super) fn change_state(context: &Arc<Context>, call: Call<m::ChangeTServerState>) {
    match change(context, call.request()) {
        Ok(()) => call.respond(&ChangeTServerStateResponsePb::default()),
        Err(fault) => call.fail_application(as_status(&fault)),
    }
}

fn change(context: &Context, request: &ChangeTServerStateRequestPb) -> Result<(), Fault> {
    let change =
        request.change.as_ref().ok_or(Fault::BadServerChange("request must contain tserver state change"))?;
    if change.uuid.is_none() {
        return Err(Fault::BadServerChange("uuid not provided"));
    }
    let begins = match change.change() {
        StateChange::EnterMaintenanceMode => true,
        StateChange::ExitMaintenanceMode => false,
        StateChange::UnknownStateChange => return Err(Fault::BadServerChange("invalid state change")),
    };
    let may_be_missing = request.handle_missing_tserver() == HandleMissingTs::AllowMissingTserver;
    let seconds = i64::try_from(server_base::physical_micros() / 1_000_000).unwrap_or(i64::MAX);
    context.catalog.lock().set_maintenance(change.uuid(), begins, may_be_missing, seconds)?;
    tracing::info!(tserver = change.uuid(), begins, "maintenance");
    Ok(())
}

pub(super) fn unregister(context: &Arc<Context>, call: Call<m::UnregisterTServer>) {
    let request = call.request();
    let done = match &request.uuid {
        None => Err(Fault::BadServerChange("uuid not provided")),
        Some(uuid) => context.catalog.lock().unregister(uuid, request.force_unregister_live_tserver(), now()),
    };
    // Who is not there is unregistered.
    let done =
        done.or_else(|fault| if matches!(fault, Fault::UnknownServer(_)) { Ok(()) } else { Err(fault) });
    call.respond(&UnregisterTServerResponsePb { error: done.err().map(Into::into) });
}

pub(super) fn replace_tablet(context: &Arc<Context>, call: Call<m::ReplaceTablet>) {
    let id = String::from_utf8_lossy(call.request().tablet_id()).into_owned();
    let replaced = context.catalog.lock().replace_tablet(&id, now());
    context.driver.wake();
    call.respond(&match replaced {
        Ok(new) => {
            tracing::warn!(tablet = id, replacement = new, "a tablet was given up for an empty one");
            ReplaceTabletResponsePb { error: None, replacement_tablet_id: Some(new.into()) }
        }
        Err(fault) => ReplaceTabletResponsePb { error: Some(fault.into()), ..Default::default() },
    });
}

/// There are no rules that another system keeps, and so nothing that is kept of them.
pub(super) fn refresh_authz_cache(_: &Arc<Context>, call: Call<m::RefreshAuthzCache>) {
    call.respond(&RefreshAuthzCacheResponsePb::default());
}

pub(super) fn remove_master(context: &Arc<Context>, call: Call<m::RemoveMaster>) {
    let fault = refuse_removal(context, &call);
    call.fail_application(as_status(&fault));
}

fn refuse_removal(context: &Context, call: &Call<m::RemoveMaster>) -> Fault {
    let RemoveMasterRequestPb { rpc_addr, master_uuid } = call.request();
    let Some(address) = rpc_addr else { return Fault::BadServerChange("RPC address not provided") };
    let is_this = is_own(context, call, address)
        && master_uuid.as_ref().is_none_or(|uuid| uuid == context.identity.uuid().as_str());
    let name = text(address);
    if is_this { Fault::OnlyMaster(name) } else { Fault::UnknownMaster(name) }
}

pub(super) fn add_master(context: &Arc<Context>, call: Call<m::AddMaster>) {
    let fault = match &call.request().rpc_addr {
        None => Fault::BadServerChange("RPC address not provided"),
        Some(address) if is_own(context, &call, address) => Fault::MasterPresent(text(address)),
        Some(address) => Fault::NoSecondMaster(text(address)),
    };
    call.respond(&AddMasterResponsePb { error: Some(fault.into()) });
}

/// The fault as the real master words it where it fails the call, in place of an error in the answer.
fn as_status(fault: &Fault) -> String {
    let kind = match fault.codes().1 {
        ErrorCode::NotFound => "Not found",
        ErrorCode::IoError => "IO error",
        _ => "Invalid argument",
    };
    format!("{kind}: {fault}")
}

fn is_own<M: proto::Method>(context: &Context, call: &Call<M>, address: &HostPortPb) -> bool {
    let addresses = super::host_ports(context.addresses(call.connection()));
    addresses.iter().any(|own| own.port == address.port && own.host == address.host)
}

fn text(address: &HostPortPb) -> String {
    format!("{}:{}", address.host, address.port)
}
