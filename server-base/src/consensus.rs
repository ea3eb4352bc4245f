//! What both servers answer in `kudu.consensus.ConsensusService`, and the errors of its kind.

use proto::kudu::AppStatusPb;
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::consensus::ReplicaManagementInfoPb;
use proto::kudu::consensus::replica_management_info_pb::ReplacementScheme;
use proto::kudu::tserver::TabletServerErrorPb;
use proto::kudu::tserver::tablet_server_error_pb::Code;

/// How replicas are replaced: the only scheme that masters of 1.18 take by default.
pub fn replica_management() -> ReplicaManagementInfoPb {
    ReplicaManagementInfoPb {
        replacement_scheme: Some(ReplacementScheme::PrepareReplacementBeforeEviction.into()),
    }
}

/// The error of a call whose `dest_uuid` names another server than `own`; `None` if it is this one's, or absent.
pub fn wrong_destination(wanted: Option<&[u8]>, own: &str) -> Option<TabletServerErrorPb> {
    let wanted = wanted.filter(|wanted| *wanted != own.as_bytes())?;
    let wanted = String::from_utf8_lossy(wanted);
    let text = format!("Wrong destination UUID requested. Local UUID: {own}. Requested UUID: {wanted}");
    Some(error(Code::WrongServerUuid, ErrorCode::InvalidArgument, text))
}

/// An error of a tablet server.
pub fn error(code: Code, kind: ErrorCode, message: impl Into<String>) -> TabletServerErrorPb {
    TabletServerErrorPb { code: code.into(), status: status(kind, message) }
}

/// A status as answers carry it.
pub fn status(kind: ErrorCode, message: impl Into<String>) -> AppStatusPb {
    AppStatusPb { code: kind.into(), message: Some(message.into()), posix_code: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_for_another_server_names_both() {
        assert_eq!(wrong_destination(None, "a"), None);
        assert_eq!(wrong_destination(Some(b"a"), "a"), None);
        let error = wrong_destination(Some(b"b"), "a").unwrap();
        assert_eq!(error.code(), Code::WrongServerUuid);
        assert!(error.status.message().ends_with("Local UUID: a. Requested UUID: b"));
    }
}
