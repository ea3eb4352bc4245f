//! Who a server is: its uuid, when it started, what it says of its version.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use net_addr::{HostPort, SockAddr};
use proto::kudu::consensus::raft_peer_pb;
use proto::kudu::server::ServerStatusPb;
use proto::kudu::{HostPortPb, NodeInstancePb, ServerEntryPb, ServerRegistrationPb, VersionInfoPb};

/// The Kudu version whose protocol the servers speak and which they report.
pub const KUDU_VERSION: &str = "1.18.1";

/// A server's name for its whole life, and for this run of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerIdentity {
    uuid: ServerUuid,
    instance_seqno: i64,
    start_time_seconds: i64,
}

/// 32 lower-case hex digits that name a server for ever.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerUuid(String);

/// A text is no server uuid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no server uuid: 32 lower-case hex digits")]
#[non_exhaustive]
pub struct UuidError {
    /// The text.
    pub text: String,
}

impl ServerUuid {
    /// A new one (version 4), never given before.
    pub fn random() -> Self {
        // RandomState is keyed by the operating system's random source.
        let word = || u128::from(RandomState::new().build_hasher().finish());
        let random = word() << 64 | word();
        let version_4 = random & !(0xf << 76) & !(0xc << 60) | 4 << 76 | 8 << 60;
        Self(format!("{version_4:032x}"))
    }

    /// The 32 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ServerUuid {
    type Err = UuidError;

    fn from_str(text: &str) -> Result<Self, UuidError> {
        let is_hex = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if text.len() == 32 && is_hex {
            Ok(Self(text.to_owned()))
        } else {
            Err(UuidError { text: text.to_owned() })
        }
    }
}

impl std::fmt::Display for ServerUuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::fmt::Debug for ServerUuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl ServerIdentity {
    /// A server that never ran before and starts now.
    pub fn new() -> Self {
        Self::started(ServerUuid::random())
    }

    /// The server of this uuid, starting now: its sequence number is larger than at any start before (the clock's microseconds).
    pub fn started(uuid: ServerUuid) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let whole = |n: u128| i64::try_from(n).unwrap_or(i64::MAX);
        Self { uuid, instance_seqno: whole(now.as_micros()), start_time_seconds: whole(now.as_secs().into()) }
    }

    /// The uuid.
    pub fn uuid(&self) -> &ServerUuid {
        &self.uuid
    }

    /// Grows with every start of the same server.
    pub fn instance_seqno(&self) -> i64 {
        self.instance_seqno
    }

    /// When it was started, in seconds since the Unix epoch.
    pub fn start_time_seconds(&self) -> i64 {
        self.start_time_seconds
    }

    /// The name of the server's unix socket: abstract, `@kudu-<uuid>`.
    pub fn unix_socket(&self) -> String {
        format!("@kudu-{}", self.uuid)
    }

    /// Uuid and sequence number.
    pub fn node_instance(&self) -> NodeInstancePb {
        NodeInstancePb {
            permanent_uuid: Bytes::copy_from_slice(self.uuid.as_str().as_bytes()),
            instance_seqno: self.instance_seqno,
        }
    }

    /// What GetStatus tells. Unix sockets among `bound` are left out, as they are by the real server.
    pub fn status(&self, bound: &[SockAddr]) -> ServerStatusPb {
        ServerStatusPb {
            node_instance: self.node_instance(),
            bound_rpc_addresses: bound
                .iter()
                .filter_map(|addr| HostPort::try_from(addr).ok())
                .map(host_port_pb)
                .collect(),
            bound_http_addresses: Vec::new(),
            version_info: Some(version_info()),
        }
    }

    /// What a server tells the master, and the master its clients. `advertised` as [`crate::advertise::rpc_addresses`] gives
    /// them, `unix` is where the server listens besides, if anywhere.
    pub fn registration(&self, advertised: &[HostPort], unix: Option<&SockAddr>) -> ServerRegistrationPb {
        ServerRegistrationPb {
            rpc_addresses: advertised.iter().cloned().map(host_port_pb).collect(),
            software_version: Some(software_version()),
            https_enabled: Some(false),
            start_time: Some(self.start_time_seconds),
            unix_domain_socket_path: unix.and_then(SockAddr::advertised_unix_path),
            ..Default::default()
        }
    }

    /// How a master lists itself.
    pub fn entry(
        &self,
        registration: ServerRegistrationPb,
        role: raft_peer_pb::Role,
        cluster_id: &str,
    ) -> ServerEntryPb {
        ServerEntryPb {
            instance_id: Some(self.node_instance()),
            registration: Some(registration),
            role: Some(role.into()),
            cluster_id: Some(cluster_id.to_owned()),
            member_type: Some(raft_peer_pb::MemberType::Voter.into()),
            ..Default::default()
        }
    }
}

impl Default for ServerIdentity {
    fn default() -> Self {
        Self::new()
    }
}

/// Kudu's version, so that clients and tools know what to expect, and our own name where the build is described.
pub fn version_info() -> VersionInfoPb {
    VersionInfoPb {
        git_hash: Some(BUILD.to_owned()),
        build_hostname: Some(NAME.to_owned()),
        build_timestamp: Some(String::new()),
        build_username: Some(NAME.to_owned()),
        build_clean_repo: Some(true),
        build_id: Some(String::new()),
        build_type: Some(BUILD_TYPE.to_owned()),
        version_string: Some(KUDU_VERSION.to_owned()),
    }
}

/// The one-line version of registrations.
pub fn software_version() -> String {
    format!("kudu {KUDU_VERSION} (rev {BUILD})")
}

/// The text of `--version`.
pub(crate) fn version_text(program: &str) -> String {
    format!(
        "{program} {}\nprotocol of Kudu {KUDU_VERSION}\nbuild type {BUILD_TYPE}\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// A host and a port as a message.
pub fn host_port_pb(host_port: HostPort) -> HostPortPb {
    HostPortPb { host: host_port.host, port: host_port.port.into() }
}

const NAME: &str = "nyala";
const BUILD: &str = concat!("nyala-", env!("CARGO_PKG_VERSION"));
const BUILD_TYPE: &str = if cfg!(debug_assertions) { "DEBUG" } else { "RELEASE" };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_version_4_and_differ() {
        let (a, b) = (ServerUuid::random(), ServerUuid::random());
        assert_ne!(a, b);
        for uuid in [a, b] {
            assert_eq!(uuid.as_str().parse::<ServerUuid>(), Ok(uuid.clone()));
            assert_eq!(&uuid.as_str()[12..13], "4");
            assert!("89ab".contains(&uuid.as_str()[16..17]), "{uuid}");
        }
        for wrong in [
            "",
            "c9578dfd673e4af1832899905571469",
            "C9578DFD673E4AF18328999055714690",
            "c9578dfd-673e-4af1-8328-999055714",
        ] {
            assert!(wrong.parse::<ServerUuid>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_restart_keeps_the_uuid_and_raises_the_sequence_number() {
        let first = ServerIdentity::new();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let second = ServerIdentity::started(first.uuid().clone());
        assert_eq!(first.uuid(), second.uuid());
        assert!(second.instance_seqno() > first.instance_seqno());
        // Microseconds since 1970, as the real server's: 16 digits until the year 2286.
        assert_eq!(first.instance_seqno().to_string().len(), 16);
        assert_eq!(first.instance_seqno() / 1_000_000, first.start_time_seconds());
    }

    #[test]
    fn status_has_the_fields_of_the_real_server() {
        let identity = ServerIdentity::started("c9578dfd673e4af18328999055714690".parse().unwrap());
        let bound = [
            "127.0.0.1:7051".parse().unwrap(),
            "[::1]:7051".parse().unwrap(),
            identity.unix_socket().parse().unwrap(),
        ];
        let status = identity.status(&bound);
        assert_eq!(&status.node_instance.permanent_uuid[..], b"c9578dfd673e4af18328999055714690");
        let hosts: Vec<_> = status.bound_rpc_addresses.iter().map(|hp| (hp.host.as_str(), hp.port)).collect();
        assert_eq!(hosts, [("127.0.0.1", 7051), ("::1", 7051)]);
        let version = status.version_info.unwrap();
        assert_eq!(version.version_string.as_deref(), Some("1.18.1"));
        assert!(version.git_hash.unwrap().starts_with("nyala-"));
    }

    #[test]
    fn registration_advertises_the_unix_socket_in_kudu_s_form() {
        let identity = ServerIdentity::new();
        let unix: SockAddr = identity.unix_socket().parse().unwrap();
        let registration = identity.registration(&[HostPort::new("a", 1)], Some(&unix));
        assert_eq!(registration.unix_domain_socket_path, Some(identity.unix_socket()));
        assert_eq!(registration.rpc_addresses, [HostPortPb { host: "a".to_owned(), port: 1 }]);
        assert_eq!(identity.registration(&[], None).unix_domain_socket_path, None);
    }
}
