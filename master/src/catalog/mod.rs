//! The catalog: tables, tablets and tablet servers as a machine without sockets, threads or clocks.
//!
//! Commands come in with the time as an argument; what is to be sent to tablet servers comes out of [`Catalog::poll_action`].
//! Whoever sends it tells how it went ([`Catalog::create_answered`], [`Catalog::delete_answered`]) and is told what next.
//!
//! What has to last goes to the [`store`] before anybody can see it. A change that the store refuses does not happen.

mod entries;
mod maintenance;
pub(crate) mod servers;
pub(crate) mod store;
pub(crate) mod tables;
pub(crate) mod tablets;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use proto::kudu::consensus::raft_peer_pb::MemberType;
use proto::kudu::consensus::{RaftConfigPb, RaftPeerPb};
use proto::kudu::master::ReportedTabletPb;
use proto::kudu::tablet::TabletDataState;
use proto::kudu::tserver::{CreateTabletRequestPb, DeleteTabletRequestPb};
use proto::kudu::{TableExtraConfigPb, TableTypePb};

use crate::fault::Fault;
use crate::options::Limits;
use crate::placement::Load;
use server_base::Tracker;
use servers::Servers;
use store::{Change, Entry, Kind, Store, StoreError};
use tables::{Table, TablePlan, Tables};
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
    /// Replicas that are still to be dropped on servers that were away, by server.
    put_off: HashMap<String, Vec<String>>,
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
                    entries::Stored::Live { tablet, dimension_label } => {
                        // Tables sort before their tablets.
                        let table: &mut Table = tables
                            .get_mut(&tablet.table_id)
                            .ok_or(StoreError::Corrupt("a tablet has no table"))?;
                        let start = Bytes::copy_from_slice(tablet.partition.partition_key_start());
                        table.tablets.push((start, id.clone()));
                        table.plan.dimension_label = dimension_label;
                        if !tablet.running {
                            catalog.ask_for(&tablet);
                        }
                        catalog.tablets.insert(id, *tablet);
                    }
                },
            }
        }
        for mut table in tables.into_values() {
            table.tablets.sort();
            let partition = |(_, id): &(Bytes, String)| Some(catalog.tablets.get(id)?.partition.clone());
            table.plan.partitions = table.tablets.iter().filter_map(partition).collect();
            catalog.tables.insert(table);
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
        let replicas = usize::try_from(plan.replicas).unwrap_or(0);
        if replicas > live.len() {
            return Err(Fault::NotEnoughServers { asked: plan.replicas, live: live.len() });
        }
        let per_server = if plan.replicas > 1 {
            self.limits.max_create_tablets_per_server
        } else {
            self.limits.max_create_unreplicated_per_server
        };
        let most = per_server.saturating_mul(live.len());
        if plan.partitions.len().saturating_mul(replicas) > most {
            return Err(Fault::TooManyTablets(most));
        }
        if plan.replicas > 1 {
            return Err(Fault::NoReplicationYet(plan.replicas));
        }
        if let Some(id) = self.tables.id_of(&plan.name) {
            return Err(Fault::TableExists { name: plan.name.clone(), id: id.to_owned() });
        }
        let id = self.new_id();
        let mut load = self.load(self.open_to_replicas(live, replicas));
        let mut table = Table { id: id.clone(), plan, schema_version: 0, tablets: Vec::new() };
        let mut changes = vec![entries::table(&table)];
        let mut tablets = Vec::with_capacity(table.plan.partitions.len());
        for partition in &table.plan.partitions {
            let tablet = Tablet {
                id: self.new_id(),
                table_id: id.clone(),
                partition: partition.clone(),
                running: false,
                refused: None,
                placed: now,
                config: Config::first(load.place(replicas)),
                stats: Stats::default(),
            };
            changes.push(entries::tablet(&tablet, table.plan.dimension_label.as_ref()));
            table.tablets.push((Bytes::copy_from_slice(partition.partition_key_start()), tablet.id.clone()));
            tablets.push(tablet);
        }
        self.store.write(&changes)?;
        for tablet in tablets {
            self.ask_for(&tablet);
            self.tablets.insert(tablet.id.clone(), tablet);
        }
        self.tables.insert(table);
        Ok(id)
    }

    /// Deletes a table: it is gone at once, its replicas follow.
    pub(crate) fn delete_table(&mut self, id: &str) -> Result<(), Fault> {
        let Some(table) = self.tables.get(id) else { return Ok(()) };
        let mut changes: Vec<Change> = vec![(Kind::Table, id.to_owned(), None)];
        let tablets = table.tablets.iter().filter_map(|(_, id)| self.tablets.get(id));
        changes.extend(tablets.map(|tablet| entries::deleted(&tablet.id, tablet.config.servers())));
        self.store.write(&changes)?;
        let Some(table) = self.tables.remove(id) else { return Ok(()) };
        for (_, id) in table.tablets {
            let Some(tablet) = self.tablets.remove(&id) else { continue };
            let holders: HashSet<String> = tablet.config.servers().cloned().collect();
            for server in &holders {
                self.actions.push_back(Action::Delete { server: server.clone(), tablet: id.clone() });
            }
            self.deleted.insert(id, holders);
        }
        Ok(())
    }

    /// The request that makes a replica of `tablet` on `server`; `None` if that is no longer wanted.
    pub(crate) fn create_request(&self, server: &str, tablet: &str) -> Option<CreateTabletRequestPb> {
        let tablet = self.tablets.get(tablet).filter(|tablet| tablet.config.has(server))?;
        let table = self.tables.get(&tablet.table_id)?;
        let peers = tablet.config.voters.iter().map(|uuid| self.peer(uuid)).collect();
        Some(CreateTabletRequestPb {
            dest_uuid: Some(copied(server)),
            table_type: Some(TableTypePb::DefaultTable as i32),
            table_id: copied(&table.id),
            tablet_id: copied(&tablet.id),
            partition: Some(tablet.partition.clone()),
            table_name: table.plan.name.clone(),
            schema: table.plan.schema.clone(),
            partition_schema: Some(table.plan.partition_schema.clone()),
            config: RaftConfigPb {
                opid_index: Some(tablet.config.index),
                obsolete_local: Some(false),
                peers,
                ..Default::default()
            },
            extra_config: Some(extra_config(&table.plan)),
            dimension_label: table.plan.dimension_label.clone(),
            ..Default::default()
        })
    }

    /// The request that drops a replica; `None` if that is done.
    pub(crate) fn delete_request(&self, server: &str, tablet: &str) -> Option<DeleteTabletRequestPb> {
        let live = self.tablets.get(tablet);
        let wanted = match live {
            Some(tablet) => !tablet.config.has(server),
            None => self.deleted.get(tablet).is_some_and(|holders| holders.contains(server)),
        };
        let reason =
            if live.is_some() { "the replica was placed elsewhere" } else { "the table was deleted" };
        wanted.then(|| DeleteTabletRequestPb {
            dest_uuid: Some(copied(server)),
            tablet_id: copied(tablet),
            reason: Some(reason.to_owned()),
            delete_type: Some(TabletDataState::TabletDataDeleted as i32),
            ..Default::default()
        })
    }

    /// An attempt to make a replica ended. Once its servers have it, a tablet with one replica is running: nobody else could
    /// lead it. After failures for a while it is placed on another live server.
    pub(crate) fn create_answered(
        &mut self,
        server: &str,
        tablet_id: &str,
        created: bool,
        now: Instant,
    ) -> Next {
        let live: Vec<String> = self.servers.live(now).map(|server| server.uuid.clone()).collect();
        let patience = self.limits.placement_patience;
        if !self.tablets.get(tablet_id).is_some_and(|tablet| tablet.config.has(server)) {
            // No longer wanted. A replica that was made after the request to drop it had come would stay for ever.
            self.drop_replica(server, tablet_id);
            return Next::Stop;
        }
        let Some(tablet) = self.tablets.get(tablet_id) else { return Next::Stop };
        if created {
            if let ([only], None) = (&tablet.config.voters[..], &tablet.config.leader) {
                let mut running = tablet.clone();
                running.config.leader = Some(only.clone());
                running.running = true;
                return if self.replace(running) { Next::Stop } else { Next::Retry };
            }
            return Next::Stop;
        }
        let elsewhere: Vec<String> = live.into_iter().filter(|uuid| !tablet.config.has(uuid)).collect();
        if now.saturating_duration_since(tablet.placed) < patience || elsewhere.is_empty() {
            return Next::Retry;
        }
        let mut moved = tablet.clone();
        let mut load = self.load(elsewhere);
        moved.config = Config::first(load.place(moved.config.voters.len()));
        moved.placed = now;
        moved.refused = None;
        // The new server is asked only when no start of the master can believe in the old one any more.
        if !self.replace(moved.clone()) {
            return Next::Retry;
        }
        self.ask_for(&moved);
        Next::Stop
    }

    /// A server will not make its replica of a tablet, however often it is asked: the table is never there.
    pub(crate) fn create_refused(&mut self, server: &str, tablet: &str, why: &str) {
        if let Some(tablet) = self.tablets.get_mut(tablet).filter(|tablet| tablet.config.has(server)) {
            tracing::error!(server, tablet = tablet.id, why, "a tablet cannot be made");
            tablet.refused = Some((server.to_owned(), why.to_owned()));
        }
    }

    /// An attempt to drop a replica ended. On a server that is away it is put off until that one calls.
    pub(crate) fn delete_answered(&mut self, server: &str, tablet: &str, gone: bool, now: Instant) -> Next {
        if !gone {
            if self.delete_request(server, tablet).is_none() {
                return Next::Stop;
            }
            if self.servers.is_live(server, now) {
                return Next::Retry;
            }
            self.put_off.entry(server.to_owned()).or_default().push(tablet.to_owned());
            return Next::Stop;
        }
        if let Some(holders) = self.deleted.get_mut(tablet) {
            holders.remove(server);
            if holders.is_empty() {
                self.deleted.remove(tablet);
                // If that fails, the next start asks once more.
                self.note(&[(Kind::Tablet, tablet.to_owned(), None)]);
            }
        }
        Next::Stop
    }

    /// A server calls: what was put off is sent now.
    pub(crate) fn resume(&mut self, server: &str) {
        for tablet in self.put_off.remove(server).unwrap_or_default() {
            self.actions.push_back(Action::Delete { server: server.to_owned(), tablet });
        }
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
            return Some("the table was deleted");
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
        if let (true, Some(stats)) = (leads, &report.stats) {
            tablet.stats =
                Stats { on_disk_size: stats.on_disk_size(), live_row_count: stats.live_row_count() };
        }
        if (known.running, &known.config) == (tablet.running, &tablet.config) {
            self.tablets.insert(tablet.id.clone(), tablet);
        } else {
            self.replace(tablet);
        }
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
        let label = self.tables.get(&tablet.table_id).and_then(|table| table.plan.dimension_label.as_ref());
        let done = self.note(&[entries::tablet(&tablet, label)]);
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

fn extra_config(plan: &TablePlan) -> TableExtraConfigPb {
    let of = |name: &str| plan.extra_configs.get(name);
    TableExtraConfigPb {
        history_max_age_sec: of(HISTORY_MAX_AGE_SEC).and_then(|value| value.parse().ok()),
        maintenance_priority: of(MAINTENANCE_PRIORITY).and_then(|value| value.parse().ok()),
        disable_compaction: of(DISABLE_COMPACTION).and_then(|value| value.parse().ok()),
    }
}

/// How long old versions of rows are kept, in seconds.
pub(crate) const HISTORY_MAX_AGE_SEC: &str = "kudu.table.history_max_age_sec";
/// A higher one is flushed and compacted first.
pub(crate) const MAINTENANCE_PRIORITY: &str = "kudu.table.maintenance_priority";
/// `true`: never compacted.
pub(crate) const DISABLE_COMPACTION: &str = "kudu.table.disable_compaction";

#[cfg(test)]
mod tests;
