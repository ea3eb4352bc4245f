//! What a tablet looks like between two alterations of its table.

use std::sync::Arc;

use schema::Schema;
use schema::partition::Partitioner;

use crate::memory::column::Layout;
use crate::{OpenError, TabletOptions};

/// A description, and what follows from it.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) about: Arc<TabletOptions>,
    pub(crate) layouts: Arc<[Layout]>,
    pub(crate) partitioner: Partitioner,
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
        if let Some(column) = schema.columns().iter().find(|column| column.auto_incrementing) {
            return Err(OpenError::AutoIncrementing { column: column.name.clone() });
        }
        let partitioner = about.partition_schema.partitioner(schema)?;
        Ok(Self { layouts: layouts(schema), partitioner, about: Arc::new(about) })
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.about.schema
    }
}

pub(crate) fn layouts(schema: &Schema) -> Arc<[Layout]> {
    schema.columns().iter().map(Layout::of).collect()
}
