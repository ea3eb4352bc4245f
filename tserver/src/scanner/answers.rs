//! What becomes of a batch: rows for a client, or a checksum of them.

use bytes::Bytes;
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::kudu::tserver::{ChecksumRequestPb, ChecksumResponsePb, ScanRequestPb, ScanResponsePb};
use schema::columnar::BlockError;
use schema::{Cell, ColumnarBlock};

use super::cost::Stopwatch;
use super::format::Format;
use super::turn::{self, Ask, Refusal, Turn};
use crate::fault::Fault;
use crate::node::Node;

/// Rows, with their sidecars.
pub(crate) fn scan(
    node: &Node,
    request: &ScanRequestPb,
    user: &str,
    watch: Stopwatch,
) -> Result<(ScanResponsePb, Vec<Bytes>), Refusal> {
    let ask = Ask {
        new: request.new_scan_request.as_ref(),
        scanner_id: request.scanner_id.as_ref(),
        call_seq_id: request.call_seq_id(),
        batch_size_bytes: request.batch_size_bytes,
        close: request.close_scanner(),
        user,
        watch,
        shares: false,
    };
    let mut turn = turn::take(node, &ask)?;
    let (block, read) = (turn.block.take(), turn.read);
    let mut response = about(node, turn);
    let sidecars = match block {
        None => Vec::new(),
        Some((block, format)) => fill(block, &format, &mut response)?,
    };
    response.resource_metrics = Some(watch.stop(read));
    Ok((response, sidecars))
}

/// All of an answer but the rows and their cost.
pub(super) fn about(node: &Node, turn: Turn) -> ScanResponsePb {
    ScanResponsePb {
        has_more_results: Some(turn.has_more),
        scanner_id: turn.scanner_id,
        snap_timestamp: turn.snapshot.map(|at| at.0),
        last_primary_key: turn.last_key,
        propagated_timestamp: Some(node.clock.now().0),
        ..Default::default()
    }
}

/// Puts rows into an answer; what goes into its sidecars.
pub(super) fn fill(
    block: ColumnarBlock,
    format: &Format,
    response: &mut ScanResponsePb,
) -> Result<Vec<Bytes>, Fault> {
    let unreadable =
        |error: BlockError| Fault::new(Code::UnknownError, ErrorCode::RuntimeError, error.to_string());
    format.fill(block, response).map_err(unreadable)
}

/// The sum over all rows so far; the client brings along what the calls before came to.
pub(crate) fn checksum(
    node: &Node,
    request: &ChecksumRequestPb,
    user: &str,
    watch: Stopwatch,
) -> Result<ChecksumResponsePb, Refusal> {
    let before = request.continue_request.as_ref();
    let ask = Ask {
        new: request.new_request.as_ref(),
        scanner_id: before.map(|before| &before.scanner_id),
        call_seq_id: request.call_seq_id(),
        batch_size_bytes: request.batch_size_bytes,
        close: request.close_scanner(),
        user,
        watch,
        shares: false,
    };
    let turn = turn::take(node, &ask)?;
    let mut sum = before.map_or(0, |before| before.previous_checksum);
    let mut rows = 0;
    if let Some((block, _)) = &turn.block {
        rows = block.rows;
        sum = (0..rows).map(|row| row_checksum(block, row)).fold(sum, u64::wrapping_add);
    }
    Ok(ChecksumResponsePb {
        checksum: Some(sum),
        scanner_id: turn.scanner_id,
        has_more_results: Some(turn.has_more),
        snap_timestamp: turn.snapshot.map(|at| at.0),
        rows_checksummed: Some(rows as i64),
        resource_metrics: Some(watch.stop(turn.read)),
        error: None,
    })
}

/// FNV-1a over the cells, each behind a mark that tells NULL from empty. Rows are added up, so that their order is free.
fn row_checksum(block: &ColumnarBlock, row: usize) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    (0..block.columns.len()).fold(0xcbf2_9ce4_8422_2325, |hash, column| match block.cell(row, column) {
        Cell::Value(raw) => raw.iter().copied().fold(step(hash, 1), step),
        Cell::Null | Cell::Unset => step(hash, 0),
    })
}
