//! Rows in files: what stays of memory and log, which history is kept, what happens beside a flush, and damage.

mod common;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use common::storage::{content, reopen, reopen_as, row, table};
use common::{NOW, batch};
use schema::{Column, DataType, OpKind, PartialRow, Schema, Timestamp, Value};
use tablet::backend::{Backend, Memory};
use tablet::{
    LogError, OpenError, ReadBytes, RowsetError, ScanError, ScanSpec, SyncPolicy, Tablet, WriteError,
};

fn open(memory: &Memory) -> Tablet {
    reopen(memory.clone(), SyncPolicy::Always).unwrap()
}

fn put(tablet: &Tablet, kind: OpKind, keys: std::ops::Range<i32>, value: i32) -> Timestamp {
    let rows: Vec<_> = keys.map(|key| row(&table(), kind, key, Some(value), Some("some text"))).collect();
    let outcome = batch(tablet, &rows).unwrap();
    assert!(outcome.row_errors.is_empty());
    outcome.timestamp
}

fn files(memory: &Memory, folder: &str) -> Vec<String> {
    memory.list(Path::new(folder)).unwrap_or_default()
}

fn logs(memory: &Memory) -> usize {
    files(memory, "").iter().filter(|name| name.ends_with(".log")).count()
}

#[test]
fn a_flush_gives_memory_and_log_back_and_a_start_finds_the_rows_in_files() {
    let memory = Memory::new();
    let tablet = open(&memory);
    for start in (0..20_000).step_by(1000) {
        put(&tablet, OpKind::Insert, start..start + 1000, start);
    }
    let before = tablet.statistics();
    assert!(before.memory_bytes > 400_000 && logs(&memory) > 5);
    tablet.flush(Timestamp::MIN).unwrap();
    let after = tablet.statistics();
    assert_eq!((after.live_rows, after.memory_bytes), (20_000, 0));
    assert_eq!(logs(&memory), 1);
    put(&tablet, OpKind::Update, 5..10, -1);
    put(&tablet, OpKind::Delete, 10..20, 0);
    put(&tablet, OpKind::Insert, 20_000..20_010, 7);
    let rows = content(&tablet, None);
    assert_eq!(rows.len(), 20_000);
    assert_eq!(rows[7][1], Some(Value::Int32(-1)));
    drop(tablet);
    let tablet = open(&memory);
    assert_eq!(content(&tablet, None), rows);
    assert_eq!(tablet.statistics().live_rows, 20_000);
    tablet.flush(Timestamp::MIN).unwrap();
    assert_eq!(content(&open(&memory), None), rows);
    assert_eq!(content(&tablet, None), rows);
}

#[test]
fn history_is_kept_until_it_is_given_up_and_then_refused() {
    let memory = Memory::new();
    let tablet = open(&memory);
    put(&tablet, OpKind::Insert, 0..100, 1);
    let first = content(&tablet, None);
    let before = put(&tablet, OpKind::Update, 0..50, 2);
    let ended = put(&tablet, OpKind::Delete, 50..60, 0);
    let newest = content(&tablet, None);
    for _ in 0..2 {
        tablet.flush(Timestamp::MIN).unwrap();
        assert_eq!(content(&tablet, Some(before)), first);
        // In files now, whose rows end too.
        put(&tablet, OpKind::Upsert, 0..1, 2);
        put(&tablet, OpKind::Delete, 0..1, 2);
        put(&tablet, OpKind::Insert, 0..1, 2);
    }
    assert_eq!(content(&open(&memory), Some(before)), first);
    let rows_before = tablet.statistics().on_disk_bytes;
    // Enough rowsets to merge.
    for _ in 0..3 {
        put(&tablet, OpKind::Update, 1..50, 2);
        tablet.flush(ended).unwrap();
    }
    assert!(tablet.compact(ended).unwrap());
    assert!(tablet.statistics().on_disk_bytes < rows_before * 4);
    assert_eq!(content(&tablet, None), newest);
    let old = ScanSpec { snapshot: Some(before), ..ScanSpec::default() };
    assert!(matches!(tablet.scan(old.clone(), NOW), Err(ScanError::TooOld { .. })));
    let again = open(&memory);
    assert!(matches!(again.scan(old, NOW), Err(ScanError::TooOld { .. })));
    assert_eq!(content(&again, None), newest);
    assert_eq!(files(&memory, "rowsets").len(), 1, "{:?}", files(&memory, "rowsets"));
}

#[test]
fn named_calls_are_answered_again_after_their_log_is_gone() {
    let memory = Memory::new();
    let tablet = open(&memory);
    let schema = table();
    let write = |seq_no, first_incomplete_seq_no, key| {
        let mut encoder = schema::row_ops::Encoder::new(&schema);
        let (kind, row) = row(&schema, OpKind::Insert, key, None, None);
        encoder.push(kind, &row).unwrap();
        let (rows, indirect) = encoder.finish();
        let decoder = schema::row_ops::Decoder::new(&schema, &schema).unwrap();
        let request = tablet::RequestKey { client_id: "me", seq_no, first_incomplete_seq_no };
        tablet.write_for(Some(request), &decoder.decode(&rows, &indirect).unwrap(), None, NOW).unwrap()
    };
    write(1, 1, 1);
    let second = write(2, 2, 1);
    tablet.flush(Timestamp::MIN).unwrap();
    let third = write(3, 2, 3);
    drop(tablet);
    let tablet = open(&memory);
    let answered = |client_id, seq_no| {
        tablet.answered(tablet::RequestKey { client_id, seq_no, first_incomplete_seq_no: 2 })
    };
    assert_eq!(answered("me", 1), None, "the client said that it has that answer");
    assert_eq!((answered("me", 2), answered("me", 3)), (Some(second), Some(third)));
    assert_eq!((answered("me", 4), answered("you", 3)), (None, None));
}

#[test]
fn readers_and_writers_beside_flushes_and_compactions_miss_nothing() {
    let memory = Memory::new();
    let tablet = open(&memory);
    put(&tablet, OpKind::Insert, 0..500, 0);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                tablet.flush(Timestamp::MIN).unwrap();
                tablet.compact(Timestamp::MIN).unwrap();
            }
        });
        let reader = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let rows = content(&tablet, None);
                assert_eq!(rows.len(), 500);
                let value = |row: &Vec<Option<Value>>| row[1].clone();
                assert!(rows.iter().all(|row| value(row) == value(&rows[0])), "half of a batch");
            }
        });
        for round in 1..60 {
            if round % 3 == 0 {
                let both = [OpKind::Delete, OpKind::Insert].into_iter().flat_map(|kind| {
                    (0..500).map(move |key| row(&table(), kind, key, Some(round), Some("text")))
                });
                assert!(batch(&tablet, &both.collect::<Vec<_>>()).unwrap().row_errors.is_empty());
            } else {
                put(&tablet, OpKind::Update, 0..500, round);
            }
        }
        over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    let rows = content(&tablet, None);
    assert_eq!((rows.len(), rows[0][1].clone()), (500, Some(Value::Int32(59))));
    drop(tablet);
    assert_eq!(content(&open(&memory), None), rows);
}

#[test]
fn damaged_files_are_named_and_fail_what_needs_them() {
    let memory = Memory::new();
    let tablet = open(&memory);
    put(&tablet, OpKind::Insert, 0..1000, 0);
    tablet.flush(Timestamp::MIN).unwrap();
    put(&tablet, OpKind::Delete, 0..3, 0);
    tablet.flush(Timestamp::MIN).unwrap();
    drop(tablet);
    let rowsets = files(&memory, "rowsets");
    let ends = rowsets.iter().find(|name| name.ends_with(".ends")).unwrap();
    let rowset = rowsets.iter().find(|name| !name.ends_with(".ends")).unwrap();
    let at_start = [
        PathBuf::from("manifest"),
        Path::new("rowsets").join(ends),
        Path::new("rowsets").join(rowset).join("meta"),
    ];
    for path in at_start {
        let copy = memory.after_kill();
        copy.damage(&path, 30).unwrap();
        match reopen(copy.clone(), SyncPolicy::Always) {
            Err(OpenError::Rowset(RowsetError::Corrupt { file, .. })) => assert_eq!(file, path),
            other => panic!("{path:?}: {other:?}"),
        }
        copy.remove(&path).unwrap();
        match reopen(copy, SyncPolicy::Always) {
            // Without the manifest the log begins in the middle.
            Err(OpenError::Log(LogError::Corrupt { .. })) => assert_eq!(path, Path::new("manifest")),
            Err(OpenError::Rowset(RowsetError::File(error))) => assert_eq!(error.file(), path),
            other => panic!("{path:?}: {other:?}"),
        }
    }
    let data = Path::new("rowsets").join(rowset).join("data.arrow");
    // Where keys 500 and 501 are.
    let copy = memory.after_kill();
    let bytes = memory.read(&data).unwrap();
    let key = bytes.windows(8).position(|w| w == [0xf4, 1, 0, 0, 0xf5, 1, 0, 0]).unwrap();
    copy.damage(&data, key).unwrap();
    let tablet = open(&copy);
    let mut scanner = tablet.scan(ScanSpec { projection: vec![0], ..ScanSpec::default() }, NOW).unwrap();
    let error = scanner.next_block(1 << 20).unwrap_err();
    assert!(
        matches!(&error, ScanError::Rowset(RowsetError::Corrupt { file, .. }) if *file == data),
        "{error}"
    );
    assert!(!error.is_retriable());
    let rows = [row(&table(), OpKind::Update, 500, Some(1), None)];
    for _ in 0..2 {
        let error = batch(&tablet, &rows).unwrap_err();
        assert!(
            matches!(&error, WriteError::Rowset(RowsetError::Corrupt { file, .. }) if *file == data),
            "{error}"
        );
    }
}

#[test]
fn a_rowset_that_was_put_here_from_another_table_is_refused_by_name() {
    let (own, other) = (Memory::new(), Memory::new());
    let tablet = open(&own);
    put(&tablet, OpKind::Insert, 0..10, 1);
    tablet.flush(Timestamp::MIN).unwrap();
    drop(tablet);
    // Another type under the same id.
    let columns = vec![Column::new("k", DataType::Int64), Column::new("v", DataType::Int32).nullable(true)];
    let schema = Schema::new(columns, 1).unwrap().with_sequential_ids(10);
    let tablet = reopen_as(other.clone(), SyncPolicy::Always, schema.clone()).unwrap();
    let mut row = PartialRow::new(&schema);
    row.set_at(0, 5i64).unwrap().set_at(1, 6).unwrap();
    batch(&tablet, &[(OpKind::Insert, row)]).unwrap();
    tablet.flush(Timestamp::MIN).unwrap();
    let folder = Path::new("rowsets/0000000000000001");
    for name in files(&own, "rowsets/0000000000000001") {
        let path = folder.join(name);
        own.remove(&path).unwrap();
        let bytes = other.read(&path).unwrap();
        own.create(&path).unwrap().append(&[&bytes]).unwrap();
    }
    let Err(OpenError::Rowset(error)) = reopen(own, SyncPolicy::Always) else { panic!("it is opened") };
    let text = error.to_string();
    assert!(text.starts_with("rowsets/0000000000000001/meta is corrupt"), "{text}");
    assert!(text.ends_with("its columns are none of the table's"), "{text}");
}

#[test]
fn a_scan_tells_what_it_read_of_files_and_what_was_at_hand() {
    let memory = Memory::new();
    let tablet = open(&memory);
    put(&tablet, OpKind::Insert, 0..1000, 7);
    let read = |tablet: &Tablet, ordered: bool| {
        let spec = ScanSpec { projection: vec![0, 1], ordered, ..ScanSpec::default() };
        let mut scanner = tablet.scan(spec, NOW).unwrap();
        while scanner.next_block(1000).unwrap().is_some() {}
        let read = scanner.take_read_bytes();
        assert_eq!(scanner.take_read_bytes(), ReadBytes::default(), "it is told once");
        read
    };
    assert_eq!(read(&tablet, false), ReadBytes::default());
    tablet.flush(Timestamp::MIN).unwrap();
    for ordered in [false, true] {
        let tablet = open(&memory);
        let first = read(&tablet, ordered);
        assert_eq!(first, ReadBytes { at_hand: 0, fetched: 8000 }, "two columns of 4 bytes");
        let again = read(&tablet, ordered);
        assert_eq!(again, ReadBytes { at_hand: first.fetched, fetched: 0 });
    }
}
