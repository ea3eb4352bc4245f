use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::runtime;
use tokio::sync::oneshot;

use crate::call::{CallStage, RemoteError};
use crate::machine::OutboundCall;
use crate::negotiate::NegotiationError;
use crate::reactor::mailbox::Mailbox;
use crate::wire::WireError;

/// What callers hold of a connection.
#[derive(Debug)]
pub(crate) struct Link {
    runtime: runtime::Id,
    next_key: AtomicU64,
    pub(crate) commands: Mailbox<Command>,
}

#[derive(Debug)]
pub(crate) enum Command {
    Call { key: u64, call: OutboundCall, tag: Tag },
    Cancel { key: u64 },
    Close,
}

/// Where the answer goes.
pub(crate) type Tag = oneshot::Sender<Result<Reply, Failure>>;

/// A response: body, sidecars.
pub(crate) type Reply = (Bytes, Vec<Bytes>);

#[derive(Debug)]
pub(crate) enum Failure {
    Remote(RemoteError),
    ErrorStatus(WireError),
    TimedOut(CallStage),
    TooLarge {
        size: u64,
        sidecars: usize,
    },
    NotSupported,
    Negotiation(NegotiationError),
    Network {
        source: Arc<io::Error>,
        sent: bool,
    },
    /// The connection ended before any byte of the call was sent: try another.
    Unsent {
        call: OutboundCall,
        source: Arc<io::Error>,
    },
    ShutDown,
}

impl Link {
    pub(crate) fn new(runtime: runtime::Id) -> Self {
        Self { runtime, next_key: AtomicU64::new(0), commands: Mailbox::new() }
    }

    pub(crate) fn runtime(&self) -> runtime::Id {
        self.runtime
    }

    pub(crate) fn next_key(&self) -> u64 {
        self.next_key.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.commands.is_closed()
    }

    #[allow(clippy::result_large_err, reason = "what was not taken comes back")]
    pub(crate) fn post(&self, command: Command) -> Result<(), Command> {
        self.commands.post(command)
    }

    /// Forgets a call, so that its payload is freed now.
    pub(crate) fn cancel(&self, key: u64) {
        let is_it = |command: &Command| matches!(command, Command::Call { key: other, .. } if *other == key);
        if self.commands.retract(is_it).is_none() {
            let _ = self.post(Command::Cancel { key });
        }
    }
}
