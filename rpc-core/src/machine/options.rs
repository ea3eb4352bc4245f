use std::sync::Arc;
use std::time::Duration;

use crate::negotiate::Subnet;
use crate::wire::limits;

/// How a server treats its connections.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Bound on an incoming frame in bytes, length prefix included (`--rpc_max_message_size`); 50 MiB.
    pub max_message_size: u32,
    /// A peer that is not through negotiation by then is dropped (`--rpc_negotiation_timeout_ms`); 3 s. More than the
    /// clock can count = never.
    pub negotiation_timeout: Duration,
    /// A connection without a call or a byte for this long is closed (`--rpc_default_keepalive_time_ms`); 65 s, `None` = never.
    pub keepalive: Option<Duration>,
    /// A connection whose peer takes no byte of its answers, or sends none of a frame it began, for this long is closed;
    /// 5 min, `None` = never.
    pub stall_timeout: Option<Duration>,
    /// Who may connect without encryption (`--trusted_subnets`); private networks. Unix peers always may.
    pub trusted_subnets: Arc<[Subnet]>,
    /// While more bytes than this wait for a peer to read them, nothing is read from it; 8 MiB.
    pub max_outbound_bytes: usize,
    /// How long a shutdown waits for calls in progress and for peers to read their answers; 2 s.
    pub drain_timeout: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            max_message_size: limits::DEFAULT_MAX_MESSAGE_SIZE,
            negotiation_timeout: Duration::from_secs(3),
            keepalive: Some(Duration::from_secs(65)),
            stall_timeout: Some(Duration::from_secs(300)),
            trusted_subnets: Subnet::defaults().into(),
            max_outbound_bytes: 8 << 20,
            drain_timeout: Duration::from_secs(2),
        }
    }
}

/// How a client treats a connection.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Bound on an incoming frame in bytes, length prefix included; 50 MiB.
    pub max_message_size: u32,
    /// From the start of the connection to the end of negotiation; 3 s. More than the clock can count = never.
    pub negotiation_timeout: Duration,
    /// Tell the server that descriptors are taken; false, but true of a messenger. Has no effect but on unix sockets, where servers may then share
    /// memory. The driver must read with room for them once [`ClientConnection::takes_descriptors`] says so.
    ///
    /// [`ClientConnection::takes_descriptors`]: super::ClientConnection::takes_descriptors
    pub descriptors: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            max_message_size: limits::DEFAULT_MAX_MESSAGE_SIZE,
            negotiation_timeout: Duration::from_secs(3),
            descriptors: false,
        }
    }
}
