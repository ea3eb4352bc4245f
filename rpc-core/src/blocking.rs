//! Calls from threads that wait: the thread that calls writes its request and reads its answer itself, two system calls
//! in all, with no other thread and no runtime in between.
//!
//! ```
//! # use std::sync::Arc;
//! use proto::kudu::master::{PingRequestPb, master_service::Ping};
//! use rpc_core::{InboundCall, InboundHandler, ReactorPool, blocking};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//!
//! let pool = ReactorPool::start("reactor", 1)?;
//! let handler: Arc<dyn InboundHandler> = Arc::new(|call: InboundCall| {
//!     let (request, responder) = call.split();
//!     responder.respond(request.body, Vec::new());
//! });
//! let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
//! let proxy = blocking::Proxy::new(listener.local_addr()?.into(), "alice");
//! let call = std::thread::spawn(move || proxy.call::<Ping>(&PingRequestPb {}).send());
//! pool.adopt(listener.accept()?.0.into(), handler, Arc::default())?;
//! call.join().expect("it does not panic")?;
//! # Ok(()) }
//! ```

mod connection;
mod patience;

use std::sync::Arc;
use std::time::{Duration, Instant};

use net_addr::SockAddr;
use parking_lot::Mutex;
use proto::Method;

use crate::call::{CallError, CallStage};
use crate::machine::{ClientOptions, OutboundCall};
use crate::messenger::{Failure, Outcome};
use crate::proxy::{ATTEMPTS, CallBuilder, Response, response};
use connection::Connection;

/// One server, as seen by threads that wait for its answers, over a connection of their own. Cheap to clone.
///
/// Calls of clones take turns: one is in flight at a time. Threads that do not want to wait for each other make a proxy each, or
/// share an async [`Proxy`](crate::Proxy). Must not be used in async tasks, which it would hold up.
#[derive(Debug, Clone)]
pub struct Proxy {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    remote: SockAddr,
    user: String,
    options: ClientOptions,
    busy_poll: Duration,
    connection: Mutex<Option<Connection>>,
}

impl Proxy {
    /// Calls the server at `remote` as `user`. No connection is made until the first call.
    pub fn new(remote: SockAddr, user: impl Into<String>) -> Self {
        Self::with_options(remote, user, ClientOptions::default(), Duration::ZERO)
    }

    /// As [`new`](Self::new), with these bounds. For up to `busy_poll` (zero = not at all; 50 us is much) an answer is
    /// waited for by asking the socket again and again, a yield in between, before the thread is put to sleep: faster
    /// where CPUs are idle, if answers come that fast. It is given up as long as they do not.
    pub fn with_options(
        remote: SockAddr,
        user: impl Into<String>,
        options: ClientOptions,
        busy_poll: Duration,
    ) -> Self {
        let connection = Mutex::new(None);
        Self { inner: Arc::new(Inner { remote, user: user.into(), options, busy_poll, connection }) }
    }

    /// Where the calls go.
    pub fn remote(&self) -> &SockAddr {
        &self.inner.remote
    }

    /// Begins a call; it has no deadline unless one is set, which waits for ever on a server that does not answer.
    pub fn call<M: Method>(&self, request: &M::Request) -> CallBuilder<M, Self> {
        CallBuilder::new(self.clone(), request)
    }

    fn exchange(&self, mut call: OutboundCall, timeout: Option<Duration>) -> Outcome {
        let mut now = Instant::now();
        if call.deadline.is_none() {
            call.deadline = timeout.and_then(|timeout| now.checked_add(timeout));
        }
        let deadline = call.deadline;
        let mut place = match self.inner.connection.try_lock() {
            Some(place) => place,
            None => {
                let place = match deadline {
                    Some(deadline) => self.inner.connection.try_lock_until(deadline),
                    None => Some(self.inner.connection.lock()),
                };
                now = Instant::now();
                place.ok_or(Failure::TimedOut(CallStage::Queued))?
            }
        };
        let mut attempts = 1..ATTEMPTS;
        loop {
            if place.as_mut().is_some_and(|connection| !connection.is_open(now)) {
                *place = None;
            }
            if place.is_none() {
                let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
                let Inner { remote, user, options, busy_poll, .. } = &*self.inner;
                let made = Connection::open(remote, user, options, *busy_poll, left);
                now = Instant::now();
                *place = Some(made.map_err(|source| match deadline {
                    Some(deadline) if deadline <= now => Failure::TimedOut(CallStage::Connecting),
                    _ => Failure::Network { source: Arc::new(source), sent: false },
                })?);
            }
            let Some(connection) = place.as_mut() else { continue };
            let end = match connection.exchange(call, now) {
                Ok(outcome) => return outcome,
                Err(end) => end,
            };
            let failure = place.take().map_or(Failure::ShutDown, |connection| connection.failure(&end));
            match failure {
                Failure::Unsent { call: back, .. } if attempts.next().is_some() => call = *back,
                failure => return Err(failure),
            }
            now = Instant::now();
        }
    }
}

impl<M: Method> CallBuilder<M, Proxy> {
    /// Sends the call and waits for the answer on this thread.
    ///
    /// A call that finds its connection closed by the server, before a byte of it was sent, goes on a new connection.
    ///
    /// # Errors
    /// [`CallError`]; see [`CallError::is_retriable`] there.
    pub fn send(self) -> Result<Response<M::Response>, CallError> {
        let Self { proxy, call, timeout, .. } = self;
        let outcome = proxy.exchange(call, timeout);
        response::<M>(outcome, proxy.remote(), timeout)
    }
}
