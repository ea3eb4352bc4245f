//! Reports to the masters: who this server is, which replicas it has, what is new.

mod report;
mod reporter;
mod thread;

pub(crate) use thread::Heartbeats;
