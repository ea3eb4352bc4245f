//! Rows from an Arrow IPC or Parquet file.

use anyhow::{Context, Result, ensure};
use cli::files::{self, BatchFile, Format};
use cli::interrupt::Interrupt;
use cli::rows::{BadRow, Reason};
use client::arrow::ApplyRecordBatchError;
use client::schema::{OpKind, Schema};
use client::{Client, Table};

use super::{Load, Loading};

pub(super) async fn load(
    load: &Load,
    client: &Client,
    format: Format,
    interrupt: &Interrupt,
) -> Result<Loading> {
    let named = || load.file.display().to_string();
    let file = BatchFile::open(&load.file, format).with_context(named)?;
    let table = prepare(load, client, &file).await?;
    let kind = if load.upsert { OpKind::Upsert } else { OpKind::Insert };
    let mut loading = Loading::begin(load, client, table, file.rows());
    let mut before = 0_u64;
    for batch in file {
        let batch = files::fit(&batch.with_context(named)?, loading.table.schema())?;
        // Small pieces: a look at the signals and at the servers' refusals between them.
        for start in (0..batch.num_rows()).step_by(PIECE) {
            if interrupt.is_set() {
                return loading.finish().await;
            }
            let mut piece = batch.slice(start, PIECE.min(batch.num_rows() - start));
            loading.bar.inc(piece.num_rows() as u64);
            let mut line = before + start as u64 + 1;
            loop {
                let applied = loading.session.apply_record_batch(&loading.table, kind, &piece).await;
                let (row, reason) = match applied {
                    Ok(()) => break,
                    Err(ApplyRecordBatchError::Cell { row, source }) => (row, source.to_string()),
                    Err(error) => return Err(error.into()),
                };
                loading.sent += row as u64;
                line += row as u64;
                let reason = Reason::Refused(reason);
                loading.bad.note(BadRow {
                    line,
                    column: "(row)".to_owned(),
                    value: String::new(),
                    reason,
                })?;
                line += 1;
                piece = piece.slice(row + 1, piece.num_rows() - row - 1);
            }
            loading.sent += piece.num_rows() as u64;
            if loading.session.pending_errors() > 0 {
                loading.note_refused()?;
            }
        }
        before += batch.num_rows() as u64;
    }
    loading.finish().await
}

async fn prepare(load: &Load, client: &Client, file: &BatchFile) -> Result<Table> {
    if let Some(table) = load.existing(client).await? {
        return Ok(table);
    }
    let mut columns = files::columns(&file.schema(), &load.key)?;
    // The key first, in its order.
    columns.sort_by_key(|column| load.key.iter().position(|name| *name == column.name).unwrap_or(usize::MAX));
    let known = columns.iter().filter(|column| load.key.contains(&column.name)).count();
    ensure!(known == load.key.len(), "the file has not all columns of the key {}", load.key.join(", "));
    load.make(client, Schema::new(columns, load.key.len())?).await
}

const PIECE: usize = 1000;
