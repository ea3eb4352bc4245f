//! One batch: which tablet each row belongs to, one request a tablet, and what became of the rows.

use std::sync::Arc;
use std::time::Duration;

use meta_cache::Reach;
use schema::Cell;
use schema::row_ops::Encoder;
use tokio::task::JoinSet;

use super::Pending;
use super::errors::WriteError;
use super::group::{Ending, Group};
use super::lanes::Turn;
use crate::client::Shared;
use crate::error::AttemptError;
use crate::locate::Place;
use crate::retry::{Backoff, Deadline};
use crate::table::Table;

/// Operations that were taken together. Their groups are written by tasks of their own.
pub(super) struct Batch {
    pending: Vec<Pending>,
    timeout: Duration,
    failures: Vec<(usize, Arc<WriteError>)>,
    /// The rows of each group that was started; emptied when it ends.
    groups: Vec<Vec<usize>>,
    tasks: JoinSet<(usize, Ending)>,
    /// Rows that are not in a group: not sorted yet, no room, or their tablet is gone.
    again: Vec<usize>,
    gone: Option<AttemptError>,
    held: Vec<Turn>,
}

/// Rows of one table by tablet: groups by the first key of theirs.
struct Route {
    table: Table,
    groups: Vec<usize>,
}

impl Batch {
    pub(super) fn new(pending: Vec<Pending>, timeout: Duration) -> Batch {
        let again = (0..pending.len()).collect();
        let (failures, groups, held) = (Vec::new(), Vec::new(), Vec::new());
        Batch { pending, timeout, failures, groups, tasks: JoinSet::new(), again, gone: None, held }
    }

    /// Whether all its rows are on their way or done.
    pub(super) fn is_sorted(&self) -> bool {
        self.again.is_empty()
    }

    /// Sorts rows by tablet. Those that fail here have failed; those that do not fit a request are left for the next
    /// round. The rows of each group come with it.
    pub(super) async fn sort(&mut self, shared: &Shared) -> Vec<(Group, Vec<usize>)> {
        let deadline = Deadline::after(self.timeout);
        let Batch { pending, failures, again, .. } = self;
        let mut groups: Vec<(Group, Vec<usize>)> = Vec::new();
        let mut routes: Vec<Route> = Vec::new();
        let mut unlocatable: Option<(String, Arc<WriteError>)> = None;
        let mut key = Vec::new();
        let mut cells: Vec<Cell<'_>> = Vec::new();
        for index in std::mem::take(again) {
            let operation = &pending[index].operation;
            let table = operation.table();
            let name = || table.name().to_owned();
            let mut fail = |error| failures.push((index, error));
            // The master just did not answer for this table: it would not for the next row either.
            if let Some((id, error)) = &unlocatable
                && id == table.id()
            {
                fail(error.clone());
                continue;
            }
            key.clear();
            cells.clear();
            cells.extend((0..table.schema().key_columns()).map(|column| operation.row().cell(column)));
            if let Err(source) = table.key_partitioner().encode(&cells, &mut key) {
                fail(Arc::new(WriteError::Key { table: name(), source }));
                continue;
            }
            let is_for = |route: &Route| route.table.is_same_handle(table) || route.table.id() == table.id();
            let route = match routes.iter().position(is_for) {
                Some(route) => &mut routes[route],
                None => {
                    routes.push(Route { table: table.clone(), groups: Vec::new() });
                    let last = routes.len() - 1;
                    &mut routes[last]
                }
            };
            let behind = route.groups.partition_point(|group| groups[*group].0.tablet.start() <= &key[..]);
            let before = behind.checked_sub(1).map(|at| route.groups[at]);
            let group = match before.filter(|group| groups[*group].0.tablet.covers(&key)) {
                Some(group) => group,
                None => {
                    let tablet = match shared.locate(table, &key, Reach::Point, &deadline).await {
                        Ok(Place::Tablet(tablet)) => tablet,
                        Ok(Place::Gap { .. }) => {
                            fail(Arc::new(WriteError::NonCovered { table: name() }));
                            continue;
                        }
                        Err(source) => {
                            let error = Arc::new(WriteError::Locate { table: name(), source });
                            fail(error.clone());
                            unlocatable = Some((table.id().to_owned(), error));
                            continue;
                        }
                    };
                    route.groups.insert(behind, groups.len());
                    let (key, rows) = (key.clone(), Encoder::new(table.schema()));
                    groups.push((
                        Group { table: table.clone(), tablet, key, rows, is_closed: false },
                        Vec::new(),
                    ));
                    groups.len() - 1
                }
            };
            let (group, indexes) = &mut groups[group];
            // Once a row of a tablet has to wait, all behind it do, or they would overtake it.
            group.is_closed |=
                group.rows.byte_size() > MAX_REQUEST_BYTES || !group.table.is_same_handle(table);
            if group.is_closed {
                again.push(index);
                continue;
            }
            match group.rows.push(operation.kind(), operation.row()) {
                Ok(()) => indexes.push(index),
                Err(source) => fail(Arc::new(WriteError::Encode { table: name(), source })),
            }
        }
        groups.retain(|(_, indexes)| !indexes.is_empty());
        groups
    }

    /// Sets a group on its way.
    pub(super) fn start(&mut self, shared: &Arc<Shared>, group: Group, indexes: Vec<usize>, turn: Turn) {
        let (shared, timeout, number) = (shared.clone(), self.timeout, self.groups.len());
        self.groups.push(indexes);
        self.tasks.spawn(async move { (number, group.write(&shared, turn, timeout).await) });
    }

    /// Waits for the next group to end; false when none is under way. **Cancel safe.**
    pub(super) async fn next_ending(&mut self) -> bool {
        let Some(ended) = self.tasks.join_next().await else { return false };
        // A task that broke has no ending; its rows count as abandoned.
        let Ok((number, ending)) = ended else { return true };
        let indexes = std::mem::take(&mut self.groups[number]);
        match ending {
            Ending::Written(failed) => {
                let failed = failed.into_iter().filter_map(|(row, error)| Some((*indexes.get(row)?, error)));
                self.failures.extend(failed);
            }
            Ending::Failed(error) => {
                self.failures.extend(indexes.into_iter().map(|index| (index, error.clone())));
            }
            Ending::Regroup(error, turn) => {
                self.again.extend(indexes);
                self.gone = Some(error);
                self.held.push(turn);
            }
        }
        true
    }

    /// Sees to the end of it. Gives the operations back, with the failed ones by index and in order.
    pub(super) async fn finish(
        mut self,
        shared: &Arc<Shared>,
    ) -> (Vec<Pending>, Vec<(usize, Arc<WriteError>)>) {
        let deadline = Deadline::after(self.timeout);
        let mut backoff = Backoff::default();
        loop {
            while self.next_ending().await {}
            if self.again.is_empty() {
                break;
            }
            self.again.sort_unstable();
            if let Some(error) = self.gone.take()
                && !deadline.pause(backoff.next()).await
            {
                let table = self.pending[self.again[0]].operation.table().name().to_owned();
                let (tablet, after, last) = (UNKNOWN.to_owned(), deadline.given(), Some(Box::new(error)));
                let error = Arc::new(WriteError::TimedOut { table, tablet, after, last });
                let again = std::mem::take(&mut self.again).into_iter();
                self.failures.extend(again.map(|index| (index, error.clone())));
                break;
            }
            for (group, indexes) in self.sort(shared).await {
                self.start(shared, group, indexes, Turn::default());
            }
        }
        for index in std::mem::take(&mut self.groups).into_iter().flatten() {
            let table = self.pending[index].operation.table().name().to_owned();
            self.failures.push((index, Arc::new(WriteError::Abandoned { table })));
        }
        self.failures.sort_unstable_by_key(|(index, _)| *index);
        (self.pending, self.failures)
    }
}

/// Stands in messages for a tablet that is gone.
const UNKNOWN: &str = "(gone)";
/// A request stays far below the 50 MiB that servers take.
const MAX_REQUEST_BYTES: usize = 8 << 20;
