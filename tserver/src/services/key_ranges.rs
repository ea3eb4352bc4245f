//! A tablet's rows in pieces, for readers who share a scan.

use bytes::Bytes;
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tserver::SplitKeyRangeRequestPb;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::kudu::{KeyRangePb, SchemaPb};
use schema::{Schema, key};
use tablet::{KeyRange, ScanError, ScanSpec};

use crate::fault::Fault;
use crate::node::Node;
use crate::scanner::turn;

/// The pieces of the wanted range, in order and without gaps; none of a range without a key.
pub(super) fn split(node: &Node, request: &SplitKeyRangeRequestPb) -> Result<Vec<KeyRangePb>, Fault> {
    let replica = node.tablets.get(&request.tablet_id)?;
    let tablet = replica.tablet()?;
    let table = tablet.schema();
    let invalid = |text: String| Fault::invalid(Code::UnknownError, text);
    let bound = |key: &Option<Bytes>, which: &str| match key {
        Some(key) if key::decode_key(&table, key).is_err() => {
            Err(invalid(format!("Invalid SplitKeyRange {which} primary key")))
        }
        key => Ok(key.as_ref().map(|key| key.to_vec())),
    };
    let lower_key = bound(&request.start_primary_key, "start")?;
    let upper_key = bound(&request.stop_primary_key, "stop")?;
    if let (Some(lower), Some(upper)) = (&lower_key, &upper_key)
        && lower >= upper
    {
        return if lower == upper {
            Ok(Vec::new())
        } else {
            Err(invalid("Invalid primary key range".into()))
        };
    }
    let projection = columns(request, &table)?;
    let target = request.target_chunk_size_bytes();
    if target == 0 {
        return Err(invalid("Invalid SplitKeyRange target chunk size".into()));
    }
    let spec = ScanSpec { schema: Some(table), projection, lower_key, upper_key, ..ScanSpec::default() };
    let ranges = tablet.split_key_range(&spec, target).map_err(|error| match error {
        ScanError::Rowset(_) => turn::broken(node, replica.id(), &error),
        error => Fault::new(Code::UnknownError, ErrorCode::RuntimeError, error.to_string()),
    })?;
    Ok(ranges.into_iter().map(range).collect())
}

/// Whose bytes count: those that are named, by their names alone, or all.
fn columns(request: &SplitKeyRangeRequestPb, table: &Schema) -> Result<Vec<usize>, Fault> {
    let invalid = |text: String| Fault::invalid(Code::InvalidSchema, text);
    if request.columns.is_empty() {
        return Ok((0..table.len()).collect());
    }
    if request.columns.iter().any(|column| column.id.is_some()) {
        return Err(invalid("User requests should not have Column IDs".into()));
    }
    let named = Schema::try_from(&SchemaPb { columns: request.columns.clone() });
    let named = named.map_err(|error| invalid(error.to_string()))?;
    let index = |column: &schema::Column| {
        let unknown = || invalid(format!("Invalid SplitKeyRange column name: {}", column.name));
        table.index_of(&column.name).ok_or_else(unknown)
    };
    named.columns().iter().map(index).collect()
}

fn range(range: KeyRange) -> KeyRangePb {
    KeyRangePb {
        start_primary_key: range.lower.map(Bytes::from),
        stop_primary_key: range.upper.map(Bytes::from),
        size_bytes_estimates: range.bytes,
    }
}
