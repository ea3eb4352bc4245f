//! `nyala table load`.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use cli::interrupt::{Interrupt, Interrupted};
use cli::report;
use cli::rows::{BadRow, BadRows, CsvTable, Reason};
use client::{Client, FlushMode, Operation, Table};
use serde_json::json;

use crate::Target;

/// `nyala table load flights flights.csv.gz --key time_hour,carrier,flight`
#[derive(clap::Args)]
pub(crate) struct Load {
    table: String,
    /// CSV with a header, plain or .gz; empty cells and NA are null.
    file: PathBuf,
    /// The primary key's columns, in order: of the table that is made, if it is not there.
    #[arg(long, value_delimiter = ',')]
    key: Vec<String>,
    /// Rows that are there already are replaced.
    #[arg(long)]
    upsert: bool,
    /// Hash buckets of a table that is made.
    #[arg(long, default_value_t = 4)]
    buckets: u32,
    /// Stop at the first row that cannot be loaded, in place of counting and leaving it out.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    target: Target,
}

impl Load {
    pub(super) async fn run(self, interrupt: &Interrupt) -> Result<()> {
        let client = self.target.connect().await?;
        let (table, csv) = self.prepare(&client).await?;
        let places = places(&table, &csv)?;
        let begin = Instant::now();
        let mut bad = BadRows::new(!self.strict);
        let session = client.session().mode(FlushMode::AutoBackground).build();
        let bar = report::progress(csv.rows(), "loading");
        let mut sent = 0_u64;
        for row in csv.read()? {
            if interrupt.is_set() {
                break;
            }
            bar.inc(1);
            let row = match row {
                Ok(row) => row,
                Err(row) => {
                    bad.note(row)?;
                    continue;
                }
            };
            let mut operation = if self.upsert { table.upsert() } else { table.insert() };
            match fill(&mut operation, &table, &places, row.values) {
                Ok(()) => {}
                Err((column, value)) => {
                    let reason = Reason::Refused("no value of the table's column".to_owned());
                    bad.note(BadRow { line: row.line, column, value, reason })?;
                    continue;
                }
            }
            session.apply(operation).await?;
            sent += 1;
            if session.pending_errors() > 0 {
                sent -= refused(&session, &mut bad)?;
            }
        }
        let flushed = session.flush().await;
        if session.pending_errors() > 0 {
            sent -= refused(&session, &mut bad)?;
        } else {
            flushed?;
        }
        bar.finish_and_clear();
        let seconds = begin.elapsed().as_secs_f64();
        if self.target.json {
            say!(
                "{}",
                json!({"table": self.table, "rows": sent, "left_out": bad.count(), "seconds": seconds})
            );
        } else {
            say!("{} rows loaded into {} in {seconds:.2} s", report::thousands(sent), self.table);
            if bad.count() > 0 {
                say!("{} rows were left out; the first ones:", report::thousands(bad.count()));
                for row in bad.first() {
                    say!("  {row}");
                }
            }
        }
        if interrupt.is_set() {
            return Err(Interrupted.into());
        }
        ensure!(bad.count() == 0, "{} rows were left out", report::thousands(bad.count()));
        Ok(())
    }

    /// The table, made after the file's columns if it is not there, and the file.
    async fn prepare(&self, client: &Client) -> Result<(Table, CsvTable)> {
        if client.table_exists(&self.table).await? {
            let table = client.open_table(&self.table).await?;
            let schema = table.schema();
            let key: Vec<String> = schema
                .columns()
                .iter()
                .take(schema.key_columns())
                .map(|column| column.name.clone())
                .collect();
            return Ok((table, CsvTable::inspect(&self.file, &key)?));
        }
        if self.key.is_empty() {
            bail!(
                "there is no table {}; name a key (--key a,b,c) and it is made after the file's columns",
                self.table
            );
        }
        let csv = CsvTable::inspect(&self.file, &self.key)?;
        let key: Vec<&str> = self.key.iter().map(String::as_str).collect();
        let mut creator = client.create_table(&self.table, csv.schema().clone()).replicas(1);
        if self.buckets > 1 {
            creator = creator.hash_partition(&key, self.buckets);
        }
        Ok((creator.create().await?, csv))
    }
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

/// Notes the rows that the servers refused; how many.
fn refused(session: &client::Session, bad: &mut BadRows) -> Result<u64> {
    let errors = session.take_errors();
    let count = errors.errors.len() as u64 + errors.dropped;
    for failure in errors.errors {
        let schema = failure.operation().table().schema().clone();
        let row = failure.operation().row();
        let columns = schema.columns().iter().take(schema.key_columns()).enumerate();
        let key = columns.map(|(index, column)| {
            row.value(index).map(|value| cli::text::show(&value, column)).unwrap_or_default()
        });
        bad.note(BadRow {
            line: 0,
            column: "(key)".to_owned(),
            value: key.collect::<Vec<_>>().join(","),
            reason: Reason::Refused(failure.error().to_string()),
        })?;
    }
    Ok(count)
}
