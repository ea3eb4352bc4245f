//! What a tablet looks like between two alterations of its table.

use std::sync::Arc;

use schema::partition::{Partitioner, SingleHash};
use schema::{Cell, Schema};

use crate::memory::column::Layout;
use crate::{OpenError, TabletOptions};

/// A description, and what follows from it.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) about: Arc<TabletOptions>,
    pub(crate) layouts: Arc<[Layout]>,
    partitioner: Partitioner,
    /// If the hash of one column alone tells whether a row is here: which of its buckets are.
    buckets: Option<(SingleHash, Box<[bool]>)>,
}

impl Shape {
    pub(crate) fn new(about: TabletOptions) -> Result<Self, OpenError> {
        let schema = &about.schema;
        if schema.ids().is_none() {
            return Err(OpenError::NoColumnIds);
        }
        if schema.key_columns() == 0 {
            return Err(OpenError::NoPrimaryKey);
        }
        let partitioner = about.partition_schema.partitioner(schema)?;
        let is_here = |bucket: u32| about.partition.contains(&bucket.to_be_bytes());
        // What follows in a key cannot change its place among bounds that end with a bucket.
        let by_bucket = [&about.partition.start, &about.partition.end].iter().all(|bound| bound.len() <= 4);
        let buckets = partitioner
            .single_hash()
            .filter(|hash| by_bucket && hash.buckets() <= MOST_BUCKETS)
            .map(|hash| (hash, (0..hash.buckets()).map(is_here).collect()));
        Ok(Self { layouts: layouts(schema), partitioner, buckets, about: Arc::new(about) })
    }

    /// Whether all rows of the table are of this tablet.
    pub(crate) fn holds_all(&self) -> bool {
        let partition = &self.about.partition;
        partition.start.is_empty() && partition.end.is_empty()
    }

    /// Whether a row is of this tablet, by its key cells. `key` is for this to work in.
    pub(crate) fn is_here(&self, cells: &[Cell<'_>], key: &mut Vec<u8>) -> bool {
        let partition = &self.about.partition;
        if self.holds_all() {
            return true;
        }
        if let Some((hash, here)) = &self.buckets {
            let bucket = cells.get(hash.column()).and_then(|cell| hash.bucket(cell.value()?));
            return bucket.is_some_and(|bucket| here[bucket as usize]);
        }
        key.clear();
        self.partitioner.encode(cells, key).is_ok() && partition.contains(key)
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.about.schema
    }
}

pub(crate) fn layouts(schema: &Schema) -> Arc<[Layout]> {
    schema.columns().iter().map(Layout::of).collect()
}

/// Of more buckets it is not remembered which are here.
const MOST_BUCKETS: u32 = 4096;
