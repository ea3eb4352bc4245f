//! The tablet servers that have told of themselves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proto::kudu::ServerRegistrationPb;
use thiserror::Error;

/// A tablet server.
#[derive(Debug, Clone)]
pub(crate) struct TabletServer {
    /// Its id for life.
    pub(crate) uuid: String,
    /// Grows with each start of the server.
    pub(crate) seqno: i64,
    /// Its addresses and version.
    pub(crate) registration: ServerRegistrationPb,
    /// When it last called.
    pub(crate) heard: Instant,
    /// Another server has registered at its address: it cannot listen there any more, unless it calls again.
    pub(crate) replaced: bool,
    /// It is to send a full report, since the last one was for another start.
    pub(crate) wants_full_report: bool,
}

/// All tablet servers, by id.
#[derive(Debug)]
pub(crate) struct Servers {
    known: BTreeMap<String, TabletServer>,
    silence: Duration,
}

/// Why a registration is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum RegisterError {
    /// A later start of the same server has registered already.
    #[error(
        "Cannot register with sequence number {given}: Already have a registration from sequence number {known}"
    )]
    #[non_exhaustive]
    Outdated {
        /// Of this registration.
        given: i64,
        /// Of the one that is known.
        known: i64,
    },
    /// Nobody could connect to it.
    #[error("invalid registration: must have at least one RPC address")]
    NoAddress,
}

impl Servers {
    /// None yet. A server counts as dead when it was silent for `silence`.
    pub(crate) fn new(silence: Duration) -> Self {
        Self { known: BTreeMap::new(), silence }
    }

    /// Notes who and where a server is. One that moved is found at its new address from now on. Another server that was
    /// at this address counts as dead until it calls again: it cannot listen there any more.
    pub(crate) fn register(
        &mut self,
        uuid: &str,
        seqno: i64,
        registration: ServerRegistrationPb,
        now: Instant,
    ) -> Result<(), RegisterError> {
        if registration.rpc_addresses.is_empty() {
            return Err(RegisterError::NoAddress);
        }
        if let Some(server) = self.known.get(uuid)
            && server.seqno > seqno
        {
            return Err(RegisterError::Outdated { given: seqno, known: server.seqno });
        }
        for other in self.known.values_mut() {
            if other.uuid != uuid && other.registration.rpc_addresses == registration.rpc_addresses {
                other.replaced = true;
            }
        }
        let uuid = uuid.to_owned();
        let server =
            TabletServer { uuid, seqno, registration, heard: now, replaced: false, wants_full_report: true };
        self.known.insert(server.uuid.clone(), server);
        Ok(())
    }

    /// The server that calls, if it is known with exactly this start; notes that it lives.
    pub(crate) fn heartbeat(&mut self, uuid: &str, seqno: i64, now: Instant) -> Option<&mut TabletServer> {
        let server = self.known.get_mut(uuid).filter(|server| server.seqno == seqno)?;
        (server.heard, server.replaced) = (now, false);
        Some(server)
    }

    /// One server.
    pub(crate) fn get(&self, uuid: &str) -> Option<&TabletServer> {
        self.known.get(uuid)
    }

    /// All of them, dead or alive, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &TabletServer> {
        self.known.values()
    }

    /// Those that are alive.
    pub(crate) fn live(&self, now: Instant) -> impl Iterator<Item = &TabletServer> {
        self.known.values().filter(move |server| self.silence_of(server, now) < self.silence)
    }

    /// Whether this server is known and alive.
    pub(crate) fn is_live(&self, uuid: &str, now: Instant) -> bool {
        self.known.get(uuid).is_some_and(|server| self.silence_of(server, now) < self.silence)
    }

    /// For how long a server has not called; at least as long as the dead for one that was replaced.
    pub(crate) fn silence_of(&self, server: &TabletServer, now: Instant) -> Duration {
        let silent = now.saturating_duration_since(server.heard);
        if server.replaced { silent.max(self.silence) } else { silent }
    }

    /// Forgets a server.
    pub(crate) fn forget(&mut self, uuid: &str) {
        self.known.remove(uuid);
    }

    /// Forgets servers that have not called for [`LONG_GONE`], apart from those to be kept; the number of them.
    pub(crate) fn forget_long_gone(&mut self, now: Instant, keep: impl Fn(&str) -> bool) -> usize {
        let before = self.known.len();
        self.known.retain(|uuid, server| !is_long_gone(server, now) || keep(uuid));
        before - self.known.len()
    }

    /// Whether [`forget_long_gone`](Self::forget_long_gone) has anything to look at.
    pub(crate) fn has_long_gone(&self, now: Instant) -> bool {
        self.known.values().any(|server| is_long_gone(server, now))
    }

    /// How many are known.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

fn is_long_gone(server: &TabletServer, now: Instant) -> bool {
    now.saturating_duration_since(server.heard) >= LONG_GONE
}

/// A server that was silent for so long and holds nothing is no longer listed.
pub(crate) const LONG_GONE: Duration = Duration::from_secs(24 * 3600);
