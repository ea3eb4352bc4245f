//! Kudu's RPC protocol: frames and negotiation as a machine without sockets, reactors that move the bytes, outbound calls.
//!
//! ```
//! # use std::sync::Arc;
//! use rpc_core::{InboundCall, InboundHandler, Messenger, Proxy, ReactorPool, ServerOptions};
//! use proto::kudu::master::{PingRequestPb, master_service::Ping};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!
//! let pool = ReactorPool::start("reactor", 2)?;
//! let handler: Arc<dyn InboundHandler> = Arc::new(|call: InboundCall| {
//!     let (request, responder) = call.split();
//!     responder.respond(request.body, Vec::new());
//! });
//! let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
//! let proxy = Proxy::new(&Messenger::builder().build(), listener.local_addr()?.into(), "127.0.0.1");
//! let call = tokio::spawn(proxy.call::<Ping>(&PingRequestPb {}).send());
//! let (socket, _) = tokio::task::spawn_blocking(move || listener.accept()).await??;
//! pool.adopt(socket.into(), handler, Arc::new(ServerOptions::default()))?;
//! call.await??;
//! # Ok(()) }
//! ```
//!
//! With a `.proto` file of your own, a build script (`rpc-build`) and services (`rpc-server`): `rpc-server/examples/greeter`.
//!
//! What it is not: it listens on no socket, has no services, queues or worker threads (that is `rpc-server`), resolves no
//! names, and does not retry, except for a call that finds its connection closed before a byte of it was sent. TLS and
//! tokens are not negotiated yet; a real server with default flags serves such a client all the same.
//!
//! **Cancel safety**: dropping the future of a call frees its request at once, and a late answer is dropped; nothing is
//! sent to the server, which may still run the call.
//!
//! **Features**: `net` (default) brings [`reactor`], [`messenger`], [`proxy`] and [`blocking`], with sockets and tokio. Without it there
//! are the machines of [`machine`], to which bytes and the time are arguments.
//!
//! **Limits**: frames up to 2 GiB by protocol, 50 MiB by default; 10,000 sidecars a message. The bytes are drawn in
//! `WIRE.md`.
#![warn(missing_docs)]

#[cfg(feature = "net")]
pub mod blocking;
pub mod call;
pub mod machine;
#[cfg(feature = "net")]
pub mod messenger;
pub mod negotiate;
#[cfg(feature = "net")]
pub mod proxy;
#[cfg(feature = "net")]
pub mod reactor;
#[cfg(feature = "net")]
mod sync;
pub mod wire;

#[cfg(feature = "net")]
pub use call::Descriptors;
pub use call::{
    Answer, CallError, ConnectionInfo, Destination, Extras, InboundCall, InboundHandler, RemoteError,
    Request, RequestId, Responder, RpcErrorCode, SmallCall,
};
#[cfg(feature = "net")]
pub use messenger::{ConnectionId, Messenger, MessengerBuilder, OutboundStats};
pub use proto::{Method, required};
#[cfg(feature = "net")]
pub use proxy::{CallBuilder, Proxy, Response, Sending};
#[cfg(feature = "net")]
pub use reactor::{ReactorPool, ServerOptions};
