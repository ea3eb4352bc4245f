//! Errors that travel inside an answer: a code of the tablet server, and a status that clients act on.

use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tserver::TabletServerErrorPb;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use server_base::consensus;
pub(crate) use server_base::consensus::status;

/// Why a request was refused, in the words of the protocol.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) code: Code,
    pub(crate) status: ErrorCode,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(code: Code, status: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, status, message: message.into() }
    }

    /// The client's fault, whatever the code.
    pub(crate) fn invalid(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, ErrorCode::InvalidArgument, message)
    }

    pub(crate) fn tablet_not_found(id: &str) -> Self {
        Self::new(Code::TabletNotFound, ErrorCode::NotFound, format!("Tablet not found: {id}"))
    }
}

impl From<Fault> for TabletServerErrorPb {
    fn from(fault: Fault) -> Self {
        consensus::error(fault.code, fault.status, fault.message)
    }
}
