//! Immutable rows on disk: a folder with Arrow files, sorted by key, and what finds rows in them. FORMAT.md draws the bytes.
//!
//! Rows come in batches of up to [`BATCH_ROWS`]. A row's number is that of its batch, shifted, and its place there
//! ([`row_number`]): batches may be shorter, so numbers have gaps. Several versions of a key lie one behind the other, the
//! newest last.

mod arrow;
mod bounds;
mod cache;
mod error;
mod find;
mod merge;
mod meta;
mod packed;
mod reader;
mod times;
mod writer;

use std::path::{Path, PathBuf};

pub(crate) use bounds::Bounds;
pub use cache::BlockCache;
pub use error::RowsetError;
pub(crate) use merge::{Fate, merge};
pub(crate) use meta::{Batch, StoredColumn};
pub(crate) use reader::Rowset;
pub(crate) use times::Times;
pub(crate) use writer::{Writer, is_text};

const BATCH_BITS: u32 = 18;
/// Most rows of a batch: a batch of 1 MiB of 4-byte cells is one slice of it.
pub(crate) const BATCH_ROWS: usize = 1 << BATCH_BITS;
/// Numbers of rows have 32 bits, and there is one behind the last row.
pub(crate) const MOST_BATCHES: usize = (1 << (32 - BATCH_BITS)) - 1;
/// Between two keys of the index.
const INDEX_ROWS: usize = 64;

const DATA: &str = "data.arrow";
const PACKED: &str = "packed.arrow";
const INDEX: &str = "index";
const META: &str = "meta";
/// What a folder is called while it is written.
const DRAFT: &str = "new";

/// The number of row `index` of a batch.
pub(crate) const fn row_number(batch: usize, index: usize) -> u32 {
    (batch as u32) << BATCH_BITS | index as u32
}

/// The batch of a row, and its place there.
pub(crate) const fn place(row: u32) -> (usize, usize) {
    ((row >> BATCH_BITS) as usize, row as usize & (BATCH_ROWS - 1))
}

fn draft_of(folder: &Path) -> PathBuf {
    folder.with_extension(DRAFT)
}

#[cfg(test)]
mod tests;
