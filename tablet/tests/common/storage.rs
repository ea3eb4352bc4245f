//! Tablets with a log, for tests.

use std::path::Path;
use std::sync::Arc;

use schema::{Column, DataType, HybridClock, OpKind, PartialRow, Schema, Timestamp, Value};
use tablet::backend::Backend;
use tablet::{BlockCache, LogOptions, OpenError, ScanSpec, Storage, SyncPolicy, Tablet};

use super::{NOW, options, rows_of};

/// `k` INT32 key, `v` INT32 NULLABLE, `s` STRING.
pub(crate) fn table() -> Schema {
    let columns = vec![
        Column::new("k", DataType::Int32),
        Column::new("v", DataType::Int32).nullable(true),
        Column::new("s", DataType::String).default_value("none".to_owned()),
    ];
    Schema::new(columns, 1).unwrap().with_sequential_ids(10)
}

/// A row with a value, and with a string if `text` is.
pub(crate) fn row(
    schema: &Schema,
    kind: OpKind,
    key: i32,
    value: Option<i32>,
    text: Option<&str>,
) -> (OpKind, PartialRow) {
    let mut row = PartialRow::new(schema);
    row.set_at(0, key).unwrap();
    if !kind.is_delete() {
        match value {
            Some(value) => row.set_at(1, value).unwrap(),
            None => row.set_null_at(1).unwrap(),
        };
        if let Some(text) = text {
            row.set_at(2, text.to_owned()).unwrap();
        }
    }
    (kind, row)
}

/// The tablet whose log is at the root of `backend`.
pub(crate) fn reopen(backend: impl Backend + 'static, sync: SyncPolicy) -> Result<Tablet, OpenError> {
    reopen_as(backend, sync, table())
}

/// As [`reopen`], of another table.
pub(crate) fn reopen_as(
    backend: impl Backend + 'static,
    sync: SyncPolicy,
    table: Schema,
) -> Result<Tablet, OpenError> {
    let log = LogOptions { segment_bytes: 200, sync };
    let cache = Arc::new(BlockCache::new(1 << 20));
    let storage = Storage { backend: Arc::new(backend), folder: Path::new("").to_owned(), log, cache };
    Tablet::open_in(storage, options(table), Arc::new(HybridClock::default()))
}

/// All rows, by key; of the newest snapshot or of one that was read before.
pub(crate) fn content(tablet: &Tablet, snapshot: Option<Timestamp>) -> Vec<Vec<Option<Value>>> {
    let spec = ScanSpec { projection: vec![0, 1, 2], ordered: true, snapshot, ..ScanSpec::default() };
    let projection = tablet.schema().project(&spec.projection).unwrap();
    let mut scanner = tablet.scan(spec, NOW).unwrap();
    let mut rows = Vec::new();
    while let Some(block) = scanner.next_block(1 << 20).unwrap() {
        rows.extend(rows_of(&projection, &block));
    }
    rows
}
