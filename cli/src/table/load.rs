//! `nyala table load`.

#[cfg(feature = "files")]
mod batches;
mod csv;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use cli::files::Format;
use cli::interrupt::{Interrupt, Interrupted};
use cli::report;
use cli::rows::{BadRow, BadRows, Reason};
use client::schema::Schema;
use client::{Client, FlushMode, Session, Table};
use indicatif::ProgressBar;
use serde_json::json;

use crate::Target;

/// `nyala table load flights flights.csv.gz --key time_hour,carrier,flight`
#[derive(clap::Args)]
pub(crate) struct Load {
    table: String,
    /// CSV with a header, plain or .gz, in which empty cells and NA are null; or an Arrow IPC or Parquet file.
    file: PathBuf,
    /// csv, arrow or parquet, whatever the file's name says.
    #[arg(long)]
    format: Option<Format>,
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
        let loaded = match self.format.unwrap_or_else(|| Format::of(&self.file)) {
            Format::Csv => csv::load(&self, &client, interrupt).await?,
            #[cfg(feature = "files")]
            format => batches::load(&self, &client, format, interrupt).await?,
            #[cfg(not(feature = "files"))]
            _ => bail!("this nyala was built without the feature `files`: it reads CSV only"),
        };
        let (sent, bad) = (loaded.sent, &loaded.bad);
        let seconds = loaded.begin.elapsed().as_secs_f64();
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

    /// The table, if it is there; a key is needed if it is not.
    async fn existing(&self, client: &Client) -> Result<Option<Table>> {
        if client.table_exists(&self.table).await? {
            return Ok(Some(client.open_table(&self.table).await?));
        }
        if self.key.is_empty() {
            bail!(
                "there is no table {}; name a key (--key a,b,c) and it is made after the file's columns",
                self.table
            );
        }
        Ok(None)
    }

    async fn make(&self, client: &Client, schema: Schema) -> Result<Table> {
        let key: Vec<&str> = self.key.iter().map(String::as_str).collect();
        let mut creator = client.create_table(&self.table, schema).replicas(1);
        if self.buckets > 1 {
            creator = creator.hash_partition(&key, self.buckets);
        }
        Ok(creator.create().await?)
    }
}

/// Rows on their way into a table.
struct Loading {
    table: Table,
    session: Session,
    bad: BadRows,
    sent: u64,
    begin: Instant,
    bar: ProgressBar,
}

impl Loading {
    /// `rows` is how many are to come, 0 if nobody knows.
    fn begin(load: &Load, client: &Client, table: Table, rows: u64) -> Loading {
        Loading {
            table,
            session: client.session().mode(FlushMode::AutoBackground).build(),
            bad: BadRows::new(!load.strict),
            sent: 0,
            begin: Instant::now(),
            bar: report::progress(rows, "loading"),
        }
    }

    /// Notes the rows that the servers have refused so far.
    fn note_refused(&mut self) -> Result<()> {
        let errors = self.session.take_errors();
        self.sent -= errors.errors.len() as u64 + errors.dropped;
        for failure in errors.errors {
            let schema = failure.operation().table().schema().clone();
            let row = failure.operation().row();
            let columns = schema.columns().iter().take(schema.key_columns()).enumerate();
            let key = columns.map(|(index, column)| {
                row.value(index).map(|value| cli::text::show(&value, column)).unwrap_or_default()
            });
            self.bad.note(BadRow {
                line: 0,
                column: "(key)".to_owned(),
                value: key.collect::<Vec<_>>().join(","),
                reason: Reason::Refused(failure.error().to_string()),
            })?;
        }
        Ok(())
    }

    /// Waits for the rows that are still on their way.
    async fn finish(mut self) -> Result<Loading> {
        let flushed = self.session.flush().await;
        if self.session.pending_errors() > 0 {
            self.note_refused()?;
        } else {
            flushed?;
        }
        self.bar.finish_and_clear();
        Ok(self)
    }
}
