//! Rows in the order of their keys.

use std::cmp::Ordering;

use schema::Schema;
use schema::key::encode_component;

use super::filter::Filter;
use super::part::Part;
use crate::memory::column::{Cells, Layout};
use crate::memory::tombstones::PAGE_ROWS;

/// A row of a view. Places are in the order in which rows of one key were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) part: u32,
    pub(crate) row: u32,
}

/// A row with where its encoded key lies, and the key's first bytes to compare without looking there.
struct Keyed {
    prefix: u64,
    start: usize,
    end: usize,
    place: Place,
}

/// The rows of the view that pass the filter, by encoded key; of more than `most` only the first.
pub(crate) fn sorted(
    schema: &Schema,
    layouts: &[Layout],
    view: &[Part],
    filter: &mut Filter,
    most: u64,
) -> Vec<Place> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut key = Vec::new();
    if layouts[..schema.key_columns()].iter().map(|l| l.width.unwrap_or(usize::MAX / 64)).sum::<usize>() <= 8
    {
        // Keys of one length that fit into the prefix need no other bytes.
        let mut rows = Vec::new();
        each(schema, layouts, view, filter, |part, place| {
            key.clear();
            encode_key(schema, layouts, part, place.row as usize, &mut key);
            rows.push((prefix(&key), place));
        });
        first_by(&mut rows, most, |a, b| a.cmp(b));
        return rows.into_iter().map(|(_, place)| place).collect();
    }
    let mut rows = Vec::new();
    each(schema, layouts, view, filter, |part, place| {
        let start = key.len();
        encode_key(schema, layouts, part, place.row as usize, &mut key);
        rows.push(Keyed { prefix: prefix(&key[start..]), start, end: key.len(), place });
    });
    first_by(&mut rows, most, |a, b| {
        let keys = a.prefix.cmp(&b.prefix).then_with(|| key[a.start..a.end].cmp(&key[b.start..b.end]));
        keys.then_with(|| a.place.cmp(&b.place))
    });
    rows.into_iter().map(|row| row.place).collect()
}

/// Sorts, and keeps the first `most`.
fn first_by<T>(rows: &mut Vec<T>, most: usize, compare: impl Fn(&T, &T) -> Ordering) {
    if most < rows.len() {
        rows.select_nth_unstable_by(most, &compare);
        rows.truncate(most);
    }
    rows.sort_unstable_by(compare);
}

fn each(
    schema: &Schema,
    layouts: &[Layout],
    view: &[Part],
    filter: &mut Filter,
    mut visit: impl FnMut(&Part, Place),
) {
    let mut spare = Vec::with_capacity(PAGE_ROWS);
    for (index, part) in view.iter().enumerate() {
        for start in (0..part.rows as usize).step_by(PAGE_ROWS) {
            let len = PAGE_ROWS.min(part.rows as usize - start);
            let place = |row| Place { part: index as u32, row };
            match filter.select(schema, layouts, part, start, len, std::mem::take(&mut spare)) {
                Some(selected) => {
                    selected.iter().for_each(|&row| visit(part, place(row)));
                    spare = selected;
                }
                None => (start..start + len).for_each(|row| visit(part, place(row as u32))),
            }
        }
    }
}

/// Appends the encoded primary key of a row.
pub(crate) fn encode_key(schema: &Schema, layouts: &[Layout], part: &Part, row: usize, key: &mut Vec<u8>) {
    let columns = schema.key_columns();
    for (index, column) in schema.columns().iter().take(columns).enumerate() {
        let cell = Cells::of_column(layouts[index], &part.columns()[index]).cell(row).unwrap_or_default();
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
