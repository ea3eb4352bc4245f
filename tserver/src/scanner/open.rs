//! From a scan request to a scanner of its tablet.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::kudu::tserver::{NewScanRequestPb, RowFormatFlags};
use proto::kudu::{OrderMode, ReadMode, SchemaPb};
use schema::{Predicate, Schema, Timestamp, projection, wire};
use server_base::physical_micros;
use tablet::{ScanError, ScanSpec};

use super::format::Format;
use super::registry::OpenScan;
use crate::fault::Fault;
use crate::maintenance;
use crate::node::Node;
use crate::tablets::Replica;

/// Checks the request and opens the scan. The scanner is not registered yet.
pub(crate) fn open(node: &Node, request: &NewScanRequestPb) -> Result<(Arc<Replica>, OpenScan), Fault> {
    let replica = node.tablets.get(&request.tablet_id)?;
    let tablet = replica.tablet()?;
    if node.quiescing.load(Ordering::Acquire) {
        let text = "Tablet server is quiescing";
        return Err(Fault::new(Code::TabletNotRunning, ErrorCode::ServiceUnavailable, text));
    }
    let table = &tablet.schema();
    let columns = projected(request)?;
    let ordered = check_order(request)?;
    let format = format(request, &columns)?;
    let oldest = maintenance::oldest(node, &tablet.options());
    let snapshot = snapshot(node, request, oldest)?;
    let since = start(request, snapshot, oldest)?;
    let spec = ScanSpec {
        schema: Some(table.clone()),
        projection: indexes(&columns, table, since.is_some())?,
        predicates: predicates(request, table)?,
        snapshot,
        since,
        lower_key: key(request.start_primary_key.as_deref()),
        upper_key: key(request.stop_primary_key.as_deref()),
        last_key: key(request.last_primary_key.as_deref()),
        ordered,
        limit: request.limit,
    };
    let scanner = tablet.scan(spec, physical_micros()).map_err(refused)?;
    let tells_last_key = ordered || columns.key_columns() > 0;
    let scan = OpenScan { scanner, format, next_call: 0, snapshot, tells_last_key };
    Ok((replica, scan))
}

/// The wanted columns, as the client describes them.
fn projected(request: &NewScanRequestPb) -> Result<Schema, Fault> {
    let columns = Schema::try_from(&SchemaPb { columns: request.projected_columns.clone() });
    let columns = columns.map_err(|error| Fault::invalid(Code::InvalidSchema, error.to_string()))?;
    if columns.ids().is_some() {
        return Err(Fault::invalid(Code::InvalidSchema, "User requests should not have Column IDs"));
    }
    Ok(columns)
}

fn indexes(columns: &Schema, table: &Schema, changes: bool) -> Result<Vec<usize>, Fault> {
    let found = projection::for_scan(columns, table)
        .map_err(|error| Fault::invalid(Code::MismatchedSchema, error.to_string()))?;
    let index = |index: Option<usize>| index.or(changes.then_some(ScanSpec::IS_DELETED));
    found.into_iter().map(index).collect::<Option<_>>().ok_or_else(|| {
        Fault::invalid(Code::InvalidScanSpec, "an IS_DELETED column belongs to a scan of changes")
    })
}

fn predicates(request: &NewScanRequestPb, table: &Schema) -> Result<Vec<Predicate>, Fault> {
    if !request.deprecated_range_predicates.is_empty() {
        let text = "range predicates of clients older than 1.0 are not supported";
        return Err(Fault::new(Code::InvalidScanSpec, ErrorCode::NotSupported, text));
    }
    let one = |pb| {
        wire::predicate::predicate_from_pb(pb, table)
            .map_err(|error| Fault::invalid(Code::InvalidScanSpec, error.to_string()))
    };
    request.column_predicates.iter().map(one).collect()
}

fn check_order(request: &NewScanRequestPb) -> Result<bool, Fault> {
    let invalid = |text: &str| Err(Fault::invalid(Code::InvalidScanSpec, text));
    if request.snap_start_timestamp.is_some() && request.order_mode() != OrderMode::Ordered {
        return invalid("Cannot do a scan of changes that is not ordered");
    }
    match request.order_mode() {
        OrderMode::UnknownOrderMode => invalid("Unknown order mode specified"),
        OrderMode::Unordered => Ok(false),
        OrderMode::Ordered if request.read_mode() == ReadMode::ReadAtSnapshot => Ok(true),
        OrderMode::Ordered => invalid("Cannot do an ordered scan that is not a snapshot read"),
    }
}

fn format(request: &NewScanRequestPb, columns: &Schema) -> Result<Format, Fault> {
    let flags = request.row_format_flags();
    match (flags & PADDED != 0, flags & COLUMNAR != 0) {
        (true, true) => {
            Err(Fault::invalid(Code::InvalidScanSpec, "columnar layout does not support padding of cells"))
        }
        (padded, false) => Ok(Format::Rowwise { projection: columns.clone(), padded }),
        (false, true) => Ok(Format::Columnar),
    }
}

/// The timestamp to read at; `None` for whatever is newest.
fn snapshot(node: &Node, request: &NewScanRequestPb, oldest: Timestamp) -> Result<Option<Timestamp>, Fault> {
    let invalid = |text: String| Fault::invalid(Code::InvalidSnapshot, text);
    let propagated = request.propagated_timestamp.map(Timestamp);
    let seen = propagated.map_or(Ok(()), |seen| node.clock.update(seen));
    let mode = request.read_mode();
    if mode != ReadMode::ReadLatest {
        seen.map_err(|error| invalid(error.to_string()))?;
    }
    match mode {
        ReadMode::ReadLatest => Ok(None),
        ReadMode::UnknownReadMode => Err(Fault::invalid(Code::InvalidScanSpec, "Unknown read mode")),
        // The clock was moved past what the client has seen.
        ReadMode::ReadYourWrites => Ok(Some(node.clock.now())),
        ReadMode::ReadAtSnapshot => {
            let Some(wanted) = request.snap_timestamp.map(Timestamp) else {
                return Ok(Some(node.clock.now()));
            };
            let (clock, now) = (node.clock.hybrid(), physical_micros());
            clock.check(wanted, now).map_err(|_| {
                let latest = clock.latest(now);
                invalid(format!(
                    "cannot verify timestamp: Snapshot time {wanted} in the future. Max allowed timestamp is {latest}"
                ))
            })?;
            in_history("end", wanted, oldest)?;
            Ok(Some(wanted))
        }
    }
}

/// `which` end of the history that a scan is about it is.
fn in_history(which: &str, wanted: Timestamp, oldest: Timestamp) -> Result<(), Fault> {
    if wanted >= oldest {
        return Ok(());
    }
    let micros = oldest.physical_micros().saturating_sub(wanted.physical_micros());
    let text = format!(
        "snapshot scan {which} timestamp is earlier than the ancient history mark. Consider increasing the value of the \
         configuration parameter --tablet_history_max_age_sec. Snapshot timestamp: {wanted} Ancient History Mark: {oldest} \
         Physical time difference: -{:.3}s",
        micros as f64 / 1e6,
    );
    Err(Fault::invalid(Code::InvalidSnapshot, text))
}

/// The snapshot since which changes are asked for.
fn start(
    request: &NewScanRequestPb,
    end: Option<Timestamp>,
    oldest: Timestamp,
) -> Result<Option<Timestamp>, Fault> {
    let Some(start) = request.snap_start_timestamp.map(Timestamp) else { return Ok(None) };
    if end.is_none_or(|end| start > end) {
        let text = "the start of a scan of changes must not be after its end";
        return Err(Fault::invalid(Code::InvalidSnapshot, text));
    }
    in_history("start", start, oldest)?;
    Ok(Some(start))
}

fn refused(error: ScanError) -> Fault {
    let code = match error {
        ScanError::Clock(_) | ScanError::TooOld { .. } => Code::InvalidSnapshot,
        _ => Code::InvalidScanSpec,
    };
    Fault::invalid(code, error.to_string())
}

/// Clients leave bounds out or empty.
fn key(encoded: Option<&[u8]>) -> Option<Vec<u8>> {
    encoded.filter(|key| !key.is_empty()).map(<[u8]>::to_vec)
}

const PADDED: u64 = RowFormatFlags::PadUnixTimeMicrosTo16Bytes as u64;
const COLUMNAR: u64 = RowFormatFlags::ColumnarLayout as u64;
