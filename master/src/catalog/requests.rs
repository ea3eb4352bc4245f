//! What is sent to tablet servers to have replicas made and dropped, and what comes of their answers.

use std::time::Instant;

use proto::kudu::consensus::RaftConfigPb;
use proto::kudu::tablet::TabletDataState;
use proto::kudu::tserver::{CreateTabletRequestPb, DeleteTabletRequestPb};
use proto::kudu::{SchemaPb, TableTypePb};

use super::store::Kind;
use super::tablets::Config;
use super::{Action, Catalog, Next, copied};

impl Catalog {
    /// The request that makes a replica of `tablet` on `server`; `None` if that is no longer wanted.
    pub(crate) fn create_request(&self, server: &str, tablet: &str) -> Option<CreateTabletRequestPb> {
        let tablet = self.tablets.get(tablet).filter(|tablet| tablet.config.has(server))?;
        let table = self.tables.get(&tablet.table_id)?;
        let peers: Vec<_> = tablet.config.voters.iter().map(|uuid| self.peer(uuid)).collect();
        Some(CreateTabletRequestPb {
            dest_uuid: Some(copied(server)),
            table_type: Some(TableTypePb::DefaultTable as i32),
            table_id: copied(&table.id),
            tablet_id: copied(&tablet.id),
            partition: Some(tablet.partition.clone()),
            table_name: table.about.name.clone(),
            schema: SchemaPb::from(&table.about.schema),
            partition_schema: Some(table.about.partition_schema(&table.about.schema)),
            config: RaftConfigPb {
                opid_index: Some(tablet.config.index),
                // As real masters say of the only replica; tools show it.
                obsolete_local: Some(peers.len() == 1),
                peers,
                ..Default::default()
            },
            extra_config: Some(table.about.extra_config),
            dimension_label: tablet.dimension_label.clone(),
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
        let reason = if live.is_some() {
            "the replica was placed elsewhere"
        } else {
            "its table or range was deleted"
        };
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
                if !self.replace(running) {
                    return Next::Retry;
                }
                self.tell_changes(tablet_id);
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
            self.put_off(Action::Delete { server: server.to_owned(), tablet: tablet.to_owned() });
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
}
