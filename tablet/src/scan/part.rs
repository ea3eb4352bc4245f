//! What a snapshot shows, in parts that were written at about the same time.

use std::sync::{Arc, OnceLock};

use super::projection::Projection;
use crate::layer::{Layer, Stored};
use crate::memory::column::Column;
use crate::memory::commits::Commits;
use crate::memory::tombstones::Tombstones;
use crate::rowset::{RowsetError, Times};

/// What a scan has read of files, in bytes of cells as they are in memory. Rows that are in memory anyway do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadBytes {
    /// Of blocks that were read before, and kept since.
    pub at_hand: u64,
    /// Of blocks that had to be read, compared with their checksums and, if they are packed, unpacked.
    pub fetched: u64,
}

impl ReadBytes {
    pub(crate) fn add(&mut self, more: ReadBytes) {
        self.at_hand += more.at_hand;
        self.fetched += more.fetched;
    }
}

/// Neighbouring rows of which a snapshot shows those that were inserted before and had not ended.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// From the first on; tombstones are looked at later.
    pub(crate) rows: u32,
    /// In the order of the scan's schema.
    columns: OnceLock<Vec<Column>>,
    pub(crate) tombstones: Arc<Tombstones>,
    /// When the rows were inserted, if they are in memory.
    commits: Option<Arc<Commits>>,
    /// Where the columns come from when they are first asked for.
    batch: Option<Batch>,
}

/// A batch of a rowset.
#[derive(Clone, Debug)]
struct Batch {
    /// Keeps the file.
    layer: Arc<Layer>,
    number: usize,
    projection: Arc<Projection>,
    /// Some rows may have been inserted after the snapshot.
    mixed: bool,
    inserted: OnceLock<Times>,
}

impl Part {
    /// Rows that were all inserted before.
    pub(crate) fn new(
        rows: u32,
        columns: Vec<Column>,
        tombstones: &Arc<Tombstones>,
        commits: Arc<Commits>,
    ) -> Self {
        Self {
            rows,
            columns: OnceLock::from(columns),
            tombstones: Arc::clone(tombstones),
            commits: Some(commits),
            batch: None,
        }
    }

    pub(crate) fn of_batch(
        layer: &Arc<Layer>,
        number: usize,
        mixed: bool,
        projection: &Arc<Projection>,
    ) -> Self {
        let stored = layer.stored_rows();
        let rows = stored.and_then(|stored| stored.file.batches().get(number)).map_or(0, |batch| batch.rows);
        let tombstones = stored.and_then(|stored| stored.ends.get(number)).map(Arc::clone);
        let batch = Batch {
            layer: Arc::clone(layer),
            number,
            projection: Arc::clone(projection),
            mixed,
            inserted: OnceLock::new(),
        };
        let tombstones = tombstones.unwrap_or_else(|| Arc::new(Tombstones::new()));
        Self { rows, columns: OnceLock::new(), tombstones, commits: None, batch: Some(batch) }
    }

    /// Has to be called before the rows are looked at; tells what this call read.
    pub(crate) fn load(&self) -> Result<ReadBytes, RowsetError> {
        let mut read = ReadBytes::default();
        let Some(batch) = self.batch.as_ref().filter(|_| self.columns.get().is_none()) else {
            return Ok(read);
        };
        let Some(stored) = batch.layer.stored_rows() else { return Ok(read) };
        if batch.mixed {
            batch.inserted.get_or_init({
                let times = stored.file.inserted(batch.number)?;
                || times
            });
        }
        let columns = batch.columns(stored, &mut read)?;
        self.columns.get_or_init(|| columns);
        Ok(read)
    }

    /// None before [`Part::load`].
    pub(crate) fn columns(&self) -> &[Column] {
        self.columns.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// When a row was inserted; of rows in files once they are loaded.
    pub(crate) fn inserted_at(&self, row: u32) -> u64 {
        match (&self.commits, &self.batch) {
            (Some(commits), _) => commits.at(row),
            (None, Some(batch)) => match batch.inserted.get() {
                Some(times) => times.at(row as usize),
                None => {
                    batch.layer.stored_rows().map_or(0, |rows| rows.file.batches()[batch.number].inserted.1)
                }
            },
            (None, None) => 0,
        }
    }

    /// When a row ended, [`ALIVE`](crate::memory::tombstones::ALIVE) if it did not.
    pub(crate) fn ended_at(&self, row: u32) -> u64 {
        self.tombstones.end(row as usize)
    }

    /// When the rows were inserted, if some of them may be too new.
    pub(crate) fn inserted(&self) -> Option<&Times> {
        self.batch.as_ref().and_then(|batch| batch.inserted.get())
    }

    /// A key that is not above those of its rows, if the rows are sorted.
    pub(crate) fn first_key(&self) -> Option<&[u8]> {
        let (stored, number) = self.stored()?;
        Some(&stored.file.batches()[number].first_key)
    }

    /// Where a column of the scan is in the batch.
    pub(crate) fn position(&self, column: usize) -> Option<usize> {
        self.batch.as_ref().and_then(|batch| batch.projection.source(column).ok())
    }

    /// The batch of a rowset that it is.
    pub(crate) fn stored(&self) -> Option<(&Stored, usize)> {
        let batch = self.batch.as_ref()?;
        Some((batch.layer.stored_rows()?, batch.number))
    }
}

impl Batch {
    fn columns(&self, stored: &Stored, read: &mut ReadBytes) -> Result<Vec<Column>, RowsetError> {
        self.projection.try_apply(|column| {
            let bytes = stored.file.cell_bytes(self.number, column);
            match stored.file.is_at_hand(self.number, column) {
                true => read.at_hand += bytes,
                false => read.fetched += bytes,
            }
            stored.file.column(self.number, column)
        })
    }
}
