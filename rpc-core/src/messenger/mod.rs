//! Outbound connections: one for each [`ConnectionId`] and runtime, made when first needed, shared by all callers.

pub(crate) mod connect;
pub(crate) mod connection;
mod link;
mod registered;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use net_addr::SockAddr;
use parking_lot::Mutex;
use tokio::runtime;

use crate::machine::ClientOptions;
use connection::Connection;
pub(crate) use link::{Failure, Link, Outcome, Ticket};

/// What connections are shared by: calls with the same id go over the same connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ConnectionId {
    /// Where to connect.
    pub remote: SockAddr,
    /// The server's host name as the user gave it.
    pub host: String,
    /// Who we say we are.
    pub user: String,
    /// Heavy traffic can have a connection of its own by naming another plane; usually empty.
    pub plane: String,
}

/// Makes and keeps outbound connections. Cheap to clone; clones share their connections.
///
/// A connection is a task of the tokio runtime (with IO and time enabled) on which its first call was made, and serves
/// the calls made on that runtime: no thread hop. Each runtime has its own. When a runtime is dropped, the calls on its
/// connections fail.
#[derive(Debug, Clone)]
pub struct Messenger {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    user: String,
    options: ClientOptions,
    links: Mutex<HashMap<(ConnectionId, runtime::Id), Arc<Link>>>,
    shut_down: AtomicBool,
}

/// One outbound connection, open or being made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OutboundStats {
    /// Whom it connects.
    pub id: ConnectionId,
    /// Calls whose callers wait, or have not yet seen that they need not.
    pub calls_in_flight: usize,
}

/// Sets what differs from the defaults of a [`Messenger`].
#[derive(Debug, Clone)]
#[must_use]
pub struct MessengerBuilder {
    user: Option<String>,
    options: ClientOptions,
}

impl MessengerBuilder {
    /// Who we say we are; the user of this process ([`net_addr::process_user`]) when not said.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// From the start of connecting to the end of negotiation; 3 s.
    pub fn negotiation_timeout(mut self, timeout: Duration) -> Self {
        self.options.negotiation_timeout = timeout;
        self
    }

    /// Bound on an incoming frame in bytes, length prefix included; 50 MiB.
    pub fn max_message_size(mut self, bytes: u32) -> Self {
        self.options.max_message_size = bytes;
        self
    }

    /// Whether to tell servers on unix sockets that descriptors are taken, so that they may share memory; true.
    pub fn descriptors(mut self, taken: bool) -> Self {
        self.options.descriptors = taken;
        self
    }

    /// The messenger; no connection is made yet.
    pub fn build(self) -> Messenger {
        let user = self.user.filter(|user| !user.trim().is_empty());
        Messenger {
            inner: Arc::new(Inner {
                user: user.unwrap_or_else(net_addr::process_user),
                options: self.options,
                links: Mutex::new(HashMap::new()),
                shut_down: AtomicBool::new(false),
            }),
        }
    }
}

impl Messenger {
    /// Starts with the defaults.
    pub fn builder() -> MessengerBuilder {
        let options = ClientOptions { descriptors: true, ..ClientOptions::default() };
        MessengerBuilder { user: None, options }
    }

    /// Who we say we are.
    pub fn user(&self) -> &str {
        &self.inner.user
    }

    /// How many connections are open or being made.
    pub fn connections(&self) -> usize {
        self.inner.links.lock().len()
    }

    /// What goes on on each connection, in no order.
    pub fn stats(&self) -> Vec<OutboundStats> {
        let links = self.inner.links.lock();
        let stats = |((id, _), link): (&(ConnectionId, _), &Arc<Link>)| OutboundStats {
            id: id.clone(),
            calls_in_flight: link.calls_in_flight(),
        };
        links.iter().map(stats).collect()
    }

    /// Closes all connections, and makes no new ones. Calls in flight fail with [`CallError::ShutDown`].
    ///
    /// [`CallError::ShutDown`]: crate::CallError::ShutDown
    pub fn shutdown(&self) {
        self.inner.shut_down.store(true, Ordering::SeqCst);
        self.inner.close_all();
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.inner.shut_down.load(Ordering::SeqCst)
    }

    /// The connection of that id on this runtime, if there is one.
    pub(crate) fn existing_link(&self, id: &ConnectionId, runtime: &runtime::Handle) -> Option<Arc<Link>> {
        let key = (id.clone(), runtime.id());
        self.inner.links.lock().get(&key).filter(|link| !link.is_closed()).cloned()
    }

    /// The connection of that id on this runtime; made, if there is none.
    pub(crate) fn link(&self, id: &ConnectionId, runtime: &runtime::Handle) -> Arc<Link> {
        let mut links = self.inner.links.lock();
        let key = (id.clone(), runtime.id());
        if let Some(link) = links.get(&key).filter(|link| !link.is_closed()) {
            return link.clone();
        }
        let link = Arc::new(Link::new(runtime.id()));
        links.insert(key, link.clone());
        drop(links);
        // Outside the lock: a runtime that is shutting down drops the task here, which takes the link out again.
        let task =
            Connection::new(id.clone(), link.clone(), &self.inner.options, Arc::downgrade(&self.inner));
        runtime.spawn(task);
        link
    }
}

impl Inner {
    pub(crate) fn is_shut_down(&self) -> bool {
        self.shut_down.load(Ordering::SeqCst)
    }

    pub(crate) fn forget(&self, id: &ConnectionId, link: &Arc<Link>) {
        let mut links = self.links.lock();
        let key = (id.clone(), link.runtime());
        if links.get(&key).is_some_and(|known| Arc::ptr_eq(known, link)) {
            links.remove(&key);
        }
    }

    fn close_all(&self) {
        for link in self.links.lock().values() {
            link.close();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close_all();
    }
}
