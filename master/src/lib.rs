//! The master: catalog, placement and heartbeats behind Kudu's `MasterService`.
//!
//! ```
//! use master::{Master, MasterOptions};
//! use net_addr::SystemResolver;
//!
//! let flags = MasterOptions::flags();
//! flags.parse(["--rpc_bind_addresses=127.0.0.1:0"])?;
//! let master = Master::start(MasterOptions::from_flags(&flags, &SystemResolver)?)?;
//! println!("kudu master list {}", master.bound_addresses()[0]);
//! master.shutdown();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Inside, the catalog is a machine without sockets, threads or clocks; the services ask it and one thread sends what it
//! wants sent to tablet servers.
//!
//! With `--fs_wal_dir` tables are there again after a stop or a kill; without it they live until the master stops.
//!
//! What it is not: one of several masters (it is always the leader), or able to replicate tablets: tables have one replica.
#![forbid(unsafe_code)]

mod catalog;
mod ddl;
mod driver;
mod fault;
mod heartbeat;
mod maintenance;
mod options;
mod placement;
mod server;
mod services;

pub use options::{Limits, MasterOptions};
pub use server::Master;
pub use server_base::StartError;
