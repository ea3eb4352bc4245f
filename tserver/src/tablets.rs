//! The replicas of this server, and what of them the masters have not heard yet.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::RwLock;
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::consensus::{ConsensusStatePb, RaftConfigPb};
use proto::kudu::tablet::{TabletDataState, TabletStatePb};
use proto::kudu::tserver::tablet_server_error_pb::Code;
use tablet::{Tablet, TabletOptions};
use tokio::sync::watch;

use crate::fault::Fault;

/// One replica. There is one a tablet so far, and it leads.
#[derive(Debug)]
pub(crate) struct Replica {
    /// As it was made.
    pub(crate) about: TabletOptions,
    pub(crate) config: RaftConfigPb,
    pub(crate) state: State,
}

/// What has become of a replica.
#[derive(Debug)]
pub(crate) enum State {
    /// Its log is being read.
    Opening,
    Running(Arc<Tablet>),
    /// Its files are damaged, in these words. They stay until the replica is deleted.
    Failed(String),
    Tombstone,
}

/// All replicas by tablet id.
#[derive(Debug)]
pub(crate) struct Tablets {
    inner: RwLock<Inner>,
    /// The number of the newest change.
    news: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    change: u64,
    replicas: HashMap<String, (u64, Arc<Replica>)>,
    removed: BTreeMap<u64, String>,
}

/// What a master should hear.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The newest change that is in here.
    pub(crate) upto: u64,
    pub(crate) updated: Vec<Arc<Replica>>,
    pub(crate) removed: Vec<String>,
}

impl Replica {
    pub(crate) fn id(&self) -> &str {
        &self.about.id
    }

    /// What the tablet is now: alterations have come since it was made.
    pub(crate) fn present(&self) -> Arc<TabletOptions> {
        self.running().map_or_else(|| Arc::new(self.about.clone()), Tablet::options)
    }

    pub(crate) fn data_state(&self) -> TabletDataState {
        match self.state {
            State::Tombstone => TabletDataState::TabletDataTombstoned,
            _ => TabletDataState::TabletDataReady,
        }
    }

    pub(crate) fn state(&self) -> TabletStatePb {
        match self.state {
            State::Opening => TabletStatePb::Bootstrapping,
            State::Running(_) => TabletStatePb::Running,
            State::Failed(_) => TabletStatePb::Failed,
            State::Tombstone => TabletStatePb::Stopped,
        }
    }

    /// The rows, if they can be read.
    pub(crate) fn running(&self) -> Option<&Tablet> {
        match &self.state {
            State::Running(tablet) => Some(tablet),
            _ => None,
        }
    }

    /// Why it has failed, if it has.
    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.state {
            State::Failed(why) => Some(why),
            _ => None,
        }
    }

    fn with(&self, state: State) -> Self {
        Self { about: self.about.clone(), config: self.config.clone(), state }
    }

    /// For people.
    pub(crate) fn last_status(&self) -> String {
        match &self.state {
            State::Opening => "reading the log".to_owned(),
            State::Running(tablet) => tablet.log_failure().map(|error| error.to_string()).unwrap_or_default(),
            State::Failed(why) => why.clone(),
            State::Tombstone => String::new(),
        }
    }

    /// Bytes of its rows.
    pub(crate) fn bytes(&self) -> u64 {
        self.running().map_or(0, |tablet| tablet.statistics().memory_bytes)
    }

    /// The configuration with this server, `uuid`, as its leader if it can lead.
    pub(crate) fn consensus_state(&self, uuid: &str) -> ConsensusStatePb {
        ConsensusStatePb {
            current_term: TERM,
            leader_uuid: Some(if self.running().is_some() { uuid.to_owned() } else { String::new() }),
            committed_config: self.config.clone(),
            pending_config: None,
        }
    }

    /// The rows, or why they cannot be read.
    pub(crate) fn tablet(&self) -> Result<&Tablet, Fault> {
        let id = self.id();
        let (code, text) = match &self.state {
            State::Running(tablet) => return Ok(tablet),
            State::Opening => (Code::TabletNotRunning, format!("Tablet {id} not RUNNING: BOOTSTRAPPING")),
            State::Failed(why) => (Code::TabletFailed, format!("Tablet {id} has failed: {why}")),
            State::Tombstone => (Code::TabletNotFound, format!("Tablet {id} is tombstoned on this server")),
        };
        Err(Fault::new(code, ErrorCode::IllegalState, text))
    }
}

impl Tablets {
    pub(crate) fn new() -> Self {
        Self { inner: RwLock::default(), news: watch::channel(0).0 }
    }

    /// The replica whose rows are to be read or written.
    pub(crate) fn get(&self, id: &[u8]) -> Result<Arc<Replica>, Fault> {
        let id =
            std::str::from_utf8(id).map_err(|_| Fault::tablet_not_found(&String::from_utf8_lossy(id)))?;
        let inner = self.inner.read();
        inner
            .replicas
            .get(id)
            .map(|(_, replica)| Arc::clone(replica))
            .ok_or_else(|| Fault::tablet_not_found(id))
    }

    /// All replicas, by id.
    pub(crate) fn all(&self) -> Vec<Arc<Replica>> {
        let mut all: Vec<_> =
            self.inner.read().replicas.values().map(|(_, replica)| Arc::clone(replica)).collect();
        all.sort_by(|a, b| a.id().cmp(b.id()));
        all
    }

    /// How many have rows that can be read.
    pub(crate) fn count_running(&self) -> usize {
        self.inner.read().replicas.values().filter(|(_, replica)| replica.running().is_some()).count()
    }

    /// Adds a replica unless its tablet is here already; a tombstone makes room.
    pub(crate) fn add(&self, replica: Replica) -> Result<(), Fault> {
        self.change(|inner, change| match inner.replicas.entry(replica.id().to_owned()) {
            Entry::Occupied(mut entry) if matches!(entry.get().1.state, State::Tombstone) => {
                entry.insert((change, Arc::new(replica)));
                Ok(())
            }
            Entry::Occupied(_) => {
                let text = format!("Tablet {} already exists", replica.id());
                Err(Fault::new(Code::TabletAlreadyExists, ErrorCode::AlreadyPresent, text))
            }
            Entry::Vacant(entry) => {
                entry.insert((change, Arc::new(replica)));
                Ok(())
            }
        })
    }

    /// Takes a replica into another state, unless it is gone.
    pub(crate) fn set_state(&self, id: &str, state: State) {
        self.change(|inner, change| {
            let Some((at, replica)) = inner.replicas.get_mut(id) else { return };
            *at = change;
            *replica = Arc::new(replica.with(state));
        });
    }

    /// Puts a tablet in the place of another one, unless that is gone.
    pub(crate) fn replace(&self, old: &Arc<Tablet>, new: Arc<Tablet>) {
        let id = old.options().id.clone();
        self.change(|inner, change| {
            let Some((at, replica)) = inner.replicas.get_mut(&id) else { return };
            if matches!(&replica.state, State::Running(tablet) if Arc::ptr_eq(tablet, old)) {
                *at = change;
                *replica = Arc::new(replica.with(State::Running(new)));
            }
        });
    }

    /// Has masters told of a replica once more.
    pub(crate) fn touch(&self, id: &str) {
        self.change(|inner, change| {
            if let Some((at, _)) = inner.replicas.get_mut(id) {
                *at = change;
            }
        });
    }

    /// Removes a replica and its rows; with `keep_tombstone` its name and configuration stay.
    pub(crate) fn remove(&self, id: &str, keep_tombstone: bool) {
        self.change(|inner, change| {
            let Some((at, replica)) = inner.replicas.get_mut(id) else { return };
            if keep_tombstone {
                *at = change;
                *replica = Arc::new(replica.with(State::Tombstone));
            } else {
                inner.replicas.remove(id);
                inner.removed.insert(change, id.to_owned());
                while inner.removed.len() > REMOVALS_REMEMBERED {
                    inner.removed.pop_first();
                }
            }
        });
    }

    /// What happened after change number `since`; everything if that is `None`.
    pub(crate) fn changes(&self, since: Option<u64>) -> Changes {
        let inner = self.inner.read();
        let new = |change: u64| since.is_none_or(|since| change > since);
        let removed = since.map(|since| inner.removed.range(since + 1..).map(|(_, id)| id.clone()).collect());
        Changes {
            upto: inner.change,
            updated: inner.replicas.values().filter(|(at, _)| new(*at)).map(|(_, r)| Arc::clone(r)).collect(),
            removed: removed.unwrap_or_default(),
        }
    }

    /// Wakes those who report to masters.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    fn change<R>(&self, act: impl FnOnce(&mut Inner, u64) -> R) -> R {
        let mut inner = self.inner.write();
        inner.change += 1;
        let change = inner.change;
        let result = act(&mut inner, change);
        drop(inner);
        self.news.send_replace(change);
        result
    }
}

/// A replica elects itself once and leads from then on.
pub(crate) const TERM: i64 = 1;
/// A master that misses more than these asks for a full report anyway when it next finds an unknown tablet.
const REMOVALS_REMEMBERED: usize = 10_000;

#[cfg(test)]
mod tests {
    use schema::{Column, DataType, Schema};

    use super::*;

    #[test]
    fn what_a_client_and_a_master_hear_of_a_replica_that_does_not_run() {
        let columns = vec![Column::new("k", DataType::Int32)];
        let about = TabletOptions {
            id: "t".into(),
            table_id: "table".into(),
            table_name: "table".into(),
            schema: Schema::new(columns, 1).unwrap().with_sequential_ids(0),
            partition_schema: Default::default(),
            partition: Default::default(),
            schema_version: 0,
            history_max_age_sec: None,
        };
        let cases = [
            (State::Opening, Code::TabletNotRunning, TabletStatePb::Bootstrapping),
            (State::Failed("damaged".into()), Code::TabletFailed, TabletStatePb::Failed),
            (State::Tombstone, Code::TabletNotFound, TabletStatePb::Stopped),
        ];
        for (state, code, told) in cases {
            let replica = Replica { about: about.clone(), config: RaftConfigPb::default(), state };
            let fault = replica.tablet().unwrap_err();
            assert_eq!((fault.code, fault.status, replica.state()), (code, ErrorCode::IllegalState, told));
            assert_eq!(replica.consensus_state("here").leader_uuid.as_deref(), Some(""), "it does not lead");
        }
    }
}
