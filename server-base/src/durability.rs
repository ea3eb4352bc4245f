//! The flags of what has to last, and how logs are written by them.

use tablet::{LogOptions, SyncPolicy};

use crate::flags::{FlagSet, FlagSetBuilder, Kind};
use crate::maintenance;

/// Adds the flags to a server's set.
pub fn with_flags(flags: FlagSetBuilder) -> FlagSetBuilder {
    flags.acts_on_all(FLAGS).acts_on_all(maintenance::FLAGS).own(
        INTERVAL,
        Kind::Int32,
        "0",
        "a write is safe from the end of the machine after so long at the latest; 0: when the system likes",
    )
}

/// `--log_force_fsync_all`, `--log_fsync_interval_ms` and `--log_segment_size_mb`.
pub fn log_options(flags: &FlagSet) -> LogOptions {
    let sync = match flags.millis(INTERVAL) {
        _ if flags.bool("log_force_fsync_all") => SyncPolicy::Always,
        Some(interval) if !interval.is_zero() => SyncPolicy::Interval(interval),
        _ => SyncPolicy::System,
    };
    LogOptions { segment_bytes: (flags.count("log_segment_size_mb") as u64) << 20, sync }
}

const FLAGS: &[(&str, &str)] = &[
    ("fs_wal_dir", "the folder of all that has to last; without one rows and tables live in memory only"),
    ("fs_data_dirs", "accepted: everything is kept in --fs_wal_dir"),
    ("log_force_fsync_all", "a write is acknowledged when it is safe from the end of the machine"),
    ("log_segment_size_mb", "a log segment of this size is followed by a new one"),
    ("never_fsync", "nothing is ever synced, whatever the other flags say"),
];
/// Ours, not Kudu's.
const INTERVAL: &str = "log_fsync_interval_ms";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::flags::Role;

    #[test]
    fn flags_say_when_logs_are_synced_and_forcing_wins() {
        let read = |arguments: &[&str]| {
            let flags = with_flags(FlagSet::builder(Role::TabletServer, "test")).build();
            flags.parse(arguments.iter().copied()).unwrap();
            log_options(&flags)
        };
        assert_eq!(read(&[]), LogOptions::default());
        let interval = "--log_fsync_interval_ms=20";
        assert_eq!(read(&[interval]).sync, SyncPolicy::Interval(Duration::from_millis(20)));
        let forced = read(&[interval, "--log_force_fsync_all", "--log_segment_size_mb=3"]);
        assert_eq!(forced, LogOptions { segment_bytes: 3 << 20, sync: SyncPolicy::Always });
    }
}
