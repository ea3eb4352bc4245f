//! `nyala table export`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

#[cfg(not(feature = "files"))]
use anyhow::bail;
use anyhow::{Context, Result};
#[cfg(feature = "files")]
use cli::files::BatchWriter;
use cli::files::Format;
use cli::{report, text};
use client::schema::Column;
use client::{Batch, Scan};
use serde_json::json;

use super::scan::What;
use crate::Target;

/// Rows as CSV with a header, where NULL is an empty cell, or as an Arrow IPC or Parquet file.
#[derive(clap::Args)]
pub(crate) struct Export {
    table: String,
    #[command(flatten)]
    what: What,
    /// The file to write; standard output if not given.
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// csv, arrow or parquet, whatever the file's name says.
    #[arg(long)]
    format: Option<Format>,
    #[command(flatten)]
    target: Target,
}

impl Export {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.target.connect().await?;
        let table = client.open_table(&self.table).await?;
        let mut scan = self.what.scan(&table)?.start()?;
        let partial = self.output.as_deref().map(Partial::create).transpose()?;
        let out: Box<dyn Write + Send> = match &partial {
            Some(partial) => Box::new(BufWriter::new(partial.file.try_clone()?)),
            None => Box::new(std::io::stdout()),
        };
        let named = || self.output.as_deref().map_or(Format::Csv, Format::of);
        let mut rows_out = RowsOut::begin(out, self.format.unwrap_or_else(named), &scan)?;
        let total = client.table_statistics(&self.table).await?.live_row_count.unwrap_or(0);
        let bar = match self.output {
            Some(_) => report::progress(total, "exporting"),
            None => indicatif::ProgressBar::hidden(),
        };
        let mut rows = 0_u64;
        while let Some(batch) = scan.next().await {
            let batch = batch?;
            rows_out.write(&batch)?;
            rows += batch.rows() as u64;
            bar.inc(batch.rows() as u64);
        }
        rows_out.finish()?;
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

/// A file that is being written.
enum RowsOut {
    Csv {
        writer: Box<csv::Writer<Box<dyn Write + Send>>>,
        columns: Vec<Column>,
    },
    #[cfg(feature = "files")]
    Batches(BatchWriter<Box<dyn Write + Send>>),
}

impl RowsOut {
    fn begin(out: Box<dyn Write + Send>, format: Format, scan: &Scan) -> Result<RowsOut> {
        if format != Format::Csv {
            #[cfg(not(feature = "files"))]
            bail!("this nyala was built without the feature `files`: it writes CSV only");
            #[cfg(feature = "files")]
            return Ok(RowsOut::Batches(BatchWriter::begin(out, format, &scan.arrow_schema())?));
        }
        let columns = scan.schema().columns().to_vec();
        let mut writer = Box::new(csv::Writer::from_writer(out));
        writer.write_record(columns.iter().map(|column| column.name.as_str()))?;
        Ok(RowsOut::Csv { writer, columns })
    }

    fn write(&mut self, batch: &Batch) -> Result<()> {
        match self {
            RowsOut::Csv { writer, columns } => {
                for row in batch.iter() {
                    for (column, value) in columns.iter().zip(row.values()) {
                        let text = value.map(|value| text::show(&value, column));
                        writer.write_field(text.unwrap_or_default())?;
                    }
                    writer.write_record(None::<&[u8]>)?;
                }
            }
            #[cfg(feature = "files")]
            RowsOut::Batches(writer) => writer.write(&batch.to_record_batch()?)?,
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        match self {
            RowsOut::Csv { mut writer, .. } => writer.flush()?,
            #[cfg(feature = "files")]
            RowsOut::Batches(writer) => writer.finish()?,
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
