//! What a reactor's thread does: waits until something happens to its connections, and gives those their turn.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use mio::{Events, Registry, Token};
use slab::Slab;

use super::ReactorState;
use super::busy::Spin;
use super::connection::Connection;
use super::mailbox::Mailbox;

/// How others reach a reactor's thread.
pub(crate) type Inbox = Mailbox<Notice>;

/// What others tell a reactor's thread.
#[derive(Debug)]
pub(crate) enum Notice {
    /// A new connection.
    Adopt(Box<Connection>),
    /// The connection at this place wants a turn.
    Wake(usize),
}

pub(crate) struct EventLoop {
    poll: mio::Poll,
    registry: Arc<Registry>,
    /// Wakes the thread from its wait.
    bell: Waker,
    state: Arc<ReactorState>,
    spin: Spin,
    places: Slab<Occupant>,
}

struct Occupant {
    connection: Box<Connection>,
    waker: Waker,
}

impl EventLoop {
    pub(crate) fn new(state: Arc<ReactorState>, busy_poll: Duration) -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        let registry = Arc::new(poll.registry().try_clone()?);
        let bell = Waker::from(Arc::new(Bell(mio::Waker::new(&registry, BELL)?)));
        Ok(Self { poll, registry, bell, state, spin: Spin::new(busy_poll), places: Slab::new() })
    }

    /// Runs until the reactor is stopped and has no connections left.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        let mut notices = Vec::new();
        let mut woke = Instant::now();
        // The first turn begins when the thread wakes up.
        let mut now = None;
        loop {
            self.state.inbox.take(&mut notices);
            for event in &events {
                if let Some(place) = event.token().0.checked_sub(FIRST)
                    && let Some(occupant) = self.places.get_mut(place)
                {
                    occupant.connection.happened(event);
                    self.turn(place, now.take());
                }
            }
            // Asked first: to drain nothing is not free, and mostly there is nothing.
            if !notices.is_empty() {
                for notice in notices.drain(..) {
                    match notice {
                        Notice::Adopt(connection) => self.adopt(connection),
                        Notice::Wake(place) => self.turn(place, now.take()),
                    }
                }
            }
            if self.state.is_done() {
                break;
            }
            let rests = self.state.inbox.rest(&Context::from_waker(&self.bell));
            let waits = rests && {
                let rested = Instant::now();
                self.state.load.rested(woke, rested);
                !self.spin.looks_again(self.state.calls(), rested)
            };
            if let Err(error) = self.poll.poll(&mut events, (!waits).then_some(Duration::ZERO))
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "a reactor cannot wait for its connections: it ends them");
                break;
            }
            if rests {
                woke = Instant::now();
                now = Some(woke);
            }
        }
        drop(self.state.inbox.close());
    }

    fn adopt(&mut self, mut connection: Box<Connection>) {
        let vacant = self.places.vacant_entry();
        let place = vacant.key();
        if let Err(error) = connection.open(self.registry.clone(), Token(FIRST + place)) {
            return tracing::warn!(%error, "a connection cannot be watched");
        }
        let waker = Waker::from(Arc::new(WakePlace { inbox: self.state.inbox.clone(), place }));
        vacant.insert(Occupant { connection, waker });
        self.turn(place, None);
    }

    /// `now`, if the caller knows it.
    fn turn(&mut self, place: usize, now: Option<Instant>) {
        let Some(Occupant { connection, waker }) = self.places.get_mut(place) else { return };
        // A handler that panics ends its connection, and nothing else. The panic hook has reported it.
        let turn = panic::catch_unwind(AssertUnwindSafe(|| {
            connection.poll(&mut Context::from_waker(waker), now.unwrap_or_else(Instant::now))
        }));
        if !matches!(turn, Ok(Poll::Pending)) {
            let ended = self.places.remove(place);
            let _ = panic::catch_unwind(AssertUnwindSafe(|| drop(ended)));
        }
    }
}

struct Bell(mio::Waker);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if let Err(error) = self.0.wake() {
            tracing::error!(%error, "a reactor cannot be woken");
        }
    }
}

struct WakePlace {
    inbox: Arc<Inbox>,
    place: usize,
}

impl Wake for WakePlace {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Fails at the end only, when there is no connection any more. Another may have its place by now: it has a turn more.
        let _ = self.inbox.post(Notice::Wake(self.place));
    }
}

const BELL: Token = Token(0);

/// The token of the first place.
const FIRST: usize = 1;

/// As many are told of at once.
const EVENTS: usize = 256;
