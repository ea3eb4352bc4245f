//! The tablet servers that have told of themselves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proto::kudu::ServerRegistrationPb;
use thiserror::Error;

/// A tablet server.
#[derive(Debug, Clone)]
pub struct TabletServer {
    /// Its id for life.
    pub uuid: String,
    /// Grows with each start of the server.
    pub seqno: i64,
    /// Its addresses and version.
    pub registration: ServerRegistrationPb,
    /// When it last called.
    pub heard: Instant,
    /// It is to send a full report, since the last one was for another start.
    pub wants_full_report: bool,
}

/// All tablet servers, by id.
#[derive(Debug)]
pub struct Servers {
    known: BTreeMap<String, TabletServer>,
    silence: Duration,
}

/// Why a registration is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegisterError {
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

impl RegisterError {
    /// Never: the server has to change something first.
    pub fn is_retriable(&self) -> bool {
        false
    }
}

impl Servers {
    /// None yet. A server counts as dead when it was silent for `silence`.
    pub fn new(silence: Duration) -> Self {
        Self { known: BTreeMap::new(), silence }
    }

    /// Notes who and where a server is. One that moved is found at its new address from now on. Another server that was
    /// at this address counts as dead until it calls again: it cannot listen there any more.
    pub fn register(
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
        let long_ago = now.checked_sub(self.silence);
        for other in self.known.values_mut() {
            if other.uuid != uuid && other.registration.rpc_addresses == registration.rpc_addresses {
                other.heard = long_ago.unwrap_or(other.heard);
            }
        }
        let server =
            TabletServer { uuid: uuid.to_owned(), seqno, registration, heard: now, wants_full_report: true };
        self.known.insert(server.uuid.clone(), server);
        Ok(())
    }

    /// The server that calls, if it is known with exactly this start; notes that it lives.
    pub fn heartbeat(&mut self, uuid: &str, seqno: i64, now: Instant) -> Option<&mut TabletServer> {
        let server = self.known.get_mut(uuid).filter(|server| server.seqno == seqno)?;
        server.heard = now;
        Some(server)
    }

    /// One server.
    pub fn get(&self, uuid: &str) -> Option<&TabletServer> {
        self.known.get(uuid)
    }

    /// All of them, dead or alive, by id.
    pub fn iter(&self) -> impl Iterator<Item = &TabletServer> {
        self.known.values()
    }

    /// Those that are alive.
    pub fn live(&self, now: Instant) -> impl Iterator<Item = &TabletServer> {
        let silence = self.silence;
        self.known.values().filter(move |server| now.saturating_duration_since(server.heard) < silence)
    }

    /// How many have ever registered.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none has ever registered.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}
