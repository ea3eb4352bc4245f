//! Tables that are deleted, but kept for a while.

use super::tables::{SoftDeleted, Table};
use super::{Catalog, entries};
use crate::fault::Fault;

impl Catalog {
    /// Deletes a table, but keeps it for `reserve` seconds, in which it can be recalled. It is not listed any more; who knows
    /// it can still use it, and its name is taken. `now` is in seconds since the Unix epoch, as in all of these.
    pub(crate) fn soft_delete_table(&mut self, id: &str, reserve: u32, now: u64) -> Result<(), Fault> {
        let Some(table) = self.tables.get(id) else { return Ok(()) };
        if table.soft_deleted.is_some() {
            return Err(Fault::SoftDeletedTwice { table: table.about.name.clone() });
        }
        let deleted = SoftDeleted { at: now, reserve };
        let changed = Table { soft_deleted: Some(deleted), ..table.clone() };
        self.store.write(&[entries::table(&changed)])?;
        self.soft_deleted.insert((deleted.expiry(), id.to_owned()));
        self.tables.replace(changed);
        Ok(())
    }

    /// Brings a table back, under another name if wanted.
    pub(crate) fn recall_table(&mut self, id: &str, name: Option<&str>, now: u64) -> Result<(), Fault> {
        let Some(table) = self.tables.get(id) else { return Ok(()) };
        let Some(deleted) = table.soft_deleted.filter(|deleted| deleted.expiry() > now) else {
            return Err(Fault::NotRecallable { id: id.to_owned(), expired: table.soft_deleted.is_some() });
        };
        let mut changed = Table { soft_deleted: None, ..table.clone() };
        if let Some(name) = name.filter(|name| *name != table.about.name) {
            self.is_free(name)?;
            crate::ddl::check_table_name(name, &self.limits)?;
            name.clone_into(&mut changed.about.name);
            // Its tablets are to hear of the name.
            changed.schema_version = changed.schema_version.saturating_add(1);
            changed.altered_from.get_or_insert_with(|| table.about.schema.clone());
        }
        self.store.write(&[entries::table(&changed)])?;
        self.soft_deleted.remove(&(deleted.expiry(), id.to_owned()));
        let tablets: Vec<String> = changed.tablets.iter().map(|(_, tablet)| tablet.clone()).collect();
        self.tables.replace(changed);
        tablets.iter().for_each(|tablet| self.tell_changes(tablet));
        Ok(())
    }

    /// Deletes for good what can no longer be recalled.
    pub(crate) fn delete_expired(&mut self, now: u64) {
        while let Some((expiry, id)) = self.soft_deleted.first().cloned().filter(|(expiry, _)| *expiry <= now)
        {
            if let Err(error) = self.delete_table(&id) {
                tracing::error!(%id, expiry, %error, "a table that can no longer be recalled stays for now");
                return;
            }
            tracing::info!(%id, "the table can no longer be recalled");
        }
    }
}
