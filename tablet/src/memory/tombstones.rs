//! When rows of a chunk ended: one atomic timestamp a row, in pages made on first use.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use schema::Selection;

use super::CHUNK_ROWS;

/// Rows whose end is stored together.
pub(crate) const PAGE_ROWS: usize = 1024;

/// The end of a row that has none.
pub(crate) const ALIVE: u64 = u64::MAX;

#[derive(Debug)]
struct Page {
    ends: Box<[AtomicU64]>,
    /// Which of them are set: rows that live cost a bit to look at, not a timestamp.
    ended: [AtomicU64; PAGE_ROWS / 64],
    /// No end of theirs is later.
    newest: AtomicU64,
}

impl Page {
    fn new() -> Self {
        let ends = (0..PAGE_ROWS).map(|_| AtomicU64::new(ALIVE)).collect();
        Self { ends, ended: std::array::from_fn(|_| AtomicU64::new(0)), newest: AtomicU64::new(0) }
    }
}

/// The end of each row version of one chunk.
///
/// Readers share it with the writer: an end that is set later is never before a reader's snapshot, so a plain load is
/// enough. The lock under which a view is taken orders the ends that are.
#[derive(Debug)]
pub(crate) struct Tombstones {
    /// None of them before the first end.
    pages: OnceLock<Box<[OnceLock<Page>]>>,
}

impl Tombstones {
    pub(crate) fn new() -> Self {
        Self { pages: OnceLock::new() }
    }

    pub(crate) fn set(&self, row: usize, end: u64) {
        let pages = self.pages.get_or_init(|| (0..CHUNK_ROWS / PAGE_ROWS).map(|_| OnceLock::new()).collect());
        let page = pages[row / PAGE_ROWS].get_or_init(Page::new);
        let row = row % PAGE_ROWS;
        // The bit comes last: who sees it finds the others.
        page.newest.fetch_max(end, Ordering::Release);
        page.ends[row].store(end, Ordering::Release);
        page.ended[row / 64].fetch_or(1 << (row % 64), Ordering::Release);
    }

    /// Whether a row was ended, at any time.
    pub(crate) fn is_set(&self, row: usize) -> bool {
        self.end(row) != ALIVE
    }

    /// False while no row was ended.
    pub(crate) fn any(&self) -> bool {
        self.pages.get().is_some()
    }

    /// The rows that ended, and when.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, u64)> {
        let pages = self.pages.get().map(|pages| &pages[..]).unwrap_or_default();
        let pages = pages.iter().enumerate().filter_map(|(number, page)| Some((number, page.get()?)));
        pages.flat_map(|(number, page)| {
            let ends = page.ends.iter().map(|end| end.load(Ordering::Acquire)).enumerate();
            ends.filter(|(_, end)| *end != ALIVE).map(move |(row, end)| (number * PAGE_ROWS + row, end))
        })
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let pages = self.pages.get().map(|pages| &pages[..]).unwrap_or_default();
        let used = pages.iter().filter(|page| page.get().is_some()).count();
        size_of_val(pages) + used * PAGE_ROWS * size_of::<u64>()
    }

    /// When a row ended; [`ALIVE`] if it did not.
    pub(crate) fn end(&self, row: usize) -> u64 {
        self.page(row / PAGE_ROWS)
            .map_or(ALIVE, |PageEnds(page)| page.ends[row % PAGE_ROWS].load(Ordering::Acquire))
    }

    /// The ends of the page's rows; `None` while all of them live.
    pub(crate) fn page(&self, page: usize) -> Option<PageEnds<'_>> {
        self.pages.get()?[page].get().map(PageEnds)
    }
}

/// The ends of the rows of one page.
#[derive(Clone, Copy)]
pub(crate) struct PageEnds<'a>(&'a Page);

impl PageEnds<'_> {
    /// Takes the rows (counted in the page) out of a selection that a snapshot at `snapshot` does not show any more.
    pub(crate) fn hide(&self, selection: &mut Selection, snapshot: u64) {
        for (number, (word, ended)) in selection.words_mut().iter_mut().zip(&self.0.ended).enumerate() {
            // A row that ends just now ends behind the snapshot.
            let mut ended = ended.load(Ordering::Acquire) & *word;
            if ended != 0 && self.0.newest.load(Ordering::Acquire) < snapshot {
                *word &= !ended;
                continue;
            }
            while ended != 0 {
                let row = number * 64 + ended.trailing_zeros() as usize;
                if self.0.ends[row].load(Ordering::Acquire) < snapshot {
                    *word &= !(1 << (row % 64));
                }
                ended &= ended - 1;
            }
        }
    }
}
