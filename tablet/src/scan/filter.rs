//! Which rows of a page a scan wants.

use schema::predicate::Prepared;
use schema::{Schema, Selection};

use super::order::encode_key;
use super::spec::ScanSpec;
use crate::ScanError;
use crate::memory::column::{Cells, Layout};
use crate::memory::rows::Visible;
use crate::memory::tombstones::PAGE_ROWS;

/// Snapshot, predicates and key bounds of a scan.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) snapshot: u64,
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
            predicates: predicates.collect::<Result<_, _>>()?,
            lower: lower.filter(|lower| lower.exclusive || !lower.key.is_empty()),
            upper: spec.upper_key.clone(),
            selection: Selection::default(),
            key: Vec::new(),
        })
    }

    /// Columns that the predicates read.
    pub(crate) fn columns(&self) -> impl Iterator<Item = usize> {
        self.predicates.iter().map(Prepared::column)
    }

    /// The wanted rows of a page (`len` rows from `start`, a multiple of [`PAGE_ROWS`], on), `None` for all of them.
    /// `spare` is memory to use for the answer.
    pub(crate) fn select(
        &mut self,
        schema: &Schema,
        layouts: &[Layout],
        visible: &Visible,
        start: usize,
        len: usize,
        mut spare: Vec<u32>,
    ) -> Option<Vec<u32>> {
        let chunk = &visible.chunk;
        let ends = chunk.tombstones.page(start / PAGE_ROWS);
        if ends.is_none() && self.predicates.is_empty() && self.lower.is_none() && self.upper.is_none() {
            return None;
        }
        let selection = &mut self.selection;
        selection.reset(len);
        for predicate in &self.predicates {
            let column = predicate.column();
            let page = Cells::of(layouts[column], &chunk.columns[column]).page(start, len);
            predicate.evaluate(page, selection);
        }
        spare.clear();
        spare.extend(selection.iter().map(|row| (start + row) as u32));
        if let Some(ends) = ends {
            spare.retain(|&row| ends.shows(row as usize - start, self.snapshot));
        }
        if self.lower.is_some() || self.upper.is_some() {
            spare.retain(|&row| {
                self.key.clear();
                encode_key(schema, layouts, chunk, row as usize, &mut self.key);
                let key = self.key.as_slice();
                let above = self.lower.as_ref().is_none_or(|lower| {
                    key > lower.key.as_slice() || (key == lower.key.as_slice() && !lower.exclusive)
                });
                above && self.upper.as_ref().is_none_or(|upper| key < upper.as_slice())
            });
        }
        (spare.len() != len).then_some(spare)
    }
}
