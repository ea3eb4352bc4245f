//! What a start finds in the files of a tablet, before the log tells the rest.

use std::sync::Arc;

use schema::Timestamp;

use crate::answers::Answers;
use crate::layer::{Layer, Stored};
use crate::manifest::{self, Listed, Manifest};
use crate::memory::rows::MemRows;
use crate::rowset::{Rowset, RowsetError};
use crate::shape::Shape;
use crate::write::outcome::WriteOutcome;
use crate::write::request::RequestKey;
use crate::{OpenError, Tablet};

impl Tablet {
    /// Makes an empty tablet what its manifest says; without one it stays empty.
    pub(crate) fn restore(
        &self,
        seen: &mut dyn FnMut(RequestKey<'_>, WriteOutcome),
    ) -> Result<(), OpenError> {
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
        answers.each(|request, outcome| seen(request, outcome.clone()));
        *self.answers.lock() = answers;

        let mut rows = self.rows.write();
        for Listed { rowset, ends } in &manifest.rowsets {
            let file = Rowset::open(backend, &manifest::rowset_folder(folder, *rowset), &self.files.cache)?;
            let ended = match ends {
                0 => Vec::new(),
                ends => manifest::read_ends(backend, &manifest::ends_file(folder, *ends))?,
            };
            let stored = Stored::new(*rowset, file, &ended)?;
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
