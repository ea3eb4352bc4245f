//! Flushes: a memrowset becomes a rowset, and the manifest says which part of the log is not needed any more.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use schema::Timestamp;

use crate::backend::Backend;
use crate::file_error::FileError;
use crate::layer::{Content, Frozen, Layer, Stored};
use crate::log::LogError;
use crate::manifest::{self, Listed, Manifest};
use crate::memory::index::RowId;
use crate::memory::rows::MemRows;
use crate::memory::tombstones::ALIVE;
use crate::memory::{CHUNK_BYTES, CHUNK_ROWS};
use crate::rowset::{self, BlockCache, Rowset, RowsetError, Writer};
use crate::scan::block::BlockBuilder;
use crate::scan::filter::Filter;
use crate::scan::order::{self, Place};
use crate::scan::part::Part;
use crate::scan::projection::Projection;
use crate::{Alteration, Tablet, TabletOptions, shape};

/// A point in the history of a tablet.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    /// The last entry of the log.
    pub(crate) entry: u64,
    /// The time of the last write.
    pub(crate) time: Timestamp,
    pub(crate) about: Arc<TabletOptions>,
    /// What named calls were answered so far.
    pub(crate) answers: Vec<u8>,
}

/// Where rowsets go.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) folder: PathBuf,
    pub(crate) cache: Arc<BlockCache>,
    /// False for a tablet that lives in memory only.
    pub(crate) lasting: bool,
}

/// A flush or compaction that was not done. The tablet is as it was before, and it may be tried again.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MaintenanceError {
    /// Files cannot be read or written.
    #[error(transparent)]
    Rowset(#[from] RowsetError),
    /// The log has failed.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl MaintenanceError {
    /// True if the system refused something that it may allow later, e.g. the disk is full.
    pub const fn is_retriable(&self) -> bool {
        match self {
            Self::Rowset(error) => error.is_retriable(),
            Self::Log(_) => false,
        }
    }
}

impl Tablet {
    /// Writes all rows in memory into files, so that the memory and the log before are not needed any more. Rows that ended
    /// before `oldest` are dropped, and scans of snapshots before it refused if there were any. Blocks while it writes;
    /// scans and writes go on meanwhile.
    ///
    /// # Errors
    /// [`MaintenanceError`]; nothing is lost then.
    pub fn flush(&self, oldest: Timestamp) -> Result<(), MaintenanceError> {
        let mut kept = self.kept_open()?;
        let position = self.freeze_now();
        let flushed = self.flush_frozen(&mut kept, &position, oldest);
        if flushed.is_err() {
            self.note_unflushed(position.time);
        }
        flushed
    }

    fn flush_frozen(
        &self,
        kept: &mut MutexGuard<'_, Manifest>,
        position: &Position,
        oldest: Timestamp,
    ) -> Result<(), MaintenanceError> {
        loop {
            let layers = self.rows.read().layers.clone();
            let Some(layer) = layers.iter().find(|layer| layer.stored_rows().is_none()) else { break };
            self.flush_layer(kept, layer, oldest)?;
        }
        if position.entry > kept.entry {
            self.save(kept, position, None)?;
        }
        Ok(())
    }

    /// For one flush or compaction at a time, and none once the tablet is closed.
    pub(crate) fn kept_open(&self) -> Result<MutexGuard<'_, Manifest>, MaintenanceError> {
        let kept = self.kept.lock();
        if self.closed.load(Ordering::Acquire) { Err(LogError::Closed.into()) } else { Ok(kept) }
    }

    fn flush_layer(
        &self,
        kept: &mut MutexGuard<'_, Manifest>,
        layer: &Arc<Layer>,
        oldest: Timestamp,
    ) -> Result<(), MaintenanceError> {
        let Content::Frozen(frozen) = &layer.content else { return Ok(()) };
        // What ended later is ended again by the log.
        let oldest = oldest.min(frozen.position.time.next());
        let number = kept.next_file;
        kept.next_file += 1;
        let folder = manifest::rowset_folder(&self.files.folder, number);
        let sorted = Sorted::new(frozen, oldest);
        let mut new_rows = Vec::new();
        let stored = if sorted.places.is_empty() {
            None
        } else {
            new_rows = sorted.write(&*self.files.backend, &folder, frozen)?;
            let file = Rowset::open(&*self.files.backend, &folder, &self.files.cache)?;
            Some(Stored::new(number, file, &[])?)
        };
        if sorted.dropped {
            kept.oldest = kept.oldest.max(oldest);
        }
        self.save(kept, &frozen.position, stored.as_ref().map(|stored| stored.number))?;
        if !self.files.lasting && stored.is_some() {
            // Its bytes are mapped.
            self.files
                .backend
                .remove_folder(&folder)
                .map_err(FileError::io("remove", &folder))
                .map_err(RowsetError::from)?;
        }
        // What was dropped had ended for good.
        self.install(&[Arc::clone(layer)], stored, kept.oldest, |_, row| {
            new_rows.get(row as usize).copied().filter(|new| *new != RowId::MAX)
        });
        Ok(())
    }

    /// Makes the state at `position` the one that a start finds: all rows until there are in the rowsets of the manifest
    /// and in `added`.
    pub(crate) fn save(
        &self,
        kept: &mut MutexGuard<'_, Manifest>,
        position: &Position,
        added: Option<u64>,
    ) -> Result<(), MaintenanceError> {
        let Position { entry, time, about, answers } = position;
        let next = Manifest {
            entry: *entry,
            time: *time,
            about: Alteration::of(about),
            answers: answers.clone(),
            rowsets: kept
                .rowsets
                .iter()
                .copied()
                .chain(added.map(|rowset| Listed { rowset, ends: 0 }))
                .collect(),
            ..Manifest::clone(kept)
        };
        self.replace_manifest(kept, next)
    }

    /// Writes the ends of rows until the manifest's time, and the manifest.
    pub(crate) fn replace_manifest(
        &self,
        kept: &mut MutexGuard<'_, Manifest>,
        mut next: Manifest,
    ) -> Result<(), MaintenanceError> {
        let layers = self.rows.read().layers.clone();
        let Some(durability) = &self.durability else {
            for layer in &layers {
                layer.unsaved.lock().retain(|(_, end)| *end > next.time.0);
            }
            **kept = next;
            return Ok(());
        };
        durability.close_segment(next.entry)?;
        let (backend, folder) = (&*self.files.backend, &self.files.folder);
        let mut saved = Vec::new();
        for layer in &layers {
            let Some(stored) = layer.stored_rows() else { continue };
            let Some(listed) = next.rowsets.iter_mut().find(|listed| listed.rowset == stored.number) else {
                continue;
            };
            let count = layer.unsaved.lock().partition_point(|(_, end)| *end <= next.time.0);
            if count > 0 {
                listed.ends = kept.next_file;
                kept.next_file += 1;
                let file = manifest::ends_file(folder, listed.ends);
                let ends = stored.all_ends().filter(|(_, end)| *end <= next.time.0);
                manifest::write_ends(backend, &file, ends).map_err(RowsetError::from)?;
                saved.push((layer, count));
            }
        }
        next.next_file = kept.next_file;
        // After an error either is there, so the files of both stay.
        next.write(backend, folder).map_err(RowsetError::from)?;
        for (layer, count) in saved {
            layer.unsaved.lock().drain(..count);
        }
        manifest::remove_others(backend, folder, &next.rowsets);
        durability.forget_entries(next.entry);
        **kept = next;
        Ok(())
    }

    /// Puts a rowset in the place of layers. Ends of their rows that no file holds move along; `new_row` says where to.
    /// Snapshots before `oldest` have lost rows.
    pub(crate) fn install(
        &self,
        replaced: &[Arc<Layer>],
        stored: Option<Stored>,
        oldest: Timestamp,
        new_row: impl Fn(usize, RowId) -> Option<RowId>,
    ) {
        let _index = self.index.lock();
        let mut rows = self.rows.write();
        self.forget_before(oldest);
        let mut unsaved = Vec::new();
        for (number, layer) in replaced.iter().enumerate() {
            let ends = layer.unsaved.lock();
            unsaved.extend(ends.iter().filter_map(|(row, end)| Some((new_row(number, *row)?, *end))));
        }
        unsaved.sort_by_key(|(_, end)| *end);
        let is_replaced = |layer: &Arc<Layer>| replaced.iter().any(|other| Arc::ptr_eq(layer, other));
        let at = rows.layers.iter().position(is_replaced).unwrap_or(rows.layers.len());
        rows.layers.retain(|layer| !is_replaced(layer));
        if let Some(stored) = stored {
            unsaved.iter().for_each(|(row, end)| stored.end(*row, *end));
            rows.layers.insert(at, Arc::new(Layer::stored(stored, unsaved)));
        }
        self.note_layers(&rows);
    }
}

/// The row versions of a frozen memrowset that are worth keeping, in the order of a rowset.
struct Sorted {
    parts: Vec<Part>,
    places: Vec<Place>,
    dropped: bool,
}

impl Sorted {
    fn new(frozen: &Frozen, oldest: Timestamp) -> Self {
        let Frozen { schema, rows, .. } = frozen;
        let mut parts = Vec::new();
        rows.view(u64::MAX, &Projection::new(schema, |id| schema.index_of_id(id), |_| true), &mut parts);
        // Shows what had not ended at that time, however new.
        let mut filter = Filter::at(oldest.0);
        let places = order::sorted(schema, &shape::layouts(schema), &parts, &mut filter, u64::MAX);
        let dropped = places.len() < rows.next_row() as usize;
        Self { parts, places, dropped }
    }

    /// Writes the rowset; for each row of the memrowset its number there.
    fn write(
        &self,
        backend: &dyn Backend,
        folder: &Path,
        frozen: &Frozen,
    ) -> Result<Vec<RowId>, RowsetError> {
        let Frozen { schema, rows, position, .. } = frozen;
        let layouts = shape::layouts(schema);
        let is_text = |column: usize| {
            self.parts.iter().all(|part| {
                part.columns()[column]
                    .stored()
                    .is_none_or(|data| rowset::is_text(data.as_slice(part.rows as usize)))
            })
        };
        let text: Vec<bool> = (0..schema.len()).map(is_text).collect();
        let mut writer = Writer::create(backend, folder, schema, &text)?;
        let all: Vec<usize> = (0..schema.len()).collect();
        let mut new_rows = vec![RowId::MAX; rows.next_row() as usize];
        let mut rest = &self.places[..];
        for number in 0.. {
            if rest.is_empty() {
                break;
            }
            let mut block = BlockBuilder::new(&layouts, &all, CHUNK_BYTES, rest.len().min(CHUNK_ROWS));
            while block.rows < rest.len().min(CHUNK_ROWS) && block.bytes < CHUNK_BYTES {
                let step = STEP_ROWS.min(rest.len().min(CHUNK_ROWS) - block.rows);
                block.add_places(&self.parts, &rest[block.rows..block.rows + step]);
            }
            let block = block.finish();
            let (batch, others) = rest.split_at(block.rows);
            let times = |time: fn(&MemRows, Place) -> u64| batch.iter().map(move |place| time(rows, *place));
            let inserted: Vec<u64> =
                times(|rows, place| rows.inserted(place.part as usize, place.row)).collect();
            let ended = times(|rows, place| rows.ended(place.part as usize, place.row));
            let mut ended: Vec<u64> =
                ended.map(|end| if end > position.time.0 { ALIVE } else { end }).collect();
            if ended.iter().all(|end| *end == ALIVE) {
                ended.clear();
            }
            writer.push(block.rows, &block.columns, &inserted, &ended)?;
            for (index, place) in batch.iter().enumerate() {
                new_rows[rows.row_at(place.part as usize, place.row) as usize] =
                    rowset::row_number(number, index);
            }
            rest = others;
        }
        writer.finish()?;
        Ok(new_rows)
    }
}

const STEP_ROWS: usize = 1024;
