//! What a server's memory is used for, as `dump_memtrackers` shows it.

use proto::kudu::MemTrackerPb;

/// Tells what parts of a server take.
pub type MemoryUse = dyn Fn() -> Vec<Tracker> + Send + Sync;

/// One part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracker {
    /// Its name, not that of another part.
    pub id: String,
    /// Bytes beyond which it refuses; `None`: no limit of its own.
    pub limit: Option<u64>,
    /// Bytes that it takes now.
    pub bytes: u64,
}

/// The tree of a process: what the system counts at the root, below it `server` with these parts. Only the root has a peak of
/// its own, since only the system watches all the time; a part's is what it takes now.
pub(crate) fn tree(parts: Vec<Tracker>, process: Process) -> MemTrackerPb {
    let node = |id: &str, parent: Option<&str>, limit: Option<u64>, bytes: u64, peak: u64| MemTrackerPb {
        id: Some(id.to_owned()),
        parent_id: parent.map(str::to_owned),
        limit: Some(limit.map_or(-1, signed)),
        current_consumption: Some(signed(bytes)),
        peak_consumption: Some(signed(peak)),
        child_trackers: Vec::new(),
    };
    let sum = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.bytes));
    let mut server = node(SERVER, Some(ROOT), None, sum, sum);
    server.child_trackers =
        parts.iter().map(|part| node(&part.id, Some(SERVER), part.limit, part.bytes, part.bytes)).collect();
    let mut root = node(ROOT, None, None, process.resident, process.peak);
    root.child_trackers.push(server);
    root
}

/// Bytes of this process in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) resident: u64,
    pub(crate) peak: u64,
}

impl Process {
    /// Zeros where the system does not tell.
    pub(crate) fn now() -> Self {
        std::fs::read_to_string("/proc/self/status").map(|text| Self::parse(&text)).unwrap_or_default()
    }

    fn parse(status: &str) -> Self {
        let line = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name))?;
            value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
        };
        Self { resident: line("VmRSS:").unwrap_or(0), peak: line("VmHWM:").unwrap_or(0) }
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

const ROOT: &str = "root";
const SERVER: &str = "server";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_below_the_server_and_add_up() {
        let part = |id: &str, limit, bytes| Tracker { id: id.to_owned(), limit, bytes };
        let process = Process::parse("Name:\tx\nVmHWM:\t    2000 kB\nVmRSS:\t    1000 kB\n");
        let root = tree(vec![part("tablet-a", None, 5), part("tablet-b", Some(100), 7)], process);
        assert_eq!(
            (root.current_consumption(), root.peak_consumption(), root.limit()),
            (1_024_000, 2_048_000, -1)
        );
        let server = &root.child_trackers[0];
        assert_eq!((server.id(), server.parent_id(), server.current_consumption()), ("server", "root", 12));
        let limits: Vec<i64> = server.child_trackers.iter().map(|tracker| tracker.limit()).collect();
        assert_eq!(limits, [-1, 100]);
    }

    #[test]
    fn this_process_takes_some_memory() {
        let process = Process::now();
        assert!(process.resident > 0 && process.peak >= process.resident / 2);
    }
}
