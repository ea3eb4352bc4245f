//! What passes between the transport and a server: calls, their answers, and the ways both can fail.

mod connection;
#[cfg(feature = "net")]
mod descriptors;
mod destination;
mod error;
mod extras;
mod inbound;
mod request_id;
mod responder;
mod status;

pub use connection::ConnectionInfo;
#[cfg(feature = "net")]
pub use descriptors::Descriptors;
pub use destination::Destination;
pub use error::{CallError, CallStage, ResponseDefect};
pub use extras::Extras;
pub use inbound::{InboundCall, InboundHandler, Request, SmallCall};
pub use request_id::RequestId;
pub use responder::{Answer, Responder, ResponseSink};
pub use status::{RemoteError, RpcErrorCode};
