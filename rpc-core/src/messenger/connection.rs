//! One outbound connection: the task that makes it and drives its machine.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::time::Sleep;

use super::connect::connect;
use super::link::{Command, Failure, Link, Outcome, Ticket};
use super::registered::Registered;
use super::{ConnectionId, Inner};
use crate::machine::{ClientConnection, ClientEvent, ClientOptions, ConnectionFault, Unfinished};
use crate::negotiate::NegotiationError;
use crate::reactor::stream::{self, Stream};
use crate::reactor::sys;

/// The task. Dropping it (with its runtime, too) fails the calls on it.
pub(crate) struct Connection {
    id: ConnectionId,
    link: Arc<Link>,
    messenger: Weak<Inner>,
    machine: Option<ClientConnection<Ticket>>,
    transport: Transport,
    buffer: BytesMut,
    commands: Vec<Command>,
    wakers: Vec<Waker>,
    timer: Option<Pin<Box<Sleep>>>,
    armed: Option<Instant>,
    end: End,
}

enum Transport {
    Connecting(Pin<Box<dyn Future<Output = io::Result<Stream<Registered>>> + Send>>),
    Open(Stream<Registered>),
}

/// Why a connection ends.
pub(crate) enum End {
    /// The peer closed: normal for an idle connection.
    Eof,
    Connect(io::Error),
    Error(io::Error),
    Fault(ConnectionFault),
    Close,
    /// The runtime dropped the task.
    Dropped,
}

impl Connection {
    pub(crate) fn new(
        id: ConnectionId,
        link: Arc<Link>,
        options: &ClientOptions,
        messenger: Weak<Inner>,
    ) -> Self {
        let options =
            ClientOptions { descriptors: options.descriptors && id.remote.is_unix(), ..options.clone() };
        Self {
            machine: Some(ClientConnection::new(&options, id.user.clone(), Instant::now())),
            transport: Transport::Connecting(Box::pin(connect(id.remote.clone()))),
            id,
            link,
            messenger,
            buffer: BytesMut::new(),
            commands: Vec::new(),
            wakers: Vec::new(),
            timer: None,
            armed: None,
            end: End::Dropped,
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let Some(machine) = &mut self.machine else { return Poll::Ready(End::Dropped) };
        self.link.commands.take(&mut self.commands);
        for _ in 0..ROUNDS {
            let now = Instant::now();
            let fresh = !self.commands.is_empty();
            let mut commands = self.commands.drain(..);
            while let Some(command) = commands.next() {
                match command {
                    Command::Call { ticket, mut call, timeout } => {
                        if let Some(timeout) = timeout {
                            call.deadline = now.checked_add(timeout);
                        }
                        machine.start_call(ticket.key, call, ticket);
                    }
                    Command::Cancel { key } => machine.cancel(key),
                    Command::Close => {
                        // The calls behind it fail with the others.
                        let behind = commands.collect();
                        self.commands = behind;
                        return Poll::Ready(End::Close);
                    }
                }
            }
            drop(commands);
            if self.armed.is_some_and(|at| at <= now) {
                self.armed = None;
                machine.handle_timeout(now);
            }
            if let Transport::Connecting(connecting) = &mut self.transport {
                match connecting.as_mut().poll(cx) {
                    Poll::Ready(Ok(stream)) => self.transport = Transport::Open(stream),
                    Poll::Ready(Err(error)) => return Poll::Ready(End::Connect(error)),
                    Poll::Pending => {}
                }
            }
            let mut read = Poll::Pending;
            if let Transport::Open(stream) = &mut self.transport {
                let quiet = now.saturating_duration_since(machine.last_activity()) > QUIET;
                if fresh && quiet && machine.is_established() {
                    // The server may have closed while this runtime stood still: ask, before a call is sent into the void.
                    match stream.read_now(&mut self.buffer) {
                        Ok(Some(0)) => return Poll::Ready(End::Eof),
                        Ok(Some(_)) => machine.handle_input(&mut self.buffer, now),
                        Ok(None) => {}
                        Err(error) => return Poll::Ready(End::Error(error)),
                    }
                }
                let written = write(stream, machine, cx, now);
                read = self::read(stream, machine, &mut self.buffer, cx);
                match read {
                    // What was read is looked at before the end of the connection counts.
                    Poll::Ready(Ok(0)) => return Poll::Ready(End::Eof),
                    Poll::Ready(Ok(_)) => machine.handle_input(&mut self.buffer, now),
                    _ => {}
                }
                if let Err(error) = written
                    && !matches!(read, Poll::Ready(Ok(_)))
                {
                    return Poll::Ready(End::Error(error));
                }
            }
            if let Transport::Open(stream) = &mut self.transport
                && !stream.takes_descriptors()
                && machine.takes_descriptors()
            {
                stream.take_descriptors(self.link.descriptors());
            }
            self.link.complete(machine.drain_events().map(outcome), &mut self.wakers);
            if let Some(fault) = machine.fault() {
                return Poll::Ready(End::Fault(fault.clone()));
            }
            match read {
                Poll::Ready(Ok(_)) => self.link.commands.take(&mut self.commands),
                Poll::Ready(Err(error)) => return Poll::Ready(End::Error(error)),
                Poll::Pending => {
                    if let Some(at) = machine.poll_timeout() {
                        arm(&mut self.timer, &mut self.armed, at, cx);
                    }
                    stream::give_back(&mut self.buffer);
                    if self.link.commands.rest(cx) {
                        return Poll::Pending;
                    }
                    self.link.commands.take(&mut self.commands);
                }
            }
        }
        // Others of this runtime have their turn first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn finish(&mut self) {
        let mut left = std::mem::take(&mut self.commands);
        // Closed before it is forgotten: who still holds the link makes a new one.
        left.append(&mut self.link.commands.close());
        let messenger = self.messenger.upgrade();
        if let Some(messenger) = &messenger {
            messenger.forget(&self.id, &self.link);
        }
        let shut_down = messenger.is_none_or(|messenger| messenger.is_shut_down());
        let Some(machine) = self.machine.take() else { return };
        let established = machine.is_established();
        let ending = Ending::new(&self.end, shut_down, established);
        let mut outcomes = Vec::new();
        for Unfinished { tag, unsent, .. } in machine.into_unfinished() {
            outcomes.push((tag, Err(ending.failure(unsent))));
        }
        for command in left {
            if let Command::Call { ticket, call, .. } = command {
                outcomes.push((ticket, Err(ending.failure(Some(call)))));
            }
        }
        self.link.complete(outcomes.into_iter(), &mut self.wakers);
    }
}

/// How the calls of a connection that ended fail.
pub(crate) enum Ending {
    ShutDown,
    Negotiation(NegotiationError),
    /// `retry`: a call of which nothing was sent can go on another connection.
    Network {
        source: Arc<io::Error>,
        retry: bool,
    },
}

impl Ending {
    pub(crate) fn new(end: &End, shut_down: bool, established: bool) -> Self {
        let network = |source: io::Error, retry| Self::Network { source: Arc::new(source), retry };
        match end {
            _ if shut_down => Self::ShutDown,
            End::Fault(ConnectionFault::Negotiation(error)) => Self::Negotiation(error.clone()),
            End::Fault(ConnectionFault::Frame(error)) => {
                network(io::Error::new(io::ErrorKind::InvalidData, *error), true)
            }
            End::Connect(error) => network(copy(error), false),
            End::Error(error) => network(copy(error), established),
            End::Eof => {
                let closed = "the server closed the connection";
                network(io::Error::new(io::ErrorKind::ConnectionReset, closed), established)
            }
            End::Close | End::Dropped => {
                let dropped = "the runtime of the connection was shut down";
                network(io::Error::new(io::ErrorKind::ConnectionAborted, dropped), false)
            }
        }
    }

    pub(crate) fn failure(&self, unsent: Option<crate::machine::OutboundCall>) -> Failure {
        match self {
            Self::ShutDown => Failure::ShutDown,
            Self::Negotiation(error) => Failure::Negotiation(Box::new(error.clone())),
            Self::Network { source, retry } => match unsent {
                Some(call) if *retry => Failure::Unsent { call: Box::new(call), source: source.clone() },
                unsent => Failure::Network { source: source.clone(), sent: unsent.is_none() },
            },
        }
    }
}

fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

fn write(
    stream: &mut Stream<Registered>,
    machine: &mut ClientConnection<Ticket>,
    cx: &mut Context<'_>,
    now: Instant,
) -> io::Result<()> {
    while machine.has_outbound() {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = machine.poll_transmit(now, &mut slices);
        if count == 0 {
            break;
        }
        match stream.poll_write(cx, &slices[..count], &[]) {
            Poll::Ready(written) => machine.transmitted(written?, now),
            Poll::Pending => break,
        }
    }
    Ok(())
}

fn read(
    stream: &mut Stream<Registered>,
    machine: &mut ClientConnection<Ticket>,
    buffer: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    if buffer.is_empty()
        && let Some(room) = machine.direct_room()
    {
        let read = stream.poll_read_direct(cx, room);
        if let Poll::Ready(Ok(count)) = read {
            machine.direct_filled(count);
        }
        return read;
    }
    stream.poll_read_buffer(cx, buffer)
}

pub(crate) fn outcome<T>(event: ClientEvent<T>) -> (T, Outcome) {
    match event {
        ClientEvent::Response { tag, body, sidecars } => (tag, Ok((body, sidecars))),
        ClientEvent::Failed { tag, error: Ok(error) } => (tag, Err(Failure::Remote(Box::new(error)))),
        ClientEvent::Failed { tag, error: Err(error) } => (tag, Err(Failure::ErrorStatus(error))),
        ClientEvent::TimedOut { tag, stage } => (tag, Err(Failure::TimedOut(stage))),
        ClientEvent::TooLarge { tag, size, sidecars } => (tag, Err(Failure::TooLarge { size, sidecars })),
        ClientEvent::NotSupported { tag } => (tag, Err(Failure::NotSupported)),
    }
}

/// Has the task woken at `at`, or earlier if that is already set: most timers would never fire.
fn arm(timer: &mut Option<Pin<Box<Sleep>>>, armed: &mut Option<Instant>, at: Instant, cx: &mut Context<'_>) {
    if armed.is_some_and(|armed| armed <= at) {
        return;
    }
    let deadline = tokio::time::Instant::from_std(at);
    let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
    timer.as_mut().reset(deadline);
    *armed = Some(at);
    if timer.as_mut().poll(cx).is_ready() {
        cx.waker().wake_by_ref();
    }
}

impl Future for Connection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let connecting = matches!(self.transport, Transport::Connecting(_));
        let turn = self.turn(cx);
        if connecting && let Transport::Open(stream) = &self.transport {
            let spread = (Arc::as_ptr(&self.link).addr() >> 7) as u64;
            if let Err(error) = sys::set_keepalive(stream.socket(), &self.id.remote, spread) {
                tracing::debug!(remote = %self.id.remote, %error, "no TCP keepalive");
            }
        }
        self.end = std::task::ready!(turn);
        let remote = &self.id.remote;
        match &self.end {
            End::Eof => tracing::debug!(%remote, "closed by the server"),
            End::Connect(error) => tracing::debug!(%remote, %error, "cannot connect"),
            End::Error(error) => tracing::debug!(%remote, %error, "connection lost"),
            End::Fault(fault) => tracing::warn!(%remote, "dropped a connection: {fault}"),
            End::Close | End::Dropped => {}
        }
        self.finish();
        Poll::Ready(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Pieces in one system call; more stay for the next.
pub(crate) const SLICES: usize = 16;

/// Reads in one turn, before others of the runtime are let in.
const ROUNDS: usize = 16;

/// After this long without a byte the connection is looked at before it is used.
pub(crate) const QUIET: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::runtime::Handle;

    use super::*;
    use crate::machine::OutboundCall;

    #[tokio::test]
    async fn calls_behind_a_close_fail_with_those_in_front_of_it() {
        let link = Arc::new(Link::new(Handle::current().id()));
        let remote = "127.0.0.1:1".parse().expect("an address");
        let id = ConnectionId { remote, host: "h".into(), user: "u".into(), plane: String::new() };
        let begin = || {
            let call = OutboundCall {
                service: "kudu.S",
                method: "M",
                body: Bytes::new().into(),
                extras: None,
                deadline: None,
            };
            link.begin(&mut Some(call), None, Waker::noop()).expect("the link is open")
        };
        let front = begin();
        link.close();
        let behind = begin();
        Connection::new(id, link.clone(), &ClientOptions::default(), Weak::new()).await;
        let cx = Context::from_waker(Waker::noop());
        for ticket in [front, behind] {
            let outcome = link.poll(ticket, &cx);
            assert!(matches!(outcome, Poll::Ready(Err(Failure::ShutDown))), "{outcome:?}");
        }
    }
}
