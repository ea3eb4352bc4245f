//! Calls by method: encode, send, wait, decode.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use net_addr::SockAddr;
use parking_lot::Mutex;
use prost::Message;
use tokio::runtime;
use tokio::sync::oneshot;

use proto::Method;

use crate::call::{CallError, RequestId, ResponseDefect};
use crate::machine::OutboundCall;
use crate::messenger::{Command, ConnectionId, Failure, Link, Messenger, Reply};

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

/// A call that is not yet sent.
#[derive(Debug)]
#[must_use = "a call does nothing until it is sent"]
pub struct CallBuilder<M> {
    proxy: Proxy,
    call: OutboundCall,
    started: Instant,
    method: PhantomData<fn() -> M>,
}

/// What a server answered.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Response<T> {
    /// The message. Its `bytes` fields share the receive buffer.
    pub message: T,
    /// Raw blocks which the message refers to by index. Those of big answers (64 KiB and more) each have a buffer of
    /// their own that starts on a 64-byte boundary.
    pub sidecars: Vec<Bytes>,
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
        CallBuilder {
            proxy: self.clone(),
            call: OutboundCall {
                service: M::SERVICE,
                method: M::NAME,
                required_features: Vec::new(),
                request_id: None,
                body: Bytes::from(request.encode_to_vec()),
                sidecars: Vec::new(),
                deadline: None,
            },
            started: Instant::now(),
            method: PhantomData,
        }
    }

    fn link(&self, runtime: &runtime::Handle) -> Arc<Link> {
        let mut cached = self.inner.link.lock();
        if let Some(link) = cached.as_ref().filter(|link| link.runtime() == runtime.id() && !link.is_closed())
        {
            return link.clone();
        }
        let link = self.inner.messenger.link(&self.inner.id, runtime);
        *cached = Some(link.clone());
        link
    }
}

impl<M: Method> CallBuilder<M> {
    /// Fails the call if it is not answered within `timeout` from now.
    pub fn timeout(self, timeout: Duration) -> Self {
        let deadline = self.started.checked_add(timeout);
        Self { call: OutboundCall { deadline, ..self.call }, ..self }
    }

    /// Fails the call if it is not answered by `deadline`.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.call.deadline = Some(deadline);
        self
    }

    /// The service must know this application feature.
    pub fn feature(mut self, feature: u32) -> Self {
        self.call.required_features.push(feature);
        self
    }

    /// The call is to run exactly once, whatever the number of attempts.
    pub fn request_id(mut self, id: RequestId) -> Self {
        self.call.request_id = Some(id);
        self
    }

    /// Raw blocks to go behind the body, at most 10,000.
    pub fn sidecars(mut self, sidecars: Vec<Bytes>) -> Self {
        self.call.sidecars = sidecars;
        self
    }

    /// Sends the call and waits for the answer. Must be called on a tokio runtime with IO and time enabled.
    ///
    /// *Cancel safety*: dropping the future frees the request at once and drops a late answer; nothing is sent to the
    /// server, which may still run the call.
    ///
    /// A call that finds its connection closed by the server, before a byte of it was sent, goes on a new connection.
    ///
    /// # Errors
    /// [`CallError`]; see [`CallError::is_retriable`] there.
    pub async fn send(self) -> Result<Response<M::Response>, CallError> {
        let peer = self.proxy.remote().clone();
        let deadline = self.call.deadline;
        let started = self.started;
        let method = M::NAME;
        let (body, sidecars) = match self.proxy.exchange(self.call).await {
            Ok(reply) => reply,
            Err(failure) => {
                return Err(match failure {
                    Failure::Remote(error) => CallError::Remote { peer, method, error: Box::new(error) },
                    Failure::ErrorStatus(error) => {
                        CallError::BadResponse { peer, method, source: ResponseDefect::ErrorStatus(error) }
                    }
                    Failure::TimedOut(stage) => {
                        let timeout = deadline.map(|at| at.saturating_duration_since(started));
                        CallError::TimedOut { peer, method, timeout: timeout.unwrap_or_default(), stage }
                    }
                    Failure::TooLarge { size, sidecars } => CallError::TooLarge { method, size, sidecars },
                    Failure::NotSupported => CallError::NotSupported { peer, method },
                    Failure::Negotiation(source) => CallError::Negotiation { peer, method, source },
                    Failure::Network { source, sent } => CallError::Network { peer, method, sent, source },
                    Failure::Unsent { source, .. } => {
                        CallError::Network { peer, method, sent: false, source }
                    }
                    Failure::ShutDown => CallError::ShutDown { method },
                });
            }
        };
        let defect = |source: ResponseDefect| CallError::BadResponse { peer, method, source };
        if let Err(missing) = proto::required::check(M::RESPONSE, &body) {
            return Err(defect(missing.into()));
        }
        let message = M::Response::decode(body).map_err(|error| defect(error.into()))?;
        Ok(Response { message, sidecars })
    }
}

impl Proxy {
    async fn exchange(&self, mut call: OutboundCall) -> Result<Reply, Failure> {
        let runtime = runtime::Handle::try_current().map_err(|error| Failure::Network {
            source: Arc::new(io::Error::new(io::ErrorKind::Unsupported, error)),
            sent: false,
        })?;
        let mut attempts = 0;
        loop {
            if self.inner.messenger.is_shut_down() {
                return Err(Failure::ShutDown);
            }
            attempts += 1;
            let link = self.link(&runtime);
            let (tag, reply) = oneshot::channel();
            let key = link.next_key();
            if let Err(back) = link.post(Command::Call { key, call, tag }) {
                // The connection ended between the look and the post.
                let Command::Call { call: back, .. } = back else { return Err(Failure::ShutDown) };
                if attempts >= ATTEMPTS {
                    let gone = "this runtime is shutting down";
                    let source = Arc::new(io::Error::new(io::ErrorKind::ConnectionAborted, gone));
                    return Err(Failure::Network { source, sent: false });
                }
                call = back;
                continue;
            }
            let mut cancel = CancelOnDrop { link: Some(link), key };
            let outcome = reply.await;
            cancel.link = None;
            match outcome {
                Ok(Err(Failure::Unsent { call: back, .. })) if attempts < ATTEMPTS => call = back,
                Ok(outcome) => return outcome,
                // The connection's task answers every call, even when it is dropped; this is for the compiler.
                Err(_) => {
                    let source = Arc::new(io::Error::from(io::ErrorKind::ConnectionAborted));
                    return Err(Failure::Network { source, sent: true });
                }
            }
        }
    }
}

/// Forgets the call when its caller does.
struct CancelOnDrop {
    link: Option<Arc<Link>>,
    key: u64,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            link.cancel(self.key);
        }
    }
}

/// Connections tried for a call of which nothing was sent; only a server that closes each at once uses them up.
const ATTEMPTS: u32 = 4;
