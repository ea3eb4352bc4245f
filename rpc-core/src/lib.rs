//! Kudu's RPC protocol: frames and negotiation as a machine without sockets, reactors that move the bytes, outbound calls
#![warn(missing_docs)]

pub mod call;
pub mod machine;
pub mod negotiate;
pub mod wire;

pub use call::{
    Answer, CallError, ConnectionInfo, InboundCall, InboundHandler, RemoteError, Request, RequestId,
    Responder, RpcErrorCode,
};
