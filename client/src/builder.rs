//! How to connect.

use std::sync::Arc;
use std::time::Duration;

use net_addr::{HostPort, Resolver, SystemResolver};
use schema::Timestamp;

use crate::client::Client;
use crate::error::ConnectError;

/// Collects what a [`Client`] needs. Made by [`Client::builder`].
#[derive(Clone)]
#[must_use = "call connect()"]
pub struct ClientBuilder {
    pub(crate) masters: String,
    pub(crate) options: Options,
}

/// The knobs of a client.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) admin_timeout: Duration,
    pub(crate) rpc_timeout: Duration,
    pub(crate) negotiation_timeout: Duration,
    pub(crate) max_message_size: Option<u32>,
    pub(crate) use_unix_domain_sockets: bool,
    pub(crate) shared_memory: bool,
    pub(crate) unix_retry_after: Duration,
    pub(crate) user: Option<String>,
    pub(crate) location: String,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) resolver_ttl: Duration,
    pub(crate) propagated_timestamp: Timestamp,
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ClientBuilder").field("masters", &self.masters).finish_non_exhaustive()
    }
}

impl ClientBuilder {
    pub(crate) fn new(masters: String) -> ClientBuilder {
        let options = Options {
            admin_timeout: Duration::from_secs(30),
            rpc_timeout: Duration::from_secs(10),
            negotiation_timeout: Duration::from_secs(3),
            max_message_size: None,
            use_unix_domain_sockets: true,
            shared_memory: true,
            unix_retry_after: Duration::from_secs(30),
            user: None,
            location: String::new(),
            resolver: Arc::new(SystemResolver),
            resolver_ttl: Duration::from_secs(15),
            propagated_timestamp: Timestamp::MIN,
        };
        ClientBuilder { masters, options }
    }

    /// How long a whole operation may take that goes to the master (create, open, list, ...), retries included.
    /// Default: 30 s. Sessions and scans have their own.
    pub fn admin_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.options.admin_timeout = timeout;
        self
    }

    /// How long one try at one server may take before another is made, within the operation's own time. Default: 10 s.
    pub fn rpc_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.options.rpc_timeout = timeout;
        self
    }

    /// How long connecting and agreeing with a server may take. Default: 3 s.
    pub fn negotiation_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.options.negotiation_timeout = timeout;
        self
    }

    /// The largest answer to accept, in bytes, up to 2^31 - 1. Default: 50 MiB.
    pub fn max_message_size(mut self, bytes: u32) -> ClientBuilder {
        self.options.max_message_size = Some(bytes);
        self
    }

    /// Whether to talk to tablet servers on this machine by the unix socket that they advertise. Default: true. When the
    /// socket cannot be connected TCP is used for a while.
    pub fn use_unix_domain_sockets(mut self, wanted: bool) -> ClientBuilder {
        self.options.use_unix_domain_sockets = wanted;
        self
    }

    /// Whether tablet servers on this machine may share memory with scans, in place of sending rows through the unix socket.
    /// Only servers of ours do. What is shared is mapped for as long as the server keeps it. Default: true.
    pub fn share_memory(mut self, wanted: bool) -> ClientBuilder {
        self.options.shared_memory = wanted;
        self
    }

    /// For how long TCP stands in for a unix socket that could not be connected. Default: 30 s.
    pub fn unix_retry_after(mut self, pause: Duration) -> ClientBuilder {
        self.options.unix_retry_after = pause;
        self
    }

    /// The user to be. Default: the process's own.
    pub fn user(mut self, user: impl Into<String>) -> ClientBuilder {
        self.options.user = Some(user.into());
        self
    }

    /// Where this client stands (`/rack1`), for [`ReplicaSelection::Closest`](crate::ReplicaSelection::Closest).
    /// Default: what the master assigns.
    pub fn location(mut self, location: impl Into<String>) -> ClientBuilder {
        self.options.location = location.into();
        self
    }

    /// Who turns host names into addresses. It may block: it is called on threads made for that, once a name and
    /// [`resolver_ttl`](Self::resolver_ttl). Default: the system's.
    pub fn resolver(mut self, resolver: impl Resolver) -> ClientBuilder {
        self.options.resolver = Arc::new(resolver);
        self
    }

    /// How long a resolved name is believed; a failed connection ends that at once. Default: 15 s.
    pub fn resolver_ttl(mut self, ttl: Duration) -> ClientBuilder {
        self.options.resolver_ttl = ttl;
        self
    }

    /// A timestamp that another client has seen, so that this one's scans see what that one wrote.
    pub fn propagated_timestamp(mut self, timestamp: Timestamp) -> ClientBuilder {
        self.options.propagated_timestamp = timestamp;
        self
    }

    /// Finds the leading master. Needs a tokio runtime of any kind; the connections live on it.
    ///
    /// # Errors
    /// [`ConnectError`] when the list of masters cannot be read, or none of them leads within the
    /// [`admin_timeout`](Self::admin_timeout). **Cancel safe.**
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let bad = |source| ConnectError::Masters { given: self.masters.clone(), source };
        let masters = HostPort::parse_list(&self.masters, DEFAULT_MASTER_PORT).map_err(bad)?;
        if masters.is_empty() {
            return Err(ConnectError::NoMasters);
        }
        Client::connect_to(masters, self.options).await
    }
}

/// Where a Kudu master listens unless told otherwise.
const DEFAULT_MASTER_PORT: u16 = 7051;
