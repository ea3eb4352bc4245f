use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

use super::Body;
use super::ClientOptions;
use super::deadlines::Deadlines;
use super::inbox::{Inbox, Incoming, Plan};
use super::method_fields::MethodFields;
use super::outbox::{Outbox, UNCOPIED};
use crate::call::{CallStage, Extras, RemoteError};
use crate::negotiate::NegotiationError;
use crate::negotiate::client::ClientNegotiation;
use crate::wire::header::{RequestHeader, ResponseHeader};
use crate::wire::limits::MAX_NEGOTIATION_MESSAGE_SIZE;
use crate::wire::{FrameError, WireError, frame};

/// A call as it goes on the wire. Cheap to clone: bodies are shared.
#[derive(Debug, Clone)]
pub struct OutboundCall {
    /// Full name of the service.
    pub service: &'static str,
    /// Bare name of the method.
    pub method: &'static str,
    /// The encoded request.
    pub body: Body,
    /// What few calls have.
    pub extras: Option<Box<Extras>>,
    /// When the call fails for lack of an answer; the server is told how much time is left when the call is sent.
    pub deadline: Option<Instant>,
}

/// What became of a call. `T` is the caller's own tag, given to [`ClientConnection::start_call`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientEvent<T> {
    /// The server answered.
    Response {
        /// The caller's tag.
        tag: T,
        /// The encoded response.
        body: Body,
        /// Raw blocks behind the body; those of big frames start on 64-byte boundaries.
        sidecars: Vec<Bytes>,
    },
    /// The server failed the call.
    Failed {
        /// The caller's tag.
        tag: T,
        /// What it said; `Err` if that was no `ErrorStatusPB`.
        error: Result<RemoteError, WireError>,
    },
    /// The deadline passed.
    TimedOut {
        /// The caller's tag.
        tag: T,
        /// How far the call had come.
        stage: CallStage,
    },
    /// No frame can carry the call; nothing was sent.
    TooLarge {
        /// The caller's tag.
        tag: T,
        /// Body and sidecars in bytes.
        size: u64,
        /// How many sidecars.
        sidecars: usize,
    },
    /// The call requires application features, and the server does not check them; nothing was sent.
    NotSupported {
        /// The caller's tag.
        tag: T,
    },
}

/// Why a connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectionFault {
    /// Negotiation failed.
    #[error(transparent)]
    Negotiation(#[from] NegotiationError),
    /// The stream is damaged.
    #[error("the server sent {0}")]
    Frame(#[from] FrameError),
}

/// A call that was not answered when its connection ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unfinished<T> {
    /// The caller's tag.
    pub tag: T,
    /// The call itself if no byte of it was sent: it can go on another connection.
    pub unsent: Option<OutboundCall>,
}

/// The client's end of one connection.
#[derive(Debug)]
pub struct ClientConnection<T> {
    negotiation: ClientNegotiation,
    /// `None` = never.
    negotiation_deadline: Option<Instant>,
    max_message_size: u32,
    open: bool,
    inbox: Inbox,
    outbox: Outbox,
    events: VecDeque<ClientEvent<T>>,
    calls: HashMap<i32, Call<T>, foldhash::fast::RandomState>,
    /// No byte of them is sent yet, in order; those that were cancelled are empty.
    queue: VecDeque<Queued>,
    /// So many of the queue, from its front, are in the outbox already.
    encoded: usize,
    /// How many calls have left the queue since the beginning.
    dequeued: u64,
    method_fields: MethodFields,
    deadlines: Deadlines,
    /// Has a call ever had another id than its key's first one?
    any_moved: bool,
    last_activity: Instant,
    fault: Option<ConnectionFault>,
}

#[derive(Debug)]
struct Call<T> {
    key: u64,
    /// `None` = nobody waits any more, but the server may still answer: the id stays taken.
    tag: Option<T>,
    /// Its place among all that were ever queued.
    place: u64,
}

#[derive(Debug)]
struct Queued {
    id: i32,
    /// Its first byte's position in the stream, once it is in the outbox.
    start: u64,
    call: Option<OutboundCall>,
}

impl<T> ClientConnection<T> {
    /// Starts negotiation as `user`.
    pub fn new(options: &ClientOptions, user: String, now: Instant) -> Self {
        let mut outbox = Outbox::default();
        let mut greeting = Vec::new();
        let negotiation = ClientNegotiation::start(user, options.descriptors, &mut greeting);
        outbox.extend(|out| out.extend_from_slice(&greeting));
        Self {
            negotiation,
            negotiation_deadline: now.checked_add(options.negotiation_timeout),
            max_message_size: options.max_message_size,
            open: false,
            inbox: Inbox::new(options.max_message_size.min(MAX_NEGOTIATION_MESSAGE_SIZE), EAGER),
            outbox,
            events: VecDeque::new(),
            calls: HashMap::default(),
            queue: VecDeque::new(),
            encoded: 0,
            dequeued: 0,
            method_fields: MethodFields::default(),
            deadlines: Deadlines::default(),
            any_moved: false,
            last_activity: now,
            fault: None,
        }
    }

    /// Queues a call. `key` is the caller's name for it, for [`cancel`](Self::cancel); keys count up from 0. The call id
    /// is the key's low 31 bits, or the next that is free.
    pub fn start_call(&mut self, key: u64, call: OutboundCall, tag: T) {
        let place = self.dequeued.saturating_add(self.queue.len() as u64);
        let mut id = first_id(key);
        let new = Call { key, tag: Some(tag), place };
        loop {
            match self.calls.entry(id) {
                Entry::Vacant(vacant) => {
                    vacant.insert(new);
                    break;
                }
                Entry::Occupied(_) => {
                    id = next_id(id);
                    self.any_moved = true;
                }
            }
        }
        if let Some(deadline) = call.deadline {
            self.deadlines.push((deadline, id, key));
        }
        self.queue.push_back(Queued { id, start: 0, call: Some(call) });
        self.forget_old_deadlines();
    }

    /// Forgets a call: its payload is freed now (unless it is about to be sent), a late answer is dropped. Nothing is sent
    /// to the server.
    pub fn cancel(&mut self, key: u64) {
        let first = first_id(key);
        let id = match self.calls.get(&first) {
            Some(call) if call.key == key => Some(first),
            // After 2^31 calls it may have any id: those before it may be free again.
            _ if self.any_moved => self.calls.iter().find(|(_, call)| call.key == key).map(|(id, _)| *id),
            _ => None,
        };
        if let Some(id) = id {
            self.abandon(id);
        }
    }

    /// Takes away the tag of a call. The id is free again only if the call never gets on the wire.
    fn abandon(&mut self, id: i32) -> Option<(T, CallStage)> {
        let call = self.calls.get_mut(&id)?;
        let tag = call.tag.take()?;
        let place = call.place.checked_sub(self.dequeued).and_then(|place| usize::try_from(place).ok());
        if let Some(place) = place.filter(|place| *place >= self.encoded) {
            if let Some(queued) = self.queue.get_mut(place) {
                queued.call = None;
            }
            self.calls.remove(&id);
        }
        let stage = match (self.open, place) {
            (false, _) => CallStage::Connecting,
            (true, Some(_)) => CallStage::Queued,
            (true, None) => CallStage::Sent,
        };
        Some((tag, stage))
    }

    /// Takes all whole frames off the front of `buffer`; what is left there belongs to the next one.
    pub fn handle_input(&mut self, buffer: &mut BytesMut, now: Instant) {
        self.last_activity = now;
        if self.fault.is_none()
            && let Err(fault) = self.take_frames(buffer)
        {
            self.fault = Some(fault);
        }
        if self.fault.is_some() {
            buffer.clear();
        }
    }

    /// Takes the answers at the front of the read buffer for as long as they are small and as almost all are; how many
    /// bytes they are.
    fn take_usual(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0usize;
        if !self.open || self.inbox.is_partial() {
            return taken;
        }
        while let Some((header, body, len)) = bytes.get(taken..).and_then(|bytes| frame::small(bytes, USUAL))
            && let Some(ResponseHeader { call_id, is_error: Some(false), .. }) = ResponseHeader::usual(header)
            && let Some(body) = Body::small(body)
            && let Entry::Occupied(call) = self.calls.entry(call_id)
        {
            taken = taken.saturating_add(len);
            if let Some(tag) = call.remove().tag {
                self.events.push_back(ClientEvent::Response { tag, body, sidecars: Vec::new() });
            }
        }
        taken
    }

    fn take_frames(&mut self, buffer: &mut BytesMut) -> Result<(), ConnectionFault> {
        buffer.advance(self.take_usual(buffer));
        loop {
            let calls = &self.calls;
            let plan = |header: &[u8]| plan(header, calls);
            let frame = match self.inbox.next(buffer, plan) {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(()),
                Err(error) if self.open => return Err(error.into()),
                Err(error) => return Err(NegotiationError::Frame(error).into()),
            };
            if self.open {
                self.take_response(frame)?;
                continue;
            }
            let header = Bytes::copy_from_slice(frame.header());
            let main = frame.into_body();
            let mut outcome = Ok(false);
            let negotiation = &mut self.negotiation;
            self.outbox.extend(|out| outcome = negotiation.handle_frame(&header, &main, out));
            self.open = outcome?;
            if self.open {
                self.inbox.set_limit(self.max_message_size);
            }
        }
    }

    fn take_response(&mut self, frame: Incoming) -> Result<(), ConnectionFault> {
        let header = ResponseHeader::decode(frame.header()).map_err(FrameError::from)?;
        let id = header.call_id;
        let Entry::Occupied(call) = self.calls.entry(id) else {
            tracing::warn!(call_id = id, "ignored an answer to no call in flight");
            return Ok(());
        };
        if frame.is_discarded() && call.get().tag.is_some() {
            // The call began while an answer of its id, to nobody, was being skipped.
            return Ok(());
        }
        let (body, sidecars) = frame.split(&header.sidecar_offsets)?;
        let Some(tag) = call.remove().tag else { return Ok(()) };
        self.events.push_back(if header.is_error == Some(true) {
            // An error has no sidecars; real clients ignore those that a handler had attached.
            ClientEvent::Failed { tag, error: RemoteError::decode(&body) }
        } else {
            ClientEvent::Response { tag, body: body.into(), sidecars }
        });
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

    /// From now on, read with room for descriptors: the server may attach some to its answers.
    pub fn takes_descriptors(&self) -> bool {
        self.open && self.negotiation.takes_descriptors()
    }

    /// What became of all calls that [`poll_event`](Self::poll_event) has not told of yet.
    pub fn drain_events(&mut self) -> impl ExactSizeIterator<Item = ClientEvent<T>> {
        self.events.drain(..)
    }

    /// What became of the next call.
    pub fn poll_event(&mut self) -> Option<ClientEvent<T>> {
        self.events.pop_front()
    }

    /// Moves queued calls to the wire, as many as may be sent without much of them waiting in front of the socket, and
    /// fills `out` with the next bytes to be sent; how many slices there are. Then call
    /// [`transmitted`](Self::transmitted).
    pub fn poll_transmit<'a>(&'a mut self, now: Instant, out: &mut [IoSlice<'a>]) -> usize {
        while self.open && self.outbox.len() < HIGH_WATER && self.encode_next(now) {}
        self.outbox.slices(out)
    }

    /// Is there anything that [`poll_transmit`](Self::poll_transmit) could give now?
    pub fn has_outbound(&self) -> bool {
        self.outbox.len() > 0 || (self.open && self.queue.len() > self.encoded)
    }

    /// Puts the next call into the outbox; false = there is none.
    fn encode_next(&mut self, now: Instant) -> bool {
        let Self { queue, outbox, method_fields, .. } = self;
        let Some(Queued { id, start, call }) = queue.get_mut(self.encoded) else { return false };
        self.encoded = self.encoded.saturating_add(1);
        *start = outbox.end();
        let Some(request) = call else { return true };
        let timeout = request.deadline.map(|deadline| deadline.saturating_duration_since(now));
        let timeout =
            timeout.map(|left| u32::try_from(left.as_micros().div_ceil(1000).max(1)).unwrap_or(u32::MAX));
        let refused = match &request.extras {
            None => {
                let field = method_fields.of(request.service, request.method);
                outbox.push_request(*id, field, timeout, &request.body).err().map(Some)
            }
            Some(extras)
                if !extras.required_features.is_empty() && !self.negotiation.server_checks_features() =>
            {
                Some(None)
            }
            Some(extras) => {
                let header = |offsets: &[u32], out: &mut Vec<u8>| {
                    RequestHeader {
                        call_id: *id,
                        method: Some((request.service.as_bytes(), request.method.as_bytes())),
                        timeout_millis: timeout,
                        required_feature_flags: extras.required_features.clone(),
                        request_id: extras.request_id.as_ref().map(Into::into),
                        sidecar_offsets: offsets.to_vec(),
                    }
                    .encode(out);
                };
                let body = request.body.as_slice();
                let small =
                    extras.sidecars.is_empty() && body.len() < UNCOPIED && outbox.push_small(body, header);
                let pushed = match small {
                    true => Ok(()),
                    false => outbox.push_frame(&request.body.to_bytes(), &extras.sidecars, header),
                };
                pushed.err().map(Some)
            }
        };
        if let Some(why) = refused {
            *call = None;
            if let Some(tag) = self.calls.remove(id).and_then(|call| call.tag) {
                self.events.push_back(match why {
                    Some(why) => ClientEvent::TooLarge { tag, size: why.size, sidecars: why.sidecars },
                    None => ClientEvent::NotSupported { tag },
                });
            }
        }
        true
    }

    /// `count` bytes were sent.
    pub fn transmitted(&mut self, count: usize, now: Instant) {
        self.last_activity = now;
        self.outbox.advance(count);
        let written = self.outbox.written();
        while self.encoded > 0 && self.queue.front().is_some_and(|first| first.start < written) {
            self.queue.pop_front();
            self.encoded = self.encoded.saturating_sub(1);
            self.dequeued = self.dequeued.saturating_add(1);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called; never later than the first deadline, perhaps
    /// earlier.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let call = self.deadlines.first().map(|(deadline, ..)| deadline);
        let negotiation = self.negotiation_deadline.filter(|_| !self.open);
        call.into_iter().chain(negotiation).min()
    }

    /// Fails what has run out of time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if !self.open && self.negotiation_deadline.is_some_and(|at| at <= now) && self.fault.is_none() {
            self.fault = Some(NegotiationError::TimedOut.into());
        }
        while let Some((deadline, id, key)) = self.deadlines.first() {
            let waiting = self.calls.get(&id).is_some_and(|call| call.key == key && call.tag.is_some());
            if waiting && deadline > now {
                break;
            }
            self.deadlines.pop();
            if waiting && let Some((tag, stage)) = self.abandon(id) {
                self.events.push_back(ClientEvent::TimedOut { tag, stage });
            }
        }
    }

    /// Answered calls leave their deadlines behind; most of them being such is a good time to sweep.
    fn forget_old_deadlines(&mut self) {
        if self.deadlines.len() > self.calls.len().saturating_mul(2).saturating_add(64) {
            let calls = &self.calls;
            self.deadlines.retain(|(_, id, key)| {
                calls.get(id).is_some_and(|call| call.key == *key && call.tag.is_some())
            });
        }
    }

    /// Set = the connection is of no more use: close it.
    pub fn fault(&self) -> Option<&ConnectionFault> {
        self.fault.as_ref()
    }

    /// Is negotiation over?
    pub fn is_established(&self) -> bool {
        self.open
    }

    /// When bytes last came or went.
    pub fn last_activity(&self) -> Instant {
        self.last_activity
    }

    /// How many bytes wait to be sent, calls not yet on the wire left out.
    pub fn outbound_bytes(&self) -> usize {
        self.outbox.len()
    }

    #[cfg(test)]
    pub(crate) fn deadlines(&self) -> usize {
        self.deadlines.len()
    }

    /// The calls that somebody still waits for, after the connection ended.
    pub fn into_unfinished(self) -> Vec<Unfinished<T>> {
        let Self { calls, queue, .. } = self;
        let payloads = queue.into_iter().filter_map(|unsent| Some((unsent.id, unsent.call?)));
        let mut payloads: HashMap<i32, OutboundCall> = payloads.collect();
        let mut unfinished: Vec<_> = calls
            .into_iter()
            .filter_map(|(id, call)| {
                Some((call.key, Unfinished { tag: call.tag?, unsent: payloads.remove(&id) }))
            })
            .collect();
        unfinished.sort_by_key(|(key, _)| *key);
        unfinished.into_iter().map(|(_, call)| call).collect()
    }
}

fn plan<T, S: std::hash::BuildHasher>(
    header: &[u8],
    calls: &HashMap<i32, Call<T>, S>,
) -> Result<Plan, FrameError> {
    let header = ResponseHeader::decode(header)?;
    let wanted = match calls.get(&header.call_id) {
        Some(call) => call.tag.is_some(),
        None => header.call_id < 0,
    };
    Ok(if wanted { Plan::Keep(header.sidecar_offsets) } else { Plan::Discard })
}

fn first_id(key: u64) -> i32 {
    i32::try_from(key & 0x7fff_ffff).unwrap_or(0)
}

fn next_id(id: i32) -> i32 {
    id.checked_add(1).unwrap_or(0)
}

/// Usual answers are smaller than this.
const USUAL: usize = 256;

/// Calls beyond this many bytes in front of the socket stay queued, where they can be cancelled.
const HIGH_WATER: usize = 64 << 10;

/// Memory taken at once for a piece that a server announces; more only as its bytes come. Columns of a scan mostly fit,
/// so that they are not copied while they grow.
const EAGER: usize = 8 << 20;
