//! What an AlterTable request makes of a table: all of its steps or none.

use std::collections::HashSet;

use proto::kudu::master::AlterTableRequestPb;
use proto::kudu::master::alter_table_request_pb::{Step, StepType};
use schema::Schema;

use super::columns::Columns;
use super::ranges::Ranges;
use super::{check, properties, replicas};
use crate::catalog::tables::{Definition, NewTablet, Table};
use crate::catalog::tablets::Tablet;
use crate::fault::{Fault, IdentifierFault};
use crate::options::Limits;

/// A table as it is to be.
#[derive(Debug, Clone)]
pub(crate) struct Altered {
    /// Its definition.
    pub(crate) about: Definition,
    /// Whether it is to have another name, which must be free.
    pub(crate) renamed: bool,
    /// Whether its tablets are to hear of it.
    pub(crate) concerns_tablets: bool,
    /// Tablets to be made.
    pub(crate) added: Vec<NewTablet>,
    /// Tablets to be dropped, by id.
    pub(crate) dropped: HashSet<String>,
}

/// Applies the steps of `request`, in order, to `table`, which has these `tablets`.
pub(crate) fn alter<'t>(
    table: &Table,
    tablets: impl Iterator<Item = &'t Tablet>,
    request: &AlterTableRequestPb,
    limits: &Limits,
) -> Result<Altered, Fault> {
    let mut about = table.about.clone();
    if table.soft_deleted.is_some() {
        return Err(Fault::SoftDeleted { table: about.name });
    }
    let mut columns = Columns::of(&about.schema, about.next_column_id);
    let (mut column_steps, mut range_steps) = (0, Vec::new());
    for step in &request.alter_schema_steps {
        match step.r#type() {
            StepType::Unknown => return Err(Fault::UnknownStep),
            StepType::AddRangePartition | StepType::DropRangePartition => range_steps.push(step),
            _ => {
                apply(&mut columns, step, limits)?;
                column_steps += 1;
            }
        }
    }
    let old = &table.about.schema;
    let (mut added, mut dropped) = (Vec::new(), HashSet::new());
    if !range_steps.is_empty() {
        let client =
            Schema::try_from(&request.schema.clone().unwrap_or_default()).map_err(Fault::BadSchema)?;
        let mut ranges = Ranges::of(old, &client, &about.partitioning, tablets)?;
        for step in range_steps {
            match step.r#type() {
                StepType::AddRangePartition => ranges.add(step)?,
                _ => ranges.remove(step)?,
            }
        }
        (about.partitioning, added, dropped) = ranges.finish();
    }
    if column_steps > 0 {
        about.schema = columns.schema(limits)?;
        about.next_column_id = columns.next_id;
    }
    let described = describe(&mut about, request, limits)?;
    if let Some(asked) = request.num_replicas {
        about.replicas = replicas(asked, limits)?;
    }
    let (renamed, concerns_tablets) = (request.new_table_name.is_some(), column_steps > 0 || described);
    Ok(Altered { about, renamed, concerns_tablets, added, dropped })
}

fn apply(columns: &mut Columns, step: &Step, limits: &Limits) -> Result<(), Fault> {
    let kind = step.r#type();
    let missing = || Fault::StepLacksColumn { step: kind.as_str_name() };
    match kind {
        StepType::AddColumn => {
            let wanted = step.add_column.clone().ok_or_else(missing)?;
            columns.add(wanted.schema, limits)
        }
        StepType::DropColumn => columns.remove(&step.drop_column.as_ref().ok_or_else(missing)?.name),
        StepType::RenameColumn => {
            let wanted = step.rename_column.as_ref().ok_or_else(missing)?;
            columns.rename(&wanted.old_name, &wanted.new_name, limits)
        }
        _ => {
            let wanted = step.alter_column.as_ref().ok_or_else(missing)?;
            columns.change(&wanted.delta.clone().unwrap_or_default(), limits)
        }
    }
}

/// Changes what is not about columns and ranges; whether there was such a thing.
fn describe(about: &mut Definition, request: &AlterTableRequestPb, limits: &Limits) -> Result<bool, Fault> {
    let mut any = false;
    if let Some(name) = &request.new_table_name {
        check("table name", name, limits.identifier_length)?;
        about.name.clone_from(name);
        any = true;
    }
    if let Some(owner) = &request.new_table_owner {
        if owner.is_empty() {
            return Err(Fault::BadOwner(IdentifierFault::EmptyOwner));
        }
        match check("owner name", owner, limits.owner_length) {
            Err(Fault::BadIdentifier { why, .. }) => return Err(Fault::BadOwner(why)),
            other => other?,
        }
        about.owner.clone_from(owner);
        any = true;
    }
    if let Some(comment) = &request.new_table_comment {
        if !comment.is_empty() {
            check("table comment", comment, limits.table_comment_length)?;
        }
        about.comment.clone_from(comment);
        any = true;
    }
    if !request.new_extra_configs.is_empty() {
        properties::set(&mut about.extra_config, &request.new_extra_configs)?;
        any = true;
    }
    if request.disk_size_limit.is_some() || request.row_count_limit.is_some() {
        if !limits.table_write_limit {
            return Err(Fault::NoTableLimits);
        }
        // A comment may go with them.
        let others = !request.alter_schema_steps.is_empty()
            || request.new_table_name.is_some()
            || request.new_table_owner.is_some()
            || !request.new_extra_configs.is_empty();
        if others {
            return Err(Fault::TableLimitsAlone);
        }
        let known = |limit: i64| if limit < NO_LIMIT { Err(Fault::TableLimit(limit)) } else { Ok(limit) };
        if let Some(limit) = request.disk_size_limit {
            about.disk_size_limit = Some(known(limit)?).filter(|limit| *limit != NO_LIMIT);
        }
        if let Some(limit) = request.row_count_limit {
            about.row_count_limit = Some(known(limit)?).filter(|limit| *limit != NO_LIMIT);
        }
        any = true;
    }
    Ok(any)
}

/// What a request says that takes a limit away.
const NO_LIMIT: i64 = -1;
