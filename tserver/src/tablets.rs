//! The replicas of this server, and what of them the masters have not heard yet.

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
    pub(crate) about: TabletOptions,
    pub(crate) config: RaftConfigPb,
    /// `None` once it was tombstoned.
    pub(crate) tablet: Option<Tablet>,
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

    pub(crate) fn data_state(&self) -> TabletDataState {
        if self.tablet.is_some() {
            TabletDataState::TabletDataReady
        } else {
            TabletDataState::TabletDataTombstoned
        }
    }

    pub(crate) fn state(&self) -> TabletStatePb {
        if self.tablet.is_some() { TabletStatePb::Running } else { TabletStatePb::Stopped }
    }

    /// Bytes of its rows.
    pub(crate) fn bytes(&self) -> u64 {
        self.tablet.as_ref().map_or(0, |tablet| tablet.statistics().memory_bytes)
    }

    /// The configuration with this server, `uuid`, as its leader; a tombstone has none.
    pub(crate) fn consensus_state(&self, uuid: &str) -> ConsensusStatePb {
        ConsensusStatePb {
            current_term: TERM,
            leader_uuid: Some(if self.tablet.is_some() { uuid.to_owned() } else { String::new() }),
            committed_config: self.config.clone(),
            pending_config: None,
        }
    }

    /// The rows, unless it is a tombstone.
    pub(crate) fn tablet(&self) -> Result<&Tablet, Fault> {
        let gone = || {
            let text = format!("Tablet {} is tombstoned on this server", self.id());
            Fault::new(Code::TabletNotFound, ErrorCode::IllegalState, text)
        };
        self.tablet.as_ref().ok_or_else(gone)
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

    /// Adds a replica unless its tablet is here already.
    pub(crate) fn add(&self, replica: Replica) -> Result<(), Fault> {
        self.change(|inner, change| match inner.replicas.entry(replica.id().to_owned()) {
            std::collections::hash_map::Entry::Occupied(_) => {
                let text = format!("Tablet {} already exists", replica.id());
                Err(Fault::new(Code::TabletAlreadyExists, ErrorCode::AlreadyPresent, text))
            }
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert((change, Arc::new(replica)));
                Ok(())
            }
        })
    }

    /// Removes a replica and its rows; with `keep_tombstone` its name and configuration stay.
    pub(crate) fn remove(&self, id: &str, keep_tombstone: bool) {
        self.change(|inner, change| {
            let Some((at, replica)) = inner.replicas.get_mut(id) else { return };
            if keep_tombstone {
                *at = change;
                *replica = Arc::new(Replica {
                    about: replica.about.clone(),
                    config: replica.config.clone(),
                    tablet: None,
                });
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
const TERM: i64 = 1;
/// A master that misses more than these asks for a full report anyway when it next finds an unknown tablet.
const REMOVALS_REMEMBERED: usize = 10_000;
