//! What the rows of a table must be.

use std::collections::BTreeMap;

use client::blocking::Client;
use client::schema::Value;
use client::{ReadMode, Table};

use super::Result;

/// Value of each row.
pub(crate) type Rows = BTreeMap<i64, i64>;

/// What one writer knows of its keys.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) rows: BTreeMap<i64, Row>,
    /// The newest of its keys.
    pub(super) last_key: i64,
}

/// What a row must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// This, `None` for none.
    Sure(Option<i64>),
    /// One of these: the client was not told.
    Either(Option<i64>, Option<i64>),
}

impl Writer {
    /// Writers of different numbers have different keys.
    pub(super) fn new(number: i64) -> Self {
        Self { rows: BTreeMap::new(), last_key: number * KEYS_A_WRITER }
    }
}

/// The text that belongs to a value.
pub(super) fn text(value: i64) -> Option<String> {
    (value % 5 != 0).then(|| format!("the text of {value}"))
}

/// All rows of a table; an error if one is no whole row.
pub(super) fn read(client: &Client, table: &Table, mode: ReadMode) -> Result<Rows> {
    let mut rows = Rows::new();
    for batch in client.scan(table.scan().read_mode(mode))? {
        for row in batch?.iter() {
            let (Some(Value::Int64(id)), Some(Value::Int64(value))) = (row.get("id")?, row.get("value")?)
            else {
                return Err("a row lacks a value".into());
            };
            let expected = text(value).map(Value::String);
            if row.get("text")? != expected {
                return Err(format!("row {id} is half one and half another: {:?}", row.values()).into());
            }
            if rows.insert(id, value).is_some() {
                return Err(format!("row {id} is there twice").into());
            }
        }
    }
    Ok(rows)
}

/// Compares the rows with what the writers know; what was not sure is sure afterwards.
pub(super) fn check(rows: &Rows, writers: &mut [Writer]) -> Result<()> {
    let mut expected = 0;
    for (id, row) in writers.iter_mut().flat_map(|writer| &mut writer.rows) {
        let found = rows.get(id).copied();
        let fits = match *row {
            Row::Sure(value) => found == value,
            Row::Either(before, after) => found == before || found == after,
        };
        if !fits {
            return Err(format!("row {id} is {found:?}, it should be {row:?}").into());
        }
        *row = Row::Sure(found);
        expected += usize::from(found.is_some());
    }
    for writer in writers {
        writer.rows.retain(|_, row| *row != Row::Sure(None));
    }
    if rows.len() > expected {
        return Err(format!("{} rows are there that nobody wrote", rows.len() - expected).into());
    }
    Ok(())
}

const KEYS_A_WRITER: i64 = 1 << 40;
