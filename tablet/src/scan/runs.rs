//! The wanted rows of a page as runs of neighbours: most pages that lack some rows lack few.

use std::ops::Range;

use schema::Selection;

/// Runs of rows, in order, and those among them that were not given out yet.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: Vec<Range<u32>>,
    next: usize,
    /// Where the first part of a run goes that was too long.
    cut: Option<Range<u32>>,
}

impl Runs {
    /// The selected rows, counted from `start` on. Its memory is used again.
    pub(crate) fn filled(mut self, start: usize, selection: &Selection) -> Self {
        self.runs.clear();
        (self.next, self.cut) = (0, None);
        for (number, word) in selection.words().iter().enumerate() {
            let (mut rest, mut at) = (*word, (start + number * 64) as u32);
            while rest != 0 {
                let gap = rest.trailing_zeros();
                let len = (rest >> gap).trailing_ones();
                at += gap;
                match self.runs.last_mut() {
                    Some(last) if last.end == at => last.end += len,
                    _ => self.runs.push(at..at + len),
                }
                at += len;
                // Shifts by 64 are none.
                rest = rest.checked_shr(gap + len).unwrap_or(0);
            }
        }
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.next == self.runs.len()
    }

    /// Takes the next runs, of up to `most` rows together, at least one row if there is one.
    pub(crate) fn take(&mut self, most: usize) -> &[Range<u32>] {
        let (start, mut rows) = (self.next, 0);
        while let Some(run) = self.runs.get(self.next)
            && rows + run.len() <= most
        {
            rows += run.len();
            self.next += 1;
        }
        if self.next > start {
            return &self.runs[start..self.next];
        }
        let Some(run) = self.runs.get_mut(self.next) else { return &[] };
        let middle = run.start + most.max(1) as u32;
        let first = run.start..middle;
        run.start = middle;
        std::slice::from_ref(self.cut.insert(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_hold_the_selected_rows_in_order(
            rows in proptest::collection::vec(prop_oneof![4 => Just(true), 1 => Just(false)], 0..700),
            most in 1..200usize,
        ) {
            let mut selection = Selection::none(rows.len());
            (0..rows.len()).filter(|row| rows[*row]).for_each(|row| selection.set(row));
            let mut runs = Runs::default().filled(5, &Selection::all(3)).filled(1024, &selection);
            let mut found = Vec::new();
            while !runs.is_empty() {
                let given: Vec<u32> = runs.take(most).iter().cloned().flatten().collect();
                prop_assert!((1..=most).contains(&given.len()));
                found.extend(given.into_iter().map(|row| row as usize - 1024));
            }
            prop_assert!(selection.iter().eq(found));
        }
    }
}
