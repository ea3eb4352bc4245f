//! Rows from a CSV file.

use anyhow::Result;
use cli::interrupt::Interrupt;
use cli::rows::{BadRow, CsvTable, Reason};
use client::{Client, Operation, Table};

use super::{Load, Loading};

pub(super) async fn load(load: &Load, client: &Client, interrupt: &Interrupt) -> Result<Loading> {
    let (table, csv) = prepare(load, client).await?;
    let places = places(&table, &csv)?;
    let mut loading = Loading::begin(load, client, table, csv.rows());
    for row in csv.read()? {
        if interrupt.is_set() {
            break;
        }
        loading.bar.inc(1);
        let row = match row {
            Ok(row) => row,
            Err(row) => {
                loading.bad.note(row)?;
                continue;
            }
        };
        let table = &loading.table;
        let mut operation = if load.upsert { table.upsert() } else { table.insert() };
        match fill(&mut operation, table, &places, row.values) {
            Ok(()) => {}
            Err((column, value)) => {
                let reason = Reason::Refused("no value of the table's column".to_owned());
                loading.bad.note(BadRow { line: row.line, column, value, reason })?;
                continue;
            }
        }
        loading.session.apply(operation).await?;
        loading.sent += 1;
        if loading.session.pending_errors() > 0 {
            loading.note_refused()?;
        }
    }
    loading.finish().await
}

/// The table, made after the file's columns if it is not there, and the file.
async fn prepare(load: &Load, client: &Client) -> Result<(Table, CsvTable)> {
    if let Some(table) = load.existing(client).await? {
        let schema = table.schema();
        let key = schema.columns().iter().take(schema.key_columns()).map(|column| column.name.clone());
        let csv = CsvTable::inspect(&load.file, &key.collect::<Vec<_>>())?;
        return Ok((table, csv));
    }
    let csv = CsvTable::inspect(&load.file, &load.key)?;
    Ok((load.make(client, csv.schema().clone()).await?, csv))
}

/// For each column of the file, which of the table it is.
fn places(table: &Table, csv: &CsvTable) -> Result<Vec<usize>> {
    let place = |column: &client::schema::Column| {
        table.schema().index_of(&column.name).ok_or_else(|| {
            anyhow::anyhow!("the file has a column {:?}, the table {} has not", column.name, table.name())
        })
    };
    csv.schema().columns().iter().map(place).collect()
}

/// Sets the cells; the column and value that do not fit, if one does not.
fn fill(
    operation: &mut Operation,
    table: &Table,
    places: &[usize],
    values: Vec<Option<client::schema::Value>>,
) -> Result<(), (String, String)> {
    for (&place, value) in places.iter().zip(values) {
        let Some(column) = table.schema().columns().get(place) else { continue };
        let shown = value.as_ref().map(|value| cli::text::show(value, column));
        let set = match (value, &shown) {
            // The file's types are guessed: the text is what counts.
            (Some(value), Some(text)) if value.data_type() != column.data_type => {
                cli::text::read(text, column).map(|value| operation.row_mut().set_at(place, value).is_ok())
            }
            (Some(value), _) => Some(operation.row_mut().set_at(place, value).is_ok()),
            (None, _) => Some(operation.row_mut().set_null_at(place).is_ok()),
        };
        if set != Some(true) {
            return Err((column.name.clone(), shown.unwrap_or_else(|| "NULL".to_owned())));
        }
    }
    Ok(())
}
