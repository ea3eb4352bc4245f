//! Which tablet a row belongs to, for programs that distribute rows themselves.

use schema::{PartialRow, PartitionError};

use crate::error::MasterError;
use crate::table::{Table, TabletLocation};

/// Places rows in the tablets of a table as they were when it was made by [`Table::partitioner`]. It asks nobody.
///
/// Partitions are numbered from 0 in the order of their partition keys, as those of Kudu's `KuduPartitioner`: as long as no
/// range is added or dropped, all partitioners of a table agree.
#[derive(Clone, Debug)]
pub struct Partitioner {
    table: Table,
    tablets: Vec<TabletLocation>,
}

impl Table {
    /// Asks for all tablets, to place rows in them.
    ///
    /// # Errors
    /// [`MasterError`]. **Cancel safe.**
    pub async fn partitioner(&self) -> Result<Partitioner, MasterError> {
        Ok(Partitioner { table: self.clone(), tablets: self.tablets().await? })
    }
}

impl Partitioner {
    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.tablets.len()
    }

    /// The partition of a row that [`Table::row`] made; `None` for one in a range that the table does not cover.
    ///
    /// # Errors
    /// [`PartitionError::MissingCell`]: a column that rows are placed by is not set.
    pub fn partition(&self, row: &PartialRow) -> Result<Option<usize>, PartitionError> {
        let mut key = Vec::new();
        self.table.key_partitioner().encode(&row.cells(), &mut key)?;
        let behind = self.tablets.partition_point(|tablet| tablet.start <= key);
        let Some(index) = behind.checked_sub(1) else { return Ok(None) };
        let is_within = |tablet: &TabletLocation| tablet.end.is_empty() || key < tablet.end;
        Ok(self.tablets.get(index).is_some_and(is_within).then_some(index))
    }

    /// The tablets, by number.
    pub fn tablets(&self) -> &[TabletLocation] {
        &self.tablets
    }
}
