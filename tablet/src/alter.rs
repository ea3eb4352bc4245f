//! Alterations: the rows so far keep the schema that they were written with, new ones get the next.

use schema::Schema;

use crate::log::{LogError, entry};
use crate::shape::Shape;
use crate::{OpenError, Tablet, TabletOptions};

/// What a table is from now on.
#[derive(Clone, Debug, PartialEq)]
pub struct Alteration {
    /// All columns, with their ids. Columns whose id is gone are dropped; rows that lack a column show its
    /// [`read_default`](schema::Column::read_default), or NULL.
    pub schema: Schema,
    /// Above the present one.
    pub schema_version: u32,
    /// For messages.
    pub table_name: String,
    /// As [`TabletOptions::history_max_age_sec`].
    pub history_max_age_sec: Option<i32>,
}

impl Alteration {
    pub(crate) fn of(about: &TabletOptions) -> Self {
        let TabletOptions { schema, schema_version, table_name, history_max_age_sec, .. } = about.clone();
        Self { schema, schema_version, table_name, history_max_age_sec }
    }

    /// The tablet once it is like that.
    pub(crate) fn applied(self, about: &TabletOptions) -> TabletOptions {
        let Self { schema, schema_version, table_name, history_max_age_sec } = self;
        TabletOptions { schema, schema_version, table_name, history_max_age_sec, ..about.clone() }
    }
}

/// An alteration that was not made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AlterError {
    /// Rows are stored by their keys.
    #[error("the key columns of a table stay as they are, but for their names")]
    KeyColumns,
    /// A column keeps its type and whether it may be NULL.
    #[error("column '{column}' cannot get another type")]
    Type {
        /// The column.
        column: String,
    },
    /// The description is wrong in itself.
    #[error(transparent)]
    Description(OpenError),
    /// The log takes no entries (any more): the tablet can be read only until it is opened again.
    #[error("the tablet takes no alterations: {0}")]
    Log(#[from] LogError),
}

impl AlterError {
    /// True once the tablet was opened again after [`AlterError::Log`].
    pub const fn is_retriable(&self) -> bool {
        matches!(self, Self::Log(_))
    }
}

impl Tablet {
    /// Gives the tablet another schema, version and name. Scans and blocks that were read before are not touched; writes that
    /// were decoded for the schema before are refused from now on. Blocks until the log has it.
    ///
    /// A version that is not above the present one changes nothing: it was made before.
    ///
    /// # Errors
    /// [`AlterError`]; nothing was changed then, unless it is [`AlterError::Log`].
    pub fn alter(&self, to: Alteration) -> Result<(), AlterError> {
        let entry = entry::encode_alteration(&to);
        let mut index = self.index.lock();
        let Some(next) = self.shape().altered(to)? else { return Ok(()) };
        let before = self.position();
        let staged = match &self.durability {
            Some(durability) => Some(durability.append_alteration(entry)?),
            None => None,
        };
        self.reshape(&mut index, next, before);
        drop(index);
        match staged {
            Some(staged) => Ok(staged.commit()?),
            None => Ok(()),
        }
    }

    /// Does again what the log says, before the tablet is in use.
    pub(crate) fn replay_alteration(&self, to: Alteration) -> Result<(), AlterError> {
        let mut index = self.index.lock();
        if let Some(next) = self.shape().altered(to)? {
            let before = self.position();
            self.reshape(&mut index, next, before);
        }
        Ok(())
    }
}

impl Shape {
    /// What comes of an alteration; `None` if it was made before.
    fn altered(&self, to: Alteration) -> Result<Option<Self>, AlterError> {
        let (old, about) = (self.schema(), &self.about);
        if to.schema_version <= about.schema_version {
            return Ok(None);
        }
        let keys = |schema: &Schema| -> Vec<_> {
            (0..schema.key_columns())
                .map(|index| (schema.id(index), schema.columns()[index].data_type))
                .collect()
        };
        if keys(old) != keys(&to.schema) {
            return Err(AlterError::KeyColumns);
        }
        for (index, column) in to.schema.columns().iter().enumerate() {
            if let Some(before) = old.index_of_id(to.schema.id(index)).map(|index| &old.columns()[index])
                && (before.data_type, before.nullable) != (column.data_type, column.nullable)
            {
                return Err(AlterError::Type { column: column.name.clone() });
            }
        }
        Self::new(to.applied(about)).map(Some).map_err(AlterError::Description)
    }
}
