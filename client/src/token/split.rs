//! Tablets cut into parts by their servers.

use std::sync::Arc;

use bytes::Bytes;
use meta_cache::{Reach, Tablet};
use proto::kudu::KeyRangePb;
use proto::kudu::tserver::SplitKeyRangeRequestPb;
use proto::methods::tablet_server_service::SplitKeyRange;

use crate::error::AttemptError;
use crate::locate::Place;
use crate::retry::{Advice, Backoff, Deadline, advise_scanner};
use crate::scan::ScanError;
use crate::scan::plan::Plan;
use crate::tablet_server::{CallSpec, no_replica};

/// Encoded primary keys `[start, end)` of one tablet, empty where the scan's own bounds hold.
#[derive(Default)]
pub(super) struct Chunk {
    pub(super) start: Bytes,
    pub(super) end: Bytes,
    pub(super) bytes_estimate: Option<u64>,
}

impl Plan {
    /// Has a tablet cut. `None`: another tablet is at the key now.
    pub(super) async fn split(
        &self,
        tablet: &Arc<Tablet>,
        key: &[u8],
        bytes: u64,
        deadline: &Deadline,
    ) -> Result<Option<Vec<Chunk>>, ScanError> {
        let shared = self.table.shared();
        let mut tablet = tablet.clone();
        let mut backoff = Backoff::default();
        loop {
            let error = match self.try_split(&tablet, bytes, deadline).await {
                Ok(chunks) => return Ok(Some(chunks)),
                Err(error) => error,
            };
            let advice = advise_scanner(&error);
            if advice == Advice::GiveUp {
                return Err(self.refused(&tablet, error));
            }
            if !deadline.pause(backoff.next()).await {
                return Err(self.timed_out(&tablet, deadline, Some(error)));
            }
            let not_located = |source| self.not_located(source);
            if advice == Advice::NewToken {
                self.table.renew_authz_token(deadline).await.map_err(not_located)?;
            }
            match shared.locate(&self.table, key, Reach::Range, deadline).await.map_err(not_located)? {
                Place::Tablet(found) if found.id() == tablet.id() => tablet = found,
                _ => return Ok(None),
            }
        }
    }

    async fn try_split(
        &self,
        tablet: &Tablet,
        bytes: u64,
        deadline: &Deadline,
    ) -> Result<Vec<Chunk>, AttemptError> {
        let shared = self.table.shared();
        let Some(server) = shared.cache.pick(tablet, self.selection, &[]) else {
            shared.cache.invalidate(tablet);
            return Err(no_replica(tablet));
        };
        let bound = |key: &Vec<u8>| (!key.is_empty()).then(|| key.clone().into());
        let request = SplitKeyRangeRequestPb {
            tablet_id: tablet.id().as_bytes().to_vec().into(),
            start_primary_key: bound(&self.lower_key),
            stop_primary_key: bound(&self.upper_key),
            target_chunk_size_bytes: Some(bytes),
            columns: self.stored_columns(),
            authz_token: self.table.authz_token(),
        };
        let deadline_of_try = deadline.of_try(shared.options.rpc_timeout);
        let spec = CallSpec { deadline: deadline_of_try, features: Vec::new(), request_id: None };
        match shared.try_server::<SplitKeyRange>(&server, &request, spec).await {
            Ok(answer) => Ok(answer.message.ranges.into_iter().map(chunk).collect()),
            Err(error) => {
                shared.learn(tablet, &server, &error, advise_scanner(&error), deadline);
                Err(error)
            }
        }
    }
}

fn chunk(range: KeyRangePb) -> Chunk {
    let bytes_estimate = Some(range.size_bytes_estimates);
    // A slice of the answer would keep all of it in memory.
    let copy = |key: Option<Bytes>| key.map(|key| Bytes::copy_from_slice(&key)).unwrap_or_default();
    Chunk { start: copy(range.start_primary_key), end: copy(range.stop_primary_key), bytes_estimate }
}
