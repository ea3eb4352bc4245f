//! Writes: decoding, the tablet, and the answer.

use std::time::{Duration, Instant};

use proto::kudu::ExternalConsistencyMode;
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use proto::kudu::tserver::write_response_pb::PerRowErrorPb;
use proto::kudu::tserver::{ResourceMetricsPb, WriteRequestPb, WriteResponsePb};
use rpc_core::RequestId;
use schema::row_ops::{Decoder, RowOpError};
use schema::{Schema, Timestamp};
use server_base::physical_micros;
use tablet::{
    LogError, RequestKey, RowError, RowErrorKind, RowsetError, WriteError, WriteMetrics, WriteOutcome,
};

use crate::fault::{Fault, status};
use crate::maintenance;
use crate::node::Node;

/// Applies a request. A fault means that nothing was written. The answer is to be given at the time beside it, if there is one.
pub(crate) fn write(
    node: &Node,
    request: &WriteRequestPb,
    id: Option<&RequestId>,
    deadline: Option<Instant>,
) -> Result<(WriteResponsePb, Option<Instant>), Fault> {
    let started = Instant::now();
    let replica = node.tablets.get(&request.tablet_id)?;
    let tablet = replica.tablet()?;
    if request.txn_id.is_some() {
        let text = "transactions over several rows are not supported";
        return Err(Fault::new(Code::UnknownError, ErrorCode::NotSupported, text));
    }
    let client = Schema::try_from(request.schema.as_ref().unwrap_or(&Default::default()))
        .map_err(|error| Fault::invalid(Code::InvalidSchema, error.to_string()))?;
    if client.ids().is_some() {
        return Err(Fault::invalid(Code::InvalidSchema, "User requests should not have Column IDs"));
    }
    let key = id.map(|id| RequestKey {
        client_id: &id.client_id,
        seq_no: id.seq_no,
        first_incomplete_seq_no: id.first_incomplete_seq_no,
    });
    // The process before this one, or a tablet that this one was opened in place of, may have done it.
    if let Some(outcome) = key.and_then(|key| tablet.answered(key)) {
        return Ok((answer(&outcome), None));
    }
    let operations = request.row_operations.clone().unwrap_or_default();
    let numbered = node.numbering.number(tablet, &client, &operations)?;
    let (client, operations) = numbered.unwrap_or((client, operations));
    let propagated = request.propagated_timestamp.map(Timestamp);
    let (rows, indirect) =
        (operations.rows.unwrap_or_default(), operations.indirect_data.unwrap_or_default());
    let outcome = loop {
        let decoder = Decoder::new(&client, &tablet.schema())
            .map_err(|error| Fault::invalid(Code::MismatchedSchema, error.to_string()))?;
        let ops = decoder.decode_shared(&rows, &indirect).map_err(undecodable)?;
        match tablet.write_for(key, &ops, propagated, physical_micros()) {
            // The table was altered meanwhile.
            Err(WriteError::SchemaChanged) => {}
            written => {
                if let Err(WriteError::Rowset(damage @ RowsetError::Corrupt { .. })) = &written {
                    maintenance::fail(node, replica.id(), damage);
                }
                break written.map_err(|error| refused(replica.id(), error))?;
            }
        }
    };

    let mut response = answer(&outcome);
    let mut metrics = response.resource_metrics.take().unwrap_or_default();
    let (mut until, mut taken) = (None, started.elapsed());
    if request.external_consistency_mode() == ExternalConsistencyMode::CommitWait {
        let wait = time_until_past(outcome.timestamp, deadline);
        until = Some(Instant::now() + wait);
        taken += wait;
        metrics.commit_wait_duration_usec = Some(wait.as_micros() as i64);
    }
    metrics.total_duration_nanos = Some(taken.as_nanos() as i64);
    response.resource_metrics = Some(metrics);
    Ok((response, until))
}

/// What a client is told of a write that was done.
fn answer(outcome: &WriteOutcome) -> WriteResponsePb {
    WriteResponsePb {
        error: None,
        per_row_errors: outcome.row_errors.iter().map(per_row_error).collect(),
        timestamp: Some(outcome.timestamp.0),
        resource_metrics: Some(resource_metrics(&outcome.metrics)),
    }
}

pub(crate) fn undecodable(error: RowOpError) -> Fault {
    let status = if error.is_corruption() {
        ErrorCode::Corruption
    } else if error.is_not_supported() {
        ErrorCode::NotSupported
    } else {
        ErrorCode::InvalidArgument
    };
    Fault::new(Code::MismatchedSchema, status, error.to_string())
}

fn refused(tablet: &str, error: WriteError) -> Fault {
    if let WriteError::Log(LogError::Closed) = error {
        // It is being deleted, or opened again: the client has to look where the rows belong now.
        let text = format!("Tablet {tablet} not RUNNING: STOPPING");
        return Fault::new(Code::TabletNotRunning, ErrorCode::IllegalState, text);
    }
    let status = match &error {
        WriteError::RowNotInPartition { .. } => ErrorCode::NotFound,
        WriteError::Full => ErrorCode::IllegalState,
        WriteError::Log(_) | WriteError::Rowset(_) => ErrorCode::IoError,
        _ => ErrorCode::InvalidArgument,
    };
    Fault::new(Code::UnknownError, status, error.to_string())
}

fn per_row_error(error: &RowError) -> PerRowErrorPb {
    let code = match &error.kind {
        RowErrorKind::AlreadyPresent => ErrorCode::AlreadyPresent,
        RowErrorKind::NotFound => ErrorCode::NotFound,
        RowErrorKind::Immutable { .. } => ErrorCode::Immutable,
        _ => ErrorCode::InvalidArgument,
    };
    PerRowErrorPb { row_index: error.index as i32, error: status(code, error.kind.to_string()) }
}

fn resource_metrics(metrics: &WriteMetrics) -> ResourceMetricsPb {
    ResourceMetricsPb {
        successful_inserts: Some(metrics.successful_inserts as i64),
        insert_ignore_errors: Some(metrics.insert_ignore_errors as i64),
        successful_upserts: Some(metrics.successful_upserts as i64),
        upsert_ignore_errors: Some(metrics.upsert_ignore_errors as i64),
        successful_updates: Some(metrics.successful_updates as i64),
        update_ignore_errors: Some(metrics.update_ignore_errors as i64),
        successful_deletes: Some(metrics.successful_deletes as i64),
        delete_ignore_errors: Some(metrics.delete_ignore_errors as i64),
        ..Default::default()
    }
}

/// COMMIT_WAIT: the answer leaves when every clock that agrees with this machine's is past the timestamp.
fn time_until_past(timestamp: Timestamp, deadline: Option<Instant>) -> Duration {
    let ahead = (timestamp.physical_micros() + 1).saturating_sub(physical_micros());
    let wait = Duration::from_micros(ahead);
    deadline.map_or(wait, |deadline| wait.min(deadline.saturating_duration_since(Instant::now())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tablet_that_is_closed_under_a_write_sends_the_client_to_look_for_it_anew() {
        let fault = refused("t", WriteError::Log(LogError::Closed));
        assert_eq!((fault.code, fault.status), (Code::TabletNotRunning, ErrorCode::IllegalState));
        assert_eq!(fault.message, "Tablet t not RUNNING: STOPPING");
    }
}
