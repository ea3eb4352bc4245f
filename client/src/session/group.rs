//! Rows of one batch that go to one tablet in one request, and its tries.

use std::sync::Arc;
use std::time::Duration;

use meta_cache::{Reach, Selection, Server, Tablet};
use proto::kudu::RowOperationsPb;
use proto::kudu::tserver::{WriteRequestPb, WriteResponsePb};
use proto::methods::tablet_server_service::Write;
use schema::row_ops::Encoder;

use super::errors::WriteError;
use super::lanes::Turn;
use crate::client::Shared;
use crate::code::StatusCode;
use crate::error::{AttemptError, MasterError};
use crate::locate::Place;
use crate::retry::{Advice, Backoff, Deadline, advise_writer};
use crate::table::Table;
use crate::tablet_server::{CallSpec, no_replica};

/// Rows on their way to a tablet.
pub(super) struct Group {
    pub(super) table: Table,
    pub(super) tablet: Arc<Tablet>,
    /// Partition key of the first row, to find the tablet again.
    pub(super) key: Vec<u8>,
    pub(super) rows: Encoder,
    /// Whether further rows have to wait for the next round.
    pub(super) is_closed: bool,
}

/// How a group ended.
pub(super) enum Ending {
    /// All rows were written but these, by their place in the group.
    Written(Vec<(usize, Arc<WriteError>)>),
    /// None of its rows was written.
    Failed(Arc<WriteError>),
    /// The tablet no longer exists: its rows have to be sorted anew. The turn on the tablet is kept until they are
    /// written, so that nothing overtakes them.
    Regroup(AttemptError, Turn),
}

impl Group {
    /// Writes the rows once the turn has come; the time counts from then.
    pub(super) async fn write(self, shared: &Shared, mut turn: Turn, timeout: Duration) -> Ending {
        turn.come().await;
        let deadline = Deadline::after(timeout);
        let Group { table, mut tablet, key, rows, .. } = self;
        let (rows, indirect_data) = rows.finish();
        let mut message = WriteRequestPb {
            tablet_id: tablet.id().as_bytes().to_vec().into(),
            schema: Some(table.write_schema().clone()),
            row_operations: Some(RowOperationsPb { rows: Some(rows), indirect_data: Some(indirect_data) }),
            ..Default::default()
        };
        let mut request = shared.requests.begin();
        let mut backoff = Backoff::default();
        let mut last: Option<AttemptError> = None;
        loop {
            let error = match shared.cache.pick(&tablet, Selection::LeaderOnly, &[]) {
                None => {
                    shared.cache.invalidate(&tablet);
                    no_replica(&tablet)
                }
                Some(server) => {
                    message.propagated_timestamp = shared.observed();
                    message.authz_token = table.authz_token();
                    let spec = CallSpec {
                        deadline: deadline.of_try(shared.options.rpc_timeout),
                        features: Vec::new(),
                        request_id: Some(request.next_try()),
                    };
                    match shared.try_server::<Write>(&server, &message, spec).await {
                        Ok(answer) => {
                            shared.observe(answer.message.timestamp);
                            let failed = failed_rows(&answer.message, &table, &tablet, &server);
                            return Ending::Written(failed);
                        }
                        Err(error) => {
                            shared.learn(&tablet, &server, &error, advise_writer(&error), &deadline);
                            error
                        }
                    }
                }
            };
            let advice = advise_writer(&error);
            tracing::debug!(table = table.name(), tablet = tablet.id(), %error, ?advice, "a write failed");
            if advice == Advice::GiveUp {
                let (table, tablet) = (table.name().to_owned(), tablet.id().to_owned());
                return Ending::Failed(Arc::new(WriteError::Refused { table, tablet, source: error }));
            }
            // That no replica is left says less than why the last one failed.
            if last.is_none() || !matches!(error, AttemptError::NoReplica { .. }) {
                last = Some(error);
            }
            if !deadline.pause(backoff.next()).await {
                return Ending::Failed(timed_out(&table, &tablet, &deadline, last));
            }
            if advice == Advice::NewToken
                && let Err(source) = table.renew_authz_token(&deadline).await
            {
                return not_located(&table, source);
            }
            match shared.locate(&table, &key, Reach::Point, &deadline).await {
                Ok(Place::Tablet(found)) if found.id() == tablet.id() => tablet = found,
                Ok(_) => {
                    let error = last.unwrap_or_else(|| no_replica(&tablet));
                    return Ending::Regroup(error, turn);
                }
                Err(MasterError::TimedOut { last: None, .. }) => {
                    return Ending::Failed(timed_out(&table, &tablet, &deadline, last));
                }
                Err(source) => return not_located(&table, source),
            }
        }
    }
}

fn failed_rows(
    answer: &WriteResponsePb,
    table: &Table,
    tablet: &Tablet,
    server: &Server,
) -> Vec<(usize, Arc<WriteError>)> {
    let failed = |row: &proto::kudu::tserver::write_response_pb::PerRowErrorPb| {
        // A negative index would be a bug of the server; there is no row to tell it to.
        let index = usize::try_from(row.row_index).ok()?;
        let error = WriteError::Row {
            table: table.name().to_owned(),
            tablet: tablet.id().to_owned(),
            host: server.host_port(),
            status: StatusCode(row.error.code),
            message: row.error.message().to_owned(),
        };
        Some((index, Arc::new(error)))
    };
    answer.per_row_errors.iter().filter_map(failed).collect()
}

fn not_located(table: &Table, source: MasterError) -> Ending {
    Ending::Failed(Arc::new(WriteError::Locate { table: table.name().to_owned(), source }))
}

fn timed_out(
    table: &Table,
    tablet: &Tablet,
    deadline: &Deadline,
    last: Option<AttemptError>,
) -> Arc<WriteError> {
    Arc::new(WriteError::TimedOut {
        table: table.name().to_owned(),
        tablet: tablet.id().to_owned(),
        after: deadline.given(),
        last: last.map(Box::new),
    })
}
