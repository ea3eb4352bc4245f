//! Rows in memory, column by column.

pub(crate) mod bits;
pub(crate) mod column;
pub(crate) mod commits;
pub(crate) mod index;
pub(crate) mod rows;
pub(crate) mod runs;
pub(crate) mod tombstones;

/// Most rows of a chunk: a batch of 1 MiB of 4-byte cells is one slice of it.
pub(crate) const CHUNK_ROWS: usize = 262_144;
/// A chunk that holds this many bytes takes no more rows.
pub(crate) const CHUNK_BYTES: usize = 16 << 20;
