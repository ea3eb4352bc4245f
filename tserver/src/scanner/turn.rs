//! One call of a scan: open or find the scanner, read a batch, keep the scanner or forget it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::kudu::tserver::{NewScanRequestPb, ScanRequestPb, ScanResponsePb};

use super::open::open;
use super::registry::OpenScan;
use crate::fault::Fault;
use crate::node::Node;

/// Why a call has no answer of its own kind.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Told inside the answer.
    Fault(Fault),
    /// The call itself fails.
    Malformed(&'static str),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// The answer and its sidecars.
pub(crate) type Answer = (ScanResponsePb, Vec<Bytes>);

/// Serves one call of `user`.
pub(crate) fn scan(node: &Node, request: &ScanRequestPb, user: &str) -> Result<Answer, Refusal> {
    match (&request.new_scan_request, &request.scanner_id) {
        (Some(new), None) => Ok(first(node, request, new, user)?),
        (None, Some(id)) => Ok(next(node, request, id, user)?),
        (Some(_), Some(_)) => {
            Err(Refusal::Malformed("Invalid argument: Must not pass both a scanner_id and new_scan_request"))
        }
        (None, None) => {
            Err(Refusal::Malformed("Invalid argument: Must pass either a scanner_id or new_scan_request"))
        }
    }
}

fn first(node: &Node, request: &ScanRequestPb, new: &NewScanRequestPb, user: &str) -> Result<Answer, Fault> {
    let (replica, mut scan) = open(node, new)?;
    let max_bytes = batch_size(node, request);
    let (mut response, sidecars) = if max_bytes == 0 {
        // Only opened: whether there are rows is seen in the next call.
        (ScanResponsePb { has_more_results: Some(true), ..Default::default() }, Vec::new())
    } else {
        read(&mut scan, max_bytes)?
    };
    response.snap_timestamp = scan.snapshot.map(|at| at.0);
    if request.close_scanner() {
        response.has_more_results = Some(false);
    } else if response.has_more_results() {
        scan.next_call = 1;
        response.scanner_id = Some(node.scanners.add(scan, user, replica.id(), Instant::now()));
    }
    response.propagated_timestamp = Some(node.clock.now().0);
    Ok((response, sidecars))
}

fn next(node: &Node, request: &ScanRequestPb, id: &Bytes, user: &str) -> Result<Answer, Fault> {
    let max_bytes = batch_size(node, request);
    if max_bytes == 0 && request.close_scanner() {
        // Closing is a success even if nothing is there any more.
        if node.scanners.get(id, user, Instant::now()).is_some() {
            node.scanners.remove(id);
        }
        return Ok((ScanResponsePb { has_more_results: Some(false), ..Default::default() }, Vec::new()));
    }
    let scanner = node.scanners.get(id, user, Instant::now()).ok_or_else(expired)?;
    let mut scan = scanner.scan.lock();
    if request.call_seq_id() != scan.next_call {
        node.scanners.remove(id);
        let text = format!("call sequence number {}, expected {}", request.call_seq_id(), scan.next_call);
        return Err(Fault::invalid(Code::InvalidScanCallSeqId, text));
    }
    let still_here = node.tablets.get(scanner.tablet_id.as_bytes()).and_then(|r| r.tablet().map(|_| ()));
    let answer = still_here.and_then(|()| if max_bytes == 0 { idle() } else { read(&mut scan, max_bytes) });
    let (mut response, sidecars) = answer.inspect_err(|_| node.scanners.remove(id))?;
    scan.next_call = scan.next_call.wrapping_add(1);
    response.snap_timestamp = scan.snapshot.map(|at| at.0);
    if request.close_scanner() {
        response.has_more_results = Some(false);
    }
    if response.has_more_results() {
        response.scanner_id = Some(scanner.id.clone());
        scanner.touch(Instant::now());
    } else {
        node.scanners.remove(id);
    }
    response.propagated_timestamp = Some(node.clock.now().0);
    Ok((response, sidecars))
}

/// A call that asks for no bytes and does not close.
fn idle() -> Result<Answer, Fault> {
    Ok((ScanResponsePb { has_more_results: Some(true), ..Default::default() }, Vec::new()))
}

/// Reads a batch: some rows, or none after half a second without a match.
fn read(scan: &mut OpenScan, max_bytes: usize) -> Result<Answer, Fault> {
    let give_up = Instant::now() + LONGEST_TURN;
    let broken = |error: &dyn std::fmt::Display| {
        Fault::new(Code::UnknownError, ErrorCode::RuntimeError, error.to_string())
    };
    let mut response = ScanResponsePb::default();
    let mut sidecars = Vec::new();
    while let Some(block) = scan.scanner.next_block(max_bytes).map_err(|error| broken(&error))? {
        let done = block.rows > 0 || !scan.scanner.has_more() || Instant::now() >= give_up;
        if done {
            if block.rows > 0 && scan.tells_last_key {
                response.last_primary_key = scan.scanner.last_primary_key().map(Bytes::from);
            }
            sidecars = scan.format.fill(block, &mut response).map_err(|error| broken(&error))?;
            break;
        }
    }
    response.has_more_results = Some(scan.scanner.has_more());
    Ok((response, sidecars))
}

fn batch_size(node: &Node, request: &ScanRequestPb) -> usize {
    let wanted = request.batch_size_bytes.map(|bytes| bytes as usize);
    let wanted = wanted.unwrap_or_else(|| node.flags.count("scanner_default_batch_size_bytes"));
    wanted.min(node.flags.count("scanner_max_batch_size_bytes"))
}

/// The id names no scanner: read out, closed, idle for too long, or never there.
pub(crate) fn expired() -> Fault {
    Fault::new(Code::ScannerExpired, ErrorCode::NotFound, "Scanner not found (it may have expired)")
}

/// One call scans for about this long at most.
const LONGEST_TURN: Duration = Duration::from_millis(500);
