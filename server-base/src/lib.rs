//! What a master and a tablet server share: flags, identity, clock, GenericService, access control, logging, signals.
//!
//! ```
//! use server_base::flags::{FlagSet, Role};
//! use server_base::{ServerClock, ServerIdentity};
//!
//! let flags = FlagSet::builder(Role::Master, "nyala-master").build();
//! flags.parse(["--rpc-bind-addresses=127.0.0.1:0", "-v", "1"])?;
//! let identity = ServerIdentity::new();
//! println!("{} listens on {} and {}", identity.uuid(), flags.string("rpc_bind_addresses"), identity.unix_socket());
//! assert!(ServerClock::new().now().physical_micros() > 0);
//! # Ok::<(), server_base::flags::FlagError>(())
//! ```
//!
//! What it is not: a server. `rpc-server` listens and runs calls; the crates `master` and `tserver` put both together.

#![forbid(unsafe_code)]

pub mod acl;
pub mod advertise;
mod clock;
pub mod consensus;
pub mod data_folder;
pub mod durability;
pub mod flags;
mod generic_service;
mod identity;
pub mod info_file;
mod listening;
pub mod logging;
pub mod maintenance;
pub mod program;
mod rpc_options;
pub mod signals;
mod start_error;
mod trackers;

pub use clock::{ServerClock, physical_micros};
pub use generic_service::GenericService;
pub use identity::{
    KUDU_VERSION, ServerIdentity, ServerUuid, UuidError, host_port_pb, software_version, version_info,
};
pub use listening::Listening;
pub use rpc_options::{OptionsError, RPC_FLAGS, RpcOptions};
pub use start_error::StartError;
pub use trackers::{MemoryUse, Tracker};
