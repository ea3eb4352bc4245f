//! What a snapshot shows, in parts that were written at about the same time.

use std::sync::Arc;

use crate::memory::column::Column;
use crate::memory::tombstones::Tombstones;

/// Neighbouring rows of which a snapshot shows those that had not ended.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// From the first on; tombstones are looked at later.
    pub(crate) rows: u32,
    /// In the order of the scan's schema.
    pub(crate) columns: Vec<Column>,
    pub(crate) tombstones: Arc<Tombstones>,
}
