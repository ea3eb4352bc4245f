//! Writing one batch: which tablet each row belongs to, one request a tablet, retries.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use meta_cache::{Reach, Selection, Server, Tablet};
use proto::kudu::RowOperationsPb;
use proto::kudu::tserver::{WriteRequestPb, WriteResponsePb};
use proto::methods::tablet_server_service::Write;
use schema::row_ops::Encoder;
use tokio::task::JoinSet;

use super::errors::WriteError;
use crate::client::{CallSpec, Shared, no_replica};
use crate::error::{AttemptError, MasterError, StatusCode};
use crate::locate::Place;
use crate::op::Operation;
use crate::retry::{Advice, Backoff, Deadline, advise_writer};
use crate::table::Table;

type Outcome = Result<(), Arc<WriteError>>;

/// Rows of one batch that go to one tablet in one request.
struct Group {
    table: Table,
    tablet: Arc<Tablet>,
    /// Partition key of the first row, to find the tablet again.
    key: Vec<u8>,
    rows: Encoder,
    /// Which operations of the batch these are.
    indexes: Vec<usize>,
    is_closed: bool,
}

/// How a group ended.
enum Ending {
    /// For each row of the group.
    Written(Vec<Outcome>),
    /// None of its rows was written.
    Failed(Arc<WriteError>),
    /// The tablet no longer exists: its rows have to be sorted anew.
    Regroup(AttemptError),
}

/// Writes a batch. Gives each operation back with what became of it, in the order given.
pub(super) async fn write_batch(
    shared: &Arc<Shared>,
    operations: Vec<Operation>,
    timeout: Duration,
) -> Vec<(Operation, Outcome)> {
    let deadline = Deadline::after(timeout);
    let mut outcomes: Vec<Option<Outcome>> = vec![None; operations.len()];
    let mut todo: Vec<usize> = (0..operations.len()).collect();
    let mut backoff = Backoff::default();
    while !todo.is_empty() {
        let (groups, mut later) = sort(shared, &operations, &todo, &mut outcomes, &deadline).await;
        let mut gone = None;
        for (indexes, ending) in write_groups(shared, groups, deadline).await {
            match ending {
                Ending::Written(rows) => {
                    indexes.into_iter().zip(rows).for_each(|(index, row)| outcomes[index] = Some(row));
                }
                Ending::Failed(error) => {
                    indexes.into_iter().for_each(|index| outcomes[index] = Some(Err(error.clone())));
                }
                Ending::Regroup(error) => {
                    later.extend(indexes);
                    gone = Some(error);
                }
            }
        }
        later.sort_unstable();
        todo = later;
        if let Some(error) = gone
            && !deadline.pause(backoff.next()).await
        {
            let last = Some(Box::new(error));
            let table = operations[todo[0]].table().name().to_owned();
            let error = WriteError::TimedOut { table, tablet: UNKNOWN.into(), after: deadline.given(), last };
            let error = Arc::new(error);
            std::mem::take(&mut todo)
                .into_iter()
                .for_each(|index| outcomes[index] = Some(Err(error.clone())));
        }
    }
    let abandoned = |operation: &Operation| {
        Err(Arc::new(WriteError::Abandoned { table: operation.table().name().to_owned() }))
    };
    operations
        .into_iter()
        .zip(outcomes)
        .map(|(operation, outcome)| {
            let outcome = outcome.unwrap_or_else(|| abandoned(&operation));
            (operation, outcome)
        })
        .collect()
}

/// Sorts operations by tablet. Those that fail here get their outcome; those that do not fit a request come back, to be
/// sent in the next round.
async fn sort(
    shared: &Arc<Shared>,
    operations: &[Operation],
    todo: &[usize],
    outcomes: &mut [Option<Outcome>],
    deadline: &Deadline,
) -> (Vec<Group>, Vec<usize>) {
    let mut groups: Vec<Group> = Vec::new();
    let mut by_tablet: HashMap<String, usize> = HashMap::new();
    let mut later = Vec::new();
    let mut unlocatable: Option<(String, Arc<WriteError>)> = None;
    for &index in todo {
        let operation = &operations[index];
        let table = operation.table();
        let name = || table.name().to_owned();
        // The master just did not answer for this table: it would not for the next row either.
        if let Some((id, error)) = &unlocatable
            && id == table.id()
        {
            outcomes[index] = Some(Err(error.clone()));
            continue;
        }
        let mut key = Vec::new();
        if let Err(source) = table.partitioner().encode(&operation.row().cells(), &mut key) {
            outcomes[index] = Some(Err(Arc::new(WriteError::Key { table: name(), source })));
            continue;
        }
        let tablet = match shared.locate(table, &key, Reach::Point, deadline).await {
            Ok(Place::Tablet(tablet)) => tablet,
            Ok(Place::Gap { .. }) => {
                outcomes[index] = Some(Err(Arc::new(WriteError::NonCovered { table: name() })));
                continue;
            }
            Err(source) => {
                let error = Arc::new(WriteError::Locate { table: name(), source });
                outcomes[index] = Some(Err(error.clone()));
                unlocatable = Some((table.id().to_owned(), error));
                continue;
            }
        };
        let group = match by_tablet.get(tablet.id()) {
            Some(group) => *group,
            None => {
                by_tablet.insert(tablet.id().to_owned(), groups.len());
                let rows = Encoder::new(table.schema());
                let table = table.clone();
                groups.push(Group { table, tablet, key, rows, indexes: Vec::new(), is_closed: false });
                groups.len() - 1
            }
        };
        let group = &mut groups[group];
        // Once a row of a tablet has to wait, all behind it do, or they would overtake it.
        group.is_closed |= group.rows.byte_size() > MAX_REQUEST_BYTES || !group.table.is_same_handle(table);
        if group.is_closed {
            later.push(index);
            continue;
        }
        match group.rows.push(operation.kind(), operation.row()) {
            Ok(()) => group.indexes.push(index),
            Err(source) => {
                outcomes[index] = Some(Err(Arc::new(WriteError::Encode { table: name(), source })))
            }
        }
    }
    groups.retain(|group| !group.indexes.is_empty());
    (groups, later)
}

/// Writes all groups at the same time.
async fn write_groups(
    shared: &Arc<Shared>,
    mut groups: Vec<Group>,
    deadline: Deadline,
) -> Vec<(Vec<usize>, Ending)> {
    if groups.len() == 1
        && let Some(group) = groups.pop()
    {
        return vec![write_group(shared, group, deadline).await];
    }
    let mut tasks = JoinSet::new();
    for group in groups {
        let shared = shared.clone();
        tasks.spawn(async move { write_group(&shared, group, deadline).await });
    }
    let mut endings = Vec::new();
    while let Some(ending) = tasks.join_next().await {
        // A task that broke has no ending; its rows count as abandoned.
        endings.extend(ending.ok());
    }
    endings
}

async fn write_group(shared: &Arc<Shared>, group: Group, deadline: Deadline) -> (Vec<usize>, Ending) {
    let Group { table, mut tablet, key, rows, indexes, .. } = group;
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
    let ending = loop {
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
                    features: &[],
                    request_id: Some(request.next_try()),
                };
                match shared.try_server::<Write>(&server, &message, spec).await {
                    Ok(answer) => {
                        shared.observe(answer.message.timestamp);
                        break Ending::Written(read_rows(
                            &answer.message,
                            indexes.len(),
                            &table,
                            &tablet,
                            &server,
                        ));
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
            break Ending::Failed(Arc::new(WriteError::Refused { table, tablet, source: error }));
        }
        // That no replica is left says less than why the last one failed.
        if last.is_none() || !matches!(error, AttemptError::NoReplica { .. }) {
            last = Some(error);
        }
        if !deadline.pause(backoff.next()).await {
            break Ending::Failed(timed_out(&table, &tablet, &deadline, last));
        }
        if advice == Advice::NewToken
            && let Err(source) = table.renew_authz_token(&deadline).await
        {
            break Ending::Failed(Arc::new(WriteError::Locate { table: table.name().to_owned(), source }));
        }
        match shared.locate(&table, &key, Reach::Point, &deadline).await {
            Ok(Place::Tablet(found)) if found.id() == tablet.id() => tablet = found,
            Ok(_) => {
                break Ending::Regroup(last.unwrap_or_else(|| no_replica(&tablet)));
            }
            Err(MasterError::TimedOut { last: None, .. }) => {
                break Ending::Failed(timed_out(&table, &tablet, &deadline, last));
            }
            Err(source) => {
                break Ending::Failed(Arc::new(WriteError::Locate {
                    table: table.name().to_owned(),
                    source,
                }));
            }
        }
    };
    (indexes, ending)
}

fn read_rows(
    answer: &WriteResponsePb,
    rows: usize,
    table: &Table,
    tablet: &Tablet,
    server: &Server,
) -> Vec<Outcome> {
    let mut outcomes = vec![Ok(()); rows];
    for failed in &answer.per_row_errors {
        let index = usize::try_from(failed.row_index).ok();
        // An index that is none would be a bug of the server; there is no row to tell it to.
        if let Some(outcome) = index.and_then(|index| outcomes.get_mut(index)) {
            *outcome = Err(Arc::new(WriteError::Row {
                table: table.name().to_owned(),
                tablet: tablet.id().to_owned(),
                host: server.host_port(),
                status: StatusCode(failed.error.code),
                message: failed.error.message().to_owned(),
            }));
        }
    }
    outcomes
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

/// Stands in messages for a tablet that is gone.
const UNKNOWN: &str = "(gone)";
/// A request stays far below the 50 MiB that servers take.
const MAX_REQUEST_BYTES: usize = 8 << 20;
