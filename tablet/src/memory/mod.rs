//! Rows in memory, column by column.

pub(crate) mod bits;
pub(crate) mod column;
pub(crate) mod commits;
pub(crate) mod index;
pub(crate) mod rows;
pub(crate) mod tombstones;

/// Most rows of a chunk.
pub(crate) const CHUNK_ROWS: usize = 65_536;
/// A chunk that holds this many bytes takes no more rows.
pub(crate) const CHUNK_BYTES: usize = 16 << 20;
