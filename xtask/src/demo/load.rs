//! Rows of a CSV file into a table, and which of them got there.

use std::collections::{HashMap, HashSet};

use anyhow::{Result, ensure};
use client::{Client, FlushMode, RowErrors, Table, WriteError};
use schema::{Cell, Value};
use xtask::report::progress;
use xtask::rows::{BadRow, BadRows, CsvTable, Reason, Row};

use super::summary::Summary;

/// Inserts every row that can be read; rows that cannot are noted in `bad`, those that the servers refused are returned.
pub(super) async fn insert(
    client: &Client,
    table: &Table,
    csv: &CsvTable,
    bad: &mut BadRows,
) -> Result<Refused> {
    let session = client.session().mode(FlushMode::AutoBackground).build();
    let bar = progress(csv.rows(), "loading");
    let mut refused = Refused::default();
    for row in csv.read()? {
        bar.inc(1);
        let row = match row {
            Ok(row) => row,
            Err(row) => {
                bad.note(row)?;
                continue;
            }
        };
        let mut operation = table.insert();
        for (index, value) in row.values.into_iter().enumerate() {
            match value {
                Some(value) => operation.row_mut().set_at(index, value)?,
                None => operation.row_mut().set_null_at(index)?,
            };
        }
        session.apply(operation).await?;
        if session.pending_errors() > 0 {
            refused.take(session.take_errors())?;
        }
    }
    let flushed = session.flush().await;
    let at_end = session.take_errors();
    if at_end.errors.is_empty() {
        flushed?;
    }
    refused.take(at_end)?;
    bar.finish_and_clear();
    Ok(refused)
}

/// Rows that the servers refused, by encoded key.
#[derive(Default)]
pub(super) struct Refused(HashMap<Vec<u8>, Vec<WriteError>>);

impl Refused {
    fn take(&mut self, errors: RowErrors) -> Result<()> {
        ensure!(
            errors.dropped == 0,
            "{} refused rows did not fit the session's error buffer",
            errors.dropped
        );
        for failure in errors.errors {
            let schema = failure.operation().table().schema().clone();
            let key = schema::key::encode_key(&schema, &failure.operation().row().cells())?;
            self.0.entry(key).or_default().push(failure.error().clone());
        }
        Ok(())
    }

    /// Reads the file again: sums up the rows that were taken, and notes the refused ones with their lines. Of rows with
    /// the same key the first is the one that was taken.
    pub(super) fn account(mut self, csv: &CsvTable, bad: &mut BadRows) -> Result<Summary> {
        let mut taken = Summary::new(csv.schema());
        let mut seen = HashSet::new();
        // Rows that cannot be read were noted by the first reading.
        for row in csv.read()?.flatten() {
            match self.refusal(csv, &row, &mut seen)? {
                Some(row) => bad.note(row)?,
                None => taken.add(row.values.into_iter()),
            }
        }
        Ok(taken)
    }

    fn refusal(&mut self, csv: &CsvTable, row: &Row, seen: &mut HashSet<Vec<u8>>) -> Result<Option<BadRow>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let keys = csv.schema().key_columns();
        let raw: Vec<_> = row.values.iter().take(keys).flatten().map(Value::to_raw).collect();
        let cells: Vec<Cell<'_>> = raw.iter().map(|raw| Cell::Value(raw)).collect();
        let key = schema::key::encode_key(csv.schema(), &cells)?;
        let Some(errors) = self.0.get_mut(&key) else { return Ok(None) };
        let first = !seen.contains(&key);
        if first && errors.iter().all(WriteError::is_already_present) {
            seen.insert(key);
            return Ok(None);
        }
        let Some(error) = errors.pop() else { return Ok(None) };
        let names: Vec<&str> =
            csv.schema().columns().iter().take(keys).map(|column| column.name.as_str()).collect();
        let values: Vec<String> = row.values.iter().take(keys).flatten().map(Value::to_string).collect();
        Ok(Some(BadRow {
            line: row.line,
            column: names.join(","),
            value: values.join(","),
            reason: Reason::Refused(error.to_string()),
        }))
    }
}
