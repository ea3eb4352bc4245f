//! One accepted connection: drives its machine.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use mio::event::Event;
use mio::{Registry, Token};
use net_addr::SockAddr;
use socket2::Socket;
use tokio::time::Sleep;

use super::in_flight::{Asker, Question};
use super::mailbox::Mailbox;
use super::registered::Registered;
use super::stream::{self, Stream};
use super::sys;
use super::turn::{self, Turn};
use super::{ConnectionStats, ReactorState};
use crate::call::{
    Answer, ConnectionInfo, InboundCall, InboundHandler, Request, Responder, ResponseSink, SmallCall,
};
use crate::machine::{
    CallInFlight, CloseReason, ServerConnection, ServerEvent, ServerOptions, ServerRequest, Usual,
};

/// What responders and the pool see of a connection.
#[derive(Debug)]
pub(crate) struct Shared {
    id: u64,
    reactor: usize,
    peer: SockAddr,
    answers: Mailbox<(i32, Answer)>,
    stopping: AtomicBool,
    question: Question,
    info: OnceLock<Arc<ConnectionInfo>>,
    calls: AtomicU64,
    in_flight: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(id: u64, reactor: usize, peer: SockAddr) -> Self {
        Self {
            id,
            reactor,
            peer,
            answers: Mailbox::new(),
            stopping: AtomicBool::new(false),
            question: Question::default(),
            info: OnceLock::new(),
            calls: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
        }
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.answers.wake();
    }

    /// Has the connection tell its calls in flight; false = there were none when it last came to rest.
    pub(crate) fn ask(&self, ask: impl FnOnce() -> Asker) -> bool {
        let some = self.in_flight.load(Ordering::Relaxed) > 0;
        if some {
            self.question.put(ask());
            self.answers.wake();
        }
        some
    }

    pub(crate) fn stats(&self) -> ConnectionStats {
        ConnectionStats {
            id: self.id,
            reactor: self.reactor,
            peer: self.peer.clone(),
            info: self.info.get().cloned(),
            calls_in_flight: self.in_flight.load(Ordering::Relaxed),
            calls: self.calls.load(Ordering::Relaxed),
        }
    }
}

impl ResponseSink for Shared {
    fn deliver(&self, call_id: i32, answer: Answer) {
        let Some(answer) = turn::keep(self, call_id, answer) else { return };
        // Fails if the connection is gone; so is the one who asked.
        let _ = self.answers.post((call_id, answer));
    }

    fn deliver_encoded(&self, call_id: i32, len: usize, encode: &mut dyn FnMut(&mut Vec<u8>)) {
        if turn::encode(self, call_id, len, encode) {
            return;
        }
        let mut body = Vec::with_capacity(len);
        encode(&mut body);
        self.deliver(call_id, Answer::Success { body: body.into(), sidecars: Vec::new() });
    }
}

/// All that a connection starts with.
pub(crate) struct Accepted {
    pub(crate) socket: Socket,
    pub(crate) peer: SockAddr,
    pub(crate) local: SockAddr,
    pub(crate) handler: Arc<dyn InboundHandler>,
    pub(crate) options: Arc<ServerOptions>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) reactor: Arc<ReactorState>,
}

/// The connection, on its reactor's thread. Dropping it closes it.
pub(crate) struct Connection {
    peer: SockAddr,
    handler: Arc<dyn InboundHandler>,
    options: Arc<ServerOptions>,
    shared: Arc<Shared>,
    /// The same, for responders.
    sink: Arc<dyn ResponseSink>,
    reactor: Arc<ReactorState>,
    machine: ServerConnection,
    transport: Transport,
    buffer: BytesMut,
    answers: Vec<(i32, Answer)>,
    timer: Option<Pin<Box<Sleep>>>,
    armed: Option<Instant>,
    /// Set when a shutdown began.
    drain_until: Option<Instant>,
}

enum Transport {
    /// Not yet known to the reactor's poller.
    New(Option<Socket>),
    Open(Stream<Registered>),
}

/// Why a connection ends.
enum End {
    /// The peer closed.
    Eof,
    Error(io::Error),
    Closed(CloseReason),
    Stopped,
}

impl Connection {
    pub(crate) fn new(accepted: Accepted) -> Self {
        let Accepted { socket, peer, local, handler, options, shared, reactor } = accepted;
        let mut info = ConnectionInfo::new(peer.clone(), local.clone(), "");
        info.reactor = shared.reactor;
        info.id = shared.id;
        info.peer_uid = if peer.is_unix() { sys::peer_uid(&socket) } else { None };
        info.confidential |= peer.ip().is_some() && peer.ip() == local.ip();
        Self {
            machine: ServerConnection::with_info(options.clone(), info, Instant::now()),
            transport: Transport::New(Some(socket)),
            peer,
            handler,
            options,
            sink: shared.clone(),
            shared,
            reactor,
            buffer: BytesMut::new(),
            answers: Vec::new(),
            timer: None,
            armed: None,
            drain_until: None,
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Has the poller watch the socket.
    ///
    /// # Errors
    /// If it does not; the connection is to be dropped then.
    pub(crate) fn open(&mut self, registry: Arc<Registry>, token: Token) -> io::Result<()> {
        if let Transport::New(socket) = &mut self.transport
            && let Some(socket) = socket.take()
        {
            self.transport = Transport::Open(Stream::new(Registered::new(socket, registry, token)?));
        }
        Ok(())
    }

    /// Takes in what the poller says.
    pub(crate) fn happened(&mut self, event: &Event) {
        if let Transport::Open(stream) = &mut self.transport {
            stream.watched().happened(event);
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>, mut now: Instant) -> Poll<End> {
        self.shared.answers.take(&mut self.answers);
        for round in 0..ROUNDS {
            for (call_id, answer) in self.answers.drain(..) {
                self.machine.respond(call_id, &answer);
            }
            if self.armed.is_some_and(|at| at <= now) {
                self.armed = None;
                self.machine.handle_timeout(now);
            }
            if let Err(error) = self.write(cx, now) {
                return Poll::Ready(End::Error(error));
            }
            if let Some(end) = self.end(now) {
                return Poll::Ready(end);
            }
            self.shared.question.answer(|| (self.shared.id, self.machine.calls().cloned().collect()));
            match self.read(cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(End::Eof),
                Poll::Ready(Ok(_)) => {
                    if round > 0 {
                        // In the first round it is new; and usually there is nothing to read in the second.
                        now = Instant::now();
                    }
                    self.dispatch(now);
                    self.shared.answers.take(&mut self.answers);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(End::Error(error)),
                Poll::Pending => {
                    self.shared.in_flight.store(self.machine.calls_in_flight(), Ordering::Relaxed);
                    self.arm(cx);
                    stream::give_back(&mut self.buffer);
                    if self.shared.answers.rest(cx) {
                        return Poll::Pending;
                    }
                    self.shared.answers.take(&mut self.answers);
                }
            }
        }
        // Others of this reactor have their turn first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Is it over?
    fn end(&mut self, now: Instant) -> Option<End> {
        if let Some(reason) = self.machine.closing().cloned() {
            let told = self.machine.outbound_bytes() == 0;
            return (told || self.drain(now) <= now).then_some(End::Closed(reason));
        }
        if self.shared.stopping.load(Ordering::SeqCst) {
            let until = self.drain(now);
            let quiet = self.machine.calls_in_flight() == 0 && self.machine.outbound_bytes() == 0;
            return (quiet || until <= now).then_some(End::Stopped);
        }
        None
    }

    /// Nothing more is read; when what is left is given up.
    fn drain(&mut self, now: Instant) -> Instant {
        let until = || now.checked_add(self.options.drain_timeout).unwrap_or(now + A_YEAR);
        *self.drain_until.get_or_insert_with(until)
    }

    fn write(&mut self, cx: &mut Context<'_>, now: Instant) -> io::Result<()> {
        let Transport::Open(stream) = &mut self.transport else { return Ok(()) };
        while self.machine.outbound_bytes() > 0 {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = self.machine.poll_transmit(&mut slices);
            match stream.poll_write(cx, &slices[..count], self.machine.descriptors()) {
                Poll::Ready(written) => self.machine.transmitted(written?, now),
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // A peer that does not read its answers, or is about to be left, is not read from.
        if self.drain_until.is_some() || !self.machine.wants_input() {
            return Poll::Pending;
        }
        let Transport::Open(stream) = &mut self.transport else { return Poll::Pending };
        if self.buffer.is_empty()
            && let Some(room) = self.machine.direct_room()
        {
            let read = stream.poll_read_direct(cx, room);
            if let Poll::Ready(Ok(count)) = read {
                self.machine.direct_filled(count);
            }
            return read;
        }
        stream.poll_read_buffer(cx, &mut self.buffer)
    }

    fn dispatch(&mut self, now: Instant) {
        let turn = Turn::begin(&self.shared);
        let taken = self.hand_out_small(&turn, now);
        self.buffer.advance(taken);
        self.machine.handle_input(&mut self.buffer, now);
        while let Some(event) = self.machine.poll_event() {
            match event {
                ServerEvent::Established(info) => self.established(info),
                ServerEvent::Request(request) => self.hand_out(request, now),
            }
        }
        turn.end(|answers| {
            for (call_id, answer) in answers.answers.drain(..) {
                self.machine.respond(call_id, &answer);
            }
            self.machine.respond_with_frames(&mut answers.call_ids, &mut answers.frames);
        });
    }

    /// Hands out the calls at the front of the read buffer for as long as they are small and the handler takes them; how
    /// many bytes they are.
    fn hand_out_small(&mut self, turn: &Turn, received: Instant) -> usize {
        let mut taken = 0;
        while let Some(usual) = self.machine.usual(&self.buffer[taken..]) {
            let Usual { call_id, timeout, destination, body, len } = usual;
            let call = SmallCall { received, timeout, body, destination, call_id, sink: &self.sink };
            if !self.handler.handle_small(&call) {
                break;
            }
            taken += len;
            self.count_call();
            if !turn.has_frame(call_id) {
                let destination = Arc::clone(destination);
                self.machine.begin(CallInFlight { call_id, destination, received, timeout });
            }
        }
        taken
    }

    fn count_call(&self) {
        // Only this thread writes them.
        self.shared.calls.store(self.shared.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.reactor.count_call();
    }

    fn established(&mut self, info: Arc<ConnectionInfo>) {
        tracing::debug!(peer = %self.peer, user = info.user, "connection established");
        let _ = self.shared.info.set(info);
        if let Transport::Open(stream) = &self.transport
            && let Err(error) = sys::set_keepalive(stream.socket(), &self.peer, self.shared.id)
        {
            tracing::debug!(peer = %self.peer, %error, "no TCP keepalive");
        }
    }

    fn hand_out(&mut self, request: ServerRequest, received: Instant) {
        let ServerRequest { call_id, destination, timeout, body, extras } = request;
        self.count_call();
        let call = Request { call_id, received, timeout, body, destination, extras };
        self.handler.handle(InboundCall::new(call, Responder::new(call_id, self.sink.clone())));
    }

    /// Asks for a turn when the next timeout is due. A timer that is set too early is left alone: each byte moves the
    /// timeout, and most timers would never fire.
    fn arm(&mut self, cx: &mut Context<'_>) {
        let Some(at) = self.machine.poll_timeout().into_iter().chain(self.drain_until).min() else { return };
        if self.armed.is_some_and(|armed| armed <= at) {
            return;
        }
        let deadline = tokio::time::Instant::from_std(at);
        let timers = &self.reactor.timers;
        let timer = self.timer.get_or_insert_with(|| Box::pin(timers.sleep_until(deadline)));
        timer.as_mut().reset(deadline);
        self.armed = Some(at);
        if timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }

    /// One turn. `Ready` = it is over, drop it.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        let end = std::task::ready!(self.turn(cx, now));
        let peer = &self.peer;
        match end {
            End::Closed(CloseReason::Idle) => tracing::debug!(%peer, "closed an idle connection"),
            End::Closed(reason) => tracing::warn!(%peer, "dropped a connection: {reason}"),
            End::Error(error) => tracing::debug!(%peer, %error, "connection lost"),
            End::Eof => tracing::debug!(%peer, "closed by the peer"),
            End::Stopped => tracing::debug!(%peer, "closed by shutdown"),
        }
        if let Transport::Open(stream) = &self.transport {
            stream.finish();
        }
        Poll::Ready(())
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.shared.answers.close());
        self.shared.question.answer(|| (self.shared.id, Vec::new()));
        self.reactor.forget(self.shared.id);
    }
}

/// Pieces in one system call; more stay for the next.
const SLICES: usize = 16;

/// Stands for times that no clock can count.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads in one turn, before others of the reactor are let in.
const ROUNDS: usize = 16;
