//! Questions to the master, their answers, and who waits for them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;

use crate::range_map::{Gap, Span};
use crate::replica::ReplicaAnswer;
use crate::server::ServerAnswer;
use crate::table::Table;
use crate::tablet::{Tablet, is_before_end};
use crate::ttl::Expiry;

/// What the cache knows about a key.
#[derive(Debug)]
pub enum Lookup {
    /// The tablet that holds the key.
    Hit(Arc<Tablet>),
    /// No tablet holds the key; the gap goes from `start` (inclusive) to `end` (exclusive, empty = without end).
    NonCovered {
        /// First partition key of the gap.
        start: Vec<u8>,
        /// End of the gap.
        end: Vec<u8>,
    },
    /// Nobody knows: ask the master, then call [`MetaCache::insert`](crate::MetaCache::insert).
    Ask(Asking),
    /// Somebody asks already: await it, then look up again.
    Wait(Waiting),
}

/// What the master's answer says about the key that was asked for. It holds at this moment, however short its TTL.
#[derive(Clone, Debug)]
pub enum Known {
    /// The tablet that holds the key.
    Tablet(Arc<Tablet>),
    /// No tablet holds the key, nor any other from `start` (inclusive) to `end` (exclusive, empty = without end).
    Gap {
        /// First partition key of the gap.
        start: Vec<u8>,
        /// End of the gap.
        end: Vec<u8>,
    },
}

/// How much of the table an answer should bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// One key: a few tablets from it on.
    Point,
    /// A scan over many tablets.
    Range,
}

/// A question to the master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The table's id.
    pub table_id: String,
    /// The first partition key of interest.
    pub start: Vec<u8>,
    /// How many tablets the answer may hold at most, 1 or more.
    pub max_tablets: usize,
}

/// The master's answer to a [`Request`]: tablets in ascending order, from the last one that starts at or before
/// [`Request::start`] (so before a gap comes the tablet in front of it; below all tablets the first one).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// How long it may be believed.
    pub ttl: Duration,
    /// The servers that [`ReplicaAnswer::server`] points into.
    pub servers: Vec<ServerAnswer>,
    /// The tablets, sorted by start, disjoint.
    pub tablets: Vec<TabletAnswer>,
}

/// One tablet of an [`Answer`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TabletAnswer {
    /// The tablet's id.
    pub id: String,
    /// First partition key, inclusive.
    pub start: Vec<u8>,
    /// End, exclusive; empty = without end.
    pub end: Vec<u8>,
    /// Its replicas.
    pub replicas: Vec<ReplicaAnswer>,
}

/// The master's answer contradicts itself; nothing of it was taken in. It is the master's fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// A tablet starts before the one in front of it ends, or has no room between its bounds.
    #[error("the master's answer for table {table_id} is out of order at tablet {tablet_id}")]
    OutOfOrder {
        /// The table asked for.
        table_id: String,
        /// The first tablet that does not fit.
        tablet_id: String,
    },
    /// A replica points to a server that the answer does not hold.
    #[error("tablet {tablet_id}: a replica names server {index}, the master's answer has {servers}")]
    UnknownServer {
        /// The tablet whose replica it is.
        tablet_id: String,
        /// The index it names.
        index: usize,
        /// How many servers there are.
        servers: usize,
    },
}

impl AnswerError {
    /// Whether asking again may help: yes, a healthy master answers in order.
    pub fn is_retriable(&self) -> bool {
        true
    }
}

/// The right and duty to ask the master. Dropped without an answer it wakes those who wait, and one of them asks next.
#[derive(Debug)]
#[must_use = "others wait until this is answered or dropped"]
pub struct Asking {
    request: Request,
    table: Arc<Table>,
    signal: Arc<Signal>,
}

impl Asking {
    pub(crate) fn new(request: Request, table: Arc<Table>) -> (Asking, Arc<Signal>) {
        let signal = Arc::new(Signal::default());
        (Asking { request, table, signal: signal.clone() }, signal)
    }

    /// What to ask.
    pub fn request(&self) -> &Request {
        &self.request
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub(crate) fn answered(self) {
        self.finish(WaitOutcome::Answered);
    }

    fn finish(&self, outcome: WaitOutcome) {
        self.table.forget_pending(&self.signal);
        self.signal.finish(outcome);
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.finish(WaitOutcome::GivenUp);
    }
}

/// How somebody else's question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// An answer came; the next look-up may hit.
    Answered,
    /// It failed or was cancelled; back off and look up again.
    GivenUp,
}

/// A future that ends when somebody else's question does. Needs no runtime.
#[derive(Debug)]
pub struct Waiting {
    signal: Arc<Signal>,
    slot: Option<usize>,
}

impl Waiting {
    pub(crate) fn new(signal: Arc<Signal>) -> Waiting {
        Waiting { signal, slot: None }
    }
}

impl Future for Waiting {
    type Output = WaitOutcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<WaitOutcome> {
        let signal = self.signal.clone();
        let mut state = signal.0.lock();
        if let Some(outcome) = state.outcome {
            return Poll::Ready(outcome);
        }
        match self.slot.and_then(|slot| state.wakers.get_mut(slot)) {
            Some(waker) => *waker = Some(context.waker().clone()),
            None => {
                self.slot = Some(state.wakers.len());
                state.wakers.push(Some(context.waker().clone()));
            }
        }
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(slot) = self.slot
            && let Some(waker) = self.signal.0.lock().wakers.get_mut(slot)
        {
            *waker = None;
        }
    }
}

/// Tells the waiting that a question ended.
#[derive(Debug, Default)]
pub(crate) struct Signal(Mutex<SignalState>);

#[derive(Debug, Default)]
struct SignalState {
    outcome: Option<WaitOutcome>,
    wakers: Vec<Option<Waker>>,
}

impl Signal {
    fn finish(&self, outcome: WaitOutcome) {
        let wakers = {
            let mut state = self.0.lock();
            state.outcome.get_or_insert(outcome);
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

/// Checks the order of an answer's tablets, and that each has room between its bounds.
pub(crate) fn check_order(table_id: &str, tablets: &[TabletAnswer]) -> Result<(), AnswerError> {
    let mut previous: Option<&TabletAnswer> = None;
    for tablet in tablets {
        let room = tablet.end.is_empty() || tablet.start < tablet.end;
        let behind = previous.is_none_or(|previous| !previous.end.is_empty() && previous.end <= tablet.start);
        if !room || !behind {
            return Err(AnswerError::OutOfOrder {
                table_id: table_id.to_owned(),
                tablet_id: tablet.id.clone(),
            });
        }
        previous = Some(tablet);
    }
    Ok(())
}

/// What `spans` say about the key that was asked for.
pub(crate) fn at_key(request: &Request, spans: &[Span]) -> Known {
    let key = &request.start;
    let covers = |span: &&Span| span.start() <= &key[..] && is_before_end(key, span.end());
    match spans.iter().find(covers) {
        Some(Span::Tablet(tablet)) => Known::Tablet(tablet.clone()),
        Some(Span::Gap(gap)) => Known::Gap { start: gap.start.clone(), end: gap.end.clone() },
        // Answers settle the key that was asked for; one that does not knows of no tablet there.
        None => Known::Gap { start: key.clone(), end: [&key[..], b"\0"].concat() },
    }
}

/// All that an answer tells about the table's keys: its tablets and the gaps before, between and behind them.
pub(crate) fn spans(request: &Request, tablets: Vec<Arc<Tablet>>, gap_expiry: Expiry) -> Vec<Span> {
    let gap = |start: &[u8], end: &[u8]| {
        Span::Gap(Gap { start: start.to_vec(), end: end.to_vec(), expiry: gap_expiry })
    };
    let (Some(first), Some(last)) = (tablets.first(), tablets.last().cloned()) else {
        return vec![gap(b"", b"")];
    };
    let is_complete = tablets.len() < request.max_tablets;
    let mut spans = Vec::with_capacity(tablets.len().saturating_mul(2).saturating_add(1));
    if *request.start < *first.start() {
        spans.push(gap(b"", first.start()));
    }
    let mut previous_end: Option<Vec<u8>> = None;
    for tablet in tablets {
        if let Some(end) = previous_end.filter(|end| **end != *tablet.start()) {
            spans.push(gap(&end, tablet.start()));
        }
        previous_end = Some(tablet.end().to_vec());
        spans.push(Span::Tablet(tablet));
    }
    if !last.end().is_empty() {
        if is_complete {
            spans.push(gap(last.end(), b""));
        } else if *request.start >= *last.end() {
            // The answer is full, so what follows is unknown; but no tablet can start between its last one and the key.
            let just_behind_key = [&request.start[..], b"\0"].concat();
            spans.push(gap(last.end(), &just_behind_key));
        }
    }
    spans
}
