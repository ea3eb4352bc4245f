//! Bloom filters over the values of a column.

use schema::bloom::{BlockBloomFilter, BlockBloomFilterBuilder};
use schema::{Column, RowError, Value};

/// Collects the values that a scan is to look for. Made by [`Table::bloom_filter`](crate::Table::bloom_filter).
#[derive(Clone, Debug)]
#[must_use = "call build()"]
pub struct BloomFilterBuilder {
    column: Column,
    filter: BlockBloomFilterBuilder,
}

impl BloomFilterBuilder {
    pub(crate) fn new(column: Column, values: usize, false_positives: f64) -> BloomFilterBuilder {
        let log_space_bytes = BlockBloomFilter::log_space_for(values, false_positives);
        BloomFilterBuilder { column, filter: BlockBloomFilter::builder(log_space_bytes, 0) }
    }

    /// Adds a value. NULL cannot be looked for.
    ///
    /// # Errors
    /// [`RowError::Type`] when it is of another type than the column and does not [cast](Value::cast) to it.
    pub fn insert(&mut self, value: impl Into<Value>) -> Result<&mut BloomFilterBuilder, RowError> {
        let value: Value = value.into();
        let given = value.data_type();
        let wrong =
            || RowError::Type { column: self.column.name.clone(), expected: self.column.data_type, given };
        let value = value.cast(self.column.data_type).ok_or_else(wrong)?;
        self.filter.insert(&value.to_raw());
        Ok(self)
    }

    /// The filter, for [`in_bloom_filters`](crate::FilterColumn::in_bloom_filters). It can be used for many scans, and for
    /// other columns whose cells are alike.
    pub fn build(self) -> BlockBloomFilter {
        self.filter.build()
    }
}
