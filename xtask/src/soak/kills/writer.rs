//! One thread that writes.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::blocking::{Client, Session};
use client::schema::Value;
use client::{FlushMode, Operation, Table};

use super::Result;
use super::model::{Row, Writer, text};

/// What an operation makes of its row, if it is done.
type Effect = (Option<i64>, Option<i64>);

impl Writer {
    /// Writes batches until it is told to stop. How many operations were acknowledged, and of how many it was not told.
    pub(super) fn write(
        &mut self,
        master: &str,
        table: &str,
        rows_a_batch: usize,
        stop: &AtomicBool,
    ) -> Result<(u64, u64)> {
        let client = patient(|| Ok(Client::connect(master)?))?;
        let table = patient(|| Ok(client.open_table(table)?))?;
        let session =
            client.session(|session| session.mode(FlushMode::Manual).timeout(Duration::from_secs(30)));
        let (mut acknowledged, mut unsure) = (0, 0);
        while !stop.load(Ordering::Relaxed) {
            let batch = self.batch(&table, rows_a_batch)?;
            let failed = send(&session, batch.iter().map(|(_, operation, _)| operation.clone()))?;
            for (id, _, (before, after)) in batch {
                let is_unsure = failed.as_ref().is_none_or(|failed| failed.contains(&id));
                unsure += u64::from(is_unsure);
                acknowledged += u64::from(!is_unsure);
                self.rows.insert(id, if is_unsure { Row::Either(before, after) } else { Row::Sure(after) });
            }
        }
        Ok((acknowledged, unsure))
    }

    /// Operations on different rows, each of which must succeed.
    fn batch(&mut self, table: &Table, rows_a_batch: usize) -> Result<Vec<(i64, Operation, Effect)>> {
        let mut batch = HashMap::new();
        for _ in 0..fastrand::usize(1..=rows_a_batch) {
            let after = fastrand::i64(..);
            let known = match fastrand::u8(..10) {
                0..4 => None,
                _ => self.some_row().filter(|(id, _)| !batch.contains_key(id)),
            };
            let (id, operation, effect) = match known {
                None => {
                    self.last_key += 1;
                    let kind = if fastrand::bool() { table.insert() } else { table.upsert() };
                    (self.last_key, filled(kind, self.last_key, after)?, (None, Some(after)))
                }
                Some((id, value)) => match fastrand::u8(..3) {
                    0 => (id, filled(table.update(), id, after)?, (Some(value), Some(after))),
                    1 => (id, filled(table.upsert(), id, after)?, (Some(value), Some(after))),
                    _ => (id, table.delete().with("id", id)?, (Some(value), None)),
                },
            };
            batch.insert(id, (operation, effect));
        }
        Ok(batch.into_iter().map(|(id, (operation, effect))| (id, operation, effect)).collect())
    }

    /// A row that is there for sure.
    fn some_row(&self) -> Option<(i64, i64)> {
        let first = self.rows.keys().next()?;
        let (id, row) = self.rows.range(fastrand::i64(*first..=self.last_key)..).next()?;
        match row {
            Row::Sure(Some(value)) => Some((*id, *value)),
            _ => None,
        }
    }
}

fn filled(operation: Operation, id: i64, value: i64) -> Result<Operation> {
    let operation = operation.with("id", id)?.with("value", value)?;
    Ok(match text(value) {
        Some(text) => operation.with("text", text)?,
        None => operation.with_null("text")?,
    })
}

/// Sends a batch; the keys that failed, or `None` if that is not known.
fn send(session: &Session, operations: impl Iterator<Item = Operation>) -> Result<Option<HashSet<i64>>> {
    for operation in operations {
        session.apply(operation)?;
    }
    if session.flush().is_ok() {
        return Ok(Some(HashSet::new()));
    }
    let failures = session.take_errors();
    if failures.is_overflowed() {
        return Ok(None);
    }
    let mut failed = HashSet::new();
    for failure in &failures.errors {
        // A call that was done and is tried again at a new process gets its first answer: its rows are not there "already".
        if failure.error().is_already_present() || failure.error().is_not_found() {
            return Err(format!("a row was written twice: {failure}").into());
        }
        let Some(Value::Int64(id)) = failure.operation().row().value(0) else {
            return Err(format!("a failed operation has no key: {failure}").into());
        };
        failed.insert(id);
    }
    Ok(Some(failed))
}

/// Tries again while the master is away.
pub(super) fn patient<T>(mut act: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..100 {
        if let Ok(done) = act() {
            return Ok(done);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    act()
}
