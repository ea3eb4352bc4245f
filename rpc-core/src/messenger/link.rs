use std::io;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime;

use crate::call::{CallStage, Descriptors, RemoteError};
use crate::machine::{Body, OutboundCall};
use crate::negotiate::NegotiationError;
use crate::reactor::mailbox::Mailbox;
use crate::wire::WireError;

/// What callers hold of a connection: the way to its task, and a place for each answer, all behind one lock, so that a
/// call costs no allocation and a turn of the task takes the lock once for all its answers.
#[derive(Debug)]
pub(crate) struct Link {
    runtime: runtime::Id,
    pub(crate) commands: Mailbox<Command, Places>,
    /// Set once the server is known to send some.
    descriptors: OnceLock<Arc<Descriptors>>,
}

#[derive(Debug)]
pub(crate) enum Command {
    Call {
        ticket: Ticket,
        call: OutboundCall,
        /// Counts from when the task sees the call; `None` = the call has a deadline, or none.
        timeout: Option<Duration>,
    },
    Cancel {
        key: u64,
    },
    Close,
}

/// Names a call, and where its answer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// Unique on its connection, counting up from 0.
    pub(crate) key: u64,
    place: usize,
}

/// Places for answers; those without a call are used again.
#[derive(Debug, Default)]
pub(crate) struct Places {
    places: Vec<Place>,
    free: Vec<usize>,
    next_key: u64,
}

#[derive(Debug)]
struct Place {
    key: u64,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Free,
    Awaited(Waker),
    Answered(Outcome),
}

/// A response (body, sidecars), or why there is none.
pub(crate) type Outcome = Result<(Body, Vec<Bytes>), Failure>;

#[derive(Debug)]
pub(crate) enum Failure {
    Remote(Box<RemoteError>),
    ErrorStatus(WireError),
    TimedOut(CallStage),
    TooLarge {
        size: u64,
        sidecars: usize,
    },
    NotSupported,
    Negotiation(Box<NegotiationError>),
    Network {
        source: Arc<io::Error>,
        sent: bool,
    },
    /// The connection ended before any byte of the call was sent: try another.
    Unsent {
        call: Box<OutboundCall>,
        source: Arc<io::Error>,
    },
    ShutDown,
}

impl Link {
    pub(crate) fn new(runtime: runtime::Id) -> Self {
        Self { runtime, commands: Mailbox::new(), descriptors: OnceLock::new() }
    }

    /// Where the connection puts the descriptors that it reads.
    pub(crate) fn descriptors(&self) -> Arc<Descriptors> {
        Arc::clone(self.descriptors.get_or_init(Arc::default))
    }

    /// The same, if any may come.
    pub(crate) fn taken(&self) -> Option<&Arc<Descriptors>> {
        self.descriptors.get()
    }

    /// Those that came, if any ever did.
    pub(crate) fn received(&self) -> Option<&Arc<Descriptors>> {
        self.descriptors.get().filter(|descriptors| descriptors.came())
    }

    pub(crate) fn runtime(&self) -> runtime::Id {
        self.runtime
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.commands.is_closed()
    }

    pub(crate) fn close(&self) {
        let _ = self.commands.post(Command::Close);
    }

    /// Hands a call to the task; `None` = the task is gone, and `call` is still there.
    pub(crate) fn begin(
        &self,
        call: &mut Option<OutboundCall>,
        timeout: Option<Duration>,
        waker: &Waker,
    ) -> Option<Ticket> {
        self.commands.post_with(|places| {
            let ticket = places.take(waker);
            (call.take().map(|call| Command::Call { ticket, call, timeout }), ticket)
        })
    }

    /// The outcome of a call; once it is there, the ticket is of no more use.
    pub(crate) fn poll(&self, ticket: Ticket, cx: &Context<'_>) -> Poll<Outcome> {
        self.commands.with(|_, places| match places.get(ticket) {
            Some(content @ Content::Answered(_)) => {
                let content = std::mem::replace(content, Content::Free);
                places.free.push(ticket.place);
                match content {
                    Content::Answered(outcome) => Poll::Ready(outcome),
                    _ => Poll::Pending,
                }
            }
            Some(Content::Awaited(waker)) => {
                if !waker.will_wake(cx.waker()) {
                    *waker = cx.waker().clone();
                }
                Poll::Pending
            }
            _ => Poll::Pending,
        })
    }

    pub(crate) fn calls_in_flight(&self) -> usize {
        self.commands.with(|_, places| places.places.len().saturating_sub(places.free.len()))
    }

    /// Forgets a call, so that its payload is freed now.
    pub(crate) fn cancel(&self, ticket: Ticket) {
        let is_it =
            |command: &Command| matches!(command, Command::Call { ticket: other, .. } if *other == ticket);
        // What is taken out is dropped after the lock is released.
        let (retracted, content) = self.commands.with(|commands, places| {
            let Some(content) = places.get(ticket) else { return (None, None) };
            let content = std::mem::replace(content, Content::Free);
            places.free.push(ticket.place);
            let place = commands.iter().rposition(is_it);
            (place.map(|place| commands.remove(place)), Some(content))
        });
        if retracted.is_none() && matches!(content, Some(Content::Awaited(_))) {
            let _ = self.commands.post(Command::Cancel { key: ticket.key });
        }
    }

    /// Puts all of `outcomes` where they belong and wakes those who wait; `wakers` is empty scratch.
    pub(crate) fn complete(
        &self,
        outcomes: impl ExactSizeIterator<Item = (Ticket, Outcome)>,
        wakers: &mut Vec<Waker>,
    ) {
        if outcomes.len() == 0 {
            return;
        }
        self.commands.with(|_, places| {
            for (ticket, outcome) in outcomes {
                // Gone if the caller stopped waiting.
                if let Some(content) = places.get(ticket)
                    && let Content::Awaited(waker) = std::mem::replace(content, Content::Answered(outcome))
                {
                    wakers.push(waker);
                }
            }
        });
        wakers.drain(..).for_each(Waker::wake);
    }
}

impl Places {
    fn take(&mut self, waker: &Waker) -> Ticket {
        let key = self.next_key;
        self.next_key = key.wrapping_add(1);
        let content = Content::Awaited(waker.clone());
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.places.push(Place { key, content: Content::Free });
                self.places.len().saturating_sub(1)
            }
        };
        if let Some(slot) = self.places.get_mut(place) {
            *slot = Place { key, content };
        }
        Ticket { key, place }
    }

    fn get(&mut self, ticket: Ticket) -> Option<&mut Content> {
        let place = self.places.get_mut(ticket.place).filter(|place| place.key == ticket.key)?;
        (!matches!(place.content, Content::Free)).then_some(&mut place.content)
    }
}
