//! Scans as the protocol has them: opened, read on, kept alive, closed; and the two forms of their answers.

pub(crate) mod answers;
pub(crate) mod cost;
pub(crate) mod format;
pub(crate) mod local;
pub(crate) mod open;
pub(crate) mod registry;
pub(crate) mod shared;
pub(crate) mod turn;
