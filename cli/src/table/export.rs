//! `nyala table export`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

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
        let partial = self.output.as_deref().map(Partial::create).transpose()?;
        let out: Box<dyn Write> = match &partial {
            Some(partial) => Box::new(BufWriter::new(&partial.file)),
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
        drop(writer);
        bar.finish_and_clear();
        if let (Some(partial), Some(path)) = (partial, &self.output) {
            partial.complete(path)?;
            match self.target.json {
                true => say!("{}", json!({"rows": rows, "file": path})),
                false => say!("{} rows in {}", report::thousands(rows), path.display()),
            }
        }
        Ok(())
    }
}

/// A file that has its name only once it is whole; taken away if it never is.
struct Partial {
    file: File,
    path: PathBuf,
}

impl Partial {
    fn create(whole: &Path) -> Result<Partial> {
        let mut path = whole.to_owned();
        // A pipe or a device is written as it is.
        if !whole.exists() || whole.is_file() {
            let mut name =
                whole.file_name().with_context(|| format!("{} is no file", whole.display()))?.to_owned();
            name.push(".part");
            path.set_file_name(name);
        }
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        Ok(Partial { file, path })
    }

    fn complete(self, whole: &Path) -> Result<()> {
        std::fs::rename(&self.path, whole).with_context(|| whole.display().to_string())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // It is not there any more when it was completed.
        if self.path.is_file() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
