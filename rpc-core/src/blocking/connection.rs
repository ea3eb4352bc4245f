//! One connection, driven by the thread that calls.

use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use net_addr::SockAddr;
use rustix::net::RecvFlags;
use socket2::Socket;

use super::patience::Patience;
use crate::machine::{ClientConnection, ClientOptions, OutboundCall};
use crate::messenger::connect::connect_blocking;
use crate::messenger::connection::{End, Ending, QUIET, SLICES, outcome};
use crate::messenger::{Failure, Outcome};
use crate::reactor::busy::BusyPoll;
use crate::reactor::sys;

#[derive(Debug)]
pub(super) struct Connection {
    socket: Socket,
    machine: ClientConnection<u64>,
    buffer: BytesMut,
    read_size: usize,
    next_key: u64,
    patience: Patience,
    busy_poll: BusyPoll,
}

impl Connection {
    /// Connects; `left` is what the caller has for all of its call.
    pub(super) fn open(
        remote: &SockAddr,
        user: &str,
        options: &ClientOptions,
        busy_poll: Duration,
        left: Option<Duration>,
    ) -> io::Result<Self> {
        let bound = options.negotiation_timeout.min(left.unwrap_or(Duration::MAX)).min(LONGEST);
        let socket = connect_blocking(remote, bound)?;
        if let Err(error) = sys::set_keepalive(&socket, remote, 0) {
            tracing::debug!(%remote, %error, "no TCP keepalive");
        }
        // Nothing here reads with room for descriptors.
        let options = &ClientOptions { descriptors: false, ..options.clone() };
        Ok(Self {
            machine: ClientConnection::new(options, user.to_owned(), Instant::now()),
            socket,
            buffer: BytesMut::new(),
            read_size: sys::READ_MIN,
            next_key: 0,
            patience: Patience::default(),
            busy_poll: BusyPoll::new(busy_poll),
        })
    }

    /// False if the server has closed it, which is only asked after it was quiet for long.
    pub(super) fn is_open(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.machine.last_activity()) <= QUIET {
            return true;
        }
        match self.receive(RecvFlags::DONTWAIT) {
            Ok(count) => {
                self.machine.handle_input(&mut self.buffer, now);
                count > 0
            }
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Sends the call, and waits for what becomes of it.
    pub(super) fn exchange(&mut self, call: OutboundCall, mut now: Instant) -> Result<Outcome, End> {
        let (key, deadline) = (self.next_key, call.deadline);
        self.next_key = key.wrapping_add(1);
        self.machine.start_call(key, call, key);
        loop {
            let mut until = deadline;
            if !self.machine.is_established() {
                until = until.into_iter().chain(self.machine.poll_timeout()).min();
            }
            let left = until.map(|until| until.saturating_duration_since(now));
            let moved = match left {
                Some(Duration::ZERO) => Err(io::ErrorKind::WouldBlock.into()),
                _ => {
                    self.patience.set(&self.socket, left).map_err(End::Error)?;
                    self.write(now).and_then(|()| self.read())
                }
            };
            match moved {
                Ok(0) => return Err(End::Eof),
                Ok(_) => self.machine.handle_input(&mut self.buffer, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    now = Instant::now();
                    self.machine.handle_timeout(now);
                }
                Err(error) => return Err(End::Error(error)),
            }
            while let Some(event) = self.machine.poll_event() {
                let (tag, outcome) = outcome(event);
                if tag == key {
                    return Ok(outcome);
                }
            }
            if let Some(fault) = self.machine.fault() {
                return Err(End::Fault(fault.clone()));
            }
            now = Instant::now();
        }
    }

    /// How the call fails that was under way when the connection ended.
    pub(super) fn failure(self, end: &End) -> Failure {
        let ending = Ending::new(end, false, self.machine.is_established());
        let unfinished = self.machine.into_unfinished().pop();
        ending.failure(unfinished.and_then(|call| call.unsent))
    }

    fn write(&mut self, now: Instant) -> io::Result<()> {
        while self.machine.has_outbound() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = self.machine.poll_transmit(now, &mut slices);
            if count == 0 {
                break;
            }
            let sent = sys::send(&self.socket, &slices[..count], &[])?;
            self.machine.transmitted(sent, now);
        }
        Ok(())
    }

    /// How many bytes came; 0 = end of stream.
    fn read(&mut self) -> io::Result<usize> {
        if !self.busy_poll.is_on() {
            return self.receive(RecvFlags::empty());
        }
        let start = Instant::now();
        let mut waited = Duration::ZERO;
        while waited < self.busy_poll.window() {
            match self.receive(RecvFlags::DONTWAIT) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                done => {
                    self.busy_poll.waited(waited);
                    return done;
                }
            }
            let now = start.elapsed();
            self.busy_poll.yielded(now.saturating_sub(waited));
            waited = now;
        }
        let done = self.receive(RecvFlags::empty());
        self.busy_poll.waited(start.elapsed());
        done
    }

    fn receive(&mut self, flags: RecvFlags) -> io::Result<usize> {
        loop {
            let read = match self.machine.direct_room().filter(|_| self.buffer.is_empty()) {
                Some(room) => {
                    let read = rustix::net::recv(&self.socket, &mut *room, flags).map(|(_, count)| count);
                    if let Ok(count) = read {
                        self.machine.direct_filled(count);
                    }
                    read.map_err(io::Error::from)
                }
                None => sys::receive_plain(&self.socket, &mut self.buffer, &mut self.read_size, flags)
                    .map(|(count, _)| count),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

/// Bound on the time to connect that any clock can count.
const LONGEST: Duration = Duration::from_secs(3600);
