//! Buffers that start on a 64-byte boundary, as columnar consumers like it.

use std::ops::RangeInclusive;
use std::sync::Mutex;

use bytes::Bytes;

/// 64: a cache line, and what Arrow asks for.
pub(crate) const ALIGNMENT: usize = 64;

/// By how much a full buffer grows: what was filled is copied, and new memory is cleared, so not too often; and bytes that never come
/// must not cost a multiple of those that came.
const GROWTH: usize = 4;

/// A buffer that is filled from front to back. It takes memory as bytes arrive, so that a length which a peer only
/// claims costs little.
#[derive(Debug)]
pub(crate) struct AlignedBuffer {
    data: Vec<u8>,
    start: usize,
    filled: usize,
    len: usize,
    eager: usize,
}

impl AlignedBuffer {
    /// Room for `len` bytes; `eager` of them are taken when the first one comes.
    pub(crate) fn new(len: usize, eager: usize) -> Self {
        Self { data: Vec::new(), start: 0, filled: 0, len, eager: eager.max(1) }
    }

    pub(crate) fn missing(&self) -> usize {
        self.len.saturating_sub(self.filled)
    }

    /// Room for the next bytes; empty only when the buffer is full.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let size = self.data.len().saturating_sub(self.start);
        let size = size.min(self.len);
        if self.filled >= size && size < self.len {
            self.allocate(self.len.min(size.saturating_mul(GROWTH).max(self.eager)));
        }
        let from = self.start.saturating_add(self.filled);
        let to = self.start.saturating_add(self.len).min(self.data.len());
        self.data.get_mut(from..to).unwrap_or_default()
    }

    /// `count` bytes were put into [`room`](Self::room).
    pub(crate) fn advance(&mut self, count: usize) {
        self.filled = self.filled.saturating_add(count).min(self.len);
    }

    /// Copies as much of `bytes` as there is room for.
    pub(crate) fn fill(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.missing() > 0 {
            let room = self.room();
            let count = room.len().min(bytes.len());
            let (now, later) = bytes.split_at_checked(count).unwrap_or((bytes, &[]));
            if let Some(room) = room.get_mut(..count) {
                room.copy_from_slice(now);
            }
            self.advance(count);
            bytes = later;
        }
    }

    pub(crate) fn freeze(self) -> Bytes {
        if self.len == 0 { Bytes::new() } else { Bytes::from_owner(self) }
    }

    fn allocate(&mut self, size: usize) {
        // Zeroed memory comes from the system as it is; nothing is written here.
        let bytes = size.saturating_add(ALIGNMENT);
        let mut data = spare(bytes).unwrap_or_else(|| vec![0; bytes]);
        let start = data.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let old = self.start..self.start.saturating_add(self.filled);
        let new = start..start.saturating_add(self.filled);
        if let (Some(new), Some(old)) = (data.get_mut(new), self.data.get(old)) {
            new.copy_from_slice(old);
        }
        keep(std::mem::replace(&mut self.data, data));
        self.start = start;
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        keep(std::mem::take(&mut self.data));
    }
}

/// Memory of big buffers that are gone, for the next ones: what the system gives anew costs more, page by page, than the
/// bytes that go into it. What was in it is written over before anybody sees it.
static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// A buffer of at least `bytes` bytes that is not far too big.
fn spare(bytes: usize) -> Option<Vec<u8>> {
    if !WORTH_KEEPING.contains(&bytes) {
        return None;
    }
    let mut spare = SPARE.lock().ok()?;
    let at = spare.iter().position(|data| data.len() >= bytes && data.len() / 4 <= bytes)?;
    Some(spare.swap_remove(at))
}

fn keep(data: Vec<u8>) {
    if WORTH_KEEPING.contains(&data.len())
        && let Ok(mut spare) = SPARE.lock()
        && spare.len() < MOST_SPARE
    {
        spare.push(data);
    }
}

/// At most 16 MiB a process are kept.
const WORTH_KEEPING: RangeInclusive<usize> = 256 << 10..=4 << 20;
const MOST_SPARE: usize = 4;

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        self.data.get(self.start..self.start.saturating_add(self.filled)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: usize = 1 << 20;

    #[test]
    fn content_is_aligned_and_whole_at_any_size() {
        for len in [0usize, 1, 63, 64, 65, 70_000, FIRST - 1, FIRST, FIRST + 1, 3 * FIRST + 17] {
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let mut buffer = AlignedBuffer::new(len, FIRST);
            for piece in bytes.chunks(1_000_003) {
                buffer.fill(piece);
            }
            assert_eq!(buffer.missing(), 0);
            let frozen = buffer.freeze();
            assert!(frozen == bytes, "{len} bytes");
            assert!(len == 0 || (frozen.as_ptr() as usize).is_multiple_of(ALIGNMENT));
        }
    }

    #[test]
    fn a_claimed_length_takes_little_memory() {
        let mut buffer = AlignedBuffer::new(1 << 30, FIRST);
        assert_eq!(buffer.data.capacity(), 0);
        buffer.fill(b"x");
        assert!(buffer.data.capacity() <= FIRST + 2 * ALIGNMENT);
    }

    #[test]
    fn no_more_than_the_length_is_taken() {
        let mut buffer = AlignedBuffer::new(3, FIRST);
        buffer.fill(b"abcdef");
        assert_eq!((buffer.missing(), buffer.room().len()), (0, 0));
        assert_eq!(buffer.freeze(), "abc");
    }
}
