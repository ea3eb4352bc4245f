//! The catalog: tables, tablets and tablet servers as a machine without sockets, threads or clocks.
//!
//! Commands come in with the time as an argument; what is to be sent to tablet servers comes out of [`Catalog::poll_action`].
//! Whoever sends it tells how it went ([`Catalog::create_answered`], [`Catalog::delete_answered`]) and is told what next.
//!
//! What has to last goes to the [`store`] before anybody can see it. A change that the store refuses does not happen.

mod alter;
mod entries;
mod maintenance_mode;
mod recall;
mod requests;
pub(crate) mod servers;
pub(crate) mod store;
pub(crate) mod tables;
pub(crate) mod tablets;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use proto::kudu::consensus::RaftPeerPb;
use proto::kudu::consensus::raft_peer_pb::MemberType;
use proto::kudu::master::ReportedTabletPb;

use crate::fault::Fault;
use crate::options::Limits;
use crate::placement::Load;
use server_base::Tracker;
use servers::Servers;
use store::{Change, Entry, Kind, Store, StoreError};
use tables::{NewTablet, Table, TablePlan, Tables};
use tablets::{Config, Stats, Tablet};

/// Something to send to a tablet server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Make a replica.
    Create {
        /// Whom to ask.
        server: String,
        /// Which tablet.
        tablet: String,
    },
    /// Tell a replica how its table has changed.
    Alter {
        /// Whom to ask.
        server: String,
        /// Which tablet.
        tablet: String,
    },
    /// Drop a replica.
    Delete {
        /// Whom to ask.
        server: String,
        /// Which tablet.
        tablet: String,
    },
}

/// What to do after an attempt of an [`Action`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Try the same again, after a pause.
    Retry,
    /// Nothing: it is done, no longer wanted, or replaced by another action.
    Stop,
}

/// All that the master knows.
#[derive(Debug)]
pub(crate) struct Catalog {
    tables: Tables,
    tablets: HashMap<String, Tablet>,
    /// Tablets of deleted tables, and the servers that may still hold a replica.
    deleted: HashMap<String, HashSet<String>>,
    /// What is still to be sent to servers that were away, by server.
    put_off: HashMap<String, Vec<Action>>,
    /// Tablets that are being told how their table has changed.
    altering: HashSet<String>,
    /// Tables that can be recalled, by the time when that ends.
    soft_deleted: BTreeSet<(u64, String)>,
    servers: Servers,
    /// Tablet servers that an operator works on: they get no new replicas.
    maintenance: HashSet<String>,
    actions: VecDeque<Action>,
    random: fastrand::Rng,
    limits: Limits,
    store: Store,
}

impl Catalog {
    /// An empty catalog that forgets everything. Ids are drawn from `random`.
    pub(crate) fn new(limits: Limits, random: fastrand::Rng) -> Self {
        Self {
            tables: Tables::default(),
            tablets: HashMap::new(),
            deleted: HashMap::new(),
            put_off: HashMap::new(),
            altering: HashSet::new(),
            soft_deleted: BTreeSet::new(),
            servers: Servers::new(limits.tserver_silence),
            maintenance: HashSet::new(),
            actions: VecDeque::new(),
            random,
            limits,
            store: Store::nowhere(),
        }
    }

    /// The catalog of the entries that `store` had when it was opened, and the id of its cluster; `fresh_id` if it has none
    /// yet. Requests that may have been on their way are sent again.
    pub(crate) fn restore(
        limits: Limits,
        random: fastrand::Rng,
        (store, found): (Store, Vec<Entry>),
        fresh_id: &str,
        now: Instant,
    ) -> Result<(Self, String), StoreError> {
        let mut catalog = Self { store, ..Self::new(limits, random) };
        let (mut cluster, mut tables) = (None, HashMap::new());
        for (kind, id, entry) in found {
            match kind {
                Kind::Server => drop(catalog.maintenance.insert(id)),
                Kind::Cluster => cluster = Some(String::from_utf8_lossy(&entry).into_owned()),
                Kind::Table => {
                    let table = entries::read_table(id.clone(), &entry)?;
                    tables.insert(id, table);
                }
                Kind::Tablet => match entries::read_tablet(id.clone(), &entry, now)? {
                    entries::Stored::Deleted { holders } => {
                        for server in &holders {
                            let action = Action::Delete { server: server.clone(), tablet: id.clone() };
                            catalog.actions.push_back(action);
                        }
                        catalog.deleted.insert(id, holders);
                    }
                    entries::Stored::Live(mut tablet) => {
                        // Tables sort before their tablets.
                        let table: &mut Table = tables
                            .get_mut(&tablet.table_id)
                            .ok_or(StoreError::Corrupt("a tablet has no table"))?;
                        let start = Bytes::copy_from_slice(tablet.partition.partition_key_start());
                        table.tablets.push((start, id.clone()));
                        if !tablet.running {
                            catalog.ask_for(&tablet);
                        } else if table.altered_from.is_none() {
                            // All tablets had heard; one that has not will report so.
                            tablet.schema_version = table.schema_version;
                        }
                        catalog.tablets.insert(id, *tablet);
                    }
                },
            }
        }
        for mut table in tables.into_values() {
            table.tablets.sort();
            if let Some(deleted) = table.soft_deleted {
                catalog.soft_deleted.insert((deleted.expiry(), table.id.clone()));
            }
            let tablets: Vec<String> = table.tablets.iter().map(|(_, id)| id.clone()).collect();
            catalog.tables.insert(table);
            tablets.iter().for_each(|id| catalog.tell_changes(id));
        }
        let cluster = match cluster {
            Some(id) => id,
            None => {
                let entry = (Kind::Cluster, String::new(), Some(fresh_id.as_bytes().to_vec()));
                catalog.store.write(&[entry])?;
                fresh_id.to_owned()
            }
        };
        Ok((catalog, cluster))
    }

    /// Ends changes; what was changed is safe from then on.
    pub(crate) fn close(&self) {
        self.store.close();
    }

    /// Takes changes again after the log has failed, if there is room on the disk.
    pub(crate) fn reopen(&mut self) -> Result<(), StoreError> {
        self.store.reopen()
    }

    /// Whether the disk that it is on takes a megabyte more.
    pub(crate) fn has_room(&self) -> std::io::Result<()> {
        self.store.has_room()
    }

    /// Where it is stored, if it is.
    pub(crate) fn stored(&self) -> Option<Arc<tablet::Tablet>> {
        self.store.tablet()
    }

    /// What its memory is used for.
    pub(crate) fn trackers(&self) -> Vec<Tracker> {
        self.store.trackers()
    }

    /// The limits it keeps to.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The tablet servers.
    pub(crate) fn servers(&self) -> &Servers {
        &self.servers
    }

    /// The tablet servers, to note heartbeats.
    pub(crate) fn servers_mut(&mut self) -> &mut Servers {
        &mut self.servers
    }

    /// The tables.
    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// A tablet of a table that is not deleted.
    pub(crate) fn tablet(&self, id: &str) -> Option<&Tablet> {
        self.tablets.get(id)
    }

    /// The tablets of a table, in order of their start keys.
    pub(crate) fn tablets_of<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = &'a Tablet> {
        table.tablets.iter().filter_map(|(_, id)| self.tablets.get(id))
    }

    /// The next thing to send.
    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Why a table is never going to be created, if that is so.
    pub(crate) fn refused(&self, table: &Table) -> Option<Fault> {
        self.tablets_of(table).filter(|tablet| !tablet.running).find_map(|tablet| {
            let (server, why) = tablet.refused.clone()?;
            Some(Fault::TabletRefused { server, tablet: tablet.id.clone(), why })
        })
    }

    /// Whether all tablets of a table are running.
    pub(crate) fn is_created(&self, table: &Table) -> bool {
        self.tablets_of(table).all(|tablet| tablet.running)
    }

    /// Rows and bytes of a table, as the leaders last told.
    pub(crate) fn statistics(&self, table: &Table) -> Stats {
        self.tablets_of(table).fold(Stats::default(), |sum, tablet| Stats {
            on_disk_size: sum.on_disk_size.saturating_add(tablet.stats.on_disk_size),
            live_row_count: sum.live_row_count.saturating_add(tablet.stats.live_row_count),
        })
    }

    /// Creates a table: it is there at once, its tablets follow. Returns its id.
    pub(crate) fn create_table(&mut self, plan: TablePlan, now: Instant) -> Result<String, Fault> {
        let live: Vec<String> = self.servers.live(now).map(|server| server.uuid.clone()).collect();
        let replicas = usize::try_from(plan.about.replicas).unwrap_or(0);
        if replicas > live.len() {
            let asked = plan.about.replicas;
            return Err(Fault::NotEnoughServers { verb: "create", asked, live: live.len() });
        }
        let per_server = if replicas > 1 {
            self.limits.max_create_tablets_per_server
        } else {
            self.limits.max_create_unreplicated_per_server
        };
        let most = per_server.saturating_mul(live.len());
        if plan.tablets.len().saturating_mul(replicas) > most {
            return Err(Fault::TooManyTablets(most));
        }
        if replicas > 1 {
            return Err(Fault::NoReplicationYet(plan.about.replicas));
        }
        self.is_free(&plan.about.name)?;
        let id = self.new_id();
        let (about, schema_version) = (plan.about, 0);
        let tablets = self.place(&id, plan.tablets, live, replicas, now);
        let mut table = Table {
            id: id.clone(),
            about,
            schema_version,
            altered_from: None,
            soft_deleted: None,
            tablets: Vec::new(),
        };
        table.tablets = starts(&tablets).collect();
        let mut changes = vec![entries::table(&table)];
        changes.extend(tablets.iter().map(entries::tablet));
        self.store.write(&changes)?;
        self.make(tablets);
        self.tables.insert(table);
        Ok(id)
    }

    /// Deletes a table: it is gone at once, its replicas follow.
    pub(crate) fn delete_table(&mut self, id: &str) -> Result<(), Fault> {
        let Some(table) = self.tables.get(id) else { return Ok(()) };
        let mut changes: Vec<Change> = vec![(Kind::Table, id.to_owned(), None)];
        changes.extend(
            self.tablets_of(table).map(|tablet| entries::deleted(&tablet.id, tablet.config.servers())),
        );
        self.store.write(&changes)?;
        let Some(table) = self.tables.remove(id) else { return Ok(()) };
        if let Some(deleted) = table.soft_deleted {
            self.soft_deleted.remove(&(deleted.expiry(), table.id));
        }
        self.drop_tablets(table.tablets.into_iter().map(|(_, id)| id));
        Ok(())
    }

    /// Whether no table has this name.
    fn is_free(&self, name: &str) -> Result<(), Fault> {
        match self.tables.id_of(name) {
            Some(id) => Err(Fault::TableExists { name: name.to_owned(), id: id.to_owned() }),
            None => Ok(()),
        }
    }

    /// Finds places for new tablets of a table.
    fn place(
        &mut self,
        table: &str,
        tablets: Vec<NewTablet>,
        live: Vec<String>,
        replicas: usize,
        now: Instant,
    ) -> Vec<Tablet> {
        let mut load = self.load(self.open_to_replicas(live, replicas));
        let place = |new: NewTablet| Tablet {
            id: self.new_id(),
            table_id: table.to_owned(),
            partition: new.partition,
            dimension_label: new.dimension_label,
            running: false,
            schema_version: 0,
            refused: None,
            placed: now,
            config: Config::first(load.place(replicas)),
            stats: Stats::default(),
        };
        tablets.into_iter().map(place).collect()
    }

    /// Has tablets made that the store knows.
    fn make(&mut self, tablets: Vec<Tablet>) {
        for tablet in tablets {
            self.ask_for(&tablet);
            self.tablets.insert(tablet.id.clone(), tablet);
        }
    }

    /// Has tablets dropped that the store knows as deleted.
    fn drop_tablets(&mut self, ids: impl IntoIterator<Item = String>) {
        for id in ids {
            let Some(tablet) = self.tablets.remove(&id) else { continue };
            let holders: HashSet<String> = tablet.config.servers().cloned().collect();
            for server in &holders {
                self.actions.push_back(Action::Delete { server: server.clone(), tablet: id.clone() });
            }
            self.deleted.insert(id, holders);
        }
    }

    /// A server calls: what was put off is sent now.
    pub(crate) fn resume(&mut self, server: &str) {
        self.actions.extend(self.put_off.remove(server).unwrap_or_default());
    }

    fn put_off(&mut self, action: Action) {
        self.put_off.entry(action.server().to_owned()).or_default().push(action);
    }

    /// Forgets servers that were silent for a day and hold no replica.
    pub(crate) fn forget_servers(&mut self, now: Instant) {
        if !self.servers.has_long_gone(now) {
            return;
        }
        let live = self.tablets.values().flat_map(|tablet| tablet.config.servers());
        let holders: HashSet<&str> =
            live.chain(self.deleted.values().flatten()).map(String::as_str).collect();
        let forgotten = self.servers.forget_long_gone(now, |uuid| holders.contains(uuid));
        if forgotten > 0 {
            tracing::info!(
                forgotten,
                "tablet servers that were silent for a day and hold nothing are forgotten"
            );
        }
    }

    /// What a tablet server tells of one of its replicas. Returns a few words on what was made of it, for the answer.
    pub(crate) fn report(&mut self, server: &str, report: &ReportedTabletPb) -> Option<&'static str> {
        let id = std::str::from_utf8(&report.tablet_id).ok()?;
        if let Some(holders) = self.deleted.get(id) {
            // Holders are being told already.
            if !holders.contains(server) {
                self.drop_replica(server, id);
            }
            return Some("its table or range was deleted");
        }
        let known = self.tablets.get(id)?;
        if !known.config.has(server) {
            self.drop_replica(server, id);
            return Some("the replica was placed elsewhere");
        }
        let mut tablet = known.clone();
        if let Some(error) = &report.error {
            tracing::warn!(tablet = id, server, error = error.message(), "a replica has failed");
        }
        if let Some(state) = &report.consensus_state {
            let config = Config::reported(state);
            if config.has(server) && tablet.config.is_older_than(&config) {
                tablet.config = config;
            }
        }
        let leads = tablet.config.leader.as_deref() == Some(server);
        tablet.running |= leads;
        if let (true, Some(version)) = (leads, report.schema_version) {
            tablet.schema_version = version;
        }
        if let (true, Some(stats)) = (leads, &report.stats) {
            tablet.stats =
                Stats { on_disk_size: stats.on_disk_size(), live_row_count: stats.live_row_count() };
        }
        if (known.running, &known.config) == (tablet.running, &tablet.config) {
            self.tablets.insert(tablet.id.clone(), tablet);
        } else {
            self.replace(tablet);
        }
        self.tell_changes(id);
        None
    }

    /// Tablets that should be on `server` and running, but are not in its full report: they were lost with its memory.
    pub(crate) fn missing_from<'a>(
        &'a self,
        server: &'a str,
        reported: &'a HashSet<&'a [u8]>,
    ) -> impl Iterator<Item = &'a str> {
        let missing = move |tablet: &&Tablet| {
            tablet.running && tablet.config.has(server) && !reported.contains(tablet.id.as_bytes())
        };
        self.tablets.values().filter(missing).map(|tablet| tablet.id.as_str())
    }

    fn drop_replica(&mut self, server: &str, tablet: &str) {
        if !self.tablets.contains_key(tablet) {
            self.deleted.entry(tablet.to_owned()).or_default().insert(server.to_owned());
        }
        self.actions.push_back(Action::Delete { server: server.to_owned(), tablet: tablet.to_owned() });
    }

    /// Puts a changed tablet in the place of what it was, unless the store refuses.
    fn replace(&mut self, tablet: Tablet) -> bool {
        let done = self.note(&[entries::tablet(&tablet)]);
        if done {
            self.tablets.insert(tablet.id.clone(), tablet);
        }
        done
    }

    fn note(&mut self, changes: &[Change]) -> bool {
        let done = self.store.write(changes);
        done.inspect_err(|error| tracing::error!(%error, "a change of a tablet is put off")).is_ok()
    }

    fn peer(&self, uuid: &str) -> RaftPeerPb {
        let server = self.servers.get(uuid);
        RaftPeerPb {
            permanent_uuid: Some(copied(uuid)),
            member_type: Some(MemberType::Voter as i32),
            last_known_addr: server.and_then(|server| server.registration.rpc_addresses.first()).cloned(),
            ..Default::default()
        }
    }

    fn ask_for(&mut self, tablet: &Tablet) {
        let create = |server: &String| Action::Create { server: server.clone(), tablet: tablet.id.clone() };
        self.actions.extend(tablet.config.voters.iter().map(create));
    }

    fn load(&mut self, mut live: Vec<String>) -> Load {
        if !live.is_empty() {
            let turn = self.random.usize(..live.len());
            live.rotate_left(turn);
        }
        let mut load = Load::new(live);
        self.tablets.values().flat_map(|tablet| &tablet.config.voters).for_each(|server| load.add(server));
        load
    }

    fn new_id(&mut self) -> String {
        format!("{:032x}", self.random.u128(..))
    }
}

/// A copy, so that no frame is kept alive.
fn copied(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Start key and id of each tablet, in order of the start keys.
fn starts(tablets: &[Tablet]) -> impl Iterator<Item = (Bytes, String)> {
    tablets
        .iter()
        .map(|tablet| (Bytes::copy_from_slice(tablet.partition.partition_key_start()), tablet.id.clone()))
}

#[cfg(test)]
mod tests;
