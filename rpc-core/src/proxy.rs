//! Calls by method: encode, send, wait, decode.

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use net_addr::SockAddr;
use parking_lot::Mutex;
use tokio::runtime;

use proto::Method;

use crate::call::{CallError, Descriptors, Extras, RequestId, ResponseDefect};
use crate::machine::{Body, OutboundCall};
use crate::messenger::{ConnectionId, Failure, Link, Messenger, Outcome, Ticket};

/// One server, as seen by its callers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Proxy {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    messenger: Messenger,
    id: ConnectionId,
    /// The connection used last.
    link: Mutex<Option<Arc<Link>>>,
}

/// A call that is not yet sent, by [`Proxy`] or by [`blocking::Proxy`](crate::blocking::Proxy).
#[derive(Debug)]
#[must_use = "a call does nothing until it is sent"]
pub struct CallBuilder<M, P = Proxy> {
    pub(crate) proxy: P,
    pub(crate) call: OutboundCall,
    /// Counts from the sending; of a call with a deadline, what was left of it when it was set.
    pub(crate) timeout: Option<Duration>,
    method: PhantomData<fn() -> M>,
}

/// What a server answered.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Response<T> {
    /// The message. Its `bytes` fields share the receive buffer.
    pub message: T,
    /// Raw blocks which the message refers to by index. Those of big answers (64 KiB and more) each have a buffer of
    /// their own that starts on a 64-byte boundary.
    pub sidecars: Vec<Bytes>,
    /// What the connection that brought the answer has received, if any descriptor ever came over it.
    pub descriptors: Option<Arc<Descriptors>>,
}

impl Proxy {
    /// Calls the server at `remote`, whose host name is `host` (as the user gave it), over a connection of `messenger`
    /// that is shared with all who ask for the same.
    pub fn new(messenger: &Messenger, remote: SockAddr, host: &str) -> Self {
        Self::with_plane(messenger, remote, host, "")
    }

    /// As [`new`](Self::new), over a connection that only calls of the same plane share.
    pub fn with_plane(messenger: &Messenger, remote: SockAddr, host: &str, plane: &str) -> Self {
        let (host, plane, user) = (host.to_owned(), plane.to_owned(), messenger.user().to_owned());
        let id = ConnectionId { remote, host, user, plane };
        Self { inner: Arc::new(Inner { messenger: messenger.clone(), id, link: Mutex::new(None) }) }
    }

    /// Where the calls go.
    pub fn remote(&self) -> &SockAddr {
        &self.inner.id.remote
    }

    /// What the connection is shared by.
    pub fn connection_id(&self) -> &ConnectionId {
        &self.inner.id
    }

    /// Begins a call; it has no deadline unless one is set, which waits for ever on a server that does not answer.
    pub fn call<M: Method>(&self, request: &M::Request) -> CallBuilder<M> {
        CallBuilder::new(self.clone(), request)
    }

    /// Where descriptors go that the server attaches to its answers. `None` if it attaches none, or while the connection is
    /// not made yet.
    pub fn descriptors(&self) -> Option<Arc<Descriptors>> {
        let runtime = runtime::Handle::try_current().ok()?;
        self.inner.messenger.existing_link(&self.inner.id, &runtime)?.taken().cloned()
    }

    fn link(&self, runtime: &runtime::Handle) -> Arc<Link> {
        let mut cached = self.inner.link.lock();
        if let Some(link) = cached.as_ref().filter(|link| link.runtime() == runtime.id()) {
            return link.clone();
        }
        let link = self.inner.messenger.link(&self.inner.id, runtime);
        *cached = Some(link.clone());
        link
    }

    /// The connection has ended: the next call makes a new one.
    fn forget(&self, link: &Arc<Link>) {
        let mut cached = self.inner.link.lock();
        if cached.as_ref().is_some_and(|known| Arc::ptr_eq(known, link)) {
            *cached = None;
        }
    }
}

impl<M: Method, P> CallBuilder<M, P> {
    pub(crate) fn new(proxy: P, request: &M::Request) -> Self {
        let body = Body::encode(request);
        let call = OutboundCall { service: M::SERVICE, method: M::NAME, body, extras: None, deadline: None };
        Self { proxy, call, timeout: None, method: PhantomData }
    }

    /// Fails the call if it is not answered within `timeout` from when it is sent.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self.call.deadline = None;
        self
    }

    /// Fails the call if it is not answered by `deadline`.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.timeout = Some(deadline.saturating_duration_since(Instant::now()));
        self.call.deadline = Some(deadline);
        self
    }

    /// The service must know this application feature.
    pub fn feature(mut self, feature: u32) -> Self {
        self.extras().required_features.push(feature);
        self
    }

    /// The call is to run exactly once, whatever the number of attempts.
    pub fn request_id(mut self, id: RequestId) -> Self {
        self.extras().request_id = Some(id);
        self
    }

    /// Raw blocks to go behind the body, at most 10,000.
    pub fn sidecars(mut self, sidecars: Vec<Bytes>) -> Self {
        self.extras().sidecars = sidecars;
        self
    }

    fn extras(&mut self) -> &mut Extras {
        self.call.extras.get_or_insert_default()
    }
}

impl<M: Method> CallBuilder<M> {
    /// Sends the call, and waits for the answer. Must be awaited on a tokio runtime with IO and time enabled.
    ///
    /// *Cancel safety*: dropping the future frees the request at once and drops a late answer; nothing is sent to the
    /// server, which may still run the call.
    ///
    /// A call that finds its connection closed by the server, before a byte of it was sent, goes on a new connection.
    ///
    /// # Errors
    /// [`CallError`]; see [`CallError::is_retriable`] there.
    pub fn send(self) -> Sending<M> {
        let Self { proxy, call, timeout, method } = self;
        let call = Some(call);
        Sending { proxy, call, timeout, link: None, ticket: None, attempts: 0, last: None, method }
    }
}

/// A call under way; see [`CallBuilder::send`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Sending<M> {
    proxy: Proxy,
    /// Until a connection has it.
    call: Option<OutboundCall>,
    timeout: Option<Duration>,
    /// The connection that was given the call.
    link: Option<Arc<Link>>,
    /// While the connection has it.
    ticket: Option<Ticket>,
    attempts: u32,
    /// Why the last connection that had the call ended.
    last: Option<Arc<io::Error>>,
    method: PhantomData<fn() -> M>,
}

/// What the caller gets for what the connection got.
pub(crate) fn response<M: Method>(
    outcome: Outcome,
    peer: &SockAddr,
    timeout: Option<Duration>,
) -> Result<Response<M::Response>, CallError> {
    let method = M::NAME;
    let (body, sidecars) = outcome.map_err(|failure| failed(failure, peer.clone(), method, timeout))?;
    let defect = |source| CallError::BadResponse { peer: peer.clone(), method, source };
    if let Err(missing) = proto::required::check(M::RESPONSE, &body) {
        return Err(defect(missing.into()));
    }
    let message = body.decode::<M::Response>().map_err(|error| defect(error.into()))?;
    Ok(Response { message, sidecars, descriptors: None })
}

fn failed(failure: Failure, peer: SockAddr, method: &'static str, timeout: Option<Duration>) -> CallError {
    match failure {
        Failure::Remote(error) => CallError::Remote { peer, method, error },
        Failure::ErrorStatus(error) => {
            CallError::BadResponse { peer, method, source: ResponseDefect::ErrorStatus(error) }
        }
        Failure::TimedOut(stage) => {
            CallError::TimedOut { peer, method, timeout: timeout.unwrap_or_default(), stage }
        }
        Failure::TooLarge { size, sidecars } => CallError::TooLarge { method, size, sidecars },
        Failure::NotSupported => CallError::NotSupported { peer, method },
        Failure::Negotiation(source) => CallError::Negotiation { peer, method, source: *source },
        Failure::Network { source, sent } => CallError::Network { peer, method, sent, source },
        Failure::Unsent { source, .. } => CallError::Network { peer, method, sent: false, source },
        Failure::ShutDown => CallError::ShutDown { method },
    }
}

impl<M> Sending<M> {
    fn poll_outcome(&mut self, cx: &Context<'_>) -> Poll<Outcome> {
        loop {
            if let (Some(link), Some(ticket)) = (&self.link, self.ticket) {
                let outcome = std::task::ready!(link.poll(ticket, cx));
                self.ticket = None;
                match outcome {
                    Err(Failure::Unsent { call, source }) => {
                        self.call = Some(*call);
                        self.last = Some(source);
                    }
                    outcome => return Poll::Ready(outcome),
                }
            }
            if let Err(failure) = self.begin(cx) {
                return Poll::Ready(Err(failure));
            }
            if self.ticket.is_some() {
                return Poll::Pending;
            }
        }
    }

    /// Hands the call to a connection, if the one that is known takes it.
    fn begin(&mut self, cx: &Context<'_>) -> Result<(), Failure> {
        let Self { proxy, call, .. } = self;
        let network = |source| Failure::Network { source, sent: false };
        let runtime = runtime::Handle::try_current()
            .map_err(|error| network(Arc::new(io::Error::new(io::ErrorKind::Unsupported, error))))?;
        if proxy.inner.messenger.is_shut_down() {
            return Err(Failure::ShutDown);
        }
        if self.attempts >= ATTEMPTS {
            let gone = "this runtime is shutting down";
            let gone = || Arc::new(io::Error::new(io::ErrorKind::ConnectionAborted, gone));
            return Err(network(self.last.take().unwrap_or_else(gone)));
        }
        self.attempts = self.attempts.saturating_add(1);
        let has_deadline = call.as_ref().is_some_and(|call| call.deadline.is_some());
        let timeout = self.timeout.filter(|_| !has_deadline);
        let link = proxy.link(&runtime);
        self.ticket = link.begin(call, timeout, cx.waker());
        if self.ticket.is_none() {
            // The connection ended between the look and the post.
            proxy.forget(&link);
        }
        self.link = Some(link);
        Ok(())
    }
}

impl<M: Method> Future for Sending<M> {
    type Output = Result<Response<M::Response>, CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let outcome = std::task::ready!(this.poll_outcome(cx));
        let response = response::<M>(outcome, this.proxy.remote(), this.timeout).map(|response| {
            let descriptors = this.link.as_ref().and_then(|link| link.received().cloned());
            Response { descriptors, ..response }
        });
        Poll::Ready(response)
    }
}

impl<M> Drop for Sending<M> {
    fn drop(&mut self) {
        if let (Some(link), Some(ticket)) = (&self.link, self.ticket.take()) {
            link.cancel(ticket);
        }
    }
}

/// Connections tried for a call of which nothing was sent; only a server that closes each at once uses them up.
pub(crate) const ATTEMPTS: u32 = 4;
