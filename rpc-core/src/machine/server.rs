use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use net_addr::SockAddr;
use thiserror::Error;

use super::ServerOptions;
use super::inbox::{Inbox, Incoming, Plan};
use super::outbox::Outbox;
use crate::call::{Answer, ConnectionInfo, Destination, Extras, RemoteError, RpcErrorCode};
use crate::negotiate::server::{Refusal, ServerNegotiation};
use crate::negotiate::subnet;
use crate::wire::FrameError;
use crate::wire::frame;
use crate::wire::header::{RequestHeader, ResponseHeader};
use crate::wire::limits::MAX_NEGOTIATION_MESSAGE_SIZE;
use crate::wire::pb;
use crate::wire::preface::{self, PREFACE, PrefaceError};

/// What a client did.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerEvent {
    /// Negotiation is over.
    Established(Arc<ConnectionInfo>),
    /// A call, to be answered by [`ServerConnection::respond`].
    Request(ServerRequest),
}

/// A call as it comes off the wire.
#[derive(Debug)]
#[non_exhaustive]
pub struct ServerRequest {
    /// Not in use by another call in flight on this connection.
    pub call_id: i32,
    /// Names of service and method.
    pub destination: Arc<Destination>,
    /// What is left of the client's deadline; `None` = none (absent or 0 on the wire).
    pub timeout: Option<Duration>,
    /// The encoded request.
    pub body: Bytes,
    /// What few calls have.
    pub extras: Option<Box<Extras>>,
}

/// A call that waits for its answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallInFlight {
    /// Chosen by the client.
    pub call_id: i32,
    /// Connection, service and method.
    pub destination: Arc<Destination>,
    /// When its last byte was read.
    pub received: Instant,
    /// What was left of the client's deadline then; `None` = it waits for ever.
    pub timeout: Option<Duration>,
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
    /// The peer took no byte of what waits for it, or sent none of what it had begun, for the stall timeout.
    #[error("stalled in the middle of a frame")]
    Stalled,
}

/// The server's end of one connection.
#[derive(Debug)]
pub struct ServerConnection {
    options: Arc<ServerOptions>,
    stage: Stage,
    inbox: Inbox,
    outbox: Outbox,
    events: VecDeque<ServerEvent>,
    in_flight: HashMap<i32, CallInFlight, foldhash::fast::RandomState>,
    /// Without a user until negotiation is over.
    info: Arc<ConnectionInfo>,
    destinations: Destinations,
    partial_input: bool,
    last_activity: Instant,
    closing: Option<CloseReason>,
}

#[derive(Debug)]
enum Stage {
    /// With the time by which negotiation must be over; `None` = never.
    Preface(ServerNegotiation, Option<Instant>),
    Negotiation(ServerNegotiation, Option<Instant>),
    Open,
}

impl ServerConnection {
    /// A connection just accepted from `peer`, for a driver that has nothing more to say of it.
    pub fn new(options: Arc<ServerOptions>, peer: SockAddr, now: Instant) -> Self {
        Self::with_info(options, ConnectionInfo::new(peer.clone(), peer, ""), now)
    }

    /// A connection just accepted; its user will be filled in.
    pub fn with_info(options: Arc<ServerOptions>, info: ConnectionInfo, now: Instant) -> Self {
        let trusted = subnet::trusts(&options.trusted_subnets, &info.peer);
        let negotiation = ServerNegotiation::new(info.peer.clone(), trusted);
        let deadline = now.checked_add(options.negotiation_timeout);
        Self {
            inbox: Inbox::new(options.max_message_size.min(MAX_NEGOTIATION_MESSAGE_SIZE), EAGER),
            options,
            stage: Stage::Preface(negotiation, deadline),
            outbox: Outbox::default(),
            events: VecDeque::new(),
            in_flight: HashMap::default(),
            info: Arc::new(info),
            destinations: Destinations::default(),
            partial_input: false,
            last_activity: now,
            closing: None,
        }
    }

    /// Takes all whole frames off the front of `buffer`; what is left there belongs to the next one.
    pub fn handle_input(&mut self, buffer: &mut BytesMut, now: Instant) {
        self.last_activity = now;
        // Usual calls have been taken out by now: nothing is left.
        let some = !buffer.is_empty() || self.inbox.is_partial();
        if self.closing.is_none()
            && some
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
                    let header = Bytes::copy_from_slice(frame.header());
                    let main = frame.into_body();
                    let mut outcome = Ok(None);
                    self.outbox.extend(|out| outcome = negotiation.handle_frame(&header, &main, out));
                    let takes_descriptors = negotiation.takes_descriptors();
                    if let Some(user) = outcome? {
                        self.stage = Stage::Open;
                        self.inbox.set_limit(self.options.max_message_size);
                        let info =
                            ConnectionInfo { user, takes_descriptors, ..ConnectionInfo::clone(&self.info) };
                        self.info = Arc::new(info);
                        self.events.push_back(ServerEvent::Established(Arc::clone(&self.info)));
                    }
                }
            }
        }
        Ok(())
    }

    fn take_request(&mut self, frame: Incoming) -> Result<(), CloseReason> {
        if let Some(usual) = self.destinations.usual(frame.header()) {
            let (call_id, timeout, destination) = usual;
            let destination = Arc::clone(destination);
            self.start(call_id, &destination, timeout)?;
            let request =
                ServerRequest { call_id, destination, timeout, body: frame.into_body(), extras: None };
            self.events.push_back(ServerEvent::Request(request));
            return Ok(());
        }
        let header = RequestHeader::decode(frame.header()).map_err(FrameError::from)?;
        let (service, method) = header.method.ok_or(FrameError::NoMethod)?;
        let call_id = header.call_id;
        if self.in_flight.contains_key(&call_id) {
            return Err(CloseReason::DuplicateCallId(call_id));
        }
        let timeout = header.timeout_millis.and_then(to_timeout);
        let destination = self.destinations.get(&self.info, service, method);
        self.start(call_id, &destination, timeout)?;
        let request_id = header.request_id.map(|id| id.to_owned());
        let RequestHeader { required_feature_flags: required_features, sidecar_offsets, .. } = header;
        let (body, sidecars) = frame.split(&sidecar_offsets)?;
        let extras = Extras { required_features, request_id, sidecars }.boxed();
        self.events.push_back(ServerEvent::Request(ServerRequest {
            call_id,
            destination,
            timeout,
            body,
            extras,
        }));
        Ok(())
    }

    /// Looks at the request at the start of `bytes`, which are to be the read buffer's: is it small, whole, and as almost
    /// all are? Then nothing is taken yet; the caller either leaves the frame there, or drops it and, unless the answer goes
    /// by [`respond_with_frames`](Self::respond_with_frames), calls [`begin`](Self::begin).
    pub(crate) fn usual<'a>(&'a self, bytes: &'a [u8]) -> Option<Usual<'a>> {
        let (header, body, len) = frame::small(bytes, USUAL)?;
        if self.inbox.is_partial() || self.closing.is_some() {
            return None;
        }
        let (call_id, timeout, destination) = self.destinations.usual(header)?;
        if !self.in_flight.is_empty() && self.in_flight.contains_key(&call_id) {
            return None;
        }
        Some(Usual { call_id, timeout, destination, body, len })
    }

    /// A call that was found by [`usual`](Self::usual) is in flight now.
    pub(crate) fn begin(&mut self, call: CallInFlight) {
        self.in_flight.insert(call.call_id, call);
    }

    fn start(
        &mut self,
        call_id: i32,
        destination: &Arc<Destination>,
        timeout: Option<Duration>,
    ) -> Result<(), CloseReason> {
        match self.in_flight.entry(call_id) {
            Entry::Occupied(_) => Err(CloseReason::DuplicateCallId(call_id)),
            Entry::Vacant(place) => {
                let destination = Arc::clone(destination);
                place.insert(CallInFlight { call_id, destination, received: self.last_activity, timeout });
                Ok(())
            }
        }
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
        if self.in_flight.remove(&call_id).is_none() {
            return;
        }
        let (body, sidecars, descriptors) = match answer {
            Answer::Success { body, sidecars } => (body, sidecars, &[][..]),
            Answer::WithDescriptors { body, sidecars, descriptors } => (body, sidecars, &descriptors[..]),
            Answer::Error(error) => return self.push_error(call_id, error),
        };
        let start = self.outbox.end();
        let pushed = self.outbox.push_frame(body, sidecars, |offsets, out| {
            ResponseHeader::encode_parts(call_id, Some(false), offsets, out);
        });
        if pushed.is_ok() && self.info.takes_descriptors {
            self.outbox.attach(start, descriptors);
        }
        if let Err(too_large) = pushed {
            let text = format!(
                "Runtime error: a response of {} bytes in {} sidecars is more than a frame can carry",
                too_large.size, too_large.sidecars
            );
            self.push_error(call_id, &RemoteError::new(RpcErrorCode::ERROR_APPLICATION, text));
        }
    }

    /// Queues whole frames that answer these calls; both are empty after that.
    pub(crate) fn respond_with_frames(&mut self, call_ids: &mut Vec<i32>, frames: &mut Vec<u8>) {
        for call_id in call_ids.drain(..) {
            if self.in_flight.is_empty() {
                continue;
            }
            self.in_flight.remove(&call_id);
        }
        self.outbox.push_raw(frames);
    }

    fn push_error(&mut self, call_id: i32, error: &RemoteError) {
        let mut body = Vec::new();
        error.encode(&mut body);
        // An error's text is never as big as a frame; if it were, the client's deadline would end the call.
        let _ = self.outbox.push_frame(&Bytes::from(body), &[], |_, out| {
            ResponseHeader::encode_parts(call_id, Some(true), &[], out);
        });
    }

    /// Fills `out` with the next bytes to be sent; how many slices there are. Then call
    /// [`transmitted`](Self::transmitted).
    pub fn poll_transmit<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        self.outbox.slices(out)
    }

    /// What has to go with the slices of [`poll_transmit`](Self::poll_transmit), in the same system call.
    pub fn descriptors(&self) -> &[Arc<OwnedFd>] {
        self.outbox.descriptors()
    }

    /// `count` bytes were sent, with the [`descriptors`](Self::descriptors) if there were any.
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
    /// earlier, except when negotiation ends, a call is answered, or a frame begins.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.stage {
            _ if self.closing.is_some() => None,
            Stage::Preface(_, deadline) | Stage::Negotiation(_, deadline) => *deadline,
            Stage::Open if self.waits_for_peer() => {
                self.last_activity.checked_add(self.options.stall_timeout?)
            }
            Stage::Open if self.in_flight.is_empty() => {
                self.last_activity.checked_add(self.options.keepalive?)
            }
            Stage::Open => None,
        }
    }

    /// Closes what has run out of time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.closing.is_none() && self.poll_timeout().is_some_and(|at| at <= now) {
            self.closing = Some(match self.stage {
                Stage::Open if self.waits_for_peer() => CloseReason::Stalled,
                Stage::Open => CloseReason::Idle,
                Stage::Preface(..) | Stage::Negotiation(..) => CloseReason::NegotiationTimedOut,
            });
        }
    }

    /// Set = send what is left to be sent (negotiation has last words, earlier calls have answers), and close.
    pub fn closing(&self) -> Option<&CloseReason> {
        self.closing.as_ref()
    }

    /// The calls that are not yet answered, in no order.
    pub fn calls(&self) -> impl Iterator<Item = &CallInFlight> {
        self.in_flight.values()
    }

    /// How many calls are not yet answered.
    pub fn calls_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Is negotiation over?
    pub fn is_established(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// Is it the peer's turn to send or to read?
    fn waits_for_peer(&self) -> bool {
        self.partial_input || self.outbox.len() > 0
    }
}

/// A request as almost all are.
pub(crate) struct Usual<'a> {
    pub(crate) call_id: i32,
    pub(crate) timeout: Option<Duration>,
    pub(crate) destination: &'a Arc<Destination>,
    pub(crate) body: &'a [u8],
    /// Of the frame, in bytes.
    pub(crate) len: usize,
}

/// The destinations of a connection's last few methods, so that a call of one of them brings no names along.
#[derive(Debug, Default)]
struct Destinations {
    known: [Option<Known>; 4],
    next: usize,
}

#[derive(Debug)]
struct Known {
    destination: Arc<Destination>,
    /// The header's field `remote_method`, tag included, as clients write it.
    field: Vec<u8>,
}

impl Destinations {
    fn get(&mut self, info: &Arc<ConnectionInfo>, service: &[u8], method: &[u8]) -> Arc<Destination> {
        let same = |known: &&Known| known.destination.is(service, method);
        if let Some(known) = self.known.iter().flatten().find(same) {
            return Arc::clone(&known.destination);
        }
        let destination = Arc::new(Destination::new(Arc::clone(info), service, method));
        let place = self.next.checked_rem(self.known.len()).unwrap_or(0);
        // Real names are short; those of a stranger shall not be kept.
        if service.len().saturating_add(method.len()) <= LONGEST_NAMES
            && let Some(place) = self.known.get_mut(place)
        {
            let mut field = Vec::new();
            RequestHeader::encode_method(service, method, &mut field);
            *place = Some(Known { destination: Arc::clone(&destination), field });
            self.next = self.next.wrapping_add(1);
        }
        destination
    }

    /// Reads the header of a call as almost all are: a call id, a method called before, perhaps a timeout, and nothing
    /// else. `None` = it has to be decoded.
    fn usual(&self, header: &[u8]) -> Option<(i32, Option<Duration>, &Arc<Destination>)> {
        let [CALL_ID, rest @ ..] = header else { return None };
        let (call_id, rest) = pb::short_varint(rest)?;
        let mut known = self.known.iter().flatten();
        let (known, rest) = known.find_map(|known| Some((known, rest.strip_prefix(&known.field[..])?)))?;
        let millis = match rest {
            [] => 0,
            [TIMEOUT, rest @ ..] => {
                let (millis, behind) = pb::short_varint(rest)?;
                behind.is_empty().then_some(millis)?
            }
            _ => return None,
        };
        Some((i32::try_from(call_id).ok()?, to_timeout(millis), &known.destination))
    }
}

/// The tag of the field `call_id`.
const CALL_ID: u8 = 3 << 3;

/// The tag of the field `timeout_millis`.
const TIMEOUT: u8 = 10 << 3;

/// Absent and 0 both mean that there is none.
fn to_timeout(millis: u32) -> Option<Duration> {
    (millis > 0).then(|| Duration::from_millis(u64::from(millis)))
}

fn plan(header: &[u8]) -> Result<Plan, FrameError> {
    Ok(Plan::Keep(RequestHeader::decode(header)?.sidecar_offsets))
}

/// Usual requests are smaller than this; the bytes of others are better shared than copied.
const USUAL: usize = 4096;

/// Names beyond this many bytes are not remembered.
const LONGEST_NAMES: usize = 256;

/// Memory taken at once for a piece that a client announces; more only as its bytes come.
const EAGER: usize = 256 << 10;
