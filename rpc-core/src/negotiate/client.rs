//! The client's half: PLAIN without TLS. A real server with default flags serves such a client.

use bytes::Bytes;

use super::error::NegotiationError;
use super::features::{AuthnType, RpcFeature, Step};
use super::message::{self, NegotiateMessage};
use super::{plain, put_request};
use crate::call::RemoteError;
use crate::wire::header::ResponseHeader;
use crate::wire::limits::{CONNECTION_CONTEXT_CALL_ID, NEGOTIATION_CALL_ID};
use crate::wire::preface::PREFACE;

/// Takes a server's negotiation frames in order and writes ours.
#[derive(Debug)]
pub struct ClientNegotiation {
    user: String,
    descriptors: bool,
    features: Vec<RpcFeature>,
    expected: Step,
}

impl ClientNegotiation {
    /// Starts as `user`; preface and first message are appended to `out`. `descriptors` = we can take them.
    pub fn start(user: String, descriptors: bool, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(&PREFACE);
        let mut request = NegotiateMessage::new(Step::Negotiate);
        request.supported_features.push(RpcFeature::APPLICATION_FEATURE_FLAGS);
        if descriptors {
            request.supported_features.push(RpcFeature::DESCRIPTORS);
        }
        request.authn_types.push(AuthnType::Sasl);
        put_request(out, NEGOTIATION_CALL_ID, &request.to_vec());
        Self { user, descriptors, features: Vec::new(), expected: Step::Negotiate }
    }

    /// Takes the next frame; what is to be sent is appended to `out`. True = done, calls may follow at once.
    ///
    /// # Errors
    /// [`NegotiationError`]: close, without a word.
    pub fn handle_frame(
        &mut self,
        header: &[u8],
        main: &Bytes,
        out: &mut Vec<u8>,
    ) -> Result<bool, NegotiationError> {
        let header = ResponseHeader::decode(header)?;
        if header.call_id != NEGOTIATION_CALL_ID {
            return Err(NegotiationError::CallId(header.call_id));
        }
        if header.is_error == Some(true) {
            return Err(NegotiationError::Rejected(Box::new(RemoteError::decode(main)?)));
        }
        let reply = NegotiateMessage::decode(main)?;
        if reply.step != self.expected {
            let (expected, got) = (self.expected.number(), reply.step.number());
            return Err(NegotiationError::UnexpectedStep { expected, got });
        }
        if self.expected == Step::SaslSuccess {
            let mut context = Vec::new();
            message::encode_context(&self.user, &mut context);
            put_request(out, CONNECTION_CONTEXT_CALL_ID, &context);
            return Ok(true);
        }
        let chosen = reply.authn_types.first().copied().unwrap_or(AuthnType::Sasl);
        let plain_offered = reply.sasl_mechanisms.iter().any(|name| name.eq_ignore_ascii_case(plain::NAME));
        if chosen != AuthnType::Sasl || !plain_offered {
            return Err(NegotiationError::NoCommonMechanism);
        }
        self.features = reply.supported_features;
        self.expected = Step::SaslSuccess;
        let mut initiate = NegotiateMessage::new(Step::SaslInitiate);
        initiate.token = Some(Bytes::from(plain::encode(&self.user)));
        initiate.sasl_mechanisms.push(plain::NAME.to_owned());
        put_request(out, NEGOTIATION_CALL_ID, &initiate.to_vec());
        Ok(false)
    }

    /// Does the server check required application features?
    pub fn server_checks_features(&self) -> bool {
        self.features.contains(&RpcFeature::APPLICATION_FEATURE_FLAGS)
    }

    /// May descriptors come with answers? Only if both ends said so.
    pub fn takes_descriptors(&self) -> bool {
        self.descriptors && self.features.contains(&RpcFeature::DESCRIPTORS)
    }
}
