//! Opening scans, and cutting them into pieces.

use parking_lot::RwLockReadGuard;
use schema::{Schema, Timestamp};

use crate::durability::Durability;
use crate::scan::filter::Filter;
use crate::scan::part::Part;
use crate::scan::projection::Projection;
use crate::scan::scanner::Scanner;
use crate::scan::split::KeyRange;
use crate::scan::{prune, split};
use crate::shape;
use crate::tablet::Rows;
use crate::{ScanError, ScanSpec, Tablet};

impl Tablet {
    /// Opens a scan of one snapshot. `now_micros` is the physical time since the Unix epoch.
    ///
    /// # Errors
    /// A column that is not there, a predicate that does not fit its column, or a snapshot too far ahead.
    pub fn scan(&self, spec: ScanSpec, now_micros: u64) -> Result<Scanner, ScanError> {
        let schema = spec.schema.clone().unwrap_or_else(|| self.schema());
        let is_mark = |index: usize| index == ScanSpec::IS_DELETED && spec.since.is_some();
        let mut projected = spec.projection.iter().copied().filter(|index| !is_mark(*index));
        if let Some(index) = projected.find(|index| *index >= schema.len()) {
            return Err(ScanError::NoSuchColumn { index, columns: schema.len() });
        }
        let mut filter = Filter::new(&schema, &spec)?;
        let mut needed = vec![false; schema.len()];
        needed[..schema.key_columns()].fill(true);
        let projected = spec.projection.iter().copied().filter(|index| !is_mark(*index));
        projected.chain(filter.columns()).for_each(|column| needed[column] = true);

        if let Some(at) = spec.snapshot {
            // Under the lock: a batch that is appended later gets a later timestamp.
            let rows = self.rows.read();
            self.clock.update(Timestamp(at.0.saturating_sub(1)), now_micros)?;
            let appended = Timestamp(rows.last_commit.min(at.0.saturating_sub(1)));
            drop(rows);
            if let Some(durability) = &self.durability {
                durability.wait_for(appended);
            }
        }
        let mut view;
        (view, filter.snapshot) = self.view(&schema, &spec, &needed)?;
        if spec.since.is_none() {
            view.retain(|part| prune::may_match(&schema, &spec, part));
        }
        let layouts = shape::layouts(&schema);
        Ok(Scanner::new(schema, layouts, &spec, view, filter))
    }

    /// Cuts the rows between the spec's keys into pieces of about `target_bytes` bytes of its projected columns, each to be
    /// scanned by itself: without gaps, at least one, and some thousands at most. Nothing but keys is read of files.
    ///
    /// # Errors
    /// As [`Tablet::scan`].
    pub fn split_key_range(&self, spec: &ScanSpec, target_bytes: u64) -> Result<Vec<KeyRange>, ScanError> {
        let schema = spec.schema.clone().unwrap_or_else(|| self.schema());
        if let Some(&index) = spec.projection.iter().find(|index| **index >= schema.len()) {
            return Err(ScanError::NoSuchColumn { index, columns: schema.len() });
        }
        let mut needed = vec![false; schema.len()];
        needed[..schema.key_columns()].fill(true);
        spec.projection.iter().for_each(|column| needed[*column] = true);
        let (mut view, _) = self.view(&schema, spec, &needed)?;
        view.retain(|part| prune::may_match(&schema, spec, part));
        let layouts = &shape::layouts(&schema);
        let (lower, upper) = (spec.lower_key.as_deref(), spec.upper_key.as_deref());
        let rows = split::Rows { schema: &schema, layouts, columns: &spec.projection, lower, upper };
        Ok(split::split(&rows, &view, target_bytes)?)
    }

    /// What a scan of these columns sees, and its snapshot.
    fn view(&self, schema: &Schema, spec: &ScanSpec, needed: &[bool]) -> Result<(Vec<Part>, u64), ScanError> {
        let mut view = Vec::new();
        let rows = self.rows_for_reading();
        let wanted = spec.snapshot.map_or(rows.last_commit + 1, |at| at.0);
        // What the log does not have yet may never be acknowledged.
        let logged = self.durability.as_ref().map_or(u64::MAX, Durability::logged_before);
        let snapshot = wanted.min(logged);
        if let Some(snapshot) = [spec.since, spec.snapshot].into_iter().flatten().min()
            && snapshot < self.oldest()
        {
            return Err(ScanError::TooOld { snapshot, oldest: self.oldest() });
        }
        for layer in &rows.layers {
            let projection = Projection::new(schema, |id| layer.position(id), |column| needed[column]);
            layer.view(snapshot, spec.since.map(|since| since.0), projection, &mut view);
        }
        let stored = |id| rows.schema.index_of_id(id);
        let projection = Projection::new(schema, stored, |column| needed[column]);
        rows.active.view(snapshot, &projection, &mut view);
        Ok((view, snapshot))
    }

    /// A tail that has grown is made a chunk that readers share, unless a writer is at work.
    fn rows_for_reading(&self) -> RwLockReadGuard<'_, Rows> {
        let rows = self.rows.read();
        if !rows.active.worth_sealing() {
            return rows;
        }
        drop(rows);
        if let Some(mut rows) = self.rows.try_write() {
            if rows.active.worth_sealing() {
                rows.active.seal();
                self.note_bytes(&rows);
            }
            return parking_lot::RwLockWriteGuard::downgrade(rows);
        }
        self.rows.read()
    }
}
