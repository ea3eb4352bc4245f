//! The calls of a scan, and reading their answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use meta_cache::{Reach, Server, Tablet};
use proto::kudu::tserver::{NewScanRequestPb, ScanRequestPb, ScannerKeepAliveRequestPb};
use proto::kudu::{
    ColumnSchemaPb, ColumnarRowBlockPb, OrderMode, ReadMode as WireReadMode, RowwiseRowBlockPb,
};
use proto::methods::tablet_server_service::{Scan, ScannerKeepAlive};
use rpc_core::CallError;
use schema::columnar::BlockError;
use schema::{Column, ColumnData, ColumnarBlock, DataType, Timestamp, row_block};

use super::batch::Batch;
use super::local::{self, Answer};
use super::plan::Plan;
use super::task::{Progress, Scanner};
use super::{Layout, ReadMode, ScanError};
use crate::error::{AttemptError, MasterError};
use crate::locate::Place;
use crate::retry::{Advice, Backoff, Deadline, advise_scanner};
use crate::tablet_server::{CallSpec, no_replica};

/// One answer, read.
pub(super) struct Fetched {
    /// `None` without rows.
    pub(super) batch: Option<Batch>,
    pub(super) has_more: bool,
    pub(super) scanner_id: Option<Bytes>,
}

type Opened = ((Fetched, Arc<Server>), Arc<Tablet>);

impl Plan {
    /// Opens a scanner on a tablet, at whatever replica takes it. `None`: the tablet at the key is another one now.
    pub(super) async fn open(
        &self,
        progress: &mut Progress,
        tablet: &Arc<Tablet>,
        key: &[u8],
        is_begun: bool,
        deadline: &Deadline,
    ) -> Result<Option<Opened>, ScanError> {
        let shared = self.table.shared();
        let mut tablet = tablet.clone();
        let mut backoff = Backoff::default();
        let mut last: Option<AttemptError> = None;
        loop {
            let error = match shared.cache.pick(&tablet, self.selection, &[]) {
                None => {
                    shared.cache.invalidate(&tablet);
                    no_replica(&tablet)
                }
                Some(server) => {
                    let request = self.open_request(progress, &tablet);
                    match local::scan(shared, &server, &request, self.layout, self.spec(deadline)).await {
                        Ok(answer) => {
                            let fetched = self.read(progress, answer, &tablet, &server)?;
                            return Ok(Some(((fetched, server), tablet)));
                        }
                        Err(error) => {
                            shared.learn(&tablet, &server, &error, advise_scanner(&error), deadline);
                            error
                        }
                    }
                }
            };
            let advice = advise_scanner(&error);
            tracing::debug!(table = self.table.name(), tablet = tablet.id(), %error, ?advice, "a scan did not open");
            if advice == Advice::GiveUp {
                return Err(self.refused(&tablet, error));
            }
            // That no replica is left says less than why the last one failed.
            if last.is_none() || !matches!(error, AttemptError::NoReplica { .. }) {
                last = Some(error);
            }
            if !deadline.pause(backoff.next()).await {
                return Err(self.timed_out(&tablet, deadline, last));
            }
            let locate_error = |source| self.not_located(source);
            if advice == Advice::NewToken {
                self.table.renew_authz_token(deadline).await.map_err(locate_error)?;
            }
            match shared.locate(&self.table, key, Reach::Range, deadline).await {
                Ok(Place::Tablet(found)) if found.id() == tablet.id() => tablet = found,
                // Half of the old tablet was handed out: the rest of it is nowhere.
                Ok(_) if is_begun => {
                    let error = last.unwrap_or_else(|| no_replica(&tablet));
                    return Err(self.refused(&tablet, error));
                }
                Ok(_) => return Ok(None),
                Err(MasterError::TimedOut { last: None, .. }) => {
                    return Err(self.timed_out(&tablet, deadline, last));
                }
                Err(source) => return Err(locate_error(source)),
            }
        }
    }

    /// Gets the next batch of an open scanner. The error comes with what it means for another scanner.
    pub(super) async fn fetch_next(
        &self,
        progress: &mut Progress,
        tablet: &Tablet,
        scanner: &mut Scanner,
        deadline: &Deadline,
    ) -> Result<Fetched, (ScanError, Advice)> {
        let shared = self.table.shared();
        let request = ScanRequestPb {
            scanner_id: Some(scanner.id.clone()),
            call_seq_id: Some(scanner.next_call),
            batch_size_bytes: self.batch_bytes,
            query_id: Some(self.query_id.clone().into()),
            ..Default::default()
        };
        let mut backoff = Backoff::default();
        loop {
            // A batch that was asked for and not received cannot be asked for again, so one try gets all the time.
            let spec = CallSpec { deadline: deadline.at(), features: Vec::new(), request_id: None };
            match local::scan(shared, &scanner.server, &request, self.layout, spec).await {
                Ok(answer) => {
                    scanner.next_call = scanner.next_call.wrapping_add(1);
                    let fetched = self.read(progress, answer, tablet, &scanner.server);
                    return fetched.map_err(|error| (error, Advice::GiveUp));
                }
                Err(error) => {
                    let never_ran = advise_scanner(&error) == Advice::SameServer || was_not_sent(&error);
                    if !never_ran || deadline.is_over() {
                        let advice = advise_scanner(&error);
                        shared.learn(tablet, &scanner.server, &error, advice, deadline);
                        return Err((self.refused(tablet, error), advice));
                    }
                    if !deadline.pause(backoff.next()).await {
                        return Err((self.timed_out(tablet, deadline, Some(error)), Advice::ServerFailed));
                    }
                }
            }
        }
    }

    /// Tells the server that the scanner is still wanted. A failure shows at the next batch.
    pub(super) async fn keep_alive(&self, scanner: &Scanner) {
        let request = ScannerKeepAliveRequestPb { scanner_id: scanner.id.clone() };
        let spec = CallSpec {
            deadline: Deadline::after(self.keep_alive).at(),
            features: Vec::new(),
            request_id: None,
        };
        let answer =
            self.table.shared().try_server::<ScannerKeepAlive>(&scanner.server, &request, spec).await;
        if let Err(error) = answer {
            tracing::debug!(%error, "a scanner could not be kept alive");
        }
    }

    /// Closes a scanner that is no longer wanted; if that fails the server's own limit does.
    pub(super) async fn close(&self, scanner: Option<Scanner>) {
        let Some(scanner) = scanner else { return };
        let request = ScanRequestPb {
            scanner_id: Some(scanner.id),
            call_seq_id: Some(scanner.next_call),
            batch_size_bytes: Some(0),
            close_scanner: Some(true),
            ..Default::default()
        };
        let spec =
            CallSpec { deadline: Instant::now() + CLOSE_TIMEOUT, features: Vec::new(), request_id: None };
        if let Err(error) = self.table.shared().try_server::<Scan>(&scanner.server, &request, spec).await {
            tracing::debug!(%error, "a scanner could not be closed");
        }
    }

    fn spec(&self, deadline: &Deadline) -> CallSpec {
        let wanted = [
            (FEATURE_COLUMN_PREDICATES, !self.predicates.is_empty()),
            (FEATURE_COLUMNAR_LAYOUT, self.layout == Layout::Columnar),
            (FEATURE_BLOOM_FILTER, self.has_bloom_filter),
        ];
        let features = wanted.into_iter().filter_map(|(feature, wanted)| wanted.then_some(feature)).collect();
        let deadline = deadline.of_try(self.table.shared().options.rpc_timeout);
        CallSpec { deadline, features, request_id: None }
    }

    /// The wanted columns as requests describe them, virtual ones left out.
    pub(crate) fn stored_columns(&self) -> Vec<ColumnSchemaPb> {
        let columns = self.projection.columns().iter();
        columns.filter(|column| column.data_type != DataType::IsDeleted).map(projected).collect()
    }

    fn open_request(&self, progress: &Progress, tablet: &Tablet) -> ScanRequestPb {
        let read_mode = match self.read_mode {
            ReadMode::Latest => WireReadMode::ReadLatest,
            ReadMode::Snapshot(_) | ReadMode::SnapshotNow => WireReadMode::ReadAtSnapshot,
            ReadMode::ReadYourWrites => WireReadMode::ReadYourWrites,
        };
        let order = if self.is_fault_tolerant { OrderMode::Ordered } else { OrderMode::Unordered };
        let bound = |key: &Vec<u8>| (!key.is_empty()).then(|| key.clone().into());
        let new = NewScanRequestPb {
            tablet_id: tablet.id().as_bytes().to_vec().into(),
            limit: progress.remaining,
            column_predicates: self.predicates.clone(),
            start_primary_key: bound(&self.lower_key),
            stop_primary_key: bound(&self.upper_key),
            projected_columns: self.projection.columns().iter().map(projected).collect(),
            read_mode: Some(read_mode.into()),
            snap_start_timestamp: self.since.map(|timestamp| timestamp.0),
            snap_timestamp: progress.snapshot.map(|timestamp| timestamp.0),
            propagated_timestamp: self.table.shared().observed(),
            cache_blocks: Some(self.cache_blocks),
            order_mode: Some(order.into()),
            last_primary_key: progress.last_key.clone(),
            row_format_flags: (self.layout == Layout::Columnar).then_some(FORMAT_COLUMNAR),
            authz_token: self.table.authz_token(),
            ..Default::default()
        };
        ScanRequestPb {
            new_scan_request: Some(new),
            call_seq_id: Some(0),
            batch_size_bytes: self.batch_bytes,
            query_id: Some(self.query_id.clone().into()),
            ..Default::default()
        }
    }

    fn read(
        &self,
        progress: &mut Progress,
        answer: Answer,
        tablet: &Tablet,
        server: &Server,
    ) -> Result<Fetched, ScanError> {
        let Answer { message, sidecars, .. } = &answer;
        let shared = self.table.shared();
        shared.observe(message.propagated_timestamp);
        shared.observe(message.snap_timestamp);
        if let Some(metrics) = &message.resource_metrics {
            progress.tally.add(metrics);
        }
        if self.read_mode == ReadMode::SnapshotNow && progress.snapshot.is_none() {
            progress.snapshot = message.snap_timestamp.map(Timestamp);
        }
        if self.is_fault_tolerant && message.last_primary_key.is_some() {
            progress.last_key = message.last_primary_key.clone();
        }
        let block = match (&message.columnar_data, &message.data) {
            (Some(columnar), _) => {
                let mut block = read_columnar(columnar, sidecars);
                answer.place_shared(&mut block).map_err(|source| ScanError::SharedMemory {
                    table: self.table.name().to_owned(),
                    tablet: tablet.id().to_owned(),
                    host: server.host_port(),
                    source,
                })?;
                Ok(block)
            }
            (None, Some(rows)) => self.read_rows(rows, sidecars),
            (None, None) => Ok(ColumnarBlock::default()),
        };
        let checked = block.and_then(|block| {
            if block.rows > 0 {
                block.validate(&self.projection)?;
            }
            Ok(block)
        });
        let block = checked.map_err(|source| ScanError::BadRows {
            table: self.table.name().to_owned(),
            tablet: tablet.id().to_owned(),
            host: server.host_port(),
            source: Box::new(source),
        })?;
        let batch = (block.rows > 0).then(|| Batch::new(self.projection.clone(), block));
        let scanner_id = message.scanner_id.clone().filter(|id| !id.is_empty());
        Ok(Fetched { batch, has_more: message.has_more_results(), scanner_id })
    }

    fn read_rows(&self, rows: &RowwiseRowBlockPb, sidecars: &[Bytes]) -> Result<ColumnarBlock, BlockError> {
        let count = usize::try_from(rows.num_rows()).unwrap_or(0);
        let data = sidecar(sidecars, rows.rows_sidecar).unwrap_or_default();
        let indirect = sidecar(sidecars, rows.indirect_data_sidecar).unwrap_or_default();
        row_block::decode(&self.projection, count, &data, &indirect, false)
    }

    pub(crate) fn not_located(&self, source: MasterError) -> ScanError {
        ScanError::Locate { table: self.table.name().to_owned(), source: Box::new(source) }
    }

    pub(crate) fn refused(&self, tablet: &Tablet, source: AttemptError) -> ScanError {
        let (table, tablet) = (self.table.name().to_owned(), tablet.id().to_owned());
        ScanError::Refused { table, tablet, source: Box::new(source) }
    }

    pub(crate) fn timed_out(
        &self,
        tablet: &Tablet,
        deadline: &Deadline,
        last: Option<AttemptError>,
    ) -> ScanError {
        ScanError::TimedOut {
            table: self.table.name().to_owned(),
            tablet: tablet.id().to_owned(),
            after: deadline.given(),
            last: last.map(Box::new),
        }
    }
}

fn was_not_sent(error: &AttemptError) -> bool {
    matches!(error.call_error(), Some(CallError::Network { sent: false, .. }))
}

fn read_columnar(block: &ColumnarRowBlockPb, sidecars: &[Bytes]) -> ColumnarBlock {
    let columns = block.columns.iter().map(|column| ColumnData {
        data: sidecar(sidecars, column.data_sidecar).unwrap_or_default(),
        varlen: sidecar(sidecars, column.varlen_data_sidecar),
        non_null: sidecar(sidecars, column.non_null_bitmap_sidecar),
    });
    let rows = usize::try_from(block.num_rows()).unwrap_or(0);
    ColumnarBlock { rows, columns: columns.collect() }
}

fn sidecar(sidecars: &[Bytes], index: Option<i32>) -> Option<Bytes> {
    sidecars.get(usize::try_from(index?).ok()?).cloned()
}

/// What a server checks of a projected column: name, type and whether it may be NULL. A virtual one must have a default.
fn projected(column: &Column) -> ColumnSchemaPb {
    let full = ColumnSchemaPb::from(column);
    let is_virtual = column.data_type == DataType::IsDeleted;
    ColumnSchemaPb {
        read_default_value: is_virtual.then(|| Bytes::from_static(&[0])),
        name: full.name,
        r#type: full.r#type,
        is_nullable: full.is_nullable,
        type_attributes: full.type_attributes,
        ..Default::default()
    }
}

/// `TabletServerFeatures::COLUMN_PREDICATES`.
const FEATURE_COLUMN_PREDICATES: u32 = 1;
/// `TabletServerFeatures::COLUMNAR_LAYOUT_FEATURE`.
const FEATURE_COLUMNAR_LAYOUT: u32 = 5;
/// `TabletServerFeatures::BLOOM_FILTER_PREDICATE_V2`.
const FEATURE_BLOOM_FILTER: u32 = 6;
/// `RowFormatFlags::COLUMNAR_LAYOUT`.
const FORMAT_COLUMNAR: u64 = 2;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
