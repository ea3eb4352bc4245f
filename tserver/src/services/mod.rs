//! The RPC services: each method translates a message, asks the layer below, and translates the answer.

pub(crate) mod admin;
pub(crate) mod consensus;
mod key_ranges;
pub(crate) mod local_scan;
mod members;
pub(crate) mod tablet;
