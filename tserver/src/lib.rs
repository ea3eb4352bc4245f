//! A tablet server: tablets behind the services of Kudu's tablet server.
//!
//! ```
//! use net_addr::SystemResolver;
//! use tserver::{TabletServer, TserverOptions};
//!
//! let flags = TserverOptions::flags();
//! flags.parse(["--rpc_bind_addresses=127.0.0.1:0", "--tserver_master_addrs=127.0.0.1:7051"])?;
//! let server = TabletServer::start(TserverOptions::from_flags(&flags, &SystemResolver)?)?;
//! println!("{} listens on {:?} and {:?}", server.uuid(), server.bound_addresses(), server.unix_path());
//! server.shutdown();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With `--fs_wal_dir` tablets are there again after a stop or a kill; without it rows live in memory until the server stops.
//!
//! What it is not: replicated (it leads every replica it has). Transactions and tablet copies are not there yet.
//!
//! It runs with a real Kudu master of 1.18 as well as with ours.
#![forbid(unsafe_code)]

mod bootstrap;
mod commit_wait;
mod fault;
mod heartbeat;
mod maintenance;
mod memory;
mod node;
mod numbering;
mod options;
mod replicas;
mod scanner;
mod server;
mod services;
mod storage;
mod tablets;
mod write_path;

pub use options::TserverOptions;
pub use server::TabletServer;
pub use server_base::StartError;
