//! Compactions: several rowsets become one, without the rows that no snapshot shows any more.

use std::sync::Arc;

use schema::Timestamp;

use crate::Tablet;
use crate::file_error::FileError;
use crate::flush::{MaintenanceError, Position};
use crate::layer::{Layer, Stored};
use crate::manifest::{self, Listed};
use crate::memory::tombstones::ALIVE;
use crate::rowset::{self, Fate, Rowset, RowsetError, Writer};
use crate::scan::projection::missing_cell;

/// What there is to gain from a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    bytes: u64,
    rows: u64,
    /// Rows that ended before anybody may ask for them.
    dead: u64,
}

impl Tablet {
    /// Merges the rowsets of which there are too many of about one size, or which hold many rows that ended before `oldest`:
    /// those are dropped, and scans of snapshots before it refused. False if there is nothing to gain. Blocks while it
    /// writes; scans and writes go on meanwhile.
    ///
    /// # Errors
    /// [`MaintenanceError`]; nothing is lost then.
    pub fn compact(&self, oldest: Timestamp) -> Result<bool, MaintenanceError> {
        let mut kept = self.kept_open()?;
        if !self.files.lasting {
            // Without a log nothing is ever done again.
            let position = self.position_now();
            self.save(&mut kept, &position, None)?;
        }
        // What ended later is ended again by the log.
        let oldest = oldest.min(kept.time.next());
        let layers: Vec<Arc<Layer>> =
            self.rows.read().layers.iter().filter(|layer| layer.stored_rows().is_some()).cloned().collect();
        let candidates: Vec<Candidate> =
            stored(&layers).map(|stored| Candidate::of(stored, oldest)).collect();
        let chosen = choose(&candidates);
        if chosen.is_empty() {
            return Ok(false);
        }
        let inputs: Vec<Arc<Layer>> = chosen.iter().map(|index| Arc::clone(&layers[*index])).collect();
        let number = kept.next_file;
        kept.next_file += 1;
        let folder = manifest::rowset_folder(&self.files.folder, number);
        let (backend, time) = (&*self.files.backend, kept.time);
        let merged = Merged::write(&inputs, backend, &folder, &kept.about.schema, oldest, time)?;
        let output = if merged.rows == 0 {
            None
        } else {
            let file = Rowset::open(backend, &folder, &self.files.cache)?;
            Some(Stored::new(number, file, &[])?)
        };

        let replaced: Vec<u64> = stored(&inputs).map(|stored| stored.number).collect();
        let mut next = kept.clone();
        next.rowsets.retain(|listed| !replaced.contains(&listed.rowset));
        next.rowsets.extend(output.as_ref().map(|output| Listed { rowset: output.number, ends: 0 }));
        if merged.dropped {
            next.oldest = next.oldest.max(oldest);
        }
        self.replace_manifest(&mut kept, next)?;
        if !self.files.lasting && output.is_some() {
            // Its bytes are mapped.
            backend
                .remove_folder(&folder)
                .map_err(FileError::io("remove", &folder))
                .map_err(RowsetError::from)?;
        }
        self.install(&inputs, output, kept.oldest, |input, row| merged.new_row(input, row));
        Ok(true)
    }

    fn position_now(&self) -> Position {
        let _index = self.index.lock();
        self.position()
    }
}

fn stored(layers: &[Arc<Layer>]) -> impl Iterator<Item = &Stored> {
    layers.iter().filter_map(|layer| layer.stored_rows())
}

impl Candidate {
    fn of(stored: &Stored, oldest: Timestamp) -> Self {
        let dead = stored.all_ends().filter(|(_, end)| *end < oldest.0).count() as u64;
        Self { bytes: stored.file.bytes(), rows: stored.file.rows(), dead }
    }
}

/// Which of them to merge, by index; none if it is not worth it.
fn choose(candidates: &[Candidate]) -> Vec<usize> {
    let mut by_size: Vec<usize> = (0..candidates.len()).collect();
    by_size.sort_by_key(|index| candidates[*index].bytes);
    // From the smallest on, as long as the next is of about one size with those before it: a row is written again only when
    // the rowset that it is in becomes several times as large.
    let (mut sum, mut chosen) = (0, Vec::new());
    for index in by_size {
        let bytes = candidates[index].bytes;
        let about = sum * 2 / chosen.len().max(1) as u64;
        if bytes > about.max(SMALL_BYTES) || sum + bytes > MOST_BYTES {
            if chosen.len() >= ENOUGH {
                break;
            }
            chosen.clear();
            sum = 0;
        }
        chosen.push(index);
        sum += bytes;
    }
    if chosen.len() >= ENOUGH {
        return chosen;
    }
    let worst = (0..candidates.len())
        .max_by_key(|index| candidates[*index].dead * 100 / candidates[*index].rows.max(1));
    worst
        .filter(|index| candidates[*index].dead * 100 >= candidates[*index].rows * DEAD_PERCENT)
        .into_iter()
        .collect()
}

/// Rowsets that are merged at a time.
const ENOUGH: usize = 4;
/// Smaller ones count as of one size.
const SMALL_BYTES: u64 = 8 << 20;
/// Larger ones are not made by merging.
const MOST_BYTES: u64 = 8 << 30;
/// A rowset with so many dead rows is written again alone.
const DEAD_PERCENT: u64 = 30;

/// A merge that was written.
struct Merged {
    /// Of each input, by batch and row there.
    new_rows: Vec<Vec<Vec<u32>>>,
    rows: u64,
    dropped: bool,
}

impl Merged {
    fn write(
        inputs: &[Arc<Layer>],
        backend: &dyn crate::backend::Backend,
        folder: &std::path::Path,
        schema: &schema::Schema,
        oldest: Timestamp,
        time: Timestamp,
    ) -> Result<Self, RowsetError> {
        let layers: Vec<&Stored> = stored(inputs).collect();
        let files: Vec<&Rowset> = layers.iter().map(|stored| &stored.file).collect();
        let text = |column: usize| {
            files.iter().all(|file| file.position(schema.id(column)).is_none_or(|at| file.columns()[at].text))
        };
        let text: Vec<bool> = (0..schema.len()).map(text).collect();
        let lacking: Vec<Option<Vec<u8>>> =
            schema.columns().iter().map(|column| missing_cell(column).map(|cell| cell.to_vec())).collect();
        let batches =
            |file: &&Rowset| file.batches().iter().map(|b| vec![u32::MAX; b.rows as usize]).collect();
        let mut fates = Fates {
            layers: &layers,
            oldest,
            time,
            merged: Self { new_rows: files.iter().map(batches).collect(), rows: 0, dropped: false },
        };
        let mut writer = Writer::create(backend, folder, schema, &text)?;
        rowset::merge(&files, schema, &lacking, &mut fates, &mut writer)?;
        let merged = fates.merged;
        if merged.rows > 0 {
            writer.finish()?;
        }
        Ok(merged)
    }

    fn new_row(&self, input: usize, row: u32) -> Option<u32> {
        let (batch, index) = rowset::place(row);
        Some(self.new_rows[input][batch][index]).filter(|row| *row != u32::MAX)
    }
}

struct Fates<'a> {
    layers: &'a [&'a Stored],
    oldest: Timestamp,
    /// Ends after this are not in files.
    time: Timestamp,
    merged: Merged,
}

impl Fate for Fates<'_> {
    fn keep(&mut self, input: usize, row: u32, inserted: u64) -> Option<(u64, u64)> {
        let end = self.layers[input].end_of(row);
        if end < self.oldest.0 {
            self.merged.dropped = true;
            return None;
        }
        Some((inserted, if end > self.time.0 { ALIVE } else { end }))
    }

    fn placed(&mut self, input: usize, row: u32, new: u32) {
        let (batch, index) = rowset::place(row);
        self.merged.new_rows[input][batch][index] = new;
        self.merged.rows += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sizes: &[u64]) -> Vec<usize> {
        let candidates: Vec<_> =
            sizes.iter().map(|megabytes| Candidate { bytes: megabytes << 20, rows: 100, dead: 0 }).collect();
        choose(&candidates)
    }

    #[test]
    fn rowsets_of_about_one_size_are_merged_when_there_are_enough_of_them() {
        assert!(of(&[]).is_empty());
        assert!(of(&[1, 2, 3]).is_empty());
        assert_eq!(of(&[1, 2, 3, 500, 4]), [0, 1, 2, 4]);
        assert_eq!(of(&[400, 1, 500, 300, 600]), [3, 0, 2, 4], "the small one is left alone");
        assert!(of(&[1, 100, 10_000]).is_empty());
    }

    #[test]
    fn a_rowset_of_dead_rows_is_written_again() {
        let one = |dead| Candidate { bytes: 1 << 30, rows: 100, dead };
        assert_eq!(choose(&[one(10), one(50), one(29)]), [1]);
        assert!(choose(&[one(10), one(29)]).is_empty());
    }

    #[test]
    fn merging_by_size_writes_each_row_a_few_times_only() {
        let (mut sizes, mut written, mut flushed) = (Vec::new(), 0, 0);
        for _ in 0..1000 {
            sizes.extend([64]);
            flushed += 64;
            loop {
                let chosen = of(&sizes);
                if chosen.is_empty() {
                    break;
                }
                let sum: u64 = chosen.iter().map(|index| sizes[*index]).sum();
                written += sum;
                let mut index = 0;
                sizes.retain(|_| {
                    index += 1;
                    !chosen.contains(&(index - 1))
                });
                sizes.push(sum);
            }
        }
        assert!(written < flushed * 10, "{written} of {flushed}");
        assert!(sizes.len() < 40, "{sizes:?}");
    }
}
