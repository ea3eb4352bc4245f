//! Memory that servers on this machine share with scans: mapped once, kept for later scans.
//!
//! Maps come in generations. When a server wants memory back, the next call begins a new one, and forgets the maps of the old;
//! what batches still show goes when they go, and then the server hears of it.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use proto::nyala::tserver::SharedBlockPb;
use rpc_core::Descriptors;
use shm::Map;
use thiserror::Error;

/// Why rows in shared memory cannot be read. A bug of the server, or the system allows no more maps.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum SharedMemoryError {
    /// A descriptor that was sent cannot be mapped.
    #[error("it cannot be mapped: {0}")]
    Map(Arc<io::Error>),
    /// A memory that does not begin as it must.
    #[error("it has no header that could be read")]
    Header,
    /// A block in a memory that was not sent.
    #[error("memory {memory} was never sent")]
    Unknown {
        /// Its number.
        memory: u64,
    },
    /// A block that does not lie in its memory.
    #[error("{length} bytes from {offset} do not lie in memory {memory}, which has {bytes}")]
    Outside {
        /// Its number.
        memory: u64,
        /// Where the block begins.
        offset: u64,
        /// How long it is.
        length: u64,
        /// How long the memory is.
        bytes: u64,
    },
    /// Blocks for a column that the answer does not have.
    #[error("the answer has no column {column}")]
    NoSuchColumn {
        /// Its index.
        column: u32,
    },
}

/// The maps of all connections of a client.
#[derive(Debug, Default)]
pub(crate) struct Memories {
    connections: Mutex<Vec<Connection>>,
}

#[derive(Debug)]
struct Connection {
    descriptors: Weak<Descriptors>,
    number: u32,
    current: Arc<Generation>,
    /// Of which something may still be mapped.
    old: Vec<(u32, Weak<()>)>,
    /// The server wants memory back.
    release: bool,
}

/// What was mapped in one generation.
#[derive(Debug, Default)]
pub(crate) struct Generation {
    maps: Mutex<HashMap<u64, Bytes>>,
    /// Lives as long as this, and any of its maps.
    alive: Arc<()>,
}

/// The owner of a map's bytes.
struct Mapped {
    map: Map,
    _alive: Arc<()>,
}

/// A call that may bring names of blocks.
#[derive(Debug)]
pub(crate) struct LocalCall {
    descriptors: Arc<Descriptors>,
    pub(crate) number: u32,
    pub(crate) released: u32,
    generation: Arc<Generation>,
}

impl Memories {
    /// Begins a call on a connection that descriptors come over.
    pub(crate) fn begin(&self, descriptors: Arc<Descriptors>) -> LocalCall {
        let mut connections = self.connections.lock();
        let connection = find(&mut connections, &descriptors, 1);
        if std::mem::take(&mut connection.release) {
            let old = std::mem::take(&mut connection.current);
            connection.old.push((connection.number, Arc::downgrade(&old.alive)));
            connection.number += 1;
        }
        connection.old.retain(|(_, alive)| alive.strong_count() > 0);
        LocalCall {
            number: connection.number,
            released: connection.old.first().map_or(connection.number, |(number, _)| *number),
            generation: connection.current.clone(),
            descriptors,
        }
    }

    /// The call was answered over the connection of these descriptors: maps what has come, and gives what blocks are read from.
    ///
    /// # Errors
    /// A descriptor that cannot be mapped, or is no memory of rows.
    pub(crate) fn answered(
        &self,
        call: LocalCall,
        descriptors: Option<&Arc<Descriptors>>,
        release: bool,
    ) -> Result<Arc<Generation>, SharedMemoryError> {
        let Some(descriptors) = descriptors else { return Ok(call.generation) };
        let mut connections = self.connections.lock();
        // After a reconnection it is another one, to which this call was the first.
        let connection = find(&mut connections, descriptors, call.number);
        connection.release |= release;
        let generation = match Arc::ptr_eq(descriptors, &call.descriptors) {
            true => call.generation,
            false => connection.current.clone(),
        };
        for descriptor in descriptors.take() {
            generation.add(descriptor)?;
            // What another call is waiting for may have come with this one.
            if !Arc::ptr_eq(&generation, &connection.current) {
                let known = generation.maps.lock().clone();
                connection.current.maps.lock().extend(known);
            }
        }
        Ok(generation)
    }
}

fn find<'a>(
    connections: &'a mut Vec<Connection>,
    descriptors: &Arc<Descriptors>,
    number: u32,
) -> &'a mut Connection {
    connections.retain(|connection| connection.descriptors.strong_count() > 0);
    let known = |connection: &Connection| connection.descriptors.as_ptr() == Arc::as_ptr(descriptors);
    let index = connections.iter().position(known).unwrap_or_else(|| {
        connections.push(Connection {
            descriptors: Arc::downgrade(descriptors),
            number,
            current: Arc::default(),
            old: Vec::new(),
            release: false,
        });
        connections.len() - 1
    });
    &mut connections[index]
}

impl Generation {
    fn add(&self, descriptor: OwnedFd) -> Result<(), SharedMemoryError> {
        let map = Map::of_sealed(descriptor).map_err(|error| SharedMemoryError::Map(Arc::new(error)))?;
        let id = read_header(&map).ok_or(SharedMemoryError::Header)?;
        let mapped = Mapped { map, _alive: self.alive.clone() };
        // A second map of the same memory is dropped.
        self.maps.lock().entry(id).or_insert_with(|| Bytes::from_owner(mapped));
        Ok(())
    }

    /// The bytes of a block, not copied.
    ///
    /// # Errors
    /// A memory that was not sent, or a block that is not in it.
    pub(crate) fn block(&self, block: &SharedBlockPb) -> Result<Bytes, SharedMemoryError> {
        let &SharedBlockPb { memory, offset, length } = block;
        let bytes = self.maps.lock().get(&memory).cloned().ok_or(SharedMemoryError::Unknown { memory })?;
        let outside = SharedMemoryError::Outside { memory, offset, length, bytes: bytes.len() as u64 };
        let range = (|| {
            let start = usize::try_from(offset).ok().filter(|start| *start >= HEADER)?;
            let end = start.checked_add(usize::try_from(length).ok()?)?;
            (end <= bytes.len()).then_some(start..end)
        })();
        Ok(bytes.slice(range.ok_or(outside)?))
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

/// The number of a memory.
fn read_header(bytes: &[u8]) -> Option<u64> {
    let header = bytes.first_chunk::<HEADER>()?;
    let (magic, rest) = header.split_first_chunk::<8>()?;
    let (version, rest) = rest.split_first_chunk::<4>()?;
    let (_, rest) = rest.split_first_chunk::<4>()?;
    let (number, _) = rest.split_first_chunk::<8>()?;
    (magic == MAGIC && u32::from_le_bytes(*version) == VERSION).then(|| u64::from_le_bytes(*number))
}

const MAGIC: &[u8; 8] = b"NYALASHM";
const VERSION: u32 = 1;
const HEADER: usize = 64;

#[cfg(test)]
mod tests {
    use prost::Message;
    use proto::kudu::tserver::ScanResponsePb;
    use proto::nyala::tserver::{LocalScanResponsePb, SharedColumnPb};
    use schema::{Column, ColumnData, ColumnarBlock, DataType, Schema};

    use super::super::local::Answer;
    use super::*;

    fn header(number: u64) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[16..24].copy_from_slice(&number.to_le_bytes());
        header
    }

    fn memory(header: &[u8]) -> OwnedFd {
        shm::sealed("test", &[header, &[5; 1000]]).unwrap().0
    }

    fn block(memory: u64, offset: u64, length: u64) -> SharedBlockPb {
        SharedBlockPb { memory, offset, length }
    }

    #[test]
    fn blocks_are_read_only_where_the_memory_is() {
        let generation = Generation::default();
        generation.add(memory(&header(7))).unwrap();
        generation.add(memory(&header(7))).unwrap();
        assert_eq!(generation.block(&block(7, 64, 1000)).unwrap(), vec![5; 1000]);
        assert_eq!(generation.block(&block(7, 1064, 0)).unwrap().len(), 0);
        let wrong =
            [(64, 1001), (63, 1), (0, 8), (1065, 0), (u64::MAX, 1), (64, u64::MAX), (u64::MAX, u64::MAX)];
        for (offset, length) in wrong {
            let error = generation.block(&block(7, offset, length)).unwrap_err();
            assert!(matches!(error, SharedMemoryError::Outside { bytes: 1064, .. }), "{error}");
        }
        let error = generation.block(&block(8, 64, 1)).unwrap_err();
        assert!(matches!(error, SharedMemoryError::Unknown { memory: 8 }), "{error}");
    }

    #[test]
    fn hostile_descriptors_are_errors() {
        let generation = Generation::default();
        let mut newer = header(1);
        newer[8] = 2;
        let mut no_magic = header(1);
        no_magic[0] = b'X';
        for header in [newer, no_magic] {
            assert!(matches!(generation.add(memory(&header)), Err(SharedMemoryError::Header)));
        }
        let short = shm::sealed("test", &[&header(1)[..63]]).unwrap().0;
        assert!(matches!(generation.add(short), Err(SharedMemoryError::Header)));
        let empty = shm::sealed("test", &[]).unwrap().0;
        assert!(matches!(generation.add(empty), Err(SharedMemoryError::Header)));
        let file = std::fs::File::open("/dev/zero").unwrap();
        assert!(matches!(generation.add(file.into()), Err(SharedMemoryError::Map(_))));
        assert!(generation.maps.lock().is_empty());
    }

    #[test]
    fn a_generation_counts_as_released_when_nothing_of_it_is_read_any_more() {
        let (memories, descriptors) = (Memories::default(), Arc::new(Descriptors::default()));
        let first = memories.begin(descriptors.clone());
        assert_eq!((first.number, first.released), (1, 1));
        first.generation.add(memory(&header(7))).unwrap();
        let batch = first.generation.block(&block(7, 64, 10)).unwrap();
        let beside = memories.begin(descriptors.clone());
        memories.answered(first, Some(&descriptors), true).unwrap();
        let second = memories.begin(descriptors.clone());
        assert_eq!((second.number, second.released), (2, 1), "a call and a batch of the first are left");
        // It can still be answered by what it knew.
        let old = memories.answered(beside, Some(&descriptors), false).unwrap();
        assert!(old.block(&block(7, 64, 10)).is_ok() && second.generation.block(&block(7, 64, 10)).is_err());
        drop(old);
        assert_eq!(memories.begin(descriptors.clone()).released, 1, "a batch is left");
        drop(batch);
        let last = memories.begin(descriptors);
        assert_eq!((last.number, last.released), (2, 2));
    }

    #[test]
    fn another_connection_begins_with_what_the_call_said_and_knows_nothing_of_the_old_one() {
        let memories = Memories::default();
        let (old, new) = (Arc::new(Descriptors::default()), Arc::new(Descriptors::default()));
        memories.answered(memories.begin(old.clone()), Some(&old), true).unwrap();
        let call = memories.begin(old.clone());
        assert_eq!(call.number, 2);
        call.generation.add(memory(&header(7))).unwrap();
        let generation = memories.answered(call, Some(&new), false).unwrap();
        assert!(generation.block(&block(7, 64, 1)).is_err());
        assert_eq!(memories.begin(new).number, 2);
        drop(old);
    }

    /// Three rows of INT32 NULLABLE and STRING in memory 7, and the answer that names them.
    fn good() -> (Vec<u8>, LocalScanResponsePb) {
        let mut bytes: Vec<u8> = [5i32, 0, 7].iter().flat_map(|cell| cell.to_le_bytes()).collect();
        bytes.resize(64, 0);
        bytes.push(0b101);
        bytes.resize(128, 0);
        bytes.extend([0u32, 2, 2, 5].iter().flat_map(|offset| offset.to_le_bytes()));
        bytes.resize(192, 0);
        bytes.extend(b"abcde");
        let block = |at: u64, length| Some(SharedBlockPb { memory: 7, offset: 64 + at, length });
        let number = SharedColumnPb {
            column: 0,
            data: block(0, 12),
            non_null_bitmap: block(64, 1),
            ..Default::default()
        };
        let text = SharedColumnPb {
            column: 1,
            data: block(128, 16),
            varlen_data: block(192, 5),
            ..Default::default()
        };
        (bytes, LocalScanResponsePb { shared: vec![number, text], ..Default::default() })
    }

    /// What a client makes of an answer: all cells, or none if it is refused.
    fn read(bytes: &[u8], shared: Vec<SharedColumnPb>) -> Option<Vec<Option<Vec<u8>>>> {
        let columns =
            vec![Column::new("n", DataType::Int32).nullable(true), Column::new("s", DataType::String)];
        let projection = Schema::new(columns, 0).unwrap();
        let generation = Generation::default();
        generation.add(shm::sealed("test", &[&header(7), bytes]).unwrap().0).ok()?;
        let (message, sidecars, memories) = (ScanResponsePb::default(), Vec::new(), Ok(Arc::new(generation)));
        let answer = Answer { message, sidecars, shared, memories };
        let mut block =
            ColumnarBlock { rows: 3, columns: vec![ColumnData::default(), ColumnData::default()] };
        answer.place_shared(&mut block).ok()?;
        block.validate(&projection).ok()?;
        let cell = |row, column| block.cell(row, column).value().map(<[u8]>::to_vec);
        Some((0..3).flat_map(|row| [cell(row, 0), cell(row, 1)]).collect())
    }

    #[test]
    fn whatever_a_server_names_and_shares_is_refused_or_read_where_it_is() {
        let (bytes, response) = good();
        let good_cells = read(&bytes, response.shared.clone()).unwrap();
        assert_eq!(good_cells[1].as_deref(), Some(&b"ab"[..]));
        assert_eq!(good_cells[2], None);
        let message = response.encode_to_vec();
        let mut random = fastrand::Rng::with_seed(11);
        let (mut refused, mut given) = (0, 0);
        for _ in 0..4000 {
            let (mut bytes, mut message) = (bytes.clone(), message.clone());
            for _ in 0..random.usize(1..4) {
                let changed = if random.bool() { &mut bytes } else { &mut message };
                let at = random.usize(..changed.len());
                match random.u8(..4) {
                    0 => changed[at] ^= 1 << random.u8(..8),
                    1 => changed[at] = *random.choice([0, 1, 0x7f, 0xff].iter()).unwrap(),
                    2 => changed.truncate(at.max(1)),
                    _ => changed.insert(at, random.u8(..)),
                }
            }
            let Ok(changed) = LocalScanResponsePb::decode(&message[..]) else { continue };
            match read(&bytes, changed.shared) {
                Some(cells) => given += usize::from(cells.len() == 6),
                None => refused += 1,
            }
        }
        assert!(refused > 100 && given > 100, "{refused} refused, {given} given");
    }
}
