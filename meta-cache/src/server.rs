//! Tablet servers and the endpoint to reach each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use net_addr::{HostPort, SockAddr};
use parking_lot::Mutex;

use crate::stats::Stats;
use crate::ttl::Expiry;

/// What an answer of the master says about one tablet server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAnswer {
    /// The server's permanent id.
    pub uuid: String,
    /// Its RPC addresses in the master's order; the first one is used.
    pub addresses: Vec<HostPort>,
    /// The unix socket it advertises, in printed form (`@kudu-...` or a path).
    pub unix_path: Option<String>,
    /// Where it stands (`/rack1`), empty when the cluster assigns no locations.
    pub location: String,
}

impl ServerAnswer {
    /// A server of this id, without any address yet.
    pub fn new(uuid: impl Into<String>) -> ServerAnswer {
        ServerAnswer { uuid: uuid.into(), addresses: Vec::new(), unix_path: None, location: String::new() }
    }

    /// Adds an RPC address.
    #[must_use]
    pub fn address(mut self, host: impl Into<String>, port: u16) -> ServerAnswer {
        self.addresses.push(HostPort { host: host.into(), port });
        self
    }

    /// Sets the advertised unix socket.
    #[must_use]
    pub fn unix_path(mut self, path: impl Into<String>) -> ServerAnswer {
        self.unix_path = Some(path.into());
        self
    }

    /// Sets the location.
    #[must_use]
    pub fn location(mut self, location: impl Into<String>) -> ServerAnswer {
        self.location = location.into();
        self
    }
}

/// How to reach a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A unix socket of this machine; `host` is what the server is called (for messages and authentication).
    Unix {
        /// The socket's address.
        path: SockAddr,
        /// The server's first RPC address.
        host: HostPort,
    },
    /// TCP to a name that may still have to be resolved.
    Tcp(HostPort),
}

impl Endpoint {
    /// Whether it is a unix socket.
    pub fn is_unix(&self) -> bool {
        matches!(self, Endpoint::Unix { .. })
    }

    /// The server's host and port, whichever way it is reached.
    pub fn host_port(&self) -> &HostPort {
        match self {
            Endpoint::Unix { host, .. } | Endpoint::Tcp(host) => host,
        }
    }
}

/// One tablet server, shared by all tablets that have a replica on it.
#[derive(Debug)]
pub struct Server {
    uuid: String,
    contact: ArcSwap<Contact>,
    failures: AtomicU64,
    unix_unreachable: Mutex<Option<Expiry>>,
}

impl Server {
    pub(crate) fn new(uuid: &str, contact: Contact) -> Server {
        Server {
            uuid: uuid.to_owned(),
            contact: ArcSwap::from_pointee(contact),
            failures: AtomicU64::new(0),
            unix_unreachable: Mutex::new(None),
        }
    }

    /// The server's permanent id.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// The first RPC address: what messages should name.
    pub fn host_port(&self) -> HostPort {
        self.contact.load().first.clone()
    }

    /// Whether the server runs on this machine.
    pub fn is_local(&self) -> bool {
        self.contact.load().local
    }

    /// Where the server stands, empty when unknown.
    pub fn location(&self) -> String {
        self.contact.load().location.clone()
    }

    /// Takes in a newer contact. A server that moved has not failed at its new place.
    pub(crate) fn update(&self, contact: Contact) {
        if **self.contact.load() != contact {
            *self.unix_unreachable.lock() = None;
            self.contact.store(Arc::new(contact));
        }
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Acquire)
    }

    pub(crate) fn mark_failed(&self) {
        self.failures.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn mark_unix_unreachable(&self, now: Instant, retry_after: Duration) {
        *self.unix_unreachable.lock() = Some(Expiry::after(now, retry_after));
    }

    pub(crate) fn endpoint(&self, unix_enabled: bool, now: Instant) -> Endpoint {
        let contact = self.contact.load();
        let host = contact.first.clone();
        match &contact.unix {
            Some(path) if unix_enabled && contact.local && !self.unix_is_unreachable(now) => {
                Endpoint::Unix { path: path.clone(), host }
            }
            _ => Endpoint::Tcp(host),
        }
    }

    fn unix_is_unreachable(&self, now: Instant) -> bool {
        let mut mark = self.unix_unreachable.lock();
        if mark.is_some_and(|until| until.is_over(now)) {
            *mark = None;
        }
        mark.is_some()
    }
}

/// What is known of a server's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contact {
    first: HostPort,
    unix: Option<SockAddr>,
    local: bool,
    location: String,
}

impl Contact {
    /// `None` for a server without any address: nobody could talk to it.
    pub(crate) fn from_answer(
        answer: &ServerAnswer,
        is_local: &dyn Fn(&str) -> bool,
        stats: &Stats,
    ) -> Option<Contact> {
        // Only the first address says where the server is: a later 127.0.0.1 would look local from every machine.
        let first = answer.addresses.first()?.clone();
        let unix = answer.unix_path.as_deref().and_then(|path| {
            let parsed = path.parse::<SockAddr>().ok().filter(SockAddr::is_unix);
            if parsed.is_none() {
                stats.unix_unparsable.add(1);
            }
            parsed
        });
        let local = is_local(&first.host);
        Some(Contact { first, unix, local, location: answer.location.clone() })
    }
}
