//! Errors that travel inside an answer: a code of the tablet server, and a status that clients act on.

use proto::kudu::AppStatusPb;
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tserver::TabletServerErrorPb;
use proto::kudu::tserver::tablet_server_error_pb::Code;

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

    /// `dest_uuid` names another server; absent is fine.
    pub(crate) fn check_destination(wanted: Option<&[u8]>, own: &str) -> Result<(), Self> {
        match wanted {
            Some(uuid) if uuid != own.as_bytes() => {
                let wanted = String::from_utf8_lossy(uuid);
                let text =
                    format!("Wrong destination UUID requested. Local UUID: {own}. Requested UUID: {wanted}");
                Err(Self::invalid(Code::WrongServerUuid, text))
            }
            _ => Ok(()),
        }
    }
}

impl From<Fault> for TabletServerErrorPb {
    fn from(fault: Fault) -> Self {
        Self { code: fault.code.into(), status: status(fault.status, fault.message) }
    }
}

/// A status message.
pub(crate) fn status(code: ErrorCode, message: impl Into<String>) -> AppStatusPb {
    AppStatusPb { code: code.into(), message: Some(message.into()), posix_code: None }
}
