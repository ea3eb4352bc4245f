//! What the maintenance manager knows of the tablets of this server.

use std::sync::Arc;

use schema::Timestamp;
use server_base::maintenance::Tablets;
use server_base::physical_micros;
use tablet::{RowsetError, Tablet, TabletOptions};

use crate::bootstrap;
use crate::node::Node;
use crate::tablets::State;

impl Tablets for Node {
    fn running(&self) -> Vec<Arc<Tablet>> {
        let shared = |state: &State| match state {
            State::Running(tablet) => Some(Arc::clone(tablet)),
            _ => None,
        };
        self.tablets.all().iter().filter_map(|replica| shared(&replica.state)).collect()
    }

    fn oldest(&self, tablet: &Tablet) -> Timestamp {
        oldest(self, &tablet.options())
    }

    fn memory_bytes(&self) -> u64 {
        self.memory.pressure_bytes(self.flags.count("memory_pressure_percentage") as u64)
    }

    fn changed(&self) {
        self.memory.update(self.tablets.all().iter().map(|replica| replica.bytes()).sum());
    }

    fn reopen(&self, tablet: &Arc<Tablet>) -> bool {
        bootstrap::reopen(self, tablet)
    }

    fn failed(&self, tablet: &str, error: &RowsetError) {
        fail(self, tablet, error);
    }
}

/// Snapshots of a tablet before this time are refused: by its table's own age, or by that of the server's flag.
pub(crate) fn oldest(node: &Node, about: &TabletOptions) -> Timestamp {
    let of_all = || node.flags.int("tablet_history_max_age_sec");
    match u64::try_from(about.history_max_age_sec.map_or_else(of_all, i64::from)) {
        Ok(seconds) => Timestamp::new(physical_micros().saturating_sub(seconds.saturating_mul(1_000_000)), 0),
        Err(_) => Timestamp::MIN,
    }
}

/// Files of the tablet are damaged: it serves nothing any more, others go on.
pub(crate) fn fail(node: &Node, tablet: &str, error: &RowsetError) {
    tracing::error!(tablet, %error, "a tablet has failed");
    node.tablets.set_state(tablet, State::Failed(error.to_string()));
}
