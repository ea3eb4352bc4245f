//! Our hand-written codecs against prost's.

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;
use proto::kudu::rpc as pb;
use rpc_core::negotiate::message::NegotiateMessage;
use rpc_core::wire::header::{RequestHeader, ResponseHeader};

fn request_header() -> impl Strategy<Value = pb::RequestHeader> {
    let id = (".{0,20}", any::<i64>(), any::<i64>(), any::<i64>()).prop_map(|(client_id, a, b, c)| {
        pb::RequestIdPb { client_id, seq_no: a, first_incomplete_seq_no: b, attempt_no: c }
    });
    let method = (".{0,40}", ".{0,200}")
        .prop_map(|(service_name, method_name)| pb::RemoteMethodPb { service_name, method_name });
    let numbers = || prop::collection::vec(any::<u32>(), 0..5);
    (
        any::<i32>(),
        prop::option::of(method),
        prop::option::of(any::<u32>()),
        numbers(),
        prop::option::of(id),
        numbers(),
    )
        .prop_map(|(call_id, remote_method, timeout_millis, flags, request_id, offsets)| {
            pb::RequestHeader {
                call_id,
                remote_method,
                timeout_millis,
                required_feature_flags: flags,
                request_id,
                sidecar_offsets: offsets,
            }
        })
}

/// The same fields, as prost holds them.
fn as_prost(header: &RequestHeader<'_>) -> pb::RequestHeader {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    pb::RequestHeader {
        call_id: header.call_id,
        remote_method: header
            .method
            .map(|(s, m)| pb::RemoteMethodPb { service_name: text(s), method_name: text(m) }),
        timeout_millis: header.timeout_millis,
        required_feature_flags: header.required_feature_flags.clone(),
        request_id: header.request_id.map(|id| pb::RequestIdPb {
            client_id: text(id.client_id),
            seq_no: id.seq_no,
            first_incomplete_seq_no: id.first_incomplete_seq_no,
            attempt_no: id.attempt_no,
        }),
        sidecar_offsets: header.sidecar_offsets.clone(),
    }
}

/// The same with repeated numbers packed: fields 11 and 16 as bytes.
fn packed(header: &pb::RequestHeader) -> Vec<u8> {
    let mut bare = header.clone();
    let (flags, offsets) =
        (std::mem::take(&mut bare.required_feature_flags), std::mem::take(&mut bare.sidecar_offsets));
    let mut out = bare.encode_to_vec();
    for (field, numbers) in [(11, flags), (16, offsets)] {
        let mut content = Vec::new();
        numbers.iter().for_each(|number| prost::encoding::encode_varint((*number).into(), &mut content));
        rpc_core::wire::pb::put_bytes(&mut out, field, &content);
    }
    out
}

proptest! {
    #[test]
    fn request_headers_read_and_write_as_prost_does(header in request_header()) {
        let bytes = header.encode_to_vec();
        let ours = RequestHeader::decode(&bytes).unwrap();
        prop_assert_eq!(as_prost(&ours), header.clone());
        let mut again = Vec::new();
        ours.encode(&mut again);
        prop_assert_eq!(&again, &bytes);
        let bytes = packed(&header);
        prop_assert_eq!(RequestHeader::decode(&bytes).map(|ours| as_prost(&ours)), Ok(header));
    }

    #[test]
    fn request_headers_cut_short_are_refused_or_shorter(header in request_header()) {
        let bytes = header.encode_to_vec();
        for cut in 0..bytes.len() {
            match RequestHeader::decode(&bytes[..cut]) {
                // A cut between fields leaves a header that prost reads the same way.
                Ok(ours) => prop_assert_eq!(Ok(as_prost(&ours)), pb::RequestHeader::decode(&bytes[..cut])),
                Err(_) => prop_assert!(pb::RequestHeader::decode(&bytes[..cut]).is_err() || cut < 2),
            }
        }
    }

    #[test]
    fn response_headers_read_and_write_as_prost_does(
        call_id: i32, is_error: Option<bool>, offsets in prop::collection::vec(any::<u32>(), 0..5),
    ) {
        let header = pb::ResponseHeader { call_id, is_error, sidecar_offsets: offsets };
        let bytes = header.encode_to_vec();
        let ours = ResponseHeader::decode(&bytes).unwrap();
        prop_assert_eq!(&ours.sidecar_offsets, &header.sidecar_offsets);
        prop_assert_eq!((ours.call_id, ours.is_error), (call_id, is_error));
        let mut again = Vec::new();
        ours.encode(&mut again);
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn what_we_take_from_arbitrary_bytes_prost_takes_too(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = ResponseHeader::decode(&bytes);
        let _ = NegotiateMessage::decode(&Bytes::from(bytes.clone()));
        if let (Ok(ours), Ok(theirs)) = (RequestHeader::decode(&bytes), pb::RequestHeader::decode(&bytes[..])) {
            prop_assert_eq!(as_prost(&ours), theirs);
        }
    }

    #[test]
    fn negotiation_messages_read_as_prost_does(
        features in prop::collection::vec(0i32..200, 0..4), step in 0i32..8,
        token in prop::option::of(prop::collection::vec(any::<u8>(), 0..9)),
        mechanisms in prop::collection::vec("[A-Z]{1,8}", 0..3),
    ) {
        let theirs = pb::NegotiatePb {
            supported_features: features.clone(),
            step,
            token: token.clone().map(Bytes::from),
            sasl_mechanisms: mechanisms
                .iter()
                .map(|m| pb::negotiate_pb::SaslMechanism { mechanism: m.clone() })
                .collect(),
            ..Default::default()
        };
        let ours = NegotiateMessage::decode(&Bytes::from(theirs.encode_to_vec())).unwrap();
        prop_assert_eq!(ours.supported_features.iter().map(|f| f.0).collect::<Vec<_>>(), features);
        prop_assert_eq!(ours.step.number(), step);
        prop_assert_eq!(&ours.sasl_mechanisms, &mechanisms);
        prop_assert_eq!(pb::NegotiatePb::decode(&ours.to_vec()[..]), Ok(theirs));
    }
}

#[test]
fn headers_with_gaps_are_refused() {
    use rpc_core::wire::WireError::MissingField;
    assert_eq!(RequestHeader::decode(b""), Err(MissingField("call_id")));
    assert_eq!(ResponseHeader::decode(b"\x10\x01"), Err(MissingField("call_id")));
    assert_eq!(
        RequestHeader::decode(b"\x18\x01\x32\x03\x0a\x01S"),
        Err(MissingField("remote_method.method_name"))
    );
    assert_eq!(RequestHeader::decode(b"\x18\x01\x7a\x03\x0a\x01c"), Err(MissingField("request_id.seq_no")));
}

#[test]
fn a_header_takes_no_more_numbers_than_it_may() {
    let mut header = pb::RequestHeader { sidecar_offsets: vec![1; 10_000], ..Default::default() };
    assert!(RequestHeader::decode(&header.encode_to_vec()).is_ok());
    header.sidecar_offsets.push(1);
    assert!(RequestHeader::decode(&header.encode_to_vec()).is_err());
    assert!(RequestHeader::decode(&packed(&header)).is_err());
}
