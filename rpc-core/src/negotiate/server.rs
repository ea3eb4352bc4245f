//! The server's half: PLAIN without TLS.

use bytes::Bytes;
use net_addr::SockAddr;
use thiserror::Error;

use super::features::{AuthnType, RpcFeature, Step};
use super::message::{self, NegotiateMessage};
use super::{plain, put_error, put_response};
use crate::call::{RemoteError, RpcErrorCode};
use crate::wire::header::RequestHeader;
use crate::wire::limits::{CONNECTION_CONTEXT_CALL_ID, NEGOTIATION_CALL_ID};
use crate::wire::{FrameError, WireError};

/// Why a server turned a client away.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It was told so, in an error frame.
    #[error("refused: {0}")]
    Told(RemoteError),
    /// The frame was none; nothing was sent.
    #[error("dropped for {0}")]
    Frame(#[from] FrameError),
    /// The connection context was none; nothing was sent.
    #[error("dropped: its connection context {0}")]
    Context(WireError),
    /// Another frame came where the connection context was due; nothing was sent.
    #[error("dropped: call id {0} came in place of the connection context")]
    NotContext(i32),
}

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Self {
        Self::Frame(FrameError::Header(error))
    }
}

/// Takes a client's negotiation frames in order and writes the answers.
#[derive(Debug)]
pub struct ServerNegotiation {
    trusted: bool,
    peer: SockAddr,
    descriptors: bool,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Negotiate,
    Sasl,
    Context { user: String },
}

impl ServerNegotiation {
    /// Starts with a client at `peer`; `trusted` = it may talk to us without encryption (see [`subnet`](super::subnet)).
    pub fn new(peer: SockAddr, trusted: bool) -> Self {
        Self { trusted, peer, descriptors: false, stage: Stage::Negotiate }
    }

    /// Does the client take descriptors, and did we say that some may come? On unix sockets only.
    pub fn takes_descriptors(&self) -> bool {
        self.descriptors
    }

    /// Takes the next frame; what is to be sent is appended to `out`. `Some(user)` = done, calls follow.
    ///
    /// # Errors
    /// [`Refusal`]: send what is in `out` and close.
    pub fn handle_frame(
        &mut self,
        header: &[u8],
        main: &Bytes,
        out: &mut Vec<u8>,
    ) -> Result<Option<String>, Refusal> {
        let call_id = RequestHeader::decode(header)?.call_id;
        if let Stage::Context { user } = &mut self.stage {
            if call_id != CONNECTION_CONTEXT_CALL_ID {
                return Err(Refusal::NotContext(call_id));
            }
            message::check_context(main).map_err(Refusal::Context)?;
            return Ok(Some(std::mem::take(user)));
        }
        match self.answer(call_id, main) {
            Ok((reply, next)) => {
                put_response(out, &reply.to_vec());
                self.stage = next;
                Ok(None)
            }
            Err(error) => {
                put_error(out, &error);
                Err(Refusal::Told(error))
            }
        }
    }

    fn answer(&mut self, call_id: i32, main: &Bytes) -> Result<(NegotiateMessage, Stage), RemoteError> {
        if call_id != NEGOTIATION_CALL_ID {
            let text = format!(
                "Illegal state: Received illegal call-id during negotiation; expected: {NEGOTIATION_CALL_ID}, received: {call_id}"
            );
            return Err(RemoteError::new(RpcErrorCode::FATAL_INVALID_RPC_HEADER, text));
        }
        let request = NegotiateMessage::decode(main).map_err(|error| {
            let text = format!("IO error: Server: Invalid SASL message, {error}");
            RemoteError::new(RpcErrorCode::FATAL_DESERIALIZING_REQUEST, text)
        })?;
        match self.stage {
            Stage::Negotiate => {
                self.descriptors =
                    self.peer.is_unix() && request.supported_features.contains(&RpcFeature::DESCRIPTORS);
                negotiate(&request, self.descriptors)
            }
            _ => self.sasl(&request),
        }
    }

    fn sasl(&self, request: &NegotiateMessage) -> Result<(NegotiateMessage, Stage), RemoteError> {
        // No TLS here, so what the peer says can be read on the way.
        if !self.trusted {
            return Err(unauthorized(format!(
                "Not authorized: {} is outside the trusted subnets (--trusted_subnets), and the connection is not encrypted",
                self.peer
            )));
        }
        if request.step != Step::SaslInitiate {
            return Err(unauthorized(format!(
                "Not authorized: expected SASL_INITIATE step: {}",
                request.step
            )));
        }
        let [mechanism] = &request.sasl_mechanisms[..] else {
            return Err(unauthorized(format!(
                "Not authorized: SASL_INITIATE must name exactly one mechanism, not {}",
                request.sasl_mechanisms.len()
            )));
        };
        if !mechanism.eq_ignore_ascii_case(plain::NAME) {
            return Err(unauthorized(format!(
                "Runtime error: SASL(-4): no mechanism available: Couldn't find mech {mechanism}"
            )));
        }
        let Some(token) = &request.token else {
            return Err(unauthorized("Not authorized: SASL_INITIATE carries no token".to_owned()));
        };
        let user = plain::decode(token).map_err(|error| unauthorized(format!("Not authorized: {error}")))?;
        Ok((NegotiateMessage::new(Step::SaslSuccess), Stage::Context { user: user.to_owned() }))
    }
}

fn negotiate(
    request: &NegotiateMessage,
    descriptors: bool,
) -> Result<(NegotiateMessage, Stage), RemoteError> {
    if request.step != Step::Negotiate {
        return Err(unauthorized(format!("Not authorized: expected NEGOTIATE step: {}", request.step)));
    }
    // Old clients send no list.
    if !request.authn_types.is_empty() && !request.authn_types.contains(&AuthnType::Sasl) {
        return Err(unauthorized("Not implemented: no mutually supported authentication types".to_owned()));
    }
    let mut reply = NegotiateMessage::new(Step::Negotiate);
    reply.supported_features.push(RpcFeature::APPLICATION_FEATURE_FLAGS);
    if descriptors {
        reply.supported_features.push(RpcFeature::DESCRIPTORS);
    }
    reply.sasl_mechanisms.push(plain::NAME.to_owned());
    reply.authn_types.push(AuthnType::Sasl);
    Ok((reply, Stage::Sasl))
}

fn unauthorized(message: String) -> RemoteError {
    RemoteError::new(RpcErrorCode::FATAL_UNAUTHORIZED, message)
}
