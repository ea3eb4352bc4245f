//! Column blocks in shared memory: filled when a scan first gives them out, kept for the scans to come.
//!
//! A memory holds the parts of one column's block as one answer gave them out, and nothing else. It lives for as long as the
//! rows are stored in that place, or until it was not asked for in a while and room is needed. What clients still have mapped
//! counts against the limit until they say that they let go, or are gone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use rpc_core::ConnectionInfo;
use schema::ColumnData;

/// The memories of a server.
#[derive(Debug)]
pub(crate) struct SharedBlocks {
    capacity: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last_id: u64,
    /// All that count: those in use, and those that a client may still have.
    used: u64,
    memories: HashMap<u64, Arc<Memory>>,
    /// By the address of what was copied, which is kept, so that nothing else is ever stored there.
    sources: BTreeMap<usize, (u64, usize)>,
    last_used: HashMap<u64, Instant>,
    /// Not given out any more, and their sizes.
    retired: HashMap<u64, u64>,
    peers: HashMap<u64, Peer>,
}

/// One memory.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) id: u64,
    pub(crate) descriptor: Arc<OwnedFd>,
    bytes: u64,
    /// What was copied, and to where.
    parts: Vec<(Bytes, u64)>,
}

/// A connection whose client maps memories.
#[derive(Debug)]
struct Peer {
    connection: Weak<ConnectionInfo>,
    /// The system says that it is the user it claims to be.
    is_who_it_says: bool,
    current: u32,
    /// What it may have mapped.
    generations: BTreeMap<u32, HashSet<u64>>,
}

/// Where the parts of a column lie: data, content of variable length, marks of what is not NULL.
pub(crate) type Places = [Option<Range<u64>>; 3];

impl SharedBlocks {
    /// Memories of up to `capacity` bytes in all.
    pub(crate) fn new(capacity: u64) -> Self {
        Self { capacity, state: Mutex::default() }
    }

    /// A client asks, with memories of `generation` mapped and those of generations below `released` unmapped. True if it
    /// may have some in the answer.
    pub(crate) fn begin(
        &self,
        connection: &Arc<ConnectionInfo>,
        user: &str,
        generation: u32,
        released: u32,
    ) -> bool {
        if self.capacity == 0 || !connection.takes_descriptors {
            return false;
        }
        let mut state = self.state.lock();
        let known = state.peers.get(&connection.id).is_some_and(|peer| peer.is(connection));
        if !known {
            let uid = connection.peer_uid;
            let peer = Peer {
                connection: Arc::downgrade(connection),
                is_who_it_says: uid.is_some_and(|uid| net_addr::user_name(uid) == user),
                current: 0,
                generations: BTreeMap::new(),
            };
            state.peers.insert(connection.id, peer);
        }
        let Some(peer) = state.peers.get_mut(&connection.id) else { return false };
        // A late request of a generation that is over, or nonsense.
        if generation < peer.current || generation == 0 || released > generation {
            return false;
        }
        peer.current = generation;
        let before = peer.generations.len();
        peer.generations.retain(|old, _| *old >= released);
        let (allowed, less) = (peer.is_who_it_says, peer.generations.len() < before);
        peer.generations.entry(generation).or_default();
        if less {
            state.count_retired();
        }
        allowed
    }

    /// The memory of a column's block, and where its parts lie in it; filled now if it was not yet. `None` if it cannot be
    /// shared: too small, made for this answer alone, or there is no room.
    pub(crate) fn place(&self, column: &ColumnData, now: Instant) -> Option<(Arc<Memory>, Places)> {
        let parts = [Some(&column.data), column.varlen.as_ref(), column.non_null.as_ref()];
        // Rows that are stored are held by the tablet as well.
        let stored: Vec<&Bytes> =
            parts.into_iter().flatten().filter(|part| !part.is_empty() && !part.is_unique()).collect();
        let longest = *stored.iter().max_by_key(|part| part.len())?;
        if longest.len() < SMALLEST {
            return None;
        }
        let bytes: u64 = stored.iter().map(|part| part.len() as u64).sum();
        let bytes = (bytes + shm::ALIGNMENT * (stored.len() as u64 + 1)).next_multiple_of(PAGE);
        let mut state = self.state.lock();
        let found = state.find(longest, now);
        let memory = match found {
            Some(memory) => memory,
            None => {
                if !state.make_room(bytes, self.capacity, now) {
                    return None;
                }
                state.last_id += 1;
                let id = state.last_id;
                drop(state);
                // Not under the lock: it takes as long as copying does.
                let filled = fill(id, &stored, bytes);
                let mut state = self.state.lock();
                match filled {
                    Ok(memory) => state.add(memory, now),
                    Err(error) => {
                        state.used -= bytes;
                        tracing::warn!(%error, bytes, "no shared memory");
                        return None;
                    }
                }
            }
        };
        let places = parts.map(|part| memory.range(part?));
        Some((memory, places))
    }

    /// Does the client need the descriptor with the answer?
    pub(crate) fn is_new_to(&self, connection: &ConnectionInfo, generation: u32, memory: u64) -> bool {
        let state = self.state.lock();
        let peer = state.peers.get(&connection.id);
        let sent = peer.and_then(|peer| peer.generations.get(&generation));
        sent.is_none_or(|sent| !sent.contains(&memory))
    }

    /// Answers of the connection that are given from now on arrive behind one that brings these descriptors.
    pub(crate) fn sent(&self, connection: &ConnectionInfo, generation: u32, memories: &[u64]) {
        if memories.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        if let Some(peer) = state.peers.get_mut(&connection.id)
            && let Some(sent) = peer.generations.get_mut(&generation)
        {
            sent.extend(memories);
        }
    }

    /// Does the client keep memory that is not given out any more?
    pub(crate) fn wants_back(&self, connection: &ConnectionInfo) -> bool {
        let state = self.state.lock();
        let peer = state.peers.get(&connection.id);
        let current = peer.and_then(|peer| peer.generations.get(&peer.current));
        !state.retired.is_empty()
            && current.is_some_and(|held| state.retired.keys().any(|memory| held.contains(memory)))
    }

    /// Gives up what nobody can ask for any more.
    pub(crate) fn sweep(&self) {
        self.state.lock().sweep();
    }
}

impl Peer {
    fn is(&self, connection: &Arc<ConnectionInfo>) -> bool {
        self.connection.as_ptr() == Arc::as_ptr(connection)
    }

    fn may_have(&self, memory: u64) -> bool {
        self.connection.strong_count() > 0 && self.generations.values().any(|held| held.contains(&memory))
    }
}

impl Memory {
    /// Where a part lies, if it is in here.
    fn range(&self, part: &Bytes) -> Option<Range<u64>> {
        self.parts.iter().find_map(|(source, start)| {
            let offset = offset_in(source, part)? as u64;
            Some(start + offset..start + offset + part.len() as u64)
        })
    }
}

impl State {
    fn find(&mut self, part: &Bytes, now: Instant) -> Option<Arc<Memory>> {
        let (_, &(id, index)) = self.sources.range(..=address(part)).next_back()?;
        let memory = self.memories.get(&id)?;
        offset_in(&memory.parts.get(index)?.0, part)?;
        self.last_used.insert(id, now);
        Some(Arc::clone(memory))
    }

    /// Adds a memory that room was made for.
    fn add(&mut self, memory: Memory, now: Instant) -> Arc<Memory> {
        let longest = memory.parts.iter().max_by_key(|(part, _)| part.len()).map(|(part, _)| part.clone());
        if let Some(found) = longest.and_then(|longest| self.find(&longest, now)) {
            // Another scan was quicker.
            self.used -= memory.bytes;
            return found;
        }
        let memory = Arc::new(memory);
        self.memories.insert(memory.id, Arc::clone(&memory));
        self.last_used.insert(memory.id, now);
        for (index, (source, _)) in memory.parts.iter().enumerate() {
            // A shorter piece from the same place is not found any longer.
            if let Some((old, _)) = self.sources.insert(address(source), (memory.id, index)) {
                self.retire(old);
                self.sources.insert(address(source), (memory.id, index));
            }
        }
        memory
    }

    fn make_room(&mut self, bytes: u64, capacity: u64, now: Instant) -> bool {
        let fits = |used: u64| used.saturating_add(bytes) <= capacity;
        if !fits(self.used) {
            self.sweep();
        }
        if !fits(self.used) {
            // What is in use stays: a table larger than the limit would only push itself out.
            let idle = |at: &Instant| now.saturating_duration_since(*at) >= IDLE;
            let mut idle: Vec<(Instant, u64)> =
                self.last_used.iter().filter(|(_, at)| idle(at)).map(|(id, at)| (*at, *id)).collect();
            idle.sort_unstable();
            for (_, id) in idle {
                if fits(self.used) {
                    break;
                }
                self.retire(id);
            }
        }
        let room = fits(self.used);
        self.used += if room { bytes } else { 0 };
        room
    }

    fn sweep(&mut self) {
        self.peers.retain(|_, peer| peer.connection.strong_count() > 0);
        // The tablet has let go of the rows: they were flushed, compacted or deleted.
        let is_stale = |memory: &Arc<Memory>| memory.parts.iter().all(|(source, _)| source.is_unique());
        let stale: Vec<u64> =
            self.memories.values().filter(|memory| is_stale(memory)).map(|memory| memory.id).collect();
        stale.into_iter().for_each(|id| self.retire(id));
        self.count_retired();
    }

    /// Gives a memory out no more; it goes on to count if a client may have it.
    fn retire(&mut self, id: u64) {
        let Some(memory) = self.memories.remove(&id) else { return };
        self.last_used.remove(&id);
        self.sources.retain(|_, (of, _)| *of != id);
        if self.peers.values().any(|peer| peer.may_have(id)) {
            self.retired.insert(id, memory.bytes);
        } else {
            self.used -= memory.bytes;
        }
    }

    /// Retired memories that no client can have any more stop counting.
    fn count_retired(&mut self) {
        let Self { retired, peers, used, .. } = self;
        retired.retain(|id, bytes| {
            let held = peers.values().any(|peer| peer.may_have(*id));
            *used -= if held { 0 } else { *bytes };
            held
        });
    }
}

fn fill(id: u64, stored: &[&Bytes], bytes: u64) -> std::io::Result<Memory> {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&id.to_le_bytes());
    let parts: Vec<&[u8]> = [&header[..]].into_iter().chain(stored.iter().map(|part| &part[..])).collect();
    let (descriptor, starts) = shm::sealed("nyala-column", &parts)?;
    let parts = stored.iter().copied().cloned().zip(starts.into_iter().skip(1)).collect();
    Ok(Memory { id, descriptor: Arc::new(descriptor), bytes, parts })
}

fn address(part: &Bytes) -> usize {
    part.as_ptr().addr()
}

fn offset_in(source: &Bytes, part: &Bytes) -> Option<usize> {
    let offset = address(part).checked_sub(address(source))?;
    (offset + part.len() <= source.len()).then_some(offset)
}

const MAGIC: &[u8; 8] = b"NYALASHM";
const VERSION: u32 = 1;
const HEADER: usize = 64;
const PAGE: u64 = 4096;
/// What is shorter is sent: a descriptor and a map cost more.
const SMALLEST: usize = 64 << 10;
/// A memory that was not asked for in this time may make room for another.
const IDLE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use net_addr::SockAddr;

    const MIB: usize = 1 << 20;

    fn peer(id: u64) -> Arc<ConnectionInfo> {
        let mut info = ConnectionInfo::new(SockAddr::UnixUnnamed, SockAddr::UnixUnnamed, "");
        info.user = net_addr::process_user();
        (info.id, info.takes_descriptors) = (id, true);
        info.peer_uid = Some(rustix::process::geteuid().as_raw());
        Arc::new(info)
    }

    /// As a tablet holds it, and as an answer has it.
    fn column(bytes: usize) -> (Bytes, ColumnData) {
        let stored = Bytes::from(vec![7; bytes]);
        let given = ColumnData { data: stored.slice(..), varlen: None, non_null: None };
        (stored, given)
    }

    fn place(blocks: &SharedBlocks, column: &ColumnData) -> Option<u64> {
        blocks.place(column, Instant::now()).map(|(memory, _)| memory.id)
    }

    #[test]
    fn a_block_is_copied_once_and_parts_of_it_are_found_in_it() {
        let blocks = SharedBlocks::new(8 << 20);
        let (stored, given) = column(MIB);
        let (memory, places) = blocks.place(&given, Instant::now()).unwrap();
        assert_eq!(places, [Some(64..64 + MIB as u64), None, None]);
        let part = ColumnData { data: stored.slice(1000..900_000), varlen: None, non_null: None };
        let (again, places) = blocks.place(&part, Instant::now()).unwrap();
        assert_eq!((again.id, places), (memory.id, [Some(1064..900_064), None, None]));
        let map = shm::Map::of_sealed(memory.descriptor.try_clone().unwrap()).unwrap();
        assert_eq!((&map[..8], &map[64..]), (&MAGIC[..], &stored[..]));
    }

    #[test]
    fn what_is_small_or_made_for_one_answer_is_not_shared() {
        let blocks = SharedBlocks::new(8 << 20);
        let (_stored, small) = column(SMALLEST - 1);
        let alone = ColumnData { data: Bytes::from(vec![7; MIB]), varlen: None, non_null: None };
        assert_eq!((place(&blocks, &small), place(&blocks, &alone)), (None, None));
        assert_eq!(blocks.state.lock().used, 0);
        // Its other parts are sent, and only those.
        let (stored, mut mixed) = column(MIB);
        mixed.non_null = Some(Bytes::from(vec![255; MIB / 32]));
        let (_, places) = blocks.place(&mixed, Instant::now()).unwrap();
        assert!(places[0].is_some() && places[2].is_none());
        drop(stored);
    }

    #[test]
    fn a_full_cache_shares_no_more_until_rows_or_readers_go() {
        let blocks = SharedBlocks::new(2 << 20);
        let me = peer(1);
        assert!(blocks.begin(&me, &me.user, 1, 1));
        let (first, given) = column(MIB);
        let (_second, other) = column(MIB);
        let id = place(&blocks, &given).unwrap();
        assert!(blocks.is_new_to(&me, 1, id));
        blocks.sent(&me, 1, &[id]);
        assert!(!blocks.is_new_to(&me, 1, id));
        assert_eq!(place(&blocks, &other), None, "with its header each takes more than a MiB");

        // The tablet lets go of the first, the client has not yet.
        drop((first, given));
        assert_eq!(place(&blocks, &other), None);
        assert!(blocks.wants_back(&me));
        // It begins a new generation, but a batch is still read.
        assert!(blocks.begin(&me, &me.user, 2, 1));
        assert!(!blocks.wants_back(&me));
        assert_eq!(place(&blocks, &other), None);
        assert!(blocks.begin(&me, &me.user, 2, 2));
        let id = place(&blocks, &other).unwrap();
        blocks.sent(&me, 2, &[id]);

        // A client that dies frees what it had.
        let (_third, more) = column(MIB);
        drop((_second, other, me));
        assert!(place(&blocks, &more).is_some());
    }

    #[test]
    fn nobody_gets_memory_as_another_user_or_in_a_generation_that_is_over() {
        let blocks = SharedBlocks::new(8 << 20);
        let me = peer(1);
        assert!(!blocks.begin(&me, "somebody", 1, 1), "the system knows better");
        let me = peer(2);
        assert!(blocks.begin(&me, &me.user, 5, 3));
        assert!(!blocks.begin(&me, &me.user, 4, 3), "late");
        assert!(!blocks.begin(&me, &me.user, 6, 7) && !blocks.begin(&me, &me.user, 0, 0), "nonsense");
        let mut over_tcp = ConnectionInfo::clone(&me);
        over_tcp.takes_descriptors = false;
        assert!(!blocks.begin(&Arc::new(over_tcp), &me.user, 1, 1));
        assert!(!SharedBlocks::new(0).begin(&me, &me.user, 5, 3), "switched off");
        assert!(blocks.begin(&me, &me.user, 5, 3));
    }
}
