//! The task of a scan: tablet after tablet, batch after batch.

use std::sync::Arc;

use bytes::Bytes;
use meta_cache::{Reach, Server, Tablet};
use schema::Timestamp;
use tokio::sync::mpsc;

use super::batch::Batch;
use super::fetch::Fetched;
use super::metrics::Tally;
use super::plan::Plan;
use super::{ReadMode, ScanError};
use crate::locate::Place;
use crate::retry::{Advice, Deadline};

/// What is kept from answer to answer.
pub(super) struct Progress {
    /// Rows still wanted.
    pub(super) remaining: Option<u64>,
    /// The snapshot, once one is settled.
    pub(super) snapshot: Option<Timestamp>,
    /// For fault tolerant scans: the last key read in this tablet.
    pub(super) last_key: Option<Bytes>,
    pub(super) tally: Arc<Tally>,
}

/// A scanner at a server.
pub(super) struct Scanner {
    pub(super) server: Arc<Server>,
    pub(super) id: Bytes,
    pub(super) next_call: u32,
}

/// What to do after one tablet.
enum Flow {
    Next,
    /// The tablet is another now, and nothing of it was handed out: find it again.
    Again,
    Stop,
}

/// Runs until the end, an error, or the reader is gone.
pub(super) async fn run(plan: Plan, tally: Arc<Tally>, reader: mpsc::Sender<Result<Batch, ScanError>>) {
    if let Err(error) = scan(&plan, tally, &reader).await {
        // A reader that is gone does not want to know.
        drop(reader.send(Err(error)).await);
    }
}

async fn scan(
    plan: &Plan,
    tally: Arc<Tally>,
    reader: &mpsc::Sender<Result<Batch, ScanError>>,
) -> Result<(), ScanError> {
    let snapshot = match plan.read_mode {
        ReadMode::Snapshot(timestamp) => Some(timestamp),
        _ => None,
    };
    let mut progress = Progress { remaining: plan.limit, snapshot, last_key: None, tally };
    if progress.remaining == Some(0) {
        return Ok(());
    }
    for range in &plan.ranges {
        let mut key = range.start.clone();
        loop {
            let deadline = Deadline::after(plan.timeout);
            let located = plan.table.shared().locate(&plan.table, &key, Reach::Range, &deadline).await;
            let locate_error = |source| plan.not_located(source);
            let end = match located.map_err(locate_error)? {
                Place::Gap { end } => end,
                Place::Tablet(tablet) => {
                    let end = tablet.end().to_vec();
                    match scan_tablet(plan, &mut progress, tablet, &key, reader, deadline).await? {
                        Flow::Next => end,
                        Flow::Again => continue,
                        Flow::Stop => return Ok(()),
                    }
                }
            };
            progress.last_key = None;
            if end.is_empty() || !range.end.is_empty() && end >= range.end {
                break;
            }
            key = end;
        }
    }
    Ok(())
}

async fn scan_tablet(
    plan: &Plan,
    progress: &mut Progress,
    tablet: Arc<Tablet>,
    key: &[u8],
    reader: &mpsc::Sender<Result<Batch, ScanError>>,
    mut deadline: Deadline,
) -> Result<Flow, ScanError> {
    let mut tablet = tablet;
    let mut is_begun = false;
    'open: loop {
        let Some((opened, found)) = plan.open(progress, &tablet, key, is_begun, &deadline).await? else {
            return Ok(Flow::Again);
        };
        tablet = found;
        let (mut fetched, server) = opened;
        let mut scanner = fetched.scanner_id.take().map(|id| Scanner { server, id, next_call: 1 });
        loop {
            let Fetched { batch, has_more, .. } = fetched;
            let is_enough = progress.take(batch.as_ref().map_or(0, Batch::rows));
            if let Some(batch) = batch {
                is_begun = true;
                let open = scanner.as_ref().filter(|_| has_more && !is_enough);
                if !deliver(plan, open, batch, reader).await {
                    plan.close(scanner).await;
                    return Ok(Flow::Stop);
                }
            }
            if is_enough {
                plan.close(scanner.filter(|_| has_more)).await;
                return Ok(Flow::Stop);
            }
            let Some(open) = scanner.as_mut().filter(|_| has_more) else { return Ok(Flow::Next) };
            deadline = Deadline::after(plan.timeout);
            match plan.fetch_next(progress, &tablet, open, &deadline).await {
                Ok(next) => fetched = next,
                // Nothing was handed out yet, or the place is known: another scanner can take over.
                Err((error, advice)) if advice != Advice::GiveUp && (!is_begun || plan.is_fault_tolerant) => {
                    tracing::debug!(tablet = tablet.id(), %error, "a scanner was lost, opening another");
                    continue 'open;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }
}

/// Hands a batch to the reader, keeping the open scanner alive while that takes long. False if the reader is gone.
async fn deliver(
    plan: &Plan,
    open: Option<&Scanner>,
    batch: Batch,
    reader: &mpsc::Sender<Result<Batch, ScanError>>,
) -> bool {
    let place = reader.reserve();
    tokio::pin!(place);
    loop {
        tokio::select! {
            place = &mut place => match place {
                Ok(place) => {
                    place.send(Ok(batch));
                    return true;
                }
                Err(_) => return false,
            },
            () = tokio::time::sleep(plan.keep_alive), if open.is_some() => {
                if let Some(open) = open {
                    plan.keep_alive(open).await;
                }
            }
        }
    }
}

impl Progress {
    /// Counts rows as read; true if no more are wanted.
    fn take(&mut self, rows: usize) -> bool {
        if let Some(remaining) = &mut self.remaining {
            *remaining = remaining.saturating_sub(rows as u64);
        }
        self.remaining == Some(0)
    }
}
