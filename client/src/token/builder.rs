//! From a scan to its tokens.

use std::sync::Arc;

use meta_cache::{Reach, Tablet};
use proto::kudu::client::ScanTokenPb;

use super::split::Chunk;
use super::{ScanToken, message};
use crate::locate::Place;
use crate::retry::Deadline;
use crate::scan::plan::Plan;
use crate::scan::{ScanBuilder, ScanError};
use crate::table::TabletLocation;

/// How to cut a scan into tokens. Made by [`ScanBuilder::tokens`].
#[derive(Clone, Debug)]
#[must_use = "call build()"]
pub struct TokenBuilder {
    scan: ScanBuilder,
    split_bytes: Option<u64>,
    with_table: bool,
    with_tablet: bool,
}

impl TokenBuilder {
    pub(crate) fn new(scan: ScanBuilder) -> TokenBuilder {
        TokenBuilder { scan, split_bytes: None, with_table: true, with_tablet: true }
    }

    /// Cuts tablets into parts of about so many bytes of the wanted columns on disk, as far as their servers can tell (what
    /// is only in memory is not cut). Default: one token a tablet.
    pub fn split_bytes(mut self, bytes: u64) -> TokenBuilder {
        self.split_bytes = Some(bytes.max(1));
        self
    }

    /// Whether tokens tell all that a reader needs to know of the table, so that it need not ask a master. Tokens get larger
    /// by that. Default: true.
    pub fn include_table_metadata(mut self, wanted: bool) -> TokenBuilder {
        self.with_table = wanted;
        self
    }

    /// Whether tokens tell where their tablets are. A reader that has not heard of those servers reaches them by TCP, for
    /// tokens do not tell unix sockets. Default: true.
    pub fn include_tablet_metadata(mut self, wanted: bool) -> TokenBuilder {
        self.with_tablet = wanted;
        self
    }

    /// Makes the tokens, in the order of partition keys: none where no row can meet the conditions.
    ///
    /// # Errors
    /// [`ScanError`]: the definition does not fit the table, or its tablets cannot be found or split. **Cancel safe.**
    pub async fn build(self) -> Result<Vec<ScanToken>, ScanError> {
        let plan = self.scan.clone().plan()?;
        let scan = message::of_scan(&plan, self.with_table)?;
        let mut tokens = Vec::new();
        for range in &plan.ranges {
            let mut key = range.start.clone();
            loop {
                let deadline = Deadline::after(plan.timeout);
                let located = plan.table.shared().locate(&plan.table, &key, Reach::Range, &deadline).await;
                let end = match located.map_err(|source| plan.not_located(source))? {
                    Place::Gap { end } => end,
                    Place::Tablet(tablet) => {
                        // Another tablet is at the key now.
                        let Some(chunks) = self.chunks(&plan, &tablet, &key, &deadline).await? else {
                            continue;
                        };
                        tokens
                            .extend(chunks.into_iter().map(|chunk| self.token(&scan, &plan, &tablet, chunk)));
                        tablet.end().to_vec()
                    }
                };
                if end.is_empty() || !range.end.is_empty() && end >= range.end {
                    break;
                }
                key = end;
            }
        }
        Ok(tokens)
    }

    async fn chunks(
        &self,
        plan: &Plan,
        tablet: &Arc<Tablet>,
        key: &[u8],
        deadline: &Deadline,
    ) -> Result<Option<Vec<Chunk>>, ScanError> {
        match self.split_bytes {
            None => Ok(Some(vec![Chunk::default()])),
            Some(bytes) => plan.split(tablet, key, bytes, deadline).await,
        }
    }

    fn token(&self, scan: &ScanTokenPb, plan: &Plan, tablet: &Tablet, chunk: Chunk) -> ScanToken {
        let mut message = scan.clone();
        message.lower_bound_partition_key = Some(tablet.start().to_vec().into());
        message.upper_bound_partition_key = Some(tablet.end().to_vec().into());
        if !chunk.start.is_empty() {
            message.lower_bound_primary_key = Some(chunk.start);
        }
        if !chunk.end.is_empty() {
            message.upper_bound_primary_key = Some(chunk.end);
        }
        message.tablet_metadata =
            self.with_tablet.then(|| message::of_tablet(tablet, plan.table.partition_schema()));
        let tablet = Some(TabletLocation::new(&plan.table, tablet));
        ScanToken { message, tablet, bytes_estimate: chunk.bytes_estimate }
    }
}
