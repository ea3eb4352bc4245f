//! The order of writes: one request at a time to a tablet, batch after batch; other tablets go on meanwhile.

use std::collections::HashMap;
use std::sync::Arc;

use meta_cache::Tablet;
use tokio::sync::oneshot;

use crate::table::Table;

/// A group's place in the row of those that write to one tablet. Dropped, it lets the next one in.
#[derive(Default)]
pub(super) struct Turn {
    before: Option<oneshot::Receiver<()>>,
    _leave: Option<oneshot::Sender<()>>,
}

impl Turn {
    /// Waits until the group before has left. **Cancel safe.**
    pub(super) async fn come(&mut self) {
        if let Some(before) = &mut self.before {
            // Nothing is ever sent: leaving is dropping.
            let _ = before.await;
            self.before = None;
        }
    }
}

/// The tablets that requests are under way to. Their keys never overlap.
#[derive(Default)]
pub(super) struct Lanes {
    last: HashMap<String, Lane>,
}

struct Lane {
    table: Table,
    tablet: Arc<Tablet>,
    left: oneshot::Receiver<()>,
}

impl Lanes {
    /// Whether rows of this tablet may be under way to another one, which it has taken the place of.
    pub(super) fn overlaps_other(&self, table: &Table, tablet: &Tablet) -> bool {
        !self.last.contains_key(tablet.id())
            && self.last.values().any(|lane| lane.table.id() == table.id() && overlap(&lane.tablet, tablet))
    }

    /// Queues up behind whoever writes to the tablet.
    pub(super) fn enter(&mut self, table: &Table, tablet: &Arc<Tablet>) -> Turn {
        let (leave, left) = oneshot::channel();
        let lane = Lane { table: table.clone(), tablet: tablet.clone(), left };
        let before = self.last.insert(tablet.id().to_owned(), lane).map(|lane| lane.left);
        Turn { before, _leave: Some(leave) }
    }

    /// Nothing is under way any more.
    pub(super) fn clear(&mut self) {
        self.last.clear();
    }
}

/// Whether two ranges of partition keys share one; an empty end is no end.
fn overlap(a: &Tablet, b: &Tablet) -> bool {
    let reaches = |a: &Tablet, b: &Tablet| a.end().is_empty() || b.start() < a.end();
    reaches(a, b) && reaches(b, a)
}
