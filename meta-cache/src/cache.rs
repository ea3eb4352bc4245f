//! The cache itself: tables, servers and the ways in and out.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use net_addr::LocalAddresses;
use parking_lot::Mutex;

use crate::lookup::{self, Answer, AnswerError, Asking, Known, Lookup, Reach, TabletAnswer};
use crate::pick::{self, Selection};
use crate::range_map::Span;
use crate::replica::Replica;
use crate::server::{Contact, Endpoint, Server, ServerAnswer};
use crate::stats::Stats;
use crate::table::Table;
use crate::tablet::Tablet;
use crate::ttl::Expiry;

/// The knobs of a [`MetaCache`].
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Use a local server's unix socket when it advertises one. Default: true.
    pub use_unix_domain_sockets: bool,
    /// For how long TCP stands in for a unix socket that could not be connected. Default: 30 s.
    pub unix_retry_after: Duration,
    /// How long a gap is believed at most; tablets are believed as long as the master says. Short, so that rows find a
    /// range partition soon after somebody has added it. Default: 1 s.
    pub max_gap_ttl: Duration,
    /// Tablets an answer may hold for [`Reach::Point`]. Default: 10.
    pub tablets_per_point: usize,
    /// Tablets an answer may hold for [`Reach::Range`]. Default: 1000.
    pub tablets_per_range: usize,
    /// The client's own location for [`Selection::Closest`]. Default: empty, unknown.
    pub location: String,
    /// Whether a host name or address is this machine. Default: [`LocalAddresses::system`]. Called once for each
    /// server of an answer, never on a look-up; it should be quick.
    pub is_local_host: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            use_unix_domain_sockets: true,
            unix_retry_after: Duration::from_secs(30),
            max_gap_ttl: Duration::from_secs(1),
            tablets_per_point: 10,
            tablets_per_range: 1000,
            location: String::new(),
            is_local_host: Arc::new(|host| LocalAddresses::system().is_local_host(host)),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("use_unix_domain_sockets", &self.use_unix_domain_sockets)
            .field("unix_retry_after", &self.unix_retry_after)
            .field("max_gap_ttl", &self.max_gap_ttl)
            .field("tablets_per_point", &self.tablets_per_point)
            .field("tablets_per_range", &self.tablets_per_range)
            .field("location", &self.location)
            .finish_non_exhaustive()
    }
}

/// Where the rows of many tables are. Shared by reference or `Arc`; every method takes `&self`.
#[derive(Debug)]
pub struct MetaCache {
    options: Options,
    tables: ArcSwap<HashMap<String, Arc<Table>>>,
    servers: Mutex<HashMap<String, Arc<Server>>>,
    spread: AtomicUsize,
    stats: Stats,
}

impl MetaCache {
    /// An empty cache.
    pub fn new(options: Options) -> MetaCache {
        MetaCache {
            options,
            tables: ArcSwap::default(),
            servers: Mutex::default(),
            spread: AtomicUsize::new(0),
            stats: Stats::default(),
        }
    }

    /// What is known about a partition key of a table.
    pub fn lookup(&self, table_id: &str, partition_key: &[u8], reach: Reach, now: Instant) -> Lookup {
        let max_tablets = match reach {
            Reach::Point => self.options.tablets_per_point,
            Reach::Range => self.options.tablets_per_range,
        };
        self.table(table_id).lookup(partition_key, max_tablets.max(1), now, &self.stats)
    }

    /// Takes in the master's answer, then wakes those who waited for it. What comes back is what the answer says about
    /// the key that was asked for: with a TTL of zero a look-up would already ask again.
    ///
    /// # Errors
    /// [`AnswerError`] when the answer contradicts itself; the cache is unchanged then, and the waiting are woken too.
    pub fn insert(&self, asking: Asking, answer: Answer, now: Instant) -> Result<Known, AnswerError> {
        lookup::check_order(&asking.request().table_id, &answer.tablets)?;
        let servers = self.take_in_servers(&answer.servers, News::Fresh);
        let expiry = Expiry::after(now, answer.ttl);
        let tablets = answer.tablets.into_iter().map(|tablet| read_tablet(tablet, &servers, expiry));
        let tablets = tablets.collect::<Result<Vec<_>, _>>()?;
        self.stats.answers.add(1);
        self.stats.tablets.add(tablets.len() as u64);
        let gap_expiry = Expiry::after(now, answer.ttl.min(self.options.max_gap_ttl));
        let spans = lookup::spans(asking.request(), tablets, gap_expiry);
        let known = lookup::at_key(asking.request(), &spans);
        asking.table().take_in(spans);
        asking.answered();
        Ok(known)
    }

    /// Takes in where tablets are from somebody else who knew it a while ago (a scan token). What this cache knows itself
    /// stays: keys that it knows anything of, and the addresses of servers that it has met.
    ///
    /// # Errors
    /// [`AnswerError`] when it contradicts itself; the cache is unchanged then.
    pub fn insert_hint(&self, table_id: &str, hint: Answer, now: Instant) -> Result<(), AnswerError> {
        lookup::check_order(table_id, &hint.tablets)?;
        let servers = self.take_in_servers(&hint.servers, News::Hint);
        let expiry = Expiry::after(now, hint.ttl);
        let tablets = hint.tablets.into_iter().map(|tablet| read_tablet(tablet, &servers, expiry));
        let table = self.table(table_id);
        for tablet in tablets.collect::<Result<Vec<_>, _>>()? {
            table.take_in_unknown(Span::Tablet(tablet), now);
        }
        Ok(())
    }

    /// Chooses a replica's server; `avoid` holds uuids. `None`: no replica is left, so [`invalidate`](Self::invalidate)
    /// the tablet and look up again.
    pub fn pick(&self, tablet: &Tablet, selection: Selection, avoid: &[&str]) -> Option<Arc<Server>> {
        let spread = self.spread.fetch_add(1, Ordering::Relaxed);
        pick::pick(tablet, selection, avoid, &self.options.location, spread)
    }

    /// How to reach a server now: its unix socket when the option is on, it advertises one, it is local, and the socket
    /// was not found dead a short while ago; else TCP. Each choice is counted.
    pub fn endpoint(&self, server: &Server, now: Instant) -> Endpoint {
        let endpoint = server.endpoint(self.options.use_unix_domain_sockets, now);
        if endpoint.is_unix() {
            self.stats.unix_chosen.add(1);
        } else {
            self.stats.tcp_chosen.add(1);
        }
        endpoint
    }

    /// The server's unix socket cannot be connected: TCP is used until [`Options::unix_retry_after`] has passed. The
    /// replica has not failed by that; ask for the [`endpoint`](Self::endpoint) again.
    pub fn mark_unix_unreachable(&self, server: &Server, now: Instant) {
        self.stats.unix_fallbacks.add(1);
        server.mark_unix_unreachable(now, self.options.unix_retry_after);
    }

    /// The whole server cannot be reached: each replica on it that is known now counts as failed, until a newer answer
    /// names it again.
    pub fn mark_server_failed(&self, server: &Server) {
        server.mark_failed();
    }

    /// This one replica cannot be used (not running, broken); the server's other replicas can.
    pub fn mark_failed(&self, tablet: &Tablet, uuid: &str) {
        if let Some(replica) = tablet.replica_on(uuid) {
            replica.mark_failed();
        }
    }

    /// The replica said that it is not the leader.
    pub fn mark_not_leader(&self, tablet: &Tablet, uuid: &str) {
        if let Some(replica) = tablet.replica_on(uuid) {
            replica.mark_not_leader();
        }
    }

    /// The tablet is gone, or no replica of it is left: the next look-up of its keys asks the master.
    pub fn invalidate(&self, tablet: &Tablet) {
        if tablet.mark_stale() {
            self.stats.invalidated.add(1);
        }
    }

    /// The table is gone, or its ranges changed: nothing of it is believed any more.
    pub fn forget_table(&self, table_id: &str) {
        self.tables.rcu(|tables| {
            let mut tables = HashMap::clone(tables);
            tables.remove(table_id);
            tables
        });
    }

    /// The server of this uuid, if an answer named it.
    pub fn server(&self, uuid: &str) -> Option<Arc<Server>> {
        self.servers.lock().get(uuid).cloned()
    }

    /// How many tablets of the table are held, dead ones included.
    pub fn cached_tablets(&self, table_id: &str) -> usize {
        self.tables.load().get(table_id).map_or(0, |table| table.tablets())
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    fn table(&self, table_id: &str) -> Arc<Table> {
        if let Some(table) = self.tables.load().get(table_id) {
            return table.clone();
        }
        let new = Arc::new(Table::new(table_id));
        self.tables.rcu(|tables| {
            let mut tables = HashMap::clone(tables);
            tables.entry(table_id.to_owned()).or_insert_with(|| new.clone());
            tables
        });
        // Another thread may have been first, or may already have thrown it away again.
        self.tables.load().get(table_id).cloned().unwrap_or(new)
    }

    /// `None` in the place of a server without an address.
    fn take_in_servers(&self, servers: &[ServerAnswer], news: News) -> Vec<Option<Arc<Server>>> {
        let mut known = self.servers.lock();
        let take_in = |server: &ServerAnswer| {
            let contact = Contact::from_answer(server, &*self.options.is_local_host, &self.stats)?;
            if let Some(old) = known.get(&server.uuid) {
                if news == News::Fresh {
                    old.update(contact);
                }
                return Some(old.clone());
            }
            let new = Arc::new(Server::new(&server.uuid, contact));
            known.insert(server.uuid.clone(), new.clone());
            Some(new)
        };
        servers.iter().map(take_in).collect()
    }
}

/// How much to believe what is said about a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    /// By the master, now.
    Fresh,
    /// By somebody, once.
    Hint,
}

fn read_tablet(
    tablet: TabletAnswer,
    servers: &[Option<Arc<Server>>],
    expiry: Expiry,
) -> Result<Arc<Tablet>, AnswerError> {
    let mut replicas = Vec::with_capacity(tablet.replicas.len());
    for replica in &tablet.replicas {
        let server = servers.get(replica.server).ok_or_else(|| AnswerError::UnknownServer {
            tablet_id: tablet.id.clone(),
            index: replica.server,
            servers: servers.len(),
        })?;
        if let Some(server) = server {
            replicas.push(Replica::new(server.clone(), replica.role));
        }
    }
    Ok(Arc::new(Tablet::new(tablet.id, tablet.start, tablet.end, replicas, expiry)))
}
