//! Kudu's RPC protocol: frames and negotiation as a machine without sockets, reactors that move the bytes, outbound calls
#![warn(missing_docs)]

pub mod call;
pub mod machine;
#[cfg(feature = "net")]
pub mod messenger;
pub mod negotiate;
#[cfg(feature = "net")]
pub mod proxy;
#[cfg(feature = "net")]
pub mod reactor;
pub mod wire;

pub use call::{
    Answer, CallError, ConnectionInfo, InboundCall, InboundHandler, RemoteError, Request, RequestId,
    Responder, RpcErrorCode,
};
#[cfg(feature = "net")]
pub use messenger::{ConnectionId, Messenger, MessengerBuilder};
pub use proto::Method;
#[cfg(feature = "net")]
pub use proxy::{CallBuilder, Proxy, Response};
#[cfg(feature = "net")]
pub use reactor::{ReactorPool, ServerOptions};
