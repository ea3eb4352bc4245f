//! How much memory rows may take before writes are refused: better than to be killed by the system.

use std::sync::atomic::{AtomicU64, Ordering};

use rpc_core::{RemoteError, RpcErrorCode};
use server_base::Tracker;
use server_base::flags::FlagSet;

use crate::node::Node;

/// The memory of all tablets against the limit of the server.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    hard_bytes: u64,
    soft_percentage: u64,
    used: AtomicU64,
}

impl MemoryLimit {
    /// From `--memory_limit_hard_bytes` (0: four fifths of what the machine or the container has; negative: no limit) and
    /// `--memory_limit_soft_percentage`.
    pub(crate) fn from_flags(flags: &FlagSet) -> Self {
        let hard_bytes = match flags.int("memory_limit_hard_bytes") {
            0 => available() / 5 * 4,
            given => u64::try_from(given).unwrap_or(u64::MAX),
        };
        let soft_percentage = flags.count("memory_limit_soft_percentage") as u64;
        tracing::info!(hard_bytes, soft_percentage, "writes are refused beyond this share of the memory");
        Self { hard_bytes, soft_percentage, used: AtomicU64::new(0) }
    }

    /// Beyond this rows should go to files.
    pub(crate) fn pressure_bytes(&self, percent: u64) -> u64 {
        self.hard_bytes / 100 * percent.min(self.soft_percentage)
    }

    /// What the tablets take now.
    pub(crate) fn update(&self, used_bytes: u64) {
        self.used.store(used_bytes, Ordering::Relaxed);
    }

    /// Bytes that rows may take; `None`: no limit.
    pub(crate) fn limit(&self) -> Option<u64> {
        (self.hard_bytes < u64::MAX).then_some(self.hard_bytes)
    }

    /// The answer to a write while there is no room; clients try again later.
    pub(crate) fn refusal(&self) -> Option<RemoteError> {
        let used = self.used.load(Ordering::Relaxed);
        let percent = u128::from(used) * 100 / u128::from(self.hard_bytes.max(1));
        (percent >= u128::from(self.soft_percentage)).then(|| {
            let text = format!("Service unavailable: Soft memory limit exceeded (at {percent}% of capacity)");
            RemoteError::new(RpcErrorCode::ERROR_SERVER_TOO_BUSY, text)
        })
    }
}

/// What the rows of each tablet take.
pub(crate) fn trackers(node: &Node) -> Vec<Tracker> {
    let tablets = node.tablets.all();
    let rows = tablets.iter().map(|replica| Tracker {
        id: format!("tablet-{}", replica.id()),
        limit: node.memory.limit(),
        bytes: replica.bytes(),
    });
    rows.collect()
}

/// Bytes of the machine's memory, or of the container's share.
fn available() -> u64 {
    let machine = rustix::system::sysinfo();
    let machine = machine.totalram.saturating_mul(machine.mem_unit.into());
    let container = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    container.and_then(|text| text.trim().parse().ok()).map_or(machine, |limit: u64| machine.min(limit))
}
