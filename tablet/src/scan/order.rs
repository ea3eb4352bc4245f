//! Rows in the order of their keys.

use schema::Schema;
use schema::key::encode_component;

use super::STEP_ROWS;
use super::filter::Filter;
use crate::memory::column::{Cells, Layout};
use crate::memory::rows::{Chunk, Visible};
use crate::memory::tombstones::PAGE_ROWS;

/// A row of a view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) chunk: u32,
    pub(crate) row: u32,
}

/// A row with where its encoded key lies, and the key's first bytes to compare without looking there.
struct Keyed {
    prefix: u64,
    start: usize,
    end: usize,
    place: Place,
}

/// All rows of the view that pass the filter, by encoded key.
pub(crate) fn sorted(
    schema: &Schema,
    layouts: &[Layout],
    view: &[Visible],
    filter: &mut Filter,
) -> Vec<Place> {
    let mut keys = Vec::new();
    let mut rows = Vec::new();
    let mut selected = Vec::with_capacity(STEP_ROWS);
    for (index, visible) in view.iter().enumerate() {
        for start in (0..visible.rows as usize).step_by(PAGE_ROWS) {
            let len = PAGE_ROWS.min(visible.rows as usize - start);
            let all = match filter.select(schema, layouts, visible, start, len, std::mem::take(&mut selected))
            {
                Some(some) => some,
                None => (start as u32..(start + len) as u32).collect(),
            };
            for &row in &all {
                let first = keys.len();
                encode_key(schema, layouts, &visible.chunk, row as usize, &mut keys);
                let place = Place { chunk: index as u32, row };
                rows.push(Keyed { prefix: prefix(&keys[first..]), start: first, end: keys.len(), place });
            }
            selected = all;
        }
    }
    rows.sort_unstable_by(|a, b| {
        a.prefix.cmp(&b.prefix).then_with(|| keys[a.start..a.end].cmp(&keys[b.start..b.end]))
    });
    rows.into_iter().map(|row| row.place).collect()
}

/// Appends the encoded primary key of a row.
pub(crate) fn encode_key(schema: &Schema, layouts: &[Layout], chunk: &Chunk, row: usize, key: &mut Vec<u8>) {
    let columns = schema.key_columns();
    for (index, column) in schema.columns().iter().take(columns).enumerate() {
        let cell = Cells::of(layouts[index], &chunk.columns[index]).cell(row).unwrap_or_default();
        encode_component(column.data_type, cell, index + 1 == columns, key);
    }
}

/// The first eight bytes, shorter keys padded: it never contradicts the order of the whole keys.
fn prefix(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}
