//! Scans: what is asked for, which rows pass, in which order, and the blocks they end up in.

pub(crate) mod block;
pub(crate) mod changes;
pub(crate) mod filter;
pub(crate) mod merge;
pub(crate) mod order;
pub(crate) mod part;
pub(crate) mod projection;
pub(crate) mod prune;
pub(crate) mod runs;
pub(crate) mod scanner;
pub(crate) mod spec;
pub(crate) mod split;

/// Rows added between two looks at the limits.
pub(crate) const STEP_ROWS: usize = 128;
