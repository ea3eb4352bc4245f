use std::io;
use std::sync::Arc;
use std::time::Duration;

use net_addr::SockAddr;
use thiserror::Error;

use super::RemoteError;
use crate::negotiate::NegotiationError;
use crate::wire::WireError;

/// How an outbound call can fail. Says whose fault it was; [`is_retriable`](Self::is_retriable) says what next.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server answered with an error frame.
    #[error("{method} on {peer} failed: {error}")]
    Remote {
        /// Who answered.
        peer: SockAddr,
        /// The method called.
        method: &'static str,
        /// What the server said.
        error: Box<RemoteError>,
    },
    /// The deadline passed. The server may or may not have run the call.
    #[error("{method} to {peer} timed out after {timeout:?} ({stage})")]
    TimedOut {
        /// Who was asked.
        peer: SockAddr,
        /// The method called.
        method: &'static str,
        /// How long the caller waited.
        timeout: Duration,
        /// How far the call had come.
        stage: CallStage,
    },
    /// The connection could not be made, or broke; try another replica, or again after a pause.
    #[error("{method} to {peer}: {source}")]
    Network {
        /// Who was asked.
        peer: SockAddr,
        /// The method called.
        method: &'static str,
        /// True if a byte of the call may have reached the server, which then may have run it.
        sent: bool,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Both sides could not agree on how to talk, or the server did not accept our identity.
    #[error("negotiation with {peer} for {method} failed: {source}")]
    Negotiation {
        /// Who was asked.
        peer: SockAddr,
        /// The method called.
        method: &'static str,
        /// Why.
        source: NegotiationError,
    },
    /// The server's answer makes no sense: a bug there, or data damaged on the way. Not retried.
    #[error("{peer} answered {method} with nonsense: {source}")]
    BadResponse {
        /// Who answered.
        peer: SockAddr,
        /// The method called.
        method: &'static str,
        /// What is wrong with it.
        source: ResponseDefect,
    },
    /// The call requires application features, and the server cannot even check for them.
    #[error("{peer} does not check required feature flags, which {method} needs")]
    NotSupported {
        /// Who was asked.
        peer: SockAddr,
        /// The method called.
        method: &'static str,
    },
    /// The request is bigger than a frame can be; nothing was sent.
    #[error("{method}: a request of {size} bytes in {sidecars} sidecars is more than a frame can carry")]
    TooLarge {
        /// The method called.
        method: &'static str,
        /// Body and sidecars.
        size: u64,
        /// How many sidecars.
        sidecars: usize,
    },
    /// The messenger was shut down.
    #[error("{method}: the messenger is shut down")]
    ShutDown {
        /// The method called.
        method: &'static str,
    },
}

impl CallError {
    /// True when the same call may succeed later, or on another server. Whether it may run twice is the caller's
    /// business: see `sent` of [`Network`](Self::Network), and request ids.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Remote { error, .. } => error.is_retriable(),
            Self::Network { .. } => true,
            Self::Negotiation { source, .. } => source.is_retriable(),
            _ => false,
        }
    }

    /// True when the caller's deadline passed.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }

    /// The server's own words, if it sent any (in negotiation, too).
    pub fn remote(&self) -> Option<&RemoteError> {
        match self {
            Self::Remote { error, .. } => Some(error.as_ref()),
            Self::Negotiation { source, .. } => source.remote(),
            _ => None,
        }
    }
}

/// How far a call had come when its deadline passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallStage {
    /// The connection was not ready.
    Connecting,
    /// No byte had been sent.
    Queued,
    /// The request was on its way, or the server worked on it.
    Sent,
}

impl std::fmt::Display for CallStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connecting => "still connecting",
            Self::Queued => "not yet sent",
            Self::Sent => "sent",
        })
    }
}

/// What is wrong with a response.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ResponseDefect {
    /// The error frame's body cannot be parsed.
    #[error("its error status cannot be parsed: {0}")]
    ErrorStatus(#[from] WireError),
    /// The body cannot be parsed as the method's response.
    #[error("its body cannot be parsed: {0}")]
    Body(#[from] prost::DecodeError),
    /// The body lacks required fields.
    #[error("invalid RPC response, missing fields: {0}")]
    MissingFields(#[from] proto::required::MissingFields),
}
