//! The task of a session: takes what waits, batch after batch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use super::batch::Batch;
use super::errors::RowFailure;
use super::lanes::Lanes;
use super::{FlushMode, Inner, Pending};

/// Runs until the session's last handle is gone and nothing waits any more.
///
/// Some batches are under way at once, in turns on each tablet; they are told as done in the order in which they were
/// taken, so that errors keep theirs.
pub(super) async fn run(session: Arc<Inner>, done: watch::Sender<u64>) {
    let mut running: VecDeque<Batch> = VecDeque::new();
    let mut lanes = Lanes::default();
    loop {
        let has_room = running.len() < MOST_BATCHES && running.iter().all(Batch::is_sorted);
        let Some(oldest) = running.front_mut() else {
            lanes.clear();
            let Some(pending) = next_batch(&session).await else { return };
            start(&session, &done, &mut running, &mut lanes, pending).await;
            continue;
        };
        let taken = tokio::select! {
            is_going = oldest.next_ending() => {
                if !is_going {
                    finish(&session, &done, running.pop_front()).await;
                }
                continue;
            }
            taken = next_batch(&session), if has_room => taken,
        };
        match taken {
            Some(pending) => start(&session, &done, &mut running, &mut lanes, pending).await,
            None => break,
        }
    }
    while let Some(oldest) = running.pop_front() {
        finish(&session, &done, Some(oldest)).await;
    }
}

/// Sets a batch on its way.
async fn start(
    session: &Inner,
    done: &watch::Sender<u64>,
    running: &mut VecDeque<Batch>,
    lanes: &mut Lanes,
    pending: Vec<Pending>,
) {
    let shared = &session.options.client.shared;
    let mut batch = Batch::new(pending, session.options.timeout);
    let groups = batch.sort(shared).await;
    // Rows of the new tablet's keys may still be looking for it.
    if groups.iter().any(|(group, _)| lanes.overlaps_other(&group.table, &group.tablet)) {
        while let Some(oldest) = running.pop_front() {
            finish(session, done, Some(oldest)).await;
        }
        lanes.clear();
    }
    for (group, indexes) in groups {
        let turn = lanes.enter(&group.table, &group.tablet);
        batch.start(shared, group, indexes, turn);
    }
    running.push_back(batch);
}

/// Sees to the end of the oldest batch, and tells.
async fn finish(session: &Inner, done: &watch::Sender<u64>, oldest: Option<Batch>) {
    let Some(batch) = oldest else { return };
    let (pending, failed) = batch.finish(&session.options.client.shared).await;
    let (count, mut bytes) = (pending.len() as u64, 0);
    let mut failed = failed.into_iter().peekable();
    let mut failures = Vec::new();
    for (index, pending) in pending.into_iter().enumerate() {
        bytes += pending.bytes;
        let mut error = None;
        while let Some((_, first)) = failed.next_if(|(failed, _)| *failed == index) {
            error.get_or_insert(first);
        }
        let failure = error.map(|error| RowFailure::new(pending.operation, error));
        match (pending.reply, failure) {
            // Who no longer waits for the answer gave the row up; that is not silent, it was their choice.
            (Some(reply), failure) => drop(reply.send(failure.map_or(Ok(()), Err))),
            (None, failure) => failures.extend(failure),
        }
    }
    keep(session, failures);
    session.space.add_permits(bytes);
    done.send_modify(|done| *done += count);
}

/// How many batches are under way at once.
const MOST_BATCHES: usize = 4;

fn keep(session: &Inner, failures: Vec<RowFailure>) {
    let mut state = session.state.lock();
    if state.is_closing
        && let Some(first) = failures.first()
    {
        tracing::error!(%first, count = failures.len(), "rows of a dropped session were not written");
    }
    failures.into_iter().for_each(|failure| state.errors.push(failure));
}

/// Waits for work. `None` when there never will be any.
async fn next_batch(session: &Inner) -> Option<Vec<Pending>> {
    loop {
        let due_at = {
            let mut state = session.state.lock();
            let in_background = session.options.mode == FlushMode::AutoBackground;
            if state.is_closing
                && !in_background
                && !state.waiting.is_empty()
                && state.flush_upto <= state.taken
            {
                tracing::warn!(
                    count = state.waiting.len(),
                    "a session was dropped with rows that were never flushed"
                );
                state.waiting.clear();
            }
            if state.waiting.is_empty() && state.is_closing {
                return None;
            }
            let due_at = state.oldest.filter(|_| in_background && !state.waiting.is_empty());
            let due_at = due_at.and_then(|oldest| oldest.checked_add(session.options.flush_interval));
            let is_much = state.waiting_bytes >= session.options.batch_bytes();
            let is_due = state.flush_upto > state.taken
                || in_background
                    && (state.is_closing || is_much || due_at.is_some_and(|due_at| Instant::now() >= due_at));
            if is_due && !state.waiting.is_empty() {
                state.taken += state.waiting.len() as u64;
                state.waiting_bytes = 0;
                return Some(std::mem::take(&mut state.waiting));
            }
            due_at
        };
        match due_at {
            None => session.work.notified().await,
            // Either way the state is looked at again.
            Some(due_at) => drop(tokio::time::timeout_at(due_at.into(), session.work.notified()).await),
        }
    }
}
