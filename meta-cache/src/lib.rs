//! Where is the row: from a partition key to the tablet, its replicas, and the endpoint (TCP or unix socket) to talk to.
//!
//! ```
//! use meta_cache::{Answer, Lookup, MetaCache, Options, Reach, ReplicaAnswer, Role, Selection, ServerAnswer, TabletAnswer};
//! use std::time::{Duration, Instant};
//!
//! let (cache, now) = (MetaCache::new(Options::default()), Instant::now());
//! let Lookup::Ask(asking) = cache.lookup("table-id", b"key", Reach::Point, now) else { panic!("nothing is known yet") };
//! // ... ask the master for `asking.request()`, then hand in what it said:
//! let server = ServerAnswer::new("uuid-1").address("127.0.0.1", 7050).unix_path("@kudu-uuid-1");
//! let replica = ReplicaAnswer { server: 0, role: Role::Leader };
//! let tablet = TabletAnswer { id: "t1".into(), start: vec![], end: vec![], replicas: vec![replica] };
//! cache.insert(asking, Answer { ttl: Duration::from_secs(300), servers: vec![server], tablets: vec![tablet] }, now)?;
//! let Lookup::Hit(tablet) = cache.lookup("table-id", b"key", Reach::Point, now) else { panic!("it is cached now") };
//! let server = cache.pick(&tablet, Selection::LeaderOnly, &[]).expect("it has a leader");
//! assert!(cache.endpoint(&server, now).is_unix()); // advertised, and 127.0.0.1 is this machine
//! # Ok::<(), meta_cache::AnswerError>(())
//! ```
//!
//! What it is not: a client. It opens no socket, reads no clock (`now` is an argument) and knows no protobuf. Tables are known by
//! id, never by name, so a table made anew under an old name cannot be served from the old one's entries.
//!
//! Reading is lock-free: each table is one immutable sorted vector that is swapped whole. Of several concurrent look-ups
//! that miss in the same hole one gets [`Lookup::Ask`]; the others get [`Lookup::Wait`], a plain future without a runtime.
//! **Cancel safety:** an [`Asking`] that is dropped wakes everyone who waits for it; a dropped [`Waiting`] leaves nothing.
#![forbid(unsafe_code)]

mod cache;
mod lookup;
mod pick;
mod range_map;
mod replica;
mod server;
mod stats;
mod table;
mod tablet;
mod ttl;

pub use cache::{MetaCache, Options};
pub use lookup::{
    Answer, AnswerError, Asking, Known, Lookup, Reach, Request, TabletAnswer, WaitOutcome, Waiting,
};
pub use pick::Selection;
pub use replica::{Replica, ReplicaAnswer, Role};
pub use server::{Endpoint, Server, ServerAnswer};
pub use stats::{Stats, StatsSnapshot};
pub use tablet::Tablet;
