//! The header of a request, against prost.

use prost::Message;
use proto::kudu::rpc as pb;
use rpc_core::wire::WireError;
use rpc_core::wire::header::RequestHeader;

/// Both read the same, or say why not; what is written is read again.
pub fn run(bytes: &[u8]) {
    let theirs = pb::RequestHeader::decode(bytes);
    let ours = match RequestHeader::decode(bytes) {
        Ok(ours) => ours,
        Err(error) => {
            assert!(theirs.is_err() || is_stricter(&error), "{error}, and prost reads {theirs:?}");
            return;
        }
    };
    let mut written = Vec::new();
    ours.encode(&mut written);
    assert_eq!(RequestHeader::decode(&written), Ok(ours.clone()));
    let Some(same) = as_prost(&ours) else {
        assert!(theirs.is_err(), "names that are not UTF-8");
        return;
    };
    assert_eq!(same.encode_to_vec(), written);
    // prost refuses a known field of another wire type, which is an unknown field to us.
    if let Ok(theirs) = theirs {
        assert_eq!(theirs, same);
    }
}

/// Do we refuse what prost need not? Missing fields are noticed, lengths and tags have 32 bits, lists a bound.
pub(crate) fn is_stricter(error: &WireError) -> bool {
    matches!(error, WireError::MissingField(_) | WireError::BadVarint | WireError::TooMany(_))
}

/// The same fields, as prost holds them; `None` if prost cannot.
fn as_prost(header: &RequestHeader<'_>) -> Option<pb::RequestHeader> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let remote_method = match header.method {
        Some((service, method)) => {
            Some(pb::RemoteMethodPb { service_name: text(service)?, method_name: text(method)? })
        }
        None => None,
    };
    let request_id = match header.request_id {
        Some(id) => Some(pb::RequestIdPb {
            client_id: text(id.client_id)?,
            seq_no: id.seq_no,
            first_incomplete_seq_no: id.first_incomplete_seq_no,
            attempt_no: id.attempt_no,
        }),
        None => None,
    };
    Some(pb::RequestHeader {
        call_id: header.call_id,
        remote_method,
        timeout_millis: header.timeout_millis,
        required_feature_flags: header.required_feature_flags.clone(),
        request_id,
        sidecar_offsets: header.sidecar_offsets.clone(),
    })
}
