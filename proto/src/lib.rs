//! Kudu's messages and RPC methods in Rust: generated types, one marker type per method, tables of required fields.
//!
//! ```
//! use proto::{Method, methods::master_service::GetTableLocations, required};
//!
//! assert_eq!(GetTableLocations::SERVICE, "kudu.master.MasterService");
//! assert_eq!(GetTableLocations::NAME, "GetTableLocations");
//! // prost decodes an empty body without complaint; Kudu refuses it.
//! let missing = required::check(GetTableLocations::REQUEST, &[]).unwrap_err();
//! assert_eq!(missing.to_string(), "table");
//! ```
//!
//! The modules below [`kudu`] mirror the protobuf packages (`kudu.master.PingRequestPB` is
//! [`kudu::master::PingRequestPb`]). `bytes` fields are [`bytes::Bytes`] and share the memory of the buffer that they
//! were decoded from: copy what outlives the call. Maps are `BTreeMap`s. Fields that proto2 requires are plain values,
//! hence [`required::check`]. Enum fields are `i32`, an unknown number of an optional one reads as its default.
//!
//! What it is not: a place for logic, and not complete. The messages of Kudu's files on disk, of its tests and of its
//! extension 101/102 of `ErrorStatusPB` (prost has no extensions) are not here.
//!
//! The code in `src/gen` is written by `cargo xtask gen` from `proto/**/*.proto`.
#![forbid(unsafe_code)]

mod method;
pub mod methods;
pub mod required;

pub use method::Method;

/// Packages of our own, which Kudu does not have.
#[allow(missing_docs, clippy::all)]
pub mod nyala {
    /// Package `nyala.tserver`: scans by shared memory.
    pub mod tserver {
        include!("gen/nyala.tserver.rs");
    }
}

/// Package `kudu`: what all services share. The other packages are below it.
#[allow(missing_docs, clippy::all)]
pub mod kudu {
    include!("gen/kudu.rs");

    /// Package `kudu.client`: scan tokens and exported credentials, which clients hand to one another.
    pub mod client {
        include!("gen/kudu.client.rs");
    }
    /// Package `kudu.consensus`: Raft configurations, and the service that replicas and tools talk to.
    pub mod consensus {
        include!("gen/kudu.consensus.rs");
    }
    /// Package `kudu.master`: the catalog, locations, heartbeats.
    pub mod master {
        include!("gen/kudu.master.rs");
    }
    /// Package `kudu.rpc`: frame headers and negotiation.
    pub mod rpc {
        include!("gen/kudu.rpc.rs");
    }
    /// Package `kudu.security`: tokens and their signing keys.
    pub mod security {
        include!("gen/kudu.security.rs");
    }
    /// Package `kudu.server`: status, flags and clock of any server.
    pub mod server {
        include!("gen/kudu.server.rs");
    }
    /// Package `kudu.tablet`: states and metadata of replicas.
    pub mod tablet {
        include!("gen/kudu.tablet.rs");
    }
    /// Package `kudu.transactions`: transactions over several rows, and their service.
    pub mod transactions {
        include!("gen/kudu.transactions.rs");
    }
    /// Package `kudu.tserver`: reading and writing, and the administration of replicas.
    pub mod tserver {
        include!("gen/kudu.tserver.rs");
    }
}
