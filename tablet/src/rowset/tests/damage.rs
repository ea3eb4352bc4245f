//! Damaged, cut and half-written rowsets: an error that names the file, never other rows.

use super::*;
use crate::backend::{Fault, Faulty};
use crate::file_error::FileError;

const FILES: [&str; 4] = [DATA, PACKED, INDEX, META];

fn schema() -> Schema {
    let columns = vec![
        Column::new("k", DataType::String),
        Column::new("n", DataType::Int32).nullable(true),
        Column::new("s", DataType::Binary).nullable(true),
        Column::new("p", DataType::String).nullable(true).compression(Compression::Lz4),
    ];
    Schema::new(columns, 1).unwrap().with_sequential_ids(10)
}

fn rows() -> Vec<Row> {
    let row = |i: u32| Row {
        cells: vec![
            Some(format!("key {i:04}").into_bytes()),
            (!i.is_multiple_of(3)).then(|| i.to_le_bytes().to_vec()),
            (!i.is_multiple_of(5)).then(|| vec![i as u8; i as usize % 9]),
            (!i.is_multiple_of(6)).then(|| vec![b'a'; i as usize % 50]),
        ],
        inserted: u64::from(i % 4),
        ended: if i.is_multiple_of(7) { 50 + u64::from(i % 2) } else { ALIVE },
    };
    (0..70).map(row).collect()
}

fn written() -> Memory {
    let memory = Memory::new();
    write(&memory, &schema(), false, &rows(), 66).unwrap();
    memory
}

/// Everything of a rowset that can be read.
fn read_all(backend: &dyn Backend) -> Result<Vec<Row>, RowsetError> {
    let rowset = open(backend)?;
    let rows = read(&rowset)?;
    for (number, row) in rows.iter().step_by(9) {
        assert_eq!(rowset.find(&key_of(&schema(), &row.cells))?, Some(*number));
    }
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

#[test]
fn damaged_bytes_are_noticed_unless_nobody_reads_them() {
    let memory = written();
    assert_eq!(read_all(&memory).unwrap(), rows());
    for name in FILES {
        let path = folder().join(name);
        let len = memory.read(&path).unwrap().len();
        let (mut unnoticed, mut damaged) = (0, 0);
        // Blocks are long: some of their bytes stand for all.
        for offset in (0..len).step_by(if [DATA, PACKED].contains(&name) { 3 } else { 1 }) {
            damaged += 1;
            memory.damage(&path, offset).unwrap();
            match read_all(&memory) {
                Err(
                    RowsetError::Corrupt { file, .. }
                    | RowsetError::File(FileError::NewerFormat { file, .. }),
                ) => {
                    assert_eq!(file, path, "byte {offset}");
                }
                Err(error) => panic!("{name}, byte {offset}: {error}"),
                Ok(read) => {
                    assert_eq!(read, rows(), "{name}, byte {offset}");
                    unnoticed += 1;
                }
            }
            memory.damage(&path, offset).unwrap();
        }
        // Messages and the footer of the Arrow file are for others; what fills sections of the index up is nobody's.
        let most = if name == META { 0 } else { damaged - damaged / 8 };
        assert!(unnoticed <= most, "{name}: {unnoticed} of {damaged}");
    }
}

#[test]
fn a_file_of_another_length_or_none_is_an_error() {
    let whole = written();
    for name in FILES {
        let path = folder().join(name);
        let len = whole.read(&path).unwrap().len();
        for bytes in (0..len).step_by(if name == META { 1 } else { 7 }) {
            let memory = whole.after_kill();
            memory.truncate(&path, bytes as u64).unwrap();
            let error = open(&memory).map(drop).unwrap_err();
            assert!(error.to_string().contains(name) && !error.is_retriable(), "{error}");
        }
        let memory = whole.after_kill();
        memory.remove(&path).unwrap();
        let error = open(&memory).map(drop).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_later_format_is_named() {
    let memory = written();
    let path = folder().join(META);
    let content = sealed::read(&memory, &path, meta::KIND).unwrap();
    let later = sealed::Kind { version: meta::KIND.version + 1, ..meta::KIND };
    sealed::write(&memory, &path, later, &content).unwrap();
    let error = open(&memory).map(drop).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rowsets/7/meta has format 2, this program reads up to 1: use the newer program"
    );
}

#[test]
fn a_description_with_the_right_checksum_and_other_content_ends_in_an_error_or_rows_never_in_a_panic() {
    let memory = written();
    let path = folder().join(META);
    let content = sealed::read(&memory, &path, meta::KIND).unwrap();
    for at in 0..content.len() {
        for bits in [1, 0x80, 0xff] {
            let mut other = content.clone();
            other[at] ^= bits;
            sealed::write(&memory, &path, meta::KIND, &other).unwrap();
            let Ok(rowset) = open(&memory) else { continue };
            let _ = read(&rowset);
            let _ = rowset.find(b"key 0007");
        }
    }
}

#[test]
fn whatever_fails_the_rowset_is_there_as_a_whole_or_not_at_all() {
    let count = {
        let faulty = Faulty::new(Memory::new(), u64::MAX, Fault::Error);
        write(&faulty, &schema(), false, &rows(), 66).unwrap();
        faulty.operations()
    };
    for fault in [Fault::Error, Fault::Death, Fault::Torn(100)] {
        for at in 0..count {
            let memory = Memory::new();
            let done = write(&Faulty::new(memory.clone(), at, fault), &schema(), false, &rows(), 66);
            for found in [memory.after_kill(), memory.after_power_cut(|most| most / 2)] {
                let mut names = found.list(folder().parent().unwrap()).unwrap_or_default();
                names.retain(|name| Path::new(name).extension().is_none_or(|ending| ending != DRAFT));
                match &names[..] {
                    [] => assert!(done.is_err(), "{fault:?} at {at}"),
                    [name] if name == "7" => {
                        assert_eq!(read_all(&found).unwrap(), rows(), "{fault:?} at {at}")
                    }
                    other => panic!("{fault:?} at {at}: {other:?}"),
                }
            }
            // The next attempt is not in the way of what is left.
            if done.is_err() && memory.list(folder()).is_err() {
                write(&memory, &schema(), false, &rows(), 66).unwrap();
                assert_eq!(read_all(&memory).unwrap(), rows());
            }
        }
    }
}
