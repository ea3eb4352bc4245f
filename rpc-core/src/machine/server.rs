use std::collections::{HashSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use net_addr::SockAddr;
use thiserror::Error;

use super::ServerOptions;
use super::inbox::{Inbox, Incoming, Plan};
use super::outbox::Outbox;
use crate::call::{Answer, RemoteError, RequestId, RpcErrorCode};
use crate::negotiate::server::{Refusal, ServerNegotiation};
use crate::negotiate::subnet;
use crate::wire::FrameError;
use crate::wire::header::{RequestHeader, ResponseHeader};
use crate::wire::preface::{self, PREFACE, PrefaceError};

/// What a client did.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerEvent {
    /// Negotiation is over.
    Established {
        /// Who the client is.
        user: String,
    },
    /// A call, to be answered by [`ServerConnection::respond`].
    Request(ServerRequest),
}

/// A call as it comes off the wire.
#[derive(Debug)]
#[non_exhaustive]
pub struct ServerRequest {
    /// Not in use by another call in flight on this connection.
    pub call_id: i32,
    /// Name of the service; not checked to be UTF-8.
    pub service: Bytes,
    /// Name of the method; not checked to be UTF-8.
    pub method: Bytes,
    /// What is left of the client's deadline; `None` = none (absent or 0 on the wire).
    pub timeout: Option<Duration>,
    /// Application features which the service must know.
    pub required_features: Vec<u32>,
    /// Present on calls that are to run exactly once.
    pub request_id: Option<RequestId>,
    /// The encoded request.
    pub body: Bytes,
    /// Raw blocks behind the body.
    pub sidecars: Vec<Bytes>,
}

/// Why a connection is to be closed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// The peer is no Kudu client.
    #[error("{0}")]
    Preface(#[from] PrefaceError),
    /// Negotiation failed.
    #[error("negotiation: {0}")]
    Negotiation(#[from] Refusal),
    /// Negotiation took too long.
    #[error("negotiation was not finished in time")]
    NegotiationTimedOut,
    /// The stream is damaged.
    #[error("the peer sent {0}")]
    Frame(#[from] FrameError),
    /// A call id that another call in flight has.
    #[error("call id {0} is still in flight")]
    DuplicateCallId(i32),
    /// Nothing happened for the keep-alive time.
    #[error("idle")]
    Idle,
}

/// The server's end of one connection.
#[derive(Debug)]
pub struct ServerConnection {
    options: Arc<ServerOptions>,
    stage: Stage,
    inbox: Inbox,
    outbox: Outbox,
    events: VecDeque<ServerEvent>,
    in_flight: HashSet<i32, foldhash::fast::RandomState>,
    partial_input: bool,
    last_activity: Instant,
    closing: Option<CloseReason>,
}

#[derive(Debug)]
enum Stage {
    Preface(ServerNegotiation, Instant),
    Negotiation(ServerNegotiation, Instant),
    Open,
}

impl ServerConnection {
    /// A connection just accepted from `peer`.
    pub fn new(options: Arc<ServerOptions>, peer: SockAddr, now: Instant) -> Self {
        let trusted = subnet::trusts(&options.trusted_subnets, &peer);
        let negotiation = ServerNegotiation::new(peer, trusted);
        let deadline = now.checked_add(options.negotiation_timeout).unwrap_or(now);
        Self {
            inbox: Inbox::new(options.max_message_size, EAGER),
            options,
            stage: Stage::Preface(negotiation, deadline),
            outbox: Outbox::default(),
            events: VecDeque::new(),
            in_flight: HashSet::default(),
            partial_input: false,
            last_activity: now,
            closing: None,
        }
    }

    /// Takes all whole frames off the front of `buffer`; what is left there belongs to the next one.
    pub fn handle_input(&mut self, buffer: &mut BytesMut, now: Instant) {
        self.last_activity = now;
        if self.closing.is_none()
            && let Err(reason) = self.take_frames(buffer)
        {
            self.closing = Some(reason);
        }
        if self.closing.is_some() {
            buffer.clear();
        }
        self.partial_input = !buffer.is_empty() || self.inbox.is_partial();
    }

    fn take_frames(&mut self, buffer: &mut BytesMut) -> Result<(), CloseReason> {
        if let Stage::Preface(..) = self.stage {
            if !preface::check(buffer)? {
                return Ok(());
            }
            drop(buffer.split_to(PREFACE.len()));
            if let Stage::Preface(negotiation, deadline) = std::mem::replace(&mut self.stage, Stage::Open) {
                self.stage = Stage::Negotiation(negotiation, deadline);
            }
        }
        while let Some(frame) = self.inbox.next(buffer, plan)? {
            match &mut self.stage {
                Stage::Open => self.take_request(frame)?,
                Stage::Negotiation(negotiation, _) | Stage::Preface(negotiation, _) => {
                    let main = frame.main.into_body();
                    let mut outcome = Ok(None);
                    self.outbox.extend(|out| outcome = negotiation.handle_frame(&frame.header, &main, out));
                    if let Some(user) = outcome? {
                        self.stage = Stage::Open;
                        self.events.push_back(ServerEvent::Established { user });
                    }
                }
            }
        }
        Ok(())
    }

    fn take_request(&mut self, frame: Incoming) -> Result<(), CloseReason> {
        let header = RequestHeader::decode(&frame.header).map_err(FrameError::from)?;
        let (service, method) = header.method.ok_or(FrameError::NoMethod)?;
        let call_id = header.call_id;
        let (body, sidecars) = frame.main.split(&header.sidecar_offsets)?;
        if !self.in_flight.insert(call_id) {
            return Err(CloseReason::DuplicateCallId(call_id));
        }
        let timeout = header.timeout_millis.filter(|millis| *millis > 0);
        self.events.push_back(ServerEvent::Request(ServerRequest {
            call_id,
            service: frame.header.slice_ref(service),
            method: frame.header.slice_ref(method),
            timeout: timeout.map(|millis| Duration::from_millis(u64::from(millis))),
            required_features: header.required_feature_flags,
            request_id: header.request_id.map(|id| id.to_owned()),
            body,
            sidecars,
        }));
        Ok(())
    }

    /// Where to read the next bytes of a big frame to, when the read buffer is empty; then call
    /// [`direct_filled`](Self::direct_filled) and [`handle_input`](Self::handle_input). `None` = read into the buffer.
    pub fn direct_room(&mut self) -> Option<&mut [u8]> {
        self.inbox.direct()
    }

    /// `count` bytes were read to [`direct_room`](Self::direct_room).
    pub fn direct_filled(&mut self, count: usize) {
        self.inbox.direct_filled(count);
    }

    /// What the client did next.
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    /// Queues the answer of a call in flight; ignored if there is none of that id.
    pub fn respond(&mut self, call_id: i32, answer: &Answer) {
        if !self.in_flight.remove(&call_id) {
            return;
        }
        let pushed = match answer {
            Answer::Success { body, sidecars } => self.outbox.push_frame(body, sidecars, |offsets, out| {
                let sidecar_offsets = offsets.to_vec();
                ResponseHeader { call_id, is_error: Some(false), sidecar_offsets }.encode(out);
            }),
            Answer::Error(error) => return self.push_error(call_id, error),
        };
        if let Err(too_large) = pushed {
            let text = format!(
                "Runtime error: a response of {} bytes in {} sidecars is more than a frame can carry",
                too_large.size, too_large.sidecars
            );
            self.push_error(call_id, &RemoteError::new(RpcErrorCode::ERROR_APPLICATION, text));
        }
    }

    fn push_error(&mut self, call_id: i32, error: &RemoteError) {
        let mut body = Vec::new();
        error.encode(&mut body);
        // An error's text is never as big as a frame; if it were, the client's deadline would end the call.
        let _ = self.outbox.push_frame(&Bytes::from(body), &[], |_, out| {
            ResponseHeader { call_id, is_error: Some(true), sidecar_offsets: Vec::new() }.encode(out);
        });
    }

    /// Fills `out` with the next bytes to be sent; how many slices there are. Then call
    /// [`transmitted`](Self::transmitted).
    pub fn poll_transmit<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        self.outbox.slices(out)
    }

    /// `count` bytes were sent.
    pub fn transmitted(&mut self, count: usize, now: Instant) {
        self.last_activity = now;
        self.outbox.advance(count);
    }

    /// How many bytes wait to be sent.
    pub fn outbound_bytes(&self) -> usize {
        self.outbox.len()
    }

    /// False while the peer leaves too many answers unread: do not read from it.
    pub fn wants_input(&self) -> bool {
        self.closing.is_none() && self.outbox.len() <= self.options.max_outbound_bytes
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called. It may move to later with each byte, never to
    /// earlier, except when negotiation ends or the last call is answered.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.stage {
            _ if self.closing.is_some() => None,
            Stage::Preface(_, deadline) | Stage::Negotiation(_, deadline) => Some(*deadline),
            Stage::Open if self.is_idle() => self.last_activity.checked_add(self.options.keepalive?),
            Stage::Open => None,
        }
    }

    /// Closes what has run out of time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.closing.is_none() && self.poll_timeout().is_some_and(|at| at <= now) {
            let open = matches!(self.stage, Stage::Open);
            self.closing = Some(if open { CloseReason::Idle } else { CloseReason::NegotiationTimedOut });
        }
    }

    /// Set = send what is left to be sent (negotiation has last words, earlier calls have answers), and close.
    pub fn closing(&self) -> Option<&CloseReason> {
        self.closing.as_ref()
    }

    /// How many calls are not yet answered.
    pub fn calls_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Is negotiation over?
    pub fn is_established(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && !self.partial_input && self.outbox.len() == 0
    }
}

fn plan(header: &[u8]) -> Result<Plan, FrameError> {
    Ok(Plan::Keep(RequestHeader::decode(header)?.sidecar_offsets))
}

/// Memory taken at once for a piece that a client announces; more only as its bytes come.
const EAGER: usize = 256 << 10;
