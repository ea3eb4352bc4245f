//! Logs that are not as they were written: named, never taken for something else.

mod common;

use std::path::{Path, PathBuf};

use common::batch;
use common::storage::{reopen, row, table};
use schema::OpKind;
use tablet::backend::{Backend, Memory};
use tablet::{FileError, LogError, OpenError, Problem, SyncPolicy};

/// A log of `batches` in segments of about 200 bytes.
fn written(batches: i32) -> Memory {
    let memory = Memory::new();
    let tablet = reopen(memory.clone(), SyncPolicy::System).unwrap();
    for key in 0..batches {
        batch(&tablet, &[row(&table(), OpKind::Insert, key, Some(key), Some("some text"))]).unwrap();
    }
    memory
}

fn refused(memory: Memory) -> LogError {
    match reopen(memory, SyncPolicy::System).unwrap_err() {
        OpenError::Log(error) => error,
        other => panic!("{other}"),
    }
}

fn segments(memory: &Memory) -> Vec<PathBuf> {
    memory.list(Path::new("")).unwrap().into_iter().map(PathBuf::from).collect()
}

#[test]
fn a_damaged_byte_anywhere_but_in_the_last_write_is_named_by_file_and_offset() {
    let memory = written(6);
    let segments = segments(&memory);
    assert!(segments.len() > 1, "{segments:?}");
    for (index, path) in segments.iter().enumerate() {
        let length = memory.read(path).unwrap().len();
        // In the last segment only the header: a write behind it may be the last.
        let length = if index + 1 == segments.len() { 40 } else { length };
        for offset in 0..length {
            let copy = memory.after_kill();
            copy.damage(path, offset).unwrap();
            match refused(copy.clone()) {
                LogError::Corrupt { file, offset: at, .. } => {
                    assert!(file == *path && at <= offset as u64, "{file:?} at {at}");
                }
                LogError::File(error @ FileError::NewerFormat { .. }) => assert_eq!(error.file(), path),
                other => panic!("{other}"),
            }
            let before: Vec<_> = segments.iter().map(|path| memory.read(path).unwrap().len()).collect();
            let after: Vec<_> = segments.iter().map(|path| copy.read(path).unwrap().len()).collect();
            assert_eq!(before, after, "nothing is cut off a log that is refused");
        }
    }
}

#[test]
fn a_missing_segment_is_noticed() {
    let memory = written(12);
    let all = segments(&memory);
    assert!(all.len() > 2);
    for path in &all[..all.len() - 1] {
        let copy = memory.after_kill();
        copy.remove(path).unwrap();
        let missing = matches!(refused(copy), LogError::Corrupt { problem: Problem::MissingSegment, .. });
        assert!(missing, "{path:?}");
    }
}

#[test]
fn the_log_of_another_tablet_is_refused() {
    let memory = written(1);
    let mut options = common::options(table());
    options.id = "another".into();
    let storage = tablet::Storage {
        backend: std::sync::Arc::new(memory),
        folder: PathBuf::new(),
        log: tablet::LogOptions::default(),
        cache: std::sync::Arc::new(tablet::BlockCache::new(0)),
    };
    let error = tablet::Tablet::open_in(storage, options, Default::default()).unwrap_err();
    assert_eq!(error.to_string(), "0000000000000001.log is corrupt at offset 0: it is of another tablet");
}
