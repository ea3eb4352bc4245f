//! What of the catalog has to last: entries in a tablet of its own, changed in batches that are there whole or not at all.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use schema::row_ops::{Decoder, EncodeError, Encoder};
use schema::{Column, DataType, HybridClock, OpKind, PartialRow, RowError, Schema, Value};
use server_base::{Tracker, physical_micros};
use tablet::{OpenError, ScanError, ScanSpec, Storage, Tablet, TabletOptions, WriteError};
use thiserror::Error;

/// What an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i8)]
pub(crate) enum Kind {
    /// A table, by its id.
    Table = 1,
    /// A tablet, by its id.
    Tablet = 2,
    /// The id of the cluster.
    Cluster = 3,
    /// The state that an operator gave a tablet server, by its uuid.
    Server = 4,
}

/// An entry: what it is about, of what id, and its content.
pub(crate) type Entry = (Kind, String, Vec<u8>);

/// An entry as it is to be from now on; `None`: gone.
pub(crate) type Change = (Kind, String, Option<Vec<u8>>);

/// The entries, on disk or nowhere.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// `None`: changes are forgotten.
    kept: Option<Kept>,
    parts: Parts,
}

/// How many rows each entry has.
type Parts = HashMap<(Kind, String), u32>;

#[derive(Debug)]
struct Kept {
    tablet: Arc<Tablet>,
    storage: Storage,
    clock: Arc<HybridClock>,
}

/// Entries that cannot be read or changed.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub(crate) enum StoreError {
    /// The log cannot be read.
    #[error("cannot open the catalog: {0}")]
    Open(#[from] OpenError),
    /// The rows cannot be read.
    #[error("cannot read the catalog: {0}")]
    Scan(#[from] ScanError),
    /// The log takes no changes (any more).
    #[error("cannot change the catalog: {0}")]
    Write(#[from] WriteError),
    /// An entry does not fit its row.
    #[error("cannot change the catalog: {0}")]
    Encode(#[from] EncodeError),
    /// The rows are not those that were written.
    #[error("the catalog is corrupt: {0}")]
    Corrupt(&'static str),
}

impl StoreError {
    /// True if it may pass: the disk was full or busy when the master was started.
    pub(crate) fn is_retriable(&self) -> bool {
        match self {
            Self::Open(error) => error.is_retriable(),
            Self::Write(error) => error.is_retriable(),
            _ => false,
        }
    }
}

impl From<StoreError> for server_base::StartError {
    fn from(error: StoreError) -> Self {
        let retriable = error.is_retriable();
        Self::stored(error, retriable)
    }
}

impl From<RowError> for StoreError {
    fn from(_: RowError) -> Self {
        Self::Corrupt("a row does not fit")
    }
}

impl Store {
    /// A store that forgets everything.
    pub(crate) fn nowhere() -> Self {
        Self::default()
    }

    /// Opens the entries in `storage` and reads them all.
    pub(crate) fn open(storage: Storage, clock: Arc<HybridClock>) -> Result<(Self, Vec<Entry>), StoreError> {
        let about = TabletOptions {
            id: TABLET.to_owned(),
            table_id: TABLET.to_owned(),
            table_name: TABLET.to_owned(),
            schema: columns()?,
            partition_schema: Default::default(),
            partition: Default::default(),
            schema_version: 0,
            history_max_age_sec: None,
        };
        let tablet = Arc::new(Tablet::open_in(storage.clone(), about, Arc::clone(&clock))?);
        let (entries, parts) = read(&tablet)?;
        Ok((Self { kept: Some(Kept { tablet, storage, clock }), parts }, entries))
    }

    /// Opens the entries anew after their log has failed, so that changes are taken again. The last change was refused, and may be
    /// in the log all the same: then it is taken back. After an error all is as before, and it may be tried again.
    pub(crate) fn reopen(&mut self) -> Result<(), StoreError> {
        let Some(Kept { tablet, storage, clock }) = &self.kept else { return Ok(()) };
        // It shows what the log had when it failed, to the knowledge of those who were told.
        let (wanted, _) = read(tablet)?;
        // What had to be said of the log, it said when it failed.
        let _ = tablet.close();
        let (mut store, found) = Self::open(storage.clone(), Arc::clone(clock))?;
        let changes = differences(found, wanted);
        if !changes.is_empty() {
            store.write(&changes)?;
        }
        *self = store;
        Ok(())
    }

    /// Whether the disk takes a megabyte more.
    pub(crate) fn has_room(&self) -> std::io::Result<()> {
        let kept = self.kept.as_ref();
        kept.map_or(Ok(()), |kept| server_base::data_folder::check_room(&*kept.storage.backend))
    }

    /// Makes all changes or none. When it returns they are as safe as the log's options say.
    pub(crate) fn write(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        let Some(Kept { tablet, .. }) = &self.kept else { return Ok(()) };
        let schema = &tablet.schema();
        let mut encoder = Encoder::new(schema);
        for (kind, id, content) in changes {
            let parts: Vec<&[u8]> = content.iter().flat_map(|content| split(content)).collect();
            let before = self.parts.get(&(*kind, id.clone())).copied().unwrap_or(0);
            for (number, part) in (0..).zip(&parts) {
                let mut row = key(schema, *kind, id, number)?;
                row.set_at(DATA, Value::Binary(Bytes::copy_from_slice(part)))?;
                encoder.push(OpKind::Upsert, &row)?;
            }
            for number in parts.len() as u32..before {
                encoder.push(OpKind::Delete, &key(schema, *kind, id, number)?)?;
            }
        }
        let (rows, indirect) = encoder.finish();
        let decoder = Decoder::new(schema, schema).map_err(|_| StoreError::Corrupt("columns do not fit"))?;
        let ops = decoder.decode(&rows, &indirect).map_err(|_| StoreError::Corrupt("rows do not fit"))?;
        let outcome = tablet.write(&ops, None, physical_micros())?;
        if !outcome.row_errors.is_empty() {
            return Err(StoreError::Corrupt("an entry is not there any more"));
        }
        for (kind, id, content) in changes {
            let key = (*kind, id.clone());
            match content {
                Some(content) => drop(self.parts.insert(key, split(content).count() as u32)),
                None => drop(self.parts.remove(&key)),
            }
        }
        Ok(())
    }

    /// Ends the store; nothing is lost after that.
    pub(crate) fn close(&self) {
        if let Some(Err(error)) = self.tablet().map(|tablet| tablet.close()) {
            tracing::error!(%error, "the catalog's log was not synced at the end");
        }
    }

    /// Where the entries are, if they are on disk.
    pub(crate) fn tablet(&self) -> Option<Arc<Tablet>> {
        self.kept.as_ref().map(|kept| Arc::clone(&kept.tablet))
    }

    /// What the entries take in memory.
    pub(crate) fn trackers(&self) -> Vec<Tracker> {
        let tracker = |kept: &Kept| Tracker {
            id: format!("tablet-{TABLET}"),
            limit: None,
            bytes: kept.tablet.statistics().memory_bytes,
        };
        self.kept.iter().map(tracker).collect()
    }
}

/// All entries in order, and how many rows each has.
fn read(tablet: &Tablet) -> Result<(Vec<Entry>, Parts), StoreError> {
    let spec = ScanSpec { projection: vec![0, 1, 2, DATA], ordered: true, ..ScanSpec::default() };
    let schema = tablet.schema();
    let mut scanner = tablet.scan(spec, physical_micros())?;
    let (mut entries, mut parts): (Vec<Entry>, Parts) = Default::default();
    while let Some(block) = scanner.next_block(BLOCK_BYTES)? {
        for row in 0..block.rows {
            let cell = |column| block.value(&schema, row, column);
            let (Some(Value::Int8(kind)), Some(Value::String(id)), Some(Value::Int32(part))) =
                (cell(0), cell(1), cell(2))
            else {
                return Err(StoreError::Corrupt("a key is not readable"));
            };
            let Some(Value::Binary(data)) = cell(DATA) else {
                return Err(StoreError::Corrupt("an entry is not readable"));
            };
            let kind = Kind::of(kind).ok_or(StoreError::Corrupt("an entry of a kind not known here"))?;
            match entries.last_mut() {
                Some((last, last_id, content)) if part > 0 && (*last, &*last_id) == (kind, &id) => {
                    content.extend_from_slice(&data);
                }
                _ if part == 0 => entries.push((kind, id.clone(), data.to_vec())),
                _ => return Err(StoreError::Corrupt("an entry lacks its beginning")),
            }
            *parts.entry((kind, id)).or_default() += 1;
        }
    }
    Ok((entries, parts))
}

/// What makes the entries that were found those that are wanted.
fn differences(found: Vec<Entry>, wanted: Vec<Entry>) -> Vec<Change> {
    let keyed = |(kind, id, content): Entry| ((kind, id), content);
    let mut found: BTreeMap<_, _> = found.into_iter().map(keyed).collect();
    let mut changes: Vec<Change> = Vec::new();
    for ((kind, id), content) in wanted.into_iter().map(keyed) {
        let key = (kind, id);
        if found.remove(&key).as_ref() != Some(&content) {
            changes.push((key.0, key.1, Some(content)));
        }
    }
    changes.extend(found.into_keys().map(|(kind, id)| (kind, id, None)));
    changes
}

impl Kind {
    fn of(number: i8) -> Option<Self> {
        [Self::Table, Self::Tablet, Self::Cluster, Self::Server]
            .into_iter()
            .find(|kind| *kind as i8 == number)
    }
}

fn columns() -> Result<Schema, StoreError> {
    let columns = vec![
        Column::new("kind", DataType::Int8),
        Column::new("id", DataType::String),
        Column::new("part", DataType::Int32),
        Column::new("data", DataType::Binary),
    ];
    let schema = Schema::new(columns, 3).map_err(|_| StoreError::Corrupt("no such columns"))?;
    Ok(schema.with_sequential_ids(0))
}

fn key(schema: &Schema, kind: Kind, id: &str, part: u32) -> Result<PartialRow, StoreError> {
    let mut row = PartialRow::new(schema);
    row.set_at(0, kind as i8)?.set_at(1, id.to_owned())?.set_at(2, part as i32)?;
    Ok(row)
}

/// An entry without content has one empty part.
fn split(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let empty = content.is_empty().then_some(content);
    empty.into_iter().chain(content.chunks(PART_BYTES))
}

const TABLET: &str = "catalog";
const DATA: usize = 3;
/// A cell holds 64 KiB at most.
const PART_BYTES: usize = 60 << 10;
const BLOCK_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use schema::Timestamp;
    use tablet::backend::{Backend, Fault, Faulty, Memory};
    use tablet::{LogOptions, SyncPolicy};

    use super::*;

    fn open(memory: &Memory) -> (Store, Vec<Entry>) {
        open_by(memory, &Arc::default())
    }

    fn open_by(backend: &(impl Backend + Clone + 'static), clock: &Arc<HybridClock>) -> (Store, Vec<Entry>) {
        let log = LogOptions { sync: SyncPolicy::Always, ..LogOptions::default() };
        let cache = Arc::new(tablet::BlockCache::new(0));
        Store::open(
            Storage { backend: Arc::new(backend.clone()), folder: PathBuf::new(), log, cache },
            Arc::clone(clock),
        )
        .unwrap()
    }

    #[test]
    fn the_clock_of_the_next_start_is_past_all_changes() {
        let (memory, clock) = (Memory::new(), Arc::new(HybridClock::default()));
        let now = server_base::physical_micros();
        let (mut store, _) = open_by(&memory, &clock);
        let ahead = schema::Timestamp::new(now + 5_000_000, 0);
        clock.update(ahead, now).unwrap();
        store.write(&[(Kind::Table, "a".into(), Some(vec![1]))]).unwrap();
        drop(store);
        let next = Arc::new(HybridClock::default());
        open_by(&memory, &next);
        assert!(next.now(now) > ahead, "the master tells this clock");
    }

    #[test]
    fn entries_of_any_size_grow_shrink_and_go() {
        let memory = Memory::new();
        let (mut store, found) = open(&memory);
        assert_eq!(found, []);
        let put = |kind, id: &str, bytes: usize| (kind, id.to_owned(), Some(vec![b'x'; bytes]));
        store
            .write(&[put(Kind::Table, "a", 200_000), put(Kind::Tablet, "a", 0), put(Kind::Table, "b", 5)])
            .unwrap();
        store.write(&[put(Kind::Table, "a", 70_000), (Kind::Table, "b".into(), None)]).unwrap();
        let expected =
            [(Kind::Table, "a".to_owned(), vec![b'x'; 70_000]), (Kind::Tablet, "a".to_owned(), Vec::new())];
        let (mut store, found) = open(&memory.after_power_cut(|_| 0));
        assert!(found == expected, "{:?}", found.iter().map(|e| (e.0, &e.1, e.2.len())).collect::<Vec<_>>());
        store.write(&[(Kind::Table, "a".into(), None), (Kind::Tablet, "a".into(), None)]).unwrap();
        store.write(&[(Kind::Table, "never there".into(), None)]).unwrap();
    }

    #[test]
    fn a_store_opened_anew_after_a_fault_is_what_it_was_before_the_change_that_was_refused() {
        let mut taken_back = 0;
        for at in 0.. {
            let memory = Memory::new();
            let faulty = Faulty::new(memory.clone(), at, Fault::Error);
            let (mut store, _) = open_by(&faulty, &Arc::default());
            let (safe, unsure) = live(&mut store);
            if faulty.operations() <= at {
                assert!(at > 40 && unsure.is_none());
                break;
            }
            // A flush may have failed, and no change.
            if unsure.is_none() {
                continue;
            }
            taken_back += usize::from(open(&memory.after_kill()).1 != safe);
            store.reopen().unwrap();
            assert!(open(&memory.after_power_cut(|_| 0)).1 == safe, "a fault at {at}");
            let more = (Kind::Table, "more".to_owned(), vec![1; 70_000]);
            store.write(&[(more.0, more.1.clone(), Some(more.2.clone()))]).unwrap();
            let (_, found) = open(&memory.after_power_cut(|_| 0));
            assert!(found.contains(&more) && found.len() == safe.len() + 1);
        }
        assert!(taken_back > 0, "no change was in the log that was refused");
    }

    /// Entries come, grow, shrink and go, with flushes and compactions between; until a write fails. What is there then,
    /// and what would be there with that write.
    fn live(store: &mut Store) -> (Vec<Entry>, Option<Vec<Entry>>) {
        let (mut entries, tablet) = (std::collections::BTreeMap::new(), store.tablet().unwrap());
        for round in 0..8_usize {
            let id = |number: usize| (number % 5).to_string();
            let changes: Vec<Change> = vec![
                (Kind::Table, id(round), Some(vec![round as u8; round % 4 / 3 * 70_000])),
                (Kind::Tablet, id(round + 2), (round % 2 == 0).then(|| vec![7; 100])),
            ];
            let before = entries.clone();
            for (kind, id, content) in &changes {
                match content {
                    Some(content) => drop(entries.insert((*kind, id.clone()), content.clone())),
                    None => drop(entries.remove(&(*kind, id.clone()))),
                }
            }
            let as_found = |entries: std::collections::BTreeMap<(Kind, String), Vec<u8>>| {
                entries.into_iter().map(|((kind, id), content)| (kind, id, content)).collect()
            };
            if store.write(&changes).is_err() {
                return (as_found(before), Some(as_found(entries)));
            }
            let oldest = Timestamp::new(physical_micros(), 0);
            // One that fails changes nothing.
            if round % 2 == 1 {
                let _ = tablet.flush(oldest);
            }
            if round % 4 == 3 {
                let _ = tablet.compact(oldest);
            }
        }
        let found = entries.into_iter().map(|((kind, id), content)| (kind, id, content)).collect();
        (found, None)
    }

    #[test]
    fn no_fault_while_the_catalog_is_flushed_loses_an_entry_or_half_of_a_change() {
        for fault in [Fault::Error, Fault::Death, Fault::Torn(100)] {
            for at in 0.. {
                let memory = Memory::new();
                let faulty = Faulty::new(memory.clone(), at, fault);
                let (mut store, _) = open_by(&faulty, &Arc::default());
                let (safe, unsure) = live(&mut store);
                for left in [memory.after_kill(), memory.after_power_cut(|_| 0)] {
                    let (_, found) = open(&left);
                    assert!(found == safe || Some(found) == unsure, "{fault:?} at {at}");
                }
                if faulty.operations() <= at {
                    assert!(at > 40 && unsure.is_none());
                    break;
                }
            }
        }
    }
}
