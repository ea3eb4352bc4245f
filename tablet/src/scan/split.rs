//! The rows of a tablet in pieces of about one size, so that several readers can share a scan.

use schema::Schema;

use super::order;
use super::part::Part;
use crate::memory::column::Layout;
use crate::rowset::RowsetError;

/// A piece of a tablet's rows, by encoded primary keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key, inclusive; `None` from the beginning.
    pub lower: Option<Vec<u8>>,
    /// Where it ends, exclusive; `None` for the end.
    pub upper: Option<Vec<u8>>,
    /// About how many bytes a scan of it gives.
    pub bytes: u64,
}

/// Neighbouring rows of one part.
struct Sample {
    /// Of the first of them, encoded.
    key: Vec<u8>,
    bytes: u64,
}

/// What is to be cut.
pub(crate) struct Rows<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) layouts: &'a [Layout],
    /// Whose bytes count.
    pub(crate) columns: &'a [usize],
    pub(crate) lower: Option<&'a [u8]>,
    pub(crate) upper: Option<&'a [u8]>,
}

/// Cuts what the view shows into pieces of about `target` bytes; at least one, and a few thousand at most.
pub(crate) fn split(rows: &Rows<'_>, view: &[Part], target: u64) -> Result<Vec<KeyRange>, RowsetError> {
    let sizes: Vec<u64> = view.iter().map(|part| rows.bytes_of(part)).collect();
    let all: u64 = sizes.iter().sum();
    let target = target.max(all / MOST_PIECES).max(1);
    // Several rowsets have rows of about the same keys: what is not known of each adds up.
    let step = (target / SAMPLES_A_PIECE / sources(view)).max(all / MOST_SAMPLES).max(1);
    let mut samples = Vec::new();
    for (part, bytes) in view.iter().zip(sizes) {
        rows.sample(part, bytes, step, &mut samples)?;
    }
    samples.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    Ok(rows.cut(samples, target))
}

/// How many lists of rows, each by itself in the order of its keys, the view has: the memrowset is one.
fn sources(view: &[Part]) -> u64 {
    let mut numbers: Vec<u64> =
        view.iter().map(|part| part.stored().map_or(u64::MAX, |(stored, _)| stored.number)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.len().max(1) as u64
}

impl Rows<'_> {
    fn bytes_of(&self, part: &Part) -> u64 {
        let bytes = |column: &usize| match part.stored() {
            Some((stored, batch)) => {
                part.position(*column).map_or(0, |position| stored.file.cell_bytes(batch, position))
            }
            None => {
                let cells = part.columns().get(*column).and_then(|column| column.stored());
                cells.map_or(0, |cells| {
                    (cells.data.len() + cells.varlen.as_ref().map_or(0, |v| v.len())) as u64
                })
            }
        };
        self.columns.iter().map(bytes).sum()
    }

    /// Adds the rows of a part that live, in steps of about `step` bytes. Those of a memrowset are in no order, so that only
    /// many small steps tell where they are.
    fn sample(&self, part: &Part, bytes: u64, step: u64, to: &mut Vec<Sample>) -> Result<(), RowsetError> {
        let rows = part.rows as usize;
        let sorted = part.stored().is_some();
        let mut step = if sorted { step } else { step / SAMPLES_A_PIECE };
        if self.is_cut(part) {
            step = step.min(bytes / SAMPLES_A_CUT_PART);
        }
        let count = bytes.div_ceil(step.max(1)).clamp(1, rows.max(1) as u64) as usize;
        let step = rows.div_ceil(count).max(1);
        let mut alive: Vec<u64> = (0..rows).step_by(step).map(|row| step.min(rows - row) as u64).collect();
        for (row, _) in part.tombstones.all().take_while(|(row, _)| *row < rows) {
            alive[row / step] -= 1;
        }
        let mut key = Vec::new();
        // Of sorted rows the last step before the lower bound may reach over it.
        let mut over_bound = 0;
        for (number, alive) in alive.into_iter().enumerate().filter(|(_, alive)| *alive > 0) {
            match part.stored() {
                Some((stored, batch)) => stored.file.encode_key(batch, number * step, &mut key)?,
                None => {
                    key.clear();
                    order::encode_key(self.schema, self.layouts, part, number * step, &mut key);
                }
            }
            if self.upper.is_some_and(|upper| *key >= *upper) {
                if sorted { break } else { continue }
            }
            let bytes = bytes * alive / rows as u64;
            if self.lower.is_some_and(|lower| *key < *lower) {
                over_bound = if sorted { bytes } else { 0 };
            } else {
                to.push(Sample { key: key.clone(), bytes });
            }
        }
        if let Some(lower) = self.lower.filter(|_| over_bound > 0) {
            to.push(Sample { key: lower.to_vec(), bytes: over_bound });
        }
        Ok(())
    }

    /// Whether some of the part's rows may be out of bounds.
    fn is_cut(&self, part: &Part) -> bool {
        let Some((stored, batch)) = part.stored() else {
            return self.lower.is_some() || self.upper.is_some();
        };
        let batch = &stored.file.batches()[batch];
        self.lower.is_some_and(|lower| *batch.first_key < *lower)
            || self.upper.is_some_and(|upper| *batch.last_key >= *upper)
    }

    fn cut(&self, samples: Vec<Sample>, target: u64) -> Vec<KeyRange> {
        let owned = |key: Option<&[u8]>| key.map(<[u8]>::to_vec);
        let all: u64 = samples.iter().map(|sample| sample.bytes).sum();
        // As many as fit best, all of one size: no small rest.
        let pieces = ((all + target / 2) / target).max(1);
        let mut ranges = Vec::new();
        let (mut lower, mut start, mut done) = (owned(self.lower), 0, 0);
        for Sample { key, bytes } in samples {
            let due = u128::from(all) * (ranges.len() as u128 + 1) / u128::from(pieces);
            if u128::from(done + bytes / 2) >= due
                && lower.as_ref().is_none_or(|lower| *lower < key)
                && done > start
            {
                ranges.push(KeyRange {
                    lower: lower.replace(key.clone()),
                    upper: Some(key),
                    bytes: done - start,
                });
                start = done;
            }
            done += bytes;
        }
        ranges.push(KeyRange { lower, upper: owned(self.upper), bytes: done - start });
        ranges
    }
}

const MOST_PIECES: u64 = 4096;
const MOST_SAMPLES: u64 = 1 << 18;
const SAMPLES_A_PIECE: u64 = 8;
const SAMPLES_A_CUT_PART: u64 = 64;
