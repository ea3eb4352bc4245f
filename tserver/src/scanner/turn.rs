//! One call of a scan: open or find the scanner, read a batch, keep the scanner or forget it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tserver::NewScanRequestPb;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use schema::{ColumnarBlock, Timestamp};
use tablet::{ReadBytes, RowsetError, ScanError};

use super::cost::Stopwatch;
use super::format::Format;
use super::open::open;
use super::registry::OpenScan;
use crate::fault::Fault;
use crate::maintenance;
use crate::node::Node;

/// What a call asks for, whatever comes of the rows.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) new: Option<&'a NewScanRequestPb>,
    pub(crate) scanner_id: Option<&'a Bytes>,
    pub(crate) call_seq_id: u32,
    pub(crate) batch_size_bytes: Option<u32>,
    pub(crate) close: bool,
    pub(crate) user: &'a str,
    pub(crate) watch: Stopwatch,
    /// The reader shares memory with us: blocks that are stored in one piece are given out in one piece.
    pub(crate) shares: bool,
}

impl Ask<'_> {
    /// Not if the client has a size of its own in mind.
    fn keeps_runs(&self) -> bool {
        self.shares && self.batch_size_bytes.is_none()
    }
}

/// What a call brought.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// `None` if the scan was only opened or closed, or is over.
    pub(crate) block: Option<(ColumnarBlock, Format)>,
    pub(crate) has_more: bool,
    /// Where to read on.
    pub(crate) scanner_id: Option<Bytes>,
    pub(crate) snapshot: Option<Timestamp>,
    /// Key of the block's last row, if the client can use it.
    pub(crate) last_key: Option<Bytes>,
    /// What was read of files for it.
    pub(crate) read: ReadBytes,
}

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

/// Serves one call.
pub(crate) fn take(node: &Node, ask: &Ask<'_>) -> Result<Turn, Refusal> {
    match (ask.new, ask.scanner_id) {
        (Some(new), None) => Ok(first(node, ask, new)?),
        (None, Some(id)) => Ok(next(node, ask, id)?),
        (Some(_), Some(_)) => {
            Err(Refusal::Malformed("Invalid argument: Must not pass both a scanner_id and new_scan_request"))
        }
        (None, None) => {
            Err(Refusal::Malformed("Invalid argument: Must pass either a scanner_id or new_scan_request"))
        }
    }
}

fn first(node: &Node, ask: &Ask<'_>, new: &NewScanRequestPb) -> Result<Turn, Fault> {
    let (replica, mut scan) = open(node, new)?;
    let mut turn = read(node, replica.id(), &mut scan, ask)?;
    turn.has_more &= !ask.close;
    if turn.has_more {
        scan.next_call = 1;
        turn.scanner_id = Some(node.scanners.add(scan, ask.user, replica.id(), Instant::now()));
    }
    Ok(turn)
}

fn next(node: &Node, ask: &Ask<'_>, id: &Bytes) -> Result<Turn, Fault> {
    let found = node.scanners.get(id, ask.user, ask.watch.began);
    if ask.close && batch_size(node, ask) == 0 {
        // Closing is a success even if nothing is there any more.
        if found.is_some() {
            node.scanners.remove(id);
        }
        return Ok(Turn::default());
    }
    let scanner = found.ok_or_else(|| expired(id))?;
    let mut scan = node.scanners.lock(&scanner)?;
    if ask.call_seq_id != scan.next_call {
        node.scanners.remove(id);
        let text = format!("Invalid call sequence ID {}, expected {}", ask.call_seq_id, scan.next_call);
        return Err(Fault::invalid(Code::InvalidScanCallSeqId, text));
    }
    let still_here = node.tablets.get(scanner.tablet_id.as_bytes()).and_then(|r| r.tablet().map(|_| ()));
    let turn = still_here.and_then(|()| read(node, &scanner.tablet_id, &mut scan, ask));
    let mut turn = turn.inspect_err(|_| node.scanners.remove(id))?;
    scan.next_call = scan.next_call.wrapping_add(1);
    turn.has_more &= !ask.close;
    if turn.has_more {
        turn.scanner_id = Some(scanner.id.clone());
        scanner.touch(Instant::now());
    } else {
        node.scanners.remove(id);
    }
    Ok(turn)
}

/// Reads a batch: some rows, or none after half a second without a match. A batch of no bytes is not read at all, and
/// whether there are rows is seen in the next call.
fn read(node: &Node, tablet: &str, scan: &mut OpenScan, ask: &Ask<'_>) -> Result<Turn, Fault> {
    let max_bytes = batch_size(node, ask);
    let mut turn = Turn { snapshot: scan.snapshot, has_more: true, ..Turn::default() };
    if max_bytes == 0 {
        return Ok(turn);
    }
    scan.scanner.keep_runs(ask.keeps_runs());
    let give_up = ask.watch.began + LONGEST_TURN;
    let broken = |error| broken(node, tablet, &error);
    while let Some(block) = scan.scanner.next_block(max_bytes).map_err(broken)? {
        if block.rows > 0 || !scan.scanner.has_more() || Instant::now() >= give_up {
            if block.rows > 0 && scan.tells_last_key {
                turn.last_key = scan.scanner.last_primary_key().map(Bytes::from);
            }
            turn.block = Some((block, scan.format.clone()));
            break;
        }
    }
    turn.has_more = scan.scanner.has_more();
    turn.read = scan.scanner.take_read_bytes();
    Ok(turn)
}

/// Rows that cannot be read: of damaged files the whole tablet fails.
pub(crate) fn broken(node: &Node, tablet: &str, error: &ScanError) -> Fault {
    if let ScanError::Rowset(damage @ RowsetError::Corrupt { .. }) = error {
        maintenance::fail(node, tablet, damage);
        return Fault::new(Code::TabletFailed, ErrorCode::IllegalState, error.to_string());
    }
    Fault::new(Code::UnknownError, ErrorCode::RuntimeError, error.to_string())
}

fn batch_size(node: &Node, ask: &Ask<'_>) -> usize {
    let wanted = ask.batch_size_bytes.map(|bytes| bytes as usize);
    let wanted = wanted.unwrap_or_else(|| node.flags.count("scanner_default_batch_size_bytes"));
    wanted.min(node.flags.count("scanner_max_batch_size_bytes"))
}

/// The id names no scanner: read out, closed, idle for too long, or never there.
pub(crate) fn expired(id: &[u8]) -> Fault {
    let text = format!("Scanner {} not found (it may have expired)", id.escape_ascii());
    Fault::new(Code::ScannerExpired, ErrorCode::NotFound, text)
}

/// Another call reads the scanner right now.
pub(crate) fn busy() -> Fault {
    Fault::new(Code::Throttled, ErrorCode::ServiceUnavailable, "Scanner is in use by another call")
}

/// One call scans for about this long at most.
const LONGEST_TURN: Duration = Duration::from_millis(500);
