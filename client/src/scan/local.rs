//! One call of a scan, by the way that the connection allows: rows sent, or named in memory that the server shares.

use std::sync::Arc;

use bytes::Bytes;
use meta_cache::Server;
use proto::kudu::tserver::{ScanRequestPb, ScanResponsePb};
use proto::methods::{local_scan_service, tablet_server_service};
use proto::nyala::tserver::{LocalScanRequestPb, LocalScanResponsePb, SharedBlockPb, SharedColumnPb};
use rpc_core::{CallError, Response, RpcErrorCode};
use schema::ColumnarBlock;

use super::Layout;
use super::memory::{Generation, SharedMemoryError};
use crate::client::Shared;
use crate::error::AttemptError;
use crate::tablet_server::CallSpec;

/// An answer, however it came.
pub(super) struct Answer {
    pub(super) message: ScanResponsePb,
    pub(super) sidecars: Vec<Bytes>,
    pub(super) shared: Vec<SharedColumnPb>,
    /// What the shared columns are in.
    pub(super) memories: Result<Arc<Generation>, SharedMemoryError>,
}

/// Calls `Scan`.
pub(super) async fn scan(
    shared: &Shared,
    server: &Server,
    request: &ScanRequestPb,
    layout: Layout,
    spec: CallSpec,
) -> Result<Answer, AttemptError> {
    let descriptors = match layout {
        Layout::Columnar => shared.descriptors(server),
        Layout::RowWise => None,
    };
    if let Some(descriptors) = descriptors {
        let call = shared.memories.begin(descriptors);
        let request =
            LocalScanRequestPb { scan: request.clone(), generation: call.number, released: call.released };
        match shared.try_server::<local_scan_service::Scan>(server, &request, spec.clone()).await {
            Ok(Response { message, sidecars, descriptors, .. }) => {
                let LocalScanResponsePb { scan, shared: columns, release } = message;
                let release = release.unwrap_or(false);
                let memories = shared.memories.answered(call, descriptors.as_ref(), release);
                return Ok(Answer { message: scan, sidecars, shared: columns, memories });
            }
            // Another server has taken the place of the one that knew it.
            Err(error) if is_unknown(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let Response { message, sidecars, .. } =
        shared.try_server::<tablet_server_service::Scan>(server, request, spec).await?;
    Ok(Answer { message, sidecars, shared: Vec::new(), memories: Ok(Arc::default()) })
}

impl Answer {
    /// Puts the shared columns where those that were sent are.
    pub(super) fn place_shared(&self, block: &mut ColumnarBlock) -> Result<(), SharedMemoryError> {
        if self.shared.is_empty() {
            return Ok(());
        }
        let memories = self.memories.as_ref().map_err(Clone::clone)?;
        for shared in &self.shared {
            let index = usize::try_from(shared.column).unwrap_or(usize::MAX);
            let missing = SharedMemoryError::NoSuchColumn { column: shared.column };
            let column = block.columns.get_mut(index).ok_or(missing)?;
            let read =
                |part: &Option<SharedBlockPb>| part.as_ref().map(|part| memories.block(part)).transpose();
            if let Some(data) = read(&shared.data)? {
                column.data = data;
            }
            if let Some(varlen) = read(&shared.varlen_data)? {
                column.varlen = Some(varlen);
            }
            if let Some(non_null) = read(&shared.non_null_bitmap)? {
                column.non_null = Some(non_null);
            }
        }
        Ok(())
    }
}

fn is_unknown(error: &AttemptError) -> bool {
    let unknown = |error: &CallError| matches!(error, CallError::Remote { error, .. } if error.code == Some(RpcErrorCode::ERROR_NO_SUCH_SERVICE));
    error.call_error().is_some_and(unknown)
}
