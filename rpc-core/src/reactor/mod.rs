//! Threads that move the bytes of accepted connections: N reactors, each a thread with a poller of its own.
//!
//! A connection belongs to one reactor for life. In one turn it reads one buffer, hands out the calls in it,
//! and writes all answers that are there by then with one system call. Calls that are answered by their handler on the
//! spot never leave the reactor's thread.

pub(crate) mod busy;
mod connection;
mod event_loop;
mod in_flight;
mod load;
pub(crate) mod mailbox;
mod placement;
mod registered;
pub(crate) mod stream;
pub(crate) mod sys;
mod timers;
mod turn;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net_addr::SockAddr;
use net_addr::hash::sip::SipKey;
use parking_lot::Mutex;
use socket2::Socket;

pub use crate::machine::{CallInFlight, ServerOptions};
pub use hdrhistogram::Histogram;
pub use in_flight::CallsInFlight;

use crate::call::{ConnectionInfo, InboundHandler};
use connection::{Accepted, Connection, Shared};
use event_loop::{EventLoop, Inbox, Notice};
use load::LoadMeter;
use placement::Placement;
use timers::Timers;

/// The reactors of a server. Dropping it shuts it down.
#[derive(Debug)]
pub struct ReactorPool {
    reactors: Vec<Reactor>,
    placement: Mutex<Placement>,
    next_id: AtomicU64,
    stopped: AtomicBool,
}

#[derive(Debug)]
struct Reactor {
    state: Arc<ReactorState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What a reactor's connections share with the pool.
#[derive(Debug)]
pub(crate) struct ReactorState {
    inbox: Arc<Inbox>,
    connections: AtomicUsize,
    accepted: AtomicU64,
    calls: AtomicU64,
    live: Mutex<HashMap<u64, Arc<Shared>>>,
    load: LoadMeter,
    /// Shared by the reactors of a pool.
    pub(crate) timers: Arc<Timers>,
    stopping: AtomicBool,
}

/// Figures of a pool at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PoolStats {
    /// By index of the reactor.
    pub reactors: Vec<ReactorStats>,
    /// All connections that are open, those still negotiating included.
    pub connections: Vec<ConnectionStats>,
}

/// Figures of one reactor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReactorStats {
    /// Open now.
    pub connections: usize,
    /// Taken over since the start.
    pub accepted: u64,
    /// Calls handed out since the start.
    pub calls: u64,
    /// Time since the start in which the reactor did not wait. Its share of the time between two looks is the load
    /// (Kudu's `reactor_load_percent`).
    pub busy: Duration,
    /// How often it had nothing more to do since the start; `busy` by it is the mean time from wake-up to rest (Kudu's
    /// `reactor_active_latency_us`).
    pub rests: u64,
}

/// How busy one reactor was since its start, as Kudu tells it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReactorLoad {
    /// Kudu's `reactor_load_percent`: for each tenth of a second the share of it in which the reactor did not wait, 0 to
    /// 100. Tenths between two wake-ups that were looked at get their mean.
    pub load_percent: Histogram<u64>,
    /// Kudu's `reactor_active_latency_us`: the time from a wake-up to the next rest, in microseconds, of one of 8 wake-ups.
    pub active_latency_us: Histogram<u64>,
}

/// Figures of one connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// Its number in the pool.
    pub id: u64,
    /// Index of its reactor.
    pub reactor: usize,
    /// The peer's address.
    pub peer: SockAddr,
    /// Who it is; `None` while negotiating.
    pub info: Option<Arc<ConnectionInfo>>,
    /// Calls not yet answered.
    pub calls_in_flight: usize,
    /// Calls handed out so far.
    pub calls: u64,
}

impl ReactorPool {
    /// Starts `reactors` threads (at least 1), called `name-0`, `name-1`, ...
    ///
    /// # Errors
    /// If the system gives no thread or no poller.
    pub fn start(name: &str, reactors: usize) -> io::Result<Self> {
        Self::start_polling(name, reactors, Duration::ZERO)
    }

    /// As [`start`](Self::start), with reactors that look for work for up to `busy_poll` (50 us is much) before they sleep, a yield to
    /// others in between: an answer is on its way sooner where CPUs are idle. They stop that where waits are longer, and
    /// take it up again when they are not.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_polling(name: &str, reactors: usize, busy_poll: Duration) -> io::Result<Self> {
        let mut pool = Self {
            reactors: Vec::new(),
            placement: Mutex::new(Placement::new(SipKey::random())),
            next_id: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        };
        let timers = Arc::new(Timers::start(format!("{name}-time"))?);
        for index in 0..reactors.max(1) {
            pool.reactors.push(Reactor::start(format!("{name}-{index}"), busy_poll, timers.clone())?);
        }
        Ok(pool)
    }

    /// Takes over a connected socket, TCP or unix: sets its options, picks the reactor with the fewest connections,
    /// negotiates there, and hands each call to `handler`. Errors of the connection end up in the log.
    ///
    /// # Errors
    /// If the peer is already gone, or the pool is shut down; the socket is closed then.
    pub fn adopt(
        &self,
        socket: Socket,
        handler: Arc<dyn InboundHandler>,
        options: Arc<ServerOptions>,
    ) -> io::Result<()> {
        if self.stopped.load(Ordering::SeqCst) {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the reactors are shut down"));
        }
        let peer = address(&socket.peer_addr()?)?;
        let local = address(&socket.local_addr()?)?;
        sys::set_no_delay(&socket, &peer)?;
        if peer.ip().is_some() && peer.ip() == local.ip() {
            sys::set_within_machine(&socket);
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (index, reactor) = self.place(&peer, id);
        let shared = Arc::new(Shared::new(id, index, peer.clone()));
        reactor.state.live.lock().insert(id, shared.clone());
        reactor.state.accepted.fetch_add(1, Ordering::Relaxed);
        let accepted =
            Accepted { socket, peer, local, handler, options, shared, reactor: reactor.state.clone() };
        // One that never has a turn still counts itself off when it is dropped.
        let connection = Connection::new(accepted);
        if self.stopped.load(Ordering::SeqCst) {
            connection.shared().stop();
        }
        // Refused only by a reactor that has ended; what comes back is dropped, and closed with it.
        let _ = reactor.state.inbox.post(Notice::Adopt(Box::new(connection)));
        Ok(())
    }

    fn place(&self, peer: &SockAddr, id: u64) -> (usize, &Reactor) {
        let placement = self.placement.lock();
        let loads = self.reactors.iter().map(|reactor| reactor.state.connections.load(Ordering::SeqCst));
        let index = placement.pick(&loads.collect::<Vec<_>>(), peer, id);
        let reactor = &self.reactors[index];
        // Counted under the lock, so that two acceptors at once do not pick the same empty reactor.
        reactor.state.connections.fetch_add(1, Ordering::SeqCst);
        (index, reactor)
    }

    /// How many reactors there are.
    pub fn reactors(&self) -> usize {
        self.reactors.len()
    }

    /// What goes on now.
    pub fn stats(&self) -> PoolStats {
        let mut stats = PoolStats { reactors: Vec::new(), connections: Vec::new() };
        for reactor in &self.reactors {
            let state = &reactor.state;
            stats.reactors.push(ReactorStats {
                connections: state.connections.load(Ordering::SeqCst),
                accepted: state.accepted.load(Ordering::Relaxed),
                calls: state.calls.load(Ordering::Relaxed),
                busy: state.load.busy(),
                rests: state.load.rests(),
            });
            stats.connections.extend(state.live.lock().values().map(|shared| shared.stats()));
        }
        stats.connections.sort_by_key(|connection| connection.id);
        stats
    }

    /// How busy each reactor was since the start, by index.
    pub fn load(&self) -> Vec<ReactorLoad> {
        self.reactors.iter().map(|reactor| reactor.state.load.read(Instant::now())).collect()
    }

    /// The calls that are not yet answered. Each connection that has some is asked; `patience` bounds the wait for all
    /// answers together. Calls that are answered by their handler on the reactor are never seen: it tells after them.
    ///
    /// Called on a reactor, it hears nothing of that reactor's connections.
    pub fn calls_in_flight(&self, patience: Duration) -> CallsInFlight {
        let live = self.reactors.iter().map(|reactor| reactor.state.live.lock().values().cloned().collect());
        in_flight::ask(live.flat_map(|shared: Vec<Arc<Shared>>| shared), patience)
    }

    /// Stops: nothing more is read; calls in progress may still be answered and peers read their answers, for
    /// [`ServerOptions::drain_timeout`]. Blocks until all threads are gone (not when called on one of them, which would
    /// wait for itself). Later calls return at once.
    pub fn shutdown(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        for reactor in &self.reactors {
            for shared in reactor.state.live.lock().values() {
                shared.stop();
            }
            reactor.state.stopping.store(true, Ordering::SeqCst);
            reactor.state.inbox.wake();
        }
        for reactor in &self.reactors {
            let thread = reactor.thread.lock().take();
            if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id())
            {
                // A panic there was already reported by the panic hook.
                let _ = thread.join();
            }
        }
    }
}

impl Drop for ReactorPool {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl Reactor {
    fn start(name: String, busy_poll: Duration, timers: Arc<Timers>) -> io::Result<Self> {
        let state = Arc::new(ReactorState::new(timers));
        let event_loop = EventLoop::new(state.clone(), busy_poll)?;
        let thread = std::thread::Builder::new().name(name).spawn(move || event_loop.run())?;
        Ok(Self { state, thread: Mutex::new(Some(thread)) })
    }
}

impl ReactorState {
    fn new(timers: Arc<Timers>) -> Self {
        Self {
            inbox: Arc::new(Inbox::new()),
            connections: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            live: Mutex::default(),
            load: LoadMeter::new(Instant::now()),
            timers,
            stopping: AtomicBool::new(false),
        }
    }

    /// Stopped, and without connections: each ends itself by its drain timeout.
    fn is_done(&self) -> bool {
        self.stopping.load(Ordering::SeqCst) && self.connections.load(Ordering::SeqCst) == 0
    }

    /// Only for the reactor's own thread.
    pub(crate) fn count_call(&self) {
        self.calls.store(self.calls().wrapping_add(1), Ordering::Relaxed);
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn forget(&self, id: u64) {
        self.live.lock().remove(&id);
        self.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

fn address(native: &socket2::SockAddr) -> io::Result<SockAddr> {
    SockAddr::try_from(native).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}
