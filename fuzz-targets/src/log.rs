//! The log of a tablet: segments, records, entries.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use schema::row_ops::Decoder;
use schema::{HybridClock, Partition, PartitionSchema};
use tablet::backend::Memory;
use tablet::{BlockCache, LogOptions, ScanSpec, Storage, Tablet, TabletOptions};

use crate::row_operations::small;
use crate::sealed_file::put;

const SEGMENT: &str = "log/0000000000000001.log";
const NOW: u64 = 1_700_000_000_000_000;

/// The first byte says what the others are: a segment; records behind a good header; the entries of a good record. A
/// tablet that opens takes a write, and has it and all it had when it is opened again.
pub fn run(bytes: &[u8]) {
    let [kind, bytes @ ..] = bytes else { return };
    let segment = match kind % 3 {
        0 => bytes.to_vec(),
        1 => [&header()[..], bytes].concat(),
        _ => [&header()[..], &record(bytes)].concat(),
    };
    let memory = Memory::new();
    assert!(tablet::backend::Backend::create_folder(&memory, Path::new("log")).is_ok());
    put(&memory, Path::new(SEGMENT), &segment);
    let Some(tablet) = open(&memory) else { return };
    let before = keys(&tablet);
    let table = small().with_sequential_ids(10);
    let Ok(decoder) = Decoder::new(&table, &table) else { unreachable!("a table has its own columns") };
    // An upsert of key 7 with a content of no bytes.
    let row = [&[5, 0b101, 0, 7, 0][..], &[0; 16]].concat();
    let Ok(ops) = decoder.decode(&row, &[]) else { unreachable!("a good row") };
    let written = tablet.write(&ops, None, NOW);
    let after = keys(&tablet);
    match written {
        Ok(outcome) => assert!(outcome.row_errors.is_empty() && after >= before),
        // The log may say that it is far in the future.
        Err(_) => assert_eq!(after, before),
    }
    drop(tablet);
    let again = open(&memory.after_kill()).unwrap_or_else(|| panic!("what was written is there again"));
    assert_eq!(keys(&again), after);
}

fn open(memory: &Memory) -> Option<Tablet> {
    let options = TabletOptions {
        id: "t".to_owned(),
        table_id: "t".to_owned(),
        table_name: "t".to_owned(),
        schema: small().with_sequential_ids(10),
        partition_schema: PartitionSchema::default(),
        partition: Partition::default(),
        schema_version: 0,
        history_max_age_sec: None,
    };
    let storage = Storage {
        backend: Arc::new(memory.clone()),
        folder: PathBuf::from("log"),
        log: LogOptions::default(),
        cache: Arc::new(BlockCache::new(0)),
    };
    Tablet::open_in(storage, options, Arc::new(HybridClock::default())).ok()
}

/// How many rows a scan shows.
fn keys(tablet: &Tablet) -> usize {
    let spec = ScanSpec { projection: vec![0], ..ScanSpec::default() };
    let Ok(mut scanner) = tablet.scan(spec, NOW) else { return 0 };
    std::iter::from_fn(|| scanner.next_block(1 << 20).ok().flatten()).map(|block| block.rows).sum()
}

/// As `FORMAT.md` draws it.
pub(crate) fn header() -> Vec<u8> {
    let mut header = b"NYALALOG".to_vec();
    header.extend(1u32.to_le_bytes());
    header.extend(crc32c::crc32c(b"t").to_le_bytes());
    header.extend(1u64.to_le_bytes());
    header.extend(1u64.to_le_bytes());
    header.extend(SALT.to_le_bytes());
    let crc = crc32c::crc32c(&header);
    header.extend(crc.to_le_bytes());
    header
}

/// A record whose entries are cut as two bytes (length, little-endian) before each of them say.
pub(crate) fn record(mut bytes: &[u8]) -> Vec<u8> {
    let (mut body, mut count) = (Vec::new(), 0u32);
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let (entry, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*length))));
        body.extend((entry.len() as u32).to_le_bytes());
        body.extend(entry);
        count += 1;
        bytes = rest;
    }
    let length = (body.len() as u32).to_le_bytes();
    let numbers = [&1u64.to_le_bytes()[..], &count.to_le_bytes()].concat();
    let crc = [&length[..], &numbers, &body].into_iter().fold(SALT, crc32c::crc32c_append);
    [&length[..], &crc.to_le_bytes(), &numbers, &body].concat()
}

const SALT: u32 = 0x5a17;
