//! Tables that change, and how their tablets hear of it.

use std::time::Instant;

use proto::kudu::SchemaPb;
use proto::kudu::tserver::AlterSchemaRequestPb;

use super::tables::{NewTablet, Table};
use super::{Action, Catalog, Next, copied, entries, starts};
use crate::ddl::alter::Altered;
use crate::fault::Fault;

impl Catalog {
    /// Changes a table: what is new of it is told at once, but for its columns, which are the old ones until all tablets have
    /// the new ones. Tablets of new ranges follow.
    pub(crate) fn alter_table(&mut self, id: &str, altered: Altered, now: Instant) -> Result<(), Fault> {
        let Some(table) = self.tables.get(id) else { return Ok(()) };
        let Altered { about, renamed, concerns_tablets, added, dropped } = altered;
        let live: Vec<String> = self.servers.live(now).map(|server| server.uuid.clone()).collect();
        let replicas = usize::try_from(about.replicas).unwrap_or(0);
        if about.replicas != table.about.replicas {
            if replicas > live.len() {
                let asked = about.replicas;
                return Err(Fault::NotEnoughServers { verb: "alter", asked, live: live.len() });
            }
            return Err(Fault::NoReplicationYet(about.replicas));
        }
        if !added.is_empty() && replicas > live.len() {
            let asked = about.replicas;
            return Err(Fault::NotEnoughServers { verb: "alter", asked, live: live.len() });
        }
        let mut changed = Table { about, ..table.clone() };
        if renamed {
            self.is_free(&changed.about.name)?;
        }
        if concerns_tablets {
            changed.schema_version = changed.schema_version.saturating_add(1);
            changed.altered_from.get_or_insert_with(|| table.about.schema.clone());
        }
        let gone: Vec<_> = dropped.iter().filter_map(|id| self.tablets.get(id)).cloned().collect();
        let new = self.place(id, added, live, replicas, now);
        changed.tablets.retain(|(_, tablet)| !dropped.contains(tablet));
        changed.tablets.extend(starts(&new));
        changed.tablets.sort();
        if changed.tablets.is_empty() {
            changed.altered_from = None;
        }
        let mut changes = vec![entries::table(&changed)];
        changes.extend(gone.iter().map(|tablet| entries::deleted(&tablet.id, tablet.config.servers())));
        changes.extend(new.iter().map(entries::tablet));
        self.store.write(&changes)?;
        let tablets: Vec<String> = changed.tablets.iter().map(|(_, tablet)| tablet.clone()).collect();
        self.tables.replace(changed);
        self.make(new);
        self.drop_tablets(dropped);
        tablets.iter().for_each(|tablet| self.tell_changes(tablet));
        self.end_alteration(id);
        Ok(())
    }

    /// Gives a tablet up with its rows, for an empty one of the same partition; the id of that.
    pub(crate) fn replace_tablet(&mut self, id: &str, now: Instant) -> Result<String, Fault> {
        let unknown = || Fault::UnknownTablet(id.to_owned());
        let old = self.tablets.get(id).cloned().ok_or_else(unknown)?;
        let table = self.tables.get(&old.table_id).cloned().ok_or_else(unknown)?;
        let live: Vec<String> = self.servers.live(now).map(|server| server.uuid.clone()).collect();
        let replicas = usize::try_from(table.about.replicas).unwrap_or(0);
        if replicas > live.len() {
            let asked = table.about.replicas;
            return Err(Fault::NotEnoughServers { verb: "alter", asked, live: live.len() });
        }
        let empty = NewTablet { partition: old.partition, dimension_label: old.dimension_label };
        let new = self.place(&table.id, vec![empty], live, replicas, now);
        let mut changed = table;
        changed.tablets.retain(|(_, tablet)| tablet != id);
        changed.tablets.extend(starts(&new));
        changed.tablets.sort();
        let replacement = new.iter().map(|tablet| tablet.id.clone()).next().unwrap_or_default();
        let mut changes = vec![entries::table(&changed), entries::deleted(id, old.config.servers())];
        changes.extend(new.iter().map(entries::tablet));
        self.store.write(&changes)?;
        self.tables.replace(changed);
        self.make(new);
        self.drop_tablets([id.to_owned()]);
        Ok(replacement)
    }

    /// The request that tells `tablet` how its table has changed; `None` if it knows.
    pub(crate) fn alter_request(&mut self, server: &str, tablet: &str) -> Option<AlterSchemaRequestPb> {
        let wanted = self.lags(tablet).filter(|(leader, _)| *leader == server);
        let request = wanted.map(|(server, table)| AlterSchemaRequestPb {
            dest_uuid: Some(copied(server)),
            tablet_id: copied(tablet),
            schema: SchemaPb::from(&table.about.schema),
            schema_version: table.schema_version,
            new_table_name: Some(table.about.name.clone()),
            new_extra_config: Some(table.about.extra_config),
        });
        if request.is_none() {
            self.altering.remove(tablet);
        }
        request
    }

    /// An attempt to tell a tablet ended: it has this version of the schema, or did not answer. On a server that is away it
    /// is put off until that one calls.
    pub(crate) fn alter_answered(
        &mut self,
        server: &str,
        tablet_id: &str,
        version: Option<u32>,
        now: Instant,
    ) -> Next {
        let Some(version) = version else {
            if self.servers.is_live(server, now) {
                return Next::Retry;
            }
            self.put_off(Action::Alter { server: server.to_owned(), tablet: tablet_id.to_owned() });
            return Next::Stop;
        };
        self.altering.remove(tablet_id);
        let Some(tablet) = self.tablets.get_mut(tablet_id) else { return Next::Stop };
        tablet.schema_version = tablet.schema_version.max(version);
        let table = tablet.table_id.clone();
        // The table may have changed once more.
        self.tell_changes(tablet_id);
        if self.end_alteration(&table) { Next::Stop } else { Next::Retry }
    }

    /// Has a tablet told how its table has changed, unless it knows or is being told.
    pub(super) fn tell_changes(&mut self, tablet: &str) {
        let Some((leader, _)) = self.lags(tablet) else {
            if let Some(tablet) = self.tablets.get(tablet) {
                let table = tablet.table_id.clone();
                self.end_alteration(&table);
            }
            return;
        };
        let action = Action::Alter { server: leader.to_owned(), tablet: tablet.to_owned() };
        if self.altering.insert(tablet.to_owned()) {
            self.actions.push_back(action);
        }
    }

    /// Who leads a tablet that does not know how its table has changed, and the table.
    fn lags(&self, tablet: &str) -> Option<(&str, &Table)> {
        let tablet = self.tablets.get(tablet).filter(|tablet| tablet.running)?;
        let table = self.tables.get(&tablet.table_id)?;
        let leader = tablet.config.leader.as_deref()?;
        (tablet.schema_version < table.schema_version).then_some((leader, table))
    }

    /// Ends the alteration of a table when all of its tablets know; false if the store refused to note that.
    fn end_alteration(&mut self, id: &str) -> bool {
        let Some(table) = self.tables.get(id).filter(|table| table.altered_from.is_some()) else {
            return true;
        };
        let knows = |tablet: &super::Tablet| tablet.running && tablet.schema_version >= table.schema_version;
        if !self.tablets_of(table).all(knows) {
            return true;
        }
        let altered = Table { altered_from: None, ..table.clone() };
        let noted = self.note(&[entries::table(&altered)]);
        if noted {
            self.tables.replace(altered);
        }
        noted
    }
}
