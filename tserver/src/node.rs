//! What the services and the heartbeats of one server share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use server_base::flags::FlagSet;
use server_base::{ServerClock, ServerIdentity};

use crate::commit_wait::CommitWaits;
use crate::memory::MemoryLimit;
use crate::numbering::Numbering;
use crate::scanner::registry::Scanners;
use crate::scanner::shared::SharedBlocks;
use crate::storage::TabletStore;
use crate::tablets::Tablets;

/// The inside of a tablet server.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) identity: ServerIdentity,
    pub(crate) clock: ServerClock,
    pub(crate) tablets: Tablets,
    /// `None` if tablets live in memory only.
    pub(crate) store: Option<TabletStore>,
    pub(crate) scanners: Scanners,
    pub(crate) numbering: Numbering,
    pub(crate) shared: SharedBlocks,
    pub(crate) memory: MemoryLimit,
    pub(crate) commit_waits: CommitWaits,
    /// No new scans, leadership to others: before the server is taken down.
    pub(crate) quiescing: AtomicBool,
    pub(crate) flags: FlagSet,
}

/// How handlers hold it.
pub(crate) type SharedNode = Arc<Node>;

impl Node {
    pub(crate) fn uuid(&self) -> &str {
        self.identity.uuid().as_str()
    }
}
