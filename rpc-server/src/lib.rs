//! Kudu RPC servers: acceptors, service registry, deadline queue, workers, exactly-once results.
//!
//! ```
//! use proto::{kudu::master::PingRequestPb, methods::master_service::{Ping, SERVICE}};
//! use rpc_core::{Messenger, Proxy};
//! use rpc_server::{Server, Service};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!
//! let service = Service::builder(SERVICE).function::<Ping>(|_| Default::default()).build();
//! let server = Server::builder().bind("127.0.0.1:0".parse()?).bind_unix("@my-server").service(service).start()?;
//! server.ready();
//! let proxy = Proxy::new(&Messenger::builder().build(), server.bound_addresses()[0].clone(), "localhost");
//! proxy.call::<Ping>(&PingRequestPb {}).send().await?;
//! server.shutdown();
//! # Ok(()) }
//! ```
//!
//! A service of your own, from its `.proto` file to a server and a client: `examples/greeter`.
//!
//! A call goes: service known? features known? then, if its method is *cheap*, it runs on the reactor that read it; else it waits in
//! its service's [`queue`] for a thread, where calls that are too late or too many are refused. Then: required fields and
//! parsing, [`authz`], exactly-once [`results`], the handler. A handler that panics fails its own call only.
//!
//! What goes on in a server can be read in its process at any time: [`Server::services`], [`Server::methods`] with their
//! counters, histograms and sampled calls, [`Server::calls_in_flight`], and connections and load by [`Server::reactors`]. Kudu
//! has no call for it either; its HTTP pages show the same.
//!
//! What it is not: a client (`rpc-core` has it), an async framework (handlers are plain functions that answer now or later), or
//! an HTTP server. It needs a Unix system; abstract socket names need Linux.
#![forbid(unsafe_code)]

mod acceptor;
pub mod authz;
mod call;
mod handover;
mod introspect;
pub mod metrics;
mod pace;
pub mod queue;
mod refusal;
pub mod results;
pub mod rpcz;
mod server;
mod service;
mod sync;
mod timing;
mod worker;

pub use acceptor::BindError;
pub use call::{Arrival, Call, Reply};
pub use introspect::{MethodStats, ServiceStats};
pub use rpc_core::reactor::ServerOptions;
pub use server::{Server, ServerBuilder};
pub use service::{Service, ServiceBuilder};
