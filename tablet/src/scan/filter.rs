//! Which rows of a page a scan wants.

use schema::predicate::Prepared;
use schema::{Schema, Selection};

use super::order::encode_key;
use super::part::Part;
use super::spec::ScanSpec;
use crate::ScanError;
use crate::memory::column::{Cells, ColumnBuffer, Layout};
use crate::memory::tombstones::PAGE_ROWS;

/// Snapshot, predicates and key bounds of a scan.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) snapshot: u64,
    /// For the changes since a snapshot: rows that ended since then are wanted too, and predicates hold for what has become of
    /// a key, not for each version.
    since: Option<u64>,
    predicates: Vec<Prepared>,
    lower: Option<Lower>,
    /// Exclusive.
    upper: Option<Vec<u8>>,
    /// Used again for each page.
    selection: Selection,
    key: Vec<u8>,
}

#[derive(Debug)]
struct Lower {
    key: Vec<u8>,
    exclusive: bool,
}

impl Filter {
    pub(crate) fn new(schema: &Schema, spec: &ScanSpec) -> Result<Self, ScanError> {
        let predicates = spec.predicates.iter().map(|predicate| predicate.prepare(schema));
        let lower = match (&spec.last_key, &spec.lower_key) {
            (Some(key), _) => Some(Lower { key: key.clone(), exclusive: true }),
            (None, Some(key)) => Some(Lower { key: key.clone(), exclusive: false }),
            (None, None) => None,
        };
        Ok(Self {
            snapshot: u64::MAX,
            since: spec.since.map(|since| since.0),
            predicates: predicates.collect::<Result<_, _>>()?,
            lower: lower.filter(|lower| lower.exclusive || !lower.key.is_empty()),
            upper: spec.upper_key.clone(),
            selection: Selection::default(),
            key: Vec::new(),
        })
    }

    /// Passes all rows that had not ended before `snapshot`.
    pub(crate) fn at(snapshot: u64) -> Self {
        Self {
            snapshot,
            since: None,
            predicates: Vec::new(),
            lower: None,
            upper: None,
            selection: Selection::default(),
            key: Vec::new(),
        }
    }

    /// Columns that the predicates read.
    pub(crate) fn columns(&self) -> impl Iterator<Item = usize> {
        self.predicates.iter().map(Prepared::column)
    }

    /// Whether all rows of a part are wanted, without a look at any.
    pub(crate) fn wants_all(&self, part: &Part) -> bool {
        let unbounded = self.predicates.is_empty() && self.lower.is_none() && self.upper.is_none();
        unbounded && self.since.is_none() && part.inserted().is_none() && !part.tombstones.any()
    }

    /// Whether the predicates hold for a row.
    pub(crate) fn matches(&self, layouts: &[Layout], part: &Part, row: u32) -> bool {
        self.predicates.iter().all(|predicate| {
            let column = predicate.column();
            let cell = Cells::of_column(layouts[column], &part.columns()[column]).cell(row as usize);
            holds(predicate, layouts[column], cell)
        })
    }

    /// Finds the wanted rows of a page (`len` rows from `start`, a multiple of [`PAGE_ROWS`], on); `None` if they are all of them,
    /// otherwise which, counted in the page.
    pub(crate) fn narrow(
        &mut self,
        schema: &Schema,
        layouts: &[Layout],
        part: &Part,
        start: usize,
        len: usize,
    ) -> Option<&Selection> {
        let ends = part.tombstones.page(start / PAGE_ROWS);
        let inserted = part.inserted();
        let bounded = self.lower.is_some() || self.upper.is_some();
        if ends.is_none() && inserted.is_none() && self.predicates.is_empty() && !bounded {
            return None;
        }
        let selection = &mut self.selection;
        selection.reset(len);
        if let Some(ends) = ends {
            ends.hide(selection, self.since.unwrap_or(self.snapshot));
        }
        for predicate in self.predicates.iter().filter(|_| self.since.is_none()) {
            let column = predicate.column();
            let cells = Cells::of_column(layouts[column], &part.columns()[column]);
            match cells.constant {
                None => predicate.evaluate(cells.page(start, len), selection),
                Some(cell) if !holds(predicate, layouts[column], cell) => selection.clear_all(),
                Some(_) => {}
            }
        }
        if let Some(inserted) = inserted {
            retain(selection, |row| inserted.at(start + row) < self.snapshot);
        }
        if bounded {
            let (key, lower, upper) = (&mut self.key, &self.lower, &self.upper);
            retain(selection, |row| {
                key.clear();
                encode_key(schema, layouts, part, start + row, key);
                let key = key.as_slice();
                let above = lower.as_ref().is_none_or(|lower| {
                    key > lower.key.as_slice() || (key == lower.key.as_slice() && !lower.exclusive)
                });
                above && upper.as_ref().is_none_or(|upper| key < upper.as_slice())
            });
        }
        (selection.count() < len).then_some(&*selection)
    }

    /// As [`Filter::narrow`], the rows one by one, counted in the part. `spare` is memory to use for the answer.
    pub(crate) fn select(
        &mut self,
        schema: &Schema,
        layouts: &[Layout],
        part: &Part,
        start: usize,
        len: usize,
        mut spare: Vec<u32>,
    ) -> Option<Vec<u32>> {
        let selection = self.narrow(schema, layouts, part, start, len)?;
        spare.clear();
        spare.extend(selection.iter().map(|row| (start + row) as u32));
        Some(spare)
    }
}

fn retain(selection: &mut Selection, mut wanted: impl FnMut(usize) -> bool) {
    for (number, word) in selection.words_mut().iter_mut().enumerate() {
        let mut rest = *word;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            if !wanted(number * 64 + bit as usize) {
                *word &= !(1 << bit);
            }
            rest &= rest - 1;
        }
    }
}

/// Whether a cell passes that is not in a column.
fn holds(predicate: &Prepared, layout: Layout, cell: Option<&[u8]>) -> bool {
    let mut column = ColumnBuffer::new(layout);
    column.push(cell);
    let mut selection = Selection::all(1);
    predicate.evaluate(column.cells().page(0, 1), &mut selection);
    !selection.is_none()
}
