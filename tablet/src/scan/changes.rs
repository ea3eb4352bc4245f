//! What changed between two snapshots, key by key.

use super::block::BlockBuilder;
use super::filter::Filter;
use super::merge::{Merge, Scan};
use super::order::{self, Place};
use super::part::ReadBytes;
use crate::rowset::RowsetError;

/// A scan of changes in progress.
#[derive(Debug)]
pub(crate) struct Changes {
    since: u64,
    /// Rows that are gone are told, too.
    tells_gone: bool,
    merge: Merge,
    /// The versions of the key that is looked at.
    versions: Vec<Place>,
    key: Vec<u8>,
    next_key: Vec<u8>,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    pub(crate) looked_at: usize,
    /// The row that was added to the block, and whether it is gone.
    pub(crate) change: Option<(Place, bool)>,
    pub(crate) read: ReadBytes,
}

impl Changes {
    pub(crate) fn new(since: u64, tells_gone: bool, merge: Merge) -> Self {
        Self { since, tells_gone, merge, versions: Vec::new(), key: Vec::new(), next_key: Vec::new() }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.merge.is_over() && self.versions.is_empty()
    }

    /// Looks at the next version; adds what has become of the key before it.
    pub(crate) fn step<'a>(
        &mut self,
        scan: Scan<'a>,
        filter: &mut Filter,
        block: &mut BlockBuilder<'a>,
    ) -> Result<Step, RowsetError> {
        if self.merge.is_over() {
            let change = self.decide(scan, filter, block);
            self.versions.clear();
            return Ok(Step { looked_at: 1, change, read: ReadBytes::default() });
        }
        let done = self.merge.step(scan, filter, 1, u64::MAX, |_, _| {})?;
        let mut step = Step { looked_at: done.looked_at, change: None, read: done.read };
        let Some(place) = done.last else { return Ok(step) };
        self.next_key.clear();
        let part = &scan.view[place.part as usize];
        order::encode_key(scan.schema, scan.layouts, part, place.row as usize, &mut self.next_key);
        if self.next_key != self.key {
            step.change = self.decide(scan, filter, block);
            self.versions.clear();
            std::mem::swap(&mut self.key, &mut self.next_key);
        }
        self.versions.push(place);
        Ok(step)
    }

    fn decide<'a>(
        &self,
        scan: Scan<'a>,
        filter: &Filter,
        block: &mut BlockBuilder<'a>,
    ) -> Option<(Place, bool)> {
        let part = |place: &Place| &scan.view[place.part as usize];
        let times = |place: &Place| (part(place).ended_at(place.row), part(place).inserted_at(place.row));
        // Of versions that came and ended at once, the later.
        let newest = *self.versions.iter().max_by_key(|place| (times(place), **place))?;
        let (ended, inserted) = times(&newest);
        let gone = ended < filter.snapshot;
        let was_there = |place: &Place| times(place).1 < self.since && times(place).0 >= self.since;
        let changed = if gone {
            self.tells_gone && self.versions.iter().any(was_there)
        } else {
            inserted >= self.since
        };
        if !changed || !filter.matches(scan.layouts, part(&newest), newest.row) {
            return None;
        }
        block.add_places(scan.view, &[newest]);
        Some((newest, gone))
    }
}
