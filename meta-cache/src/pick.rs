//! Which replica to talk to.

use std::sync::Arc;

use crate::replica::{Replica, Role};
use crate::server::Server;
use crate::tablet::Tablet;

/// Which replica of a tablet is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// The leader and no other.
    #[default]
    LeaderOnly,
    /// The first in the master's order.
    First,
    /// One on this machine, else one at the client's location, else any.
    Closest,
}

/// The server to use, or `None` when no replica is left and the master must be asked again. `spread` chooses among equals.
pub(crate) fn pick(
    tablet: &Tablet,
    selection: Selection,
    avoid: &[&str],
    client_location: &str,
    spread: usize,
) -> Option<Arc<Server>> {
    let usable = |replica: &&Replica| {
        replica.role() != Role::Other && !replica.is_failed() && !avoid.contains(&replica.server().uuid())
    };
    let candidates = || tablet.replicas().iter().filter(usable);
    let chosen = match selection {
        Selection::LeaderOnly => candidates().find(|replica| replica.role() == Role::Leader),
        Selection::First => candidates().next(),
        Selection::Closest => {
            let near = |replica: &&Replica| {
                !client_location.is_empty() && replica.server().location() == client_location
            };
            candidates()
                .find(|replica| replica.server().is_local())
                .or_else(|| candidates().find(near))
                .or_else(|| candidates().nth(spread.checked_rem(candidates().count())?))
        }
    };
    chosen.map(|replica| replica.server().clone())
}
