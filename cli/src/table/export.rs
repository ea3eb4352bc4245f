//! `nyala table export`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use cli::{report, text};
use serde_json::json;

use super::scan::What;
use crate::Target;

/// Rows as CSV with a header; NULL is an empty cell.
#[derive(clap::Args)]
pub(crate) struct Export {
    table: String,
    #[command(flatten)]
    what: What,
    /// The file to write; standard output if not given.
    #[arg(long, short)]
    output: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

impl Export {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.target.connect().await?;
        let table = client.open_table(&self.table).await?;
        let mut scan = self.what.scan(&table)?.start()?;
        let columns = scan.schema().columns().to_vec();
        let out: Box<dyn Write> = match &self.output {
            Some(path) => {
                Box::new(BufWriter::new(File::create(path).with_context(|| path.display().to_string())?))
            }
            None => Box::new(std::io::stdout().lock()),
        };
        let total = client.table_statistics(&self.table).await?.live_row_count.unwrap_or(0);
        let bar = match self.output {
            Some(_) => report::progress(total, "exporting"),
            None => indicatif::ProgressBar::hidden(),
        };
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(columns.iter().map(|column| column.name.as_str()))?;
        let mut rows = 0_u64;
        while let Some(batch) = scan.next().await {
            let batch = batch?;
            for row in batch.iter() {
                for (column, value) in columns.iter().zip(row.values()) {
                    writer.write_field(value.map(|value| text::show(&value, column)).unwrap_or_default())?;
                }
                writer.write_record(None::<&[u8]>)?;
            }
            rows += batch.rows() as u64;
            bar.inc(batch.rows() as u64);
        }
        writer.flush()?;
        bar.finish_and_clear();
        if let Some(path) = &self.output {
            match self.target.json {
                true => say!("{}", json!({"rows": rows, "file": path})),
                false => say!("{} rows in {}", report::thousands(rows), path.display()),
            }
        }
        Ok(())
    }
}
