//! How two peers agree on who they are before the first call: machines that take frames and give frames.

mod error;

pub use error::NegotiationError;
