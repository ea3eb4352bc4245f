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
    /// True if descriptors may be attached to answers; on unix sockets of clients that said so.
    pub takes_descriptors: bool,
    /// On unix sockets: the user that the system says the peer runs as, by number.
    pub peer_uid: Option<u32>,
}

impl ConnectionInfo {
    /// Describes a connection of `user`; the other fields are 0, false or `None`, and can be set afterwards.
    pub fn new(peer: SockAddr, local: SockAddr, user: impl Into<String>) -> Self {
        let confidential = peer.is_loopback();
        let user = user.into();
        Self { peer, local, user, reactor: 0, id: 0, confidential, takes_descriptors: false, peer_uid: None }
    }
}
