use net_addr::SockAddr;

/// Who is at the other end of an accepted connection, fixed once negotiation is over.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// The peer's address; unix peers are usually unnamed.
    pub peer: SockAddr,
    /// Our own end: the address on which the connection was accepted.
    pub local: SockAddr,
    /// The authenticated user: the SASL authcid, never anything the connection context says.
    pub user: String,
    /// Index of the reactor that owns the connection, from 0.
    pub reactor: usize,
    /// Unique among the connections of one [`ReactorPool`](crate::reactor::ReactorPool).
    pub id: u64,
    /// True when what is sent can be read by nobody else: TLS was negotiated, or the peer is on this machine.
    pub confidential: bool,
}

impl ConnectionInfo {
    /// Describes a connection of `user`; `reactor` and `id` are 0 and can be set afterwards.
    pub fn new(peer: SockAddr, local: SockAddr, user: impl Into<String>) -> Self {
        let confidential = peer.is_loopback();
        Self { peer, local, user: user.into(), reactor: 0, id: 0, confidential }
    }
}
