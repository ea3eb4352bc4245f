//! Tablets: where their replicas are and which one leads.

use std::time::Instant;

use proto::kudu::PartitionPb;
use proto::kudu::consensus::ConsensusStatePb;
use proto::kudu::consensus::raft_peer_pb::MemberType;

/// A tablet of a table that is not deleted.
#[derive(Debug, Clone)]
pub(crate) struct Tablet {
    /// 32 hex digits.
    pub(crate) id: String,
    /// Of its table.
    pub(crate) table_id: String,
    /// Which rows it holds.
    pub(crate) partition: PartitionPb,
    /// Groups tablets for placement.
    pub(crate) dimension_label: Option<String>,
    /// False while it is being created: then it has no locations to tell.
    pub(crate) running: bool,
    /// Of the changes of its table, the newest it is known to have heard of.
    pub(crate) schema_version: u32,
    /// Which server refuses to make it for good, and why. Forgotten when the master stops: it is asked again then.
    pub(crate) refused: Option<(String, String)>,
    /// Since when its present replicas were asked for.
    pub(crate) placed: Instant,
    /// Its replicas.
    pub(crate) config: Config,
    /// What its leader last told of it.
    pub(crate) stats: Stats,
}

/// Who holds replicas of a tablet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Config {
    /// Index of the operation that made it; -1 for the first one.
    pub(crate) index: i64,
    /// Election term of the leader.
    pub(crate) term: i64,
    /// The leader's id, if it is known.
    pub(crate) leader: Option<String>,
    /// Ids of the servers with a vote.
    pub(crate) voters: Vec<String>,
    /// Ids of servers that still catch up.
    pub(crate) others: Vec<String>,
}

/// Size of a tablet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    /// Bytes on disk.
    pub(crate) on_disk_size: u64,
    /// Rows that are not deleted.
    pub(crate) live_row_count: u64,
}

impl Config {
    /// The configuration in which a tablet starts.
    pub(crate) fn first(voters: Vec<String>) -> Self {
        Self { index: -1, term: 0, leader: None, voters, others: Vec::new() }
    }

    /// What a tablet server reports; copied out of the frame.
    pub(crate) fn reported(state: &ConsensusStatePb) -> Self {
        let mut config = Config {
            index: state.committed_config.opid_index.unwrap_or(-1),
            term: state.current_term,
            leader: state.leader_uuid.clone().filter(|uuid| !uuid.is_empty()),
            ..Config::default()
        };
        for peer in &state.committed_config.peers {
            let uuid = String::from_utf8_lossy(peer.permanent_uuid()).into_owned();
            let voter = peer.member_type() == MemberType::Voter;
            if voter { &mut config.voters } else { &mut config.others }.push(uuid);
        }
        config
    }

    /// Who holds replicas.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &String> {
        self.voters.iter().chain(&self.others)
    }

    /// Whether this server holds a replica.
    pub(crate) fn has(&self, uuid: &str) -> bool {
        self.servers().any(|peer| peer == uuid)
    }

    /// Whether `newer` tells more than this: a later configuration, or a later term's leader.
    pub(crate) fn is_older_than(&self, newer: &Config) -> bool {
        newer.index > self.index
            || newer.leader.is_some()
                && (newer.term > self.term || newer.term == self.term && self.leader.is_none())
    }
}
