//! Rows of all parts in the order of their keys: parts that are sorted already are read a page at a time, those of a
//! memrowset are sorted first, one after the other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use schema::Schema;

use super::filter::Filter;
use super::order::{self, Place};
use super::part::{Part, ReadBytes};
use crate::memory::column::Layout;
use crate::memory::tombstones::PAGE_ROWS;
use crate::rowset::RowsetError;

/// A merge in progress.
#[derive(Debug)]
pub(crate) struct Merge {
    /// Parts that are still to be sorted.
    unsorted: Vec<u32>,
    /// By the key of the next row. Of a part that was not looked at yet, a key that is not above it.
    heads: BinaryHeap<Reverse<Head>>,
    spare: Vec<u32>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    key: Vec<u8>,
    part: u32,
    rows: Rows,
}

/// What is left of a part.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rows {
    /// All that is wanted, by key.
    Sorted { rows: Vec<u32>, next: usize },
    /// The wanted rows of a page, and where the next page starts.
    Paged { rows: Vec<u32>, next: usize, after: usize },
}

/// What a scan is about.
#[derive(Clone, Copy)]
pub(crate) struct Scan<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) layouts: &'a [Layout],
    pub(crate) view: &'a [Part],
}

/// What a step came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    pub(crate) given: usize,
    pub(crate) looked_at: usize,
    pub(crate) last: Option<Place>,
    pub(crate) read: ReadBytes,
}

impl Merge {
    pub(crate) fn new(view: &[Part]) -> Self {
        let (mut unsorted, mut heads) = (Vec::new(), BinaryHeap::new());
        for (part, about) in (0..).zip(view) {
            match about.first_key() {
                None => unsorted.push(part),
                Some(key) => {
                    let rows = Rows::Paged { rows: Vec::new(), next: 0, after: 0 };
                    heads.push(Reverse(Head { key: key.to_vec(), part, rows }));
                }
            }
        }
        Self { unsorted, heads, spare: Vec::new() }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.unsorted.is_empty() && self.heads.is_empty()
    }

    /// Gives up to `most` rows of one part, or makes some other progress. `left` is how many rows are wanted at all.
    pub(crate) fn step<'a>(
        &mut self,
        scan: Scan<'a>,
        filter: &mut Filter,
        most: usize,
        left: u64,
        mut give: impl FnMut(&'a Part, &[u32]),
    ) -> Result<Step, RowsetError> {
        if let Some(part) = self.unsorted.pop() {
            return Ok(self.sort(scan, filter, part, left));
        }
        let Some(Reverse(mut head)) = self.heads.pop() else { return Ok(Step::default()) };
        let part = &scan.view[head.part as usize];
        let mut step = Step::default();
        if head.rows.is_empty() {
            // A page at a time, so that a call stays short.
            (step.looked_at, step.read) = self.next_page(scan, filter, &mut head)?;
        } else {
            let given = self.before_others(scan, &head, most);
            give(part, given);
            step.given = given.len();
            step.last = given.last().map(|&row| Place { part: head.part, row });
            step.looked_at = given.len();
            head.rows.advance(step.given);
        }
        let row = match &head.rows {
            Rows::Sorted { rows, next } | Rows::Paged { rows, next, .. } => rows.get(*next).copied(),
        };
        match row {
            Some(row) => {
                head.key.clear();
                order::encode_key(scan.schema, scan.layouts, part, row as usize, &mut head.key);
                self.heads.push(Reverse(head));
            }
            // The next page starts above the last key, which is good enough.
            None if head.rows.has_pages(part) => self.heads.push(Reverse(head)),
            None => {}
        }
        Ok(step)
    }

    fn sort(&mut self, scan: Scan<'_>, filter: &mut Filter, number: u32, left: u64) -> Step {
        let part = &scan.view[number as usize];
        let places = order::sorted(scan.schema, scan.layouts, std::slice::from_ref(part), filter, left);
        let rows: Vec<u32> = places.iter().map(|place| place.row).collect();
        if let Some(&first) = rows.first() {
            let mut key = Vec::new();
            order::encode_key(scan.schema, scan.layouts, part, first as usize, &mut key);
            self.heads.push(Reverse(Head { key, part: number, rows: Rows::Sorted { rows, next: 0 } }));
        }
        Step { looked_at: part.rows as usize, ..Step::default() }
    }

    /// Fills in the wanted rows of the part's next page; how many rows it has, and what was read for it.
    fn next_page(
        &mut self,
        scan: Scan<'_>,
        filter: &mut Filter,
        head: &mut Head,
    ) -> Result<(usize, ReadBytes), RowsetError> {
        let Rows::Paged { rows, next, after } = &mut head.rows else { return Ok(Default::default()) };
        let part = &scan.view[head.part as usize];
        let read = part.load()?;
        let len = PAGE_ROWS.min(part.rows as usize - *after);
        let spare = std::mem::take(&mut self.spare);
        let selected = filter.select(scan.schema, scan.layouts, part, *after, len, spare);
        self.spare = std::mem::take(rows);
        *rows = selected.unwrap_or_else(|| (*after as u32..(*after + len) as u32).collect());
        (*next, *after) = (0, *after + len);
        Ok((len, read))
    }

    /// The next rows of a head that come before those of all others.
    fn before_others<'r>(&self, scan: Scan<'_>, head: &'r Head, most: usize) -> &'r [u32] {
        let (Rows::Sorted { rows, next } | Rows::Paged { rows, next, .. }) = &head.rows;
        let rows = &rows[*next..rows.len().min(*next + most)];
        let Some(Reverse(other)) = self.heads.peek() else { return rows };
        let mut key = Vec::new();
        let mut is_before = |row: u32| {
            key.clear();
            let part = &scan.view[head.part as usize];
            order::encode_key(scan.schema, scan.layouts, part, row as usize, &mut key);
            key <= other.key
        };
        match rows {
            [.., last] if is_before(*last) => rows,
            // The first is: it was the least.
            _ => &rows[..1 + rows[1..].partition_point(|row| is_before(*row))],
        }
    }
}

impl Rows {
    fn is_empty(&self) -> bool {
        let (Self::Sorted { rows, next } | Self::Paged { rows, next, .. }) = self;
        *next == rows.len()
    }

    fn advance(&mut self, given: usize) {
        let (Self::Sorted { next, .. } | Self::Paged { next, .. }) = self;
        *next += given;
    }

    fn has_pages(&self, part: &Part) -> bool {
        matches!(self, Self::Paged { after, .. } if *after < part.rows as usize)
    }
}
