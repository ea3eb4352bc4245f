//! What a tablet has on disk besides its log: manifest, ends of rows, and rowsets with their descriptions, Arrow files and
//! indexes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use schema::row_ops::{Decoder, Encoder};
use schema::{
    Column, Compression, DataType, HybridClock, OpKind, PartialRow, Partition, PartitionSchema, Schema,
    Timestamp, Value,
};
use tablet::backend::{Backend, Memory};
use tablet::sealed::{self, Kind};
use tablet::{BlockCache, LogOptions, RequestKey, ScanSpec, Storage, Tablet, TabletOptions};

use crate::rowset_sums;
use crate::sealed_file::put;

/// The first byte says which file of a good tablet the others replace: the content of a sealed one, an Arrow file or index as
/// it is; or which of their bytes are others, with checksums that fit: a place (two bytes) and a byte each.
///
/// A tablet that opens and whose rows can be read takes writes, a flush and a compaction, and has its rows when it is opened
/// again; unless what was changed are rows that have the right checksum, which then may be in any order.
pub fn run(bytes: &[u8]) {
    let [kind, bytes @ ..] = bytes else { return };
    let memory = good().after_kill();
    let is_sound = matches!(kind % 9, 0 | 2..=5);
    let [data, packed, index] = ["data.arrow", "packed.arrow", "index"].map(|name| rowset().join(name));
    match kind % 9 {
        0 => seal(&memory, Path::new("manifest"), MANIFEST, bytes),
        1 => seal(&memory, &rowset().join("meta"), META, bytes),
        2 => seal(&memory, &ends(&memory), ENDS, bytes),
        3 => replace(&memory, &data, bytes),
        4 => replace(&memory, &packed, bytes),
        5 => replace(&memory, &index, bytes),
        6 => change(&memory, &data, bytes),
        7 => change(&memory, &packed, bytes),
        _ => change(&memory, &index, bytes),
    }
    let Some(tablet) = open(&memory) else { return };
    let Some(before) = rows(&tablet) else { return };
    let written =
        write(&tablet, OpKind::Upsert, 3..6, None) && write(&tablet, OpKind::DeleteIgnore, 5..9, None);
    let Some(after) = rows(&tablet) else { return };
    assert!(written || after == before || !is_sound);
    let kept = tablet.flush(Timestamp::MIN).and_then(|()| tablet.compact(Timestamp::MIN));
    let flushed = rows(&tablet);
    drop(tablet);
    let again = open(&memory.after_kill());
    if is_sound {
        assert_eq!(flushed.as_ref(), Some(&after), "{kept:?}");
        assert!(again.is_some_and(|again| rows(&again) == Some(after)), "what was open is open again");
    }
}

/// Good inputs.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let memory = good();
    let sealed_files =
        [(0, PathBuf::from("manifest"), MANIFEST), (1, rowset().join("meta"), META), (2, ends(memory), ENDS)];
    let content = |(number, path, kind): (u8, PathBuf, Kind)| {
        [vec![number], sealed::read(memory, &path, kind).unwrap_or_default()].concat()
    };
    let changes = (6..9).map(|number| vec![number, 70, 0, 1, 9, 1, 128]);
    sealed_files.into_iter().map(content).chain(changes).chain([vec![3]]).collect()
}

/// A tablet with a rowset of which rows have ended, then and later, another one, and rows in its log.
fn good() -> &'static Memory {
    static GOOD: OnceLock<Memory> = OnceLock::new();
    GOOD.get_or_init(|| {
        let memory = Memory::new();
        let Some(tablet) = open(&memory) else { unreachable!("an empty folder is an empty tablet") };
        let key = RequestKey { client_id: "c", seq_no: 1, first_incomplete_seq_no: 1 };
        let mut done = write(&tablet, OpKind::Insert, 0..40, None);
        done &= write(&tablet, OpKind::Update, 0..5, Some(key)) && write(&tablet, OpKind::Delete, 5..8, None);
        done &= tablet.flush(Timestamp::MIN).is_ok() && write(&tablet, OpKind::Insert, 40..60, None);
        done &= write(&tablet, OpKind::Upsert, 10..14, None) && tablet.flush(Timestamp::MIN).is_ok();
        done &= write(&tablet, OpKind::Upsert, 13..16, None);
        assert!(done && rows(&tablet).is_some_and(|rows| rows.len() == 57));
        memory
    })
}

/// Where the first rowset is.
fn rowset() -> PathBuf {
    PathBuf::from("rowsets/0000000000000001")
}

fn ends(memory: &Memory) -> PathBuf {
    let names = memory.list(Path::new("rowsets")).unwrap_or_default();
    let name = names.into_iter().find(|name| name.ends_with(".ends")).unwrap_or_default();
    Path::new("rowsets").join(name)
}

fn seal(memory: &Memory, path: &Path, kind: Kind, content: &[u8]) {
    assert!(sealed::write(memory, path, kind, content).is_ok(), "memory takes all");
}

fn replace(memory: &Memory, path: &Path, bytes: &[u8]) {
    assert!(memory.remove(path).is_ok());
    put(memory, path, bytes);
}

/// Changes bytes of a file of the rowset, and the checksums in its description.
fn change(memory: &Memory, path: &Path, changes: &[u8]) {
    let Ok(mut bytes) = memory.read(path) else { unreachable!("it is there") };
    for [low, high, byte] in changes.as_chunks::<3>().0 {
        let at = usize::from(u16::from_le_bytes([*low, *high])) % bytes.len();
        bytes[at] = *byte;
    }
    replace(memory, path, &bytes);
    let meta = rowset().join("meta");
    let Ok(mut content) = sealed::read(memory, &meta, META) else { unreachable!("it is good") };
    let files = ["data.arrow", "packed.arrow", "index"].map(|name| memory.read(&rowset().join(name)));
    let files = files.map(Result::unwrap_or_default);
    rowset_sums::fit(&mut content, &files);
    seal(memory, &meta, META, &content);
}

fn open(memory: &Memory) -> Option<Tablet> {
    let options = TabletOptions {
        id: "t".to_owned(),
        table_id: "t".to_owned(),
        table_name: "t".to_owned(),
        schema: table(),
        partition_schema: PartitionSchema::default(),
        partition: Partition::default(),
        schema_version: 0,
        history_max_age_sec: None,
    };
    let storage = Storage {
        backend: Arc::new(memory.clone()),
        folder: PathBuf::new(),
        log: LogOptions::default(),
        cache: Arc::new(BlockCache::new(1 << 20)),
    };
    Tablet::open_in(storage, options, Arc::new(HybridClock::default())).ok()
}

fn table() -> Schema {
    let columns = vec![
        Column::new("k", DataType::Int16),
        Column::new("s", DataType::String).nullable(true),
        Column::new("p", DataType::String).compression(Compression::Lz4),
        Column::new("n", DataType::Int64).nullable(true).compression(Compression::Lz4),
    ];
    Schema::new(columns, 1).unwrap_or_else(|error| unreachable!("{error}")).with_sequential_ids(10)
}

/// False if the batch was refused.
fn write(tablet: &Tablet, kind: OpKind, keys: std::ops::Range<i16>, key: Option<RequestKey<'_>>) -> bool {
    let table = tablet.schema();
    let mut encoder = Encoder::new(&table);
    for number in keys {
        let mut row = PartialRow::new(&table);
        let mut set = |name, value: Option<Value>| {
            // A damaged manifest may tell of other columns.
            let Some(index) = table.index_of(name) else { return };
            let _ = match value {
                Some(value) => row.set_at(index, value).is_ok(),
                None => row.set_null_at(index).is_ok(),
            };
        };
        set("k", Some(Value::from(number)));
        if !kind.is_delete() {
            set("s", (number % 3 > 0).then(|| Value::from("s".repeat(number as usize % 7))));
            set("p", Some(Value::from("packed".repeat(number as usize % 5))));
            set("n", (number % 2 > 0).then(|| Value::from(i64::from(number))));
        }
        if encoder.push(kind, &row).is_err() {
            return false;
        }
    }
    let (rows, indirect) = encoder.finish();
    let Ok(decoder) = Decoder::new(&table, &table) else { return false };
    let Ok(ops) = decoder.decode(&rows, &indirect) else { return false };
    tablet.write_for(key, &ops, None, NOW).is_ok()
}

/// All rows by key, if they can be read.
fn rows(tablet: &Tablet) -> Option<Vec<Vec<Option<Value>>>> {
    let schema = tablet.schema();
    let projection: Vec<usize> = (0..schema.len()).collect();
    let mut scanner = tablet.scan(ScanSpec { projection, ordered: true, ..ScanSpec::default() }, NOW).ok()?;
    let mut rows = Vec::new();
    while let Some(block) = scanner.next_block(1 << 20).ok()? {
        let cells = |row| (0..schema.len()).map(|column| block.value(&schema, row, column)).collect();
        rows.extend((0..block.rows).map(cells));
    }
    Some(rows)
}

const NOW: u64 = 1_700_000_000_000_000;
const MANIFEST: Kind = Kind { magic: *b"NYALAMAN", version: 1 };
const META: Kind = Kind { magic: *b"NYALAROW", version: 1 };
const ENDS: Kind = Kind { magic: *b"NYALAEND", version: 1 };
