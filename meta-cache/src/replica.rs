//! One replica of a tablet as the client sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::server::Server;

/// A replica's part in its tablet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Takes writes.
    Leader,
    /// Serves reads.
    Follower,
    /// Neither: a learner, or a role this version does not know. Never chosen.
    Other,
}

/// What an answer of the master says about one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaAnswer {
    /// Index into [`Answer::servers`](crate::Answer::servers).
    pub server: usize,
    /// Its role when the master answered.
    pub role: Role,
}

/// A replica: its server, its role, and what went wrong with it since the master named it.
#[derive(Debug)]
pub struct Replica {
    server: Arc<Server>,
    role: Role,
    demoted: AtomicBool,
    failed: AtomicBool,
    server_failures: u64,
}

impl Replica {
    pub(crate) fn new(server: Arc<Server>, role: Role) -> Replica {
        let server_failures = server.failures();
        Replica {
            server,
            role,
            demoted: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            server_failures,
        }
    }

    /// The server that holds it.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Its role now: a leader that said it is none counts as a follower.
    pub fn role(&self) -> Role {
        if self.role == Role::Leader && self.demoted.load(Ordering::Acquire) {
            Role::Follower
        } else {
            self.role
        }
    }

    /// Whether it, or its whole server, failed since the master named it.
    pub fn is_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire) || self.server.failures() != self.server_failures
    }

    pub(crate) fn mark_failed(&self) {
        self.failed.store(true, Ordering::Release);
    }

    pub(crate) fn mark_not_leader(&self) {
        self.demoted.store(true, Ordering::Release);
    }
}
