//! The answers to calls that reach no handler, in Kudu's words, since its tools match some of them.

use net_addr::SockAddr;
use rpc_core::{RemoteError, Request, RpcErrorCode};

use crate::results::CallKey;

pub(crate) fn no_such_service(service: &str, server: &str) -> RemoteError {
    let text = format!("Not found: service {} not registered on {server}", short(service));
    RemoteError::new(RpcErrorCode::ERROR_NO_SUCH_SERVICE, text)
}

pub(crate) fn unavailable(service: &str, server: &str) -> RemoteError {
    let text = format!("Service unavailable: service {} not registered on {server}", short(service));
    RemoteError::new(RpcErrorCode::ERROR_UNAVAILABLE, text)
}

pub(crate) fn shutting_down() -> RemoteError {
    let text = "Service unavailable: Service is shutting down";
    RemoteError::new(RpcErrorCode::FATAL_SERVER_SHUTTING_DOWN, text)
}

pub(crate) fn no_such_method(request: &Request) -> RemoteError {
    let text = format!(
        "Invalid argument: Call on service {} received at {} from {} with an invalid method name: {}",
        request.service(),
        plain(&request.connection().local),
        plain(&request.connection().peer),
        short(request.method()),
    );
    RemoteError::new(RpcErrorCode::ERROR_NO_SUCH_METHOD, text)
}

pub(crate) fn queue_full(request: &Request, capacity: usize) -> RemoteError {
    let text = format!(
        "Service unavailable: {} request on {} from {} dropped due to backpressure: service queue is full with {capacity} items",
        request.method(),
        request.service(),
        plain(&request.connection().peer),
    );
    RemoteError::new(RpcErrorCode::ERROR_SERVER_TOO_BUSY, text)
}

pub(crate) fn too_late() -> RemoteError {
    let text = "Timed out: Call waited in the queue past client deadline";
    RemoteError::new(RpcErrorCode::ERROR_SERVER_TOO_BUSY, text)
}

pub(crate) fn missing_fields(service: &str, method: &str, fields: &impl std::fmt::Display) -> RemoteError {
    let text =
        format!("Invalid argument: invalid parameter for call {service}.{method}: missing fields: {fields}");
    RemoteError::new(RpcErrorCode::ERROR_INVALID_REQUEST, text)
}

pub(crate) fn unparsable(service: &str, method: &str, error: &prost::DecodeError) -> RemoteError {
    let text = format!("Invalid argument: invalid parameter for call {service}.{method}: {error}");
    RemoteError::new(RpcErrorCode::ERROR_INVALID_REQUEST, text)
}

pub(crate) fn client_id_too_long(service: &str, method: &str, limit: usize) -> RemoteError {
    let text = format!(
        "Invalid argument: invalid request id for call {service}.{method}: client_id has more than {limit} bytes"
    );
    RemoteError::new(RpcErrorCode::ERROR_INVALID_REQUEST, text)
}

pub(crate) fn not_authorized(method: &str) -> RemoteError {
    let text = format!("Not authorized: unauthorized access to method: {method}");
    RemoteError::new(RpcErrorCode::ERROR_APPLICATION, text)
}

pub(crate) fn stale(key: CallKey<'_>, attempt_no: i64) -> RemoteError {
    let text = format!(
        "Incomplete: Request with id {{ client_id: \"{}\" seq_no: {} first_incomplete_seq_no: {} attempt_no: {} }} is stale.",
        key.client_id.escape_debug(),
        key.seq_no,
        key.first_incomplete_seq_no,
        attempt_no,
    );
    RemoteError::new(RpcErrorCode::ERROR_REQUEST_STALE, text)
}

pub(crate) fn too_many_to_remember(service: &str, method: &str) -> RemoteError {
    let text = format!(
        "Service unavailable: {method} request on {service} not run: too many clients, or attempts of this call, to remember"
    );
    RemoteError::new(RpcErrorCode::ERROR_SERVER_TOO_BUSY, text)
}

pub(crate) fn panicked(method: &str) -> RemoteError {
    let text = format!("Runtime error: {method} failed inside the server; its log tells more");
    RemoteError::new(RpcErrorCode::ERROR_APPLICATION, text)
}

pub(crate) fn unanswered(method: &str) -> RemoteError {
    let text = format!("Aborted: {method} was given up without an answer");
    RemoteError::new(RpcErrorCode::ERROR_APPLICATION, text)
}

/// Kudu prints TCP addresses bare; so do we, and unix ones with their `unix:` in front.
fn plain(address: &SockAddr) -> String {
    address.to_string()
}

/// Names come from the client and may be megabytes long; an answer needs only their beginning.
fn short(name: &str) -> String {
    const LONGEST: usize = 256;
    match name.char_indices().nth(LONGEST) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}... ({} bytes)", name.get(..end).unwrap_or(name), name.len()),
    }
}
