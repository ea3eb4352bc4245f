//! The task of a session: takes what waits, batch after batch.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use super::batch::write_batch;
use super::errors::RowFailure;
use super::{FlushMode, Inner, Pending};

/// Runs until the session's last handle is gone and nothing waits any more.
pub(super) async fn run(session: Arc<Inner>, done: watch::Sender<u64>) {
    while let Some(batch) = next_batch(&session).await {
        let bytes = batch.iter().map(|pending| pending.bytes).sum();
        let (operations, replies): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|pending| (pending.operation, pending.reply)).unzip();
        let count = operations.len() as u64;
        let outcomes = write_batch(&session.options.client.shared, operations, session.options.timeout).await;
        let mut failures = Vec::new();
        for ((operation, outcome), reply) in outcomes.into_iter().zip(replies) {
            let outcome = outcome.map_err(|error| RowFailure::new(operation, error));
            match (reply, outcome) {
                // Who no longer waits for the answer gave the row up; that is not silent, it was their choice.
                (Some(reply), outcome) => drop(reply.send(outcome)),
                (None, Err(failure)) => failures.push(failure),
                (None, Ok(())) => {}
            }
        }
        keep(&session, failures);
        session.space.add_permits(bytes);
        done.send_modify(|done| *done += count);
    }
}

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
            let is_much = state.waiting_bytes >= session.options.buffer_bytes / 2;
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
