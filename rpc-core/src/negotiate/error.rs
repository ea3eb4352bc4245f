use thiserror::Error;

use crate::call::{RemoteError, RpcErrorCode};
use crate::wire::{FrameError, WireError};

/// Why a client could not negotiate. Every call that waits for the connection fails with it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NegotiationError {
    /// The server said no, and why.
    #[error("the server refused: {0}")]
    Rejected(Box<RemoteError>),
    /// The server did not finish in time (3 s by default).
    #[error("not finished in time")]
    TimedOut,
    /// The server chose a way to authenticate, or a mechanism, which we did not offer or cannot do.
    #[error("no common way to authenticate")]
    NoCommonMechanism,
    /// The server's message is of another step than the protocol has here.
    #[error("the server answered with step {got} where {expected} was due")]
    UnexpectedStep {
        /// Number of the step which was due.
        expected: i32,
        /// Number of the step which came.
        got: i32,
    },
    /// A frame with another call id than negotiation's -33.
    #[error("the server used call id {0} during negotiation")]
    CallId(i32),
    /// A frame that is none.
    #[error("the server sent {0}")]
    Frame(#[from] FrameError),
    /// A message that is none.
    #[error("the server sent a message that {0}")]
    Message(#[from] WireError),
}

impl NegotiationError {
    /// True when the same server may accept us later.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Rejected(error) => error.code == Some(RpcErrorCode::ERROR_UNAVAILABLE),
            Self::TimedOut => true,
            _ => false,
        }
    }

    /// True when the server does not accept our identity ("Not authorized").
    pub fn is_not_authorized(&self) -> bool {
        let Self::Rejected(error) = self else { return false };
        matches!(
            error.code,
            Some(RpcErrorCode::FATAL_UNAUTHORIZED | RpcErrorCode::FATAL_INVALID_AUTHENTICATION_TOKEN)
        )
    }

    /// The server's own words.
    pub fn remote(&self) -> Option<&RemoteError> {
        match self {
            Self::Rejected(error) => Some(error),
            _ => None,
        }
    }
}
