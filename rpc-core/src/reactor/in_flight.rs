//! Which calls are not yet answered: each connection's task is asked, so that a call pays nothing for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::connection::Shared;
use crate::machine::CallInFlight;

/// Calls that were not yet answered when their connections were asked.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CallsInFlight {
    /// With the number of the connection in its pool; by connection, then by age.
    pub calls: Vec<(u64, CallInFlight)>,
    /// How many connections have calls but did not tell in time: their reactor is busy with something long.
    pub silent: usize,
}

/// Where the answer goes: the number of the connection, and its calls.
pub(crate) type Asker = Sender<(u64, Vec<CallInFlight>)>;

/// What a connection's task has been asked. A later question takes the place of an earlier one, who then hears nothing.
#[derive(Debug, Default)]
pub(crate) struct Question {
    asked: AtomicBool,
    asker: Mutex<Option<Asker>>,
}

impl Question {
    pub(crate) fn put(&self, asker: Asker) {
        *self.asker.lock() = Some(asker);
        self.asked.store(true, Ordering::Release);
    }

    /// Costs one load unless there is a question.
    pub(crate) fn answer(&self, tell: impl FnOnce() -> (u64, Vec<CallInFlight>)) {
        if self.asked.load(Ordering::Acquire) {
            self.asked.store(false, Ordering::Relaxed);
            if let Some(asker) = self.asker.lock().take() {
                // Fails if nobody waits any more.
                let _ = asker.send(tell());
            }
        }
    }
}

pub(crate) fn ask(connections: impl Iterator<Item = Arc<Shared>>, patience: Duration) -> CallsInFlight {
    let (send, receive) = mpsc::channel();
    let until = Instant::now().checked_add(patience);
    let asked = connections.filter(|shared| shared.ask(|| send.clone())).count();
    // The channel ends when all have told, or are gone.
    drop(send);
    let mut found = CallsInFlight { silent: asked, ..CallsInFlight::default() };
    let left = || until.map_or(patience, |until| until.saturating_duration_since(Instant::now()));
    while let Ok((connection, calls)) = receive.recv_timeout(left()) {
        found.silent = found.silent.saturating_sub(1);
        found.calls.extend(calls.into_iter().map(|call| (connection, call)));
    }
    found.calls.sort_by_key(|(connection, call)| (*connection, call.received));
    found
}
