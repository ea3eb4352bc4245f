//! What a start finds in the files of a tablet, before the log tells the rest.

use std::sync::Arc;

use schema::{Schema, Timestamp};

use crate::answers::Answers;
use crate::layer::{Layer, Stored};
use crate::manifest::{self, Listed, Manifest};
use crate::memory::rows::MemRows;
use crate::rowset::{Rowset, RowsetError, StoredColumn};
use crate::shape::Shape;
use crate::{OpenError, Tablet};

/// A rowset that was put where another one belongs may be whole, and still is of another table.
fn check_columns(file: &Rowset, schema: &Schema) -> Result<(), RowsetError> {
    let is_known = |column: &StoredColumn| match schema.index_of_id(column.id) {
        Some(index) => {
            let known = &schema.columns()[index];
            (known.data_type, known.nullable) == (column.data_type, column.nullable)
        }
        // It was dropped.
        None => true,
    };
    let has_key = (0..schema.key_columns()).all(|index| file.position(schema.id(index)) == Some(index));
    if has_key && file.key_columns() == schema.key_columns() && file.columns().iter().all(is_known) {
        return Ok(());
    }
    let problem = "its columns are none of the table's";
    Err(RowsetError::Corrupt { file: file.folder().join("meta"), offset: 0, problem })
}

impl Tablet {
    /// Makes an empty tablet what its manifest says; without one it stays empty.
    pub(crate) fn restore(&self) -> Result<(), OpenError> {
        let (backend, folder) = (&*self.files.backend, &self.files.folder);
        let unused = manifest::unused_number(backend, folder);
        let Some(mut manifest) = Manifest::read(backend, folder)? else {
            self.kept.lock().next_file = unused;
            return Ok(());
        };
        manifest.next_file = manifest.next_file.max(unused);
        let damaged = |problem| RowsetError::Corrupt { file: folder.join("manifest"), offset: 0, problem };
        let about = manifest.about.clone().applied(&self.options());
        let shape = Shape::new(about).map_err(|_| damaged("it describes no table"))?;
        let answers = Answers::decode(&manifest.answers).map_err(|_| damaged("its answers end too early"))?;
        *self.answers.lock() = answers;

        let mut numbers: Vec<u64> = manifest.rowsets.iter().map(|listed| listed.rowset).collect();
        numbers.sort_unstable();
        if !numbers.is_sorted_by(|a, b| a < b) {
            return Err(damaged("it lists a rowset twice").into());
        }
        let mut rows = self.rows.write();
        for Listed { rowset, ends } in &manifest.rowsets {
            let file = Rowset::open(backend, &manifest::rowset_folder(folder, *rowset), &self.files.cache)?;
            check_columns(&file, shape.schema())?;
            let ended = match ends {
                0 => Vec::new(),
                ends => manifest::read_ends(backend, &manifest::ends_file(folder, *ends))?,
            };
            let stored = Stored::new(*rowset, file, &ended)?;
            // What happened later is in the log.
            let is_later = |time: u64| time > manifest.time.0;
            if stored.file.batches().iter().any(|batch| is_later(batch.inserted.1))
                || stored.all_ends().any(|(_, end)| is_later(end))
            {
                return Err(damaged("rows of its rowsets are newer than it").into());
            }
            rows.live += stored.alive();
            rows.layers.push(Arc::new(Layer::stored(stored, Vec::new())));
        }
        rows.schema = shape.schema().clone();
        rows.active = MemRows::new(Arc::clone(&shape.layouts));
        rows.last_commit = manifest.time.0;
        *self.shape.write() = Arc::new(shape);
        self.note_layers(&rows);
        drop(rows);
        if manifest.time > Timestamp::MIN {
            // Its own time is never too far ahead of it.
            let _ = self.clock.update(manifest.time, manifest.time.physical_micros());
        }
        self.forget_before(manifest.oldest);
        *self.kept.lock() = manifest;
        Ok(())
    }
}
