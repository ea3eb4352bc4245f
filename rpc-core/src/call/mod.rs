//! What passes between the transport and a server: calls, their answers, and the ways both can fail.

mod connection;
mod error;
mod inbound;
mod request_id;
mod responder;
mod status;

pub use connection::ConnectionInfo;
pub use error::{CallError, CallStage, ResponseDefect};
pub use inbound::{InboundCall, InboundHandler, Request};
pub use request_id::RequestId;
pub use responder::{Answer, Responder, ResponseSink};
pub use status::{RemoteError, RpcErrorCode};
