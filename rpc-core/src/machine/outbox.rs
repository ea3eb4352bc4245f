//! Bytes on their way out: small frames copied together, big pieces as they are.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use super::Body;
use crate::wire::limits::{HARD_MAX_MESSAGE_SIZE, MAX_SIDECARS};
use crate::wire::{frame, pb};

/// A message that no frame can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge {
    pub(crate) size: u64,
    pub(crate) sidecars: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Before `tail`, in order; the first may be partly written.
    chunks: VecDeque<Bytes>,
    tail: Vec<u8>,
    /// How much of `tail` is written; 0 as long as `chunks` is not empty.
    tail_written: usize,
    queued: usize,
    written: u64,
    /// By the position of the first byte of the frame that they go with.
    descriptors: VecDeque<(u64, Vec<Arc<OwnedFd>>)>,
}

impl Outbox {
    /// How many bytes wait.
    pub(crate) fn len(&self) -> usize {
        self.queued
    }

    /// How many bytes were written since the beginning.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Position of the next byte to be queued, on the scale of [`written`](Self::written).
    pub(crate) fn end(&self) -> u64 {
        self.written.saturating_add(self.queued as u64)
    }

    /// Queues raw bytes.
    pub(crate) fn extend(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.tail.len();
        write(&mut self.tail);
        self.queued = self.queued.saturating_add(self.tail.len().saturating_sub(before));
    }

    /// Descriptors that are to be there when the frame is that begins at `position`, behind all that were attached before.
    pub(crate) fn attach(&mut self, position: u64, descriptors: &[Arc<OwnedFd>]) {
        if !descriptors.is_empty() {
            self.descriptors.push_back((position, descriptors.to_vec()));
        }
    }

    /// What must go with the next bytes, in one system call.
    pub(crate) fn descriptors(&self) -> &[Arc<OwnedFd>] {
        self.descriptors.front().map_or(&[], |(_, descriptors)| descriptors)
    }

    /// Queues one frame; `header` is given the sidecars' offsets, and may be asked twice.
    pub(crate) fn push_frame(
        &mut self,
        body: &Bytes,
        sidecars: &[Bytes],
        mut header: impl FnMut(&[u32], &mut Vec<u8>),
    ) -> Result<(), TooLarge> {
        if sidecars.is_empty() && body.len() < UNCOPIED && self.push_small(body, &mut header) {
            return Ok(());
        }
        let size = sidecars.iter().fold(body.len() as u64, |sum, s| sum.saturating_add(s.len() as u64));
        let too_large = TooLarge { size, sidecars: sidecars.len() };
        if sidecars.len() > MAX_SIDECARS || size > u64::from(HARD_MAX_MESSAGE_SIZE) {
            return Err(too_large);
        }
        let starts = sidecars.iter().scan(body.len(), |at, sidecar| {
            let start = *at;
            *at = at.saturating_add(sidecar.len());
            u32::try_from(start).ok()
        });
        let mut encoded = Vec::new();
        header(&starts.collect::<Vec<u32>>(), &mut encoded);
        let header_len = encoded.len() as u64;
        let len = [header_len, pb::varint_len(header_len) as u64, size, pb::varint_len(size) as u64]
            .into_iter()
            .fold(0u64, u64::saturating_add);
        let Some(len) = u32::try_from(len).ok().filter(|len| *len <= HARD_MAX_MESSAGE_SIZE) else {
            return Err(too_large);
        };
        self.extend(|tail| {
            tail.extend_from_slice(&len.to_be_bytes());
            pb::put_varint(tail, header_len);
            tail.extend_from_slice(&encoded);
            pb::put_varint(tail, size);
        });
        self.push(body);
        for sidecar in sidecars {
            self.push(sidecar);
        }
        Ok(())
    }

    /// Queues a frame without sidecars, its body copied; false = the header is too long, nothing is queued.
    pub(crate) fn push_small(&mut self, body: &[u8], header: impl FnMut(&[u32], &mut Vec<u8>)) -> bool {
        let before = self.tail.len();
        let done = put_small_frame(&mut self.tail, body.len(), header, |tail| tail.extend_from_slice(body));
        self.queued = self.queued.saturating_add(self.tail.len().saturating_sub(before));
        done
    }

    /// Queues the frame of a request that has no extras; `method_field` is the header's field of that name, encoded.
    pub(crate) fn push_request(
        &mut self,
        call_id: i32,
        method_field: &[u8],
        timeout_millis: Option<u32>,
        body: &Body,
    ) -> Result<(), TooLarge> {
        let small = body.as_slice();
        if small.len() < UNCOPIED {
            let before = self.tail.len();
            if put_request_frame(&mut self.tail, call_id, method_field, timeout_millis, small) {
                self.queued = self.queued.saturating_add(self.tail.len().saturating_sub(before));
                return Ok(());
            }
        }
        let header = |_: &[u32], out: &mut Vec<u8>| {
            pb::put_i32(out, 3, call_id);
            out.extend_from_slice(method_field);
            if let Some(millis) = timeout_millis {
                pb::put_u32(out, 10, millis);
            }
        };
        self.push_frame(&body.to_bytes(), &[], header)
    }

    /// Queues whole frames; `frames` is empty after that.
    pub(crate) fn push_raw(&mut self, frames: &mut Vec<u8>) {
        self.queued = self.queued.saturating_add(frames.len());
        if self.tail.is_empty() {
            std::mem::swap(&mut self.tail, frames);
        } else {
            self.tail.append(frames);
        }
    }

    fn push(&mut self, piece: &Bytes) {
        if piece.len() < UNCOPIED {
            self.extend(|tail| tail.extend_from_slice(piece));
            return;
        }
        if !self.tail.is_empty() {
            let mut tail = Bytes::from(std::mem::take(&mut self.tail));
            tail.advance(std::mem::take(&mut self.tail_written));
            self.chunks.push_back(tail);
        }
        self.chunks.push_back(piece.clone());
        self.queued = self.queued.saturating_add(piece.len());
    }

    /// Fills `out` with what is to be written next; how many slices that are.
    pub(crate) fn slices<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        let tail = self.tail.get(self.tail_written..).filter(|tail| !tail.is_empty());
        let pieces = self.chunks.iter().map(|chunk| &chunk[..]).chain(tail);
        // A frame must not overtake its descriptors, and only those of one frame go at a time.
        let mut room = match self.descriptors.get(1) {
            Some((position, _)) => {
                usize::try_from(position.saturating_sub(self.written)).unwrap_or(usize::MAX)
            }
            None => usize::MAX,
        };
        let mut count = 0usize;
        for (slot, piece) in out.iter_mut().zip(pieces) {
            if room == 0 {
                break;
            }
            let piece = piece.get(..room).unwrap_or(piece);
            room = room.saturating_sub(piece.len());
            *slot = IoSlice::new(piece);
            count = count.saturating_add(1);
        }
        count
    }

    /// `count` bytes of the slices were written, and the descriptors with the first of them.
    pub(crate) fn advance(&mut self, count: usize) {
        if count > 0 {
            self.descriptors.pop_front();
        }
        let mut left = count.min(self.queued);
        self.queued = self.queued.saturating_sub(left);
        self.written = self.written.saturating_add(left as u64);
        while let Some(chunk) = self.chunks.front_mut() {
            if chunk.len() > left {
                chunk.advance(left);
                return;
            }
            left = left.saturating_sub(chunk.len());
            self.chunks.pop_front();
        }
        self.tail_written = self.tail_written.saturating_add(left);
        if self.tail_written >= self.tail.len() {
            self.tail_written = 0;
            self.tail.clear();
            if self.tail.capacity() > KEPT {
                self.tail = Vec::new();
            }
        } else if self.tail_written > UNCOPIED && self.tail_written > self.tail.len() / 2 {
            // A tail that never gets empty must not grow for ever.
            self.tail.drain(..self.tail_written);
            self.tail_written = 0;
        }
    }
}

/// Appends a frame without sidecars whose header is below 128 bytes; false = the header is longer, nothing is appended. The
/// lengths are filled in when they are known, so that nothing is copied twice. `body` must append `body_len` bytes.
pub(crate) fn put_small_frame(
    out: &mut Vec<u8>,
    body_len: usize,
    mut header: impl FnMut(&[u32], &mut Vec<u8>),
    body: impl FnOnce(&mut Vec<u8>),
) -> bool {
    let start = out.len();
    out.extend_from_slice(&[0; SMALL_PREFIX]);
    header(&[], out);
    let header_len = out.len().saturating_sub(start).saturating_sub(SMALL_PREFIX);
    let Some(short) = u8::try_from(header_len).ok().filter(|len| *len < 0x80) else {
        out.truncate(start);
        return false;
    };
    pb::put_varint(out, body_len as u64);
    body(out);
    let len = out.len().saturating_sub(start).saturating_sub(frame::PREFIX);
    let [a, b, c, d] = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    if let Some(prefix) = out.get_mut(start..).and_then(|frame| frame.first_chunk_mut::<SMALL_PREFIX>()) {
        *prefix = [a, b, c, d, short];
    }
    true
}

/// Appends the frame of a successful answer without sidecars: what [`put_small_frame`] would append with that header, put
/// together at once. False = the call's id is too long for that, nothing is appended. `body` must append `body_len` bytes.
pub(crate) fn put_answer_frame(
    out: &mut Vec<u8>,
    call_id: i32,
    body_len: usize,
    body: impl FnOnce(&mut Vec<u8>),
) -> bool {
    let (Some(id), Some(size)) = (ShortVarint::of(call_id), ShortVarint::of(body_len)) else { return false };
    // Two tags, the id, and a flag that is false.
    let header_len = id.len.saturating_add(3);
    let len = header_len.saturating_add(1).saturating_add(size.len).saturating_add(body_len);
    let [a, b, c, d] = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    out.extend_from_slice(&[a, b, c, d, u8::try_from(header_len).unwrap_or(0), CALL_ID]);
    id.put(out);
    out.extend_from_slice(&[IS_ERROR, 0]);
    size.put(out);
    body(out);
    true
}

/// Appends the frame of a request without extras: what [`put_small_frame`] would append with that header, put together at
/// once. False = a number or the header is too long for that, nothing is appended.
fn put_request_frame(
    out: &mut Vec<u8>,
    call_id: i32,
    method_field: &[u8],
    timeout_millis: Option<u32>,
    body: &[u8],
) -> bool {
    let (Some(id), Some(millis), Some(size)) =
        (ShortVarint::of(call_id), ShortVarint::of(timeout_millis.unwrap_or(0)), ShortVarint::of(body.len()))
    else {
        return false;
    };
    let timeout_len = if timeout_millis.is_some() { millis.len.saturating_add(1) } else { 0 };
    let header_len = [id.len, method_field.len(), timeout_len].into_iter().fold(1, usize::saturating_add);
    if header_len >= 0x80 {
        return false;
    }
    let len = [header_len, 1, size.len, body.len()].into_iter().fold(0, usize::saturating_add);
    let [a, b, c, d] = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    out.reserve(len.saturating_add(frame::PREFIX).saturating_add(8));
    out.extend_from_slice(&[a, b, c, d, u8::try_from(header_len).unwrap_or(0), REQUEST_CALL_ID]);
    id.put(out);
    out.extend_from_slice(method_field);
    if timeout_millis.is_some() {
        out.push(TIMEOUT_MILLIS);
        millis.put(out);
    }
    size.put(out);
    out.extend_from_slice(body);
    true
}

/// A number of at most 28 bits as a varint.
struct ShortVarint {
    bytes: [u8; 4],
    len: usize,
}

impl ShortVarint {
    fn of(value: impl TryInto<u32>) -> Option<Self> {
        let value: u32 = value.try_into().ok()?;
        let part = |shift: u32| (value >> shift) & 0x7f;
        let len: u32 = match value {
            0..=0x7f => 1,
            0x80..=0x3fff => 2,
            0x4000..=0x1f_ffff => 3,
            0x20_0000..=0x0fff_ffff => 4,
            _ => return None,
        };
        // All bytes but the last have the mark that another follows.
        let marks = 0x0080_8080_u32.checked_shr(32_u32.saturating_sub(len.saturating_mul(8))).unwrap_or(0);
        let bytes = part(0) | (part(7) << 8) | (part(14) << 16) | (part(21) << 24) | marks;
        Some(Self { bytes: bytes.to_le_bytes(), len: usize::try_from(len).ok()? })
    }

    fn put(&self, out: &mut Vec<u8>) {
        // All four, so that there is nothing to choose, and then those that count.
        let end = out.len().saturating_add(self.len);
        out.extend_from_slice(&self.bytes);
        out.truncate(end);
    }
}

/// The tag of a response header's `call_id`.
const CALL_ID: u8 = 1 << 3;

/// The tag of a request header's `call_id`.
const REQUEST_CALL_ID: u8 = 3 << 3;

/// The tag of a request header's `timeout_millis`.
const TIMEOUT_MILLIS: u8 = 10 << 3;

/// The tag of a response header's `is_error`.
const IS_ERROR: u8 = 2 << 3;

/// Length of the frame, and of a header below 128 bytes.
const SMALL_PREFIX: usize = frame::PREFIX + 1;

/// From this size on, a piece is written from where it lies.
pub(crate) const UNCOPIED: usize = 4096;

/// A buffer that grew beyond this is given back when it is empty.
const KEPT: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::header::{RequestHeader, ResponseHeader};
    use proptest::prelude::*;

    #[test]
    fn descriptors_go_one_frame_at_a_time_and_not_behind_their_frame() {
        let descriptor = || vec![Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()))];
        let mut outbox = Outbox::default();
        let push = |outbox: &mut Outbox, size: usize| {
            let start = outbox.end();
            outbox.push_frame(&Bytes::from(vec![1; size]), &[], |_, out| out.push(0)).unwrap();
            start
        };
        push(&mut outbox, 10);
        let first = push(&mut outbox, 20);
        outbox.attach(first, &descriptor());
        push(&mut outbox, 9000);
        let second = push(&mut outbox, 30);
        outbox.attach(second, &descriptor());
        push(&mut outbox, 10);
        outbox.attach(0, &[]);
        let mut sent = Vec::new();
        while outbox.len() > 0 {
            let mut slices = [IoSlice::new(&[]); 8];
            let count = outbox.slices(&mut slices);
            let len: usize = slices[..count].iter().map(|slice| slice.len()).sum();
            sent.push((outbox.descriptors().len(), len as u64));
            outbox.advance(len);
        }
        assert_eq!(sent, [(1, second), (1, outbox.end() - second)]);
        assert!(outbox.descriptors().is_empty());
    }

    proptest! {
        #[test]
        fn an_answer_is_the_same_frame_either_way(
            id in prop_oneof![0..300, 16_000..17_000, 2_000_000..2_200_000, 268_435_400..268_435_456, any::<i32>()],
            len in prop_oneof![0usize..200, 16_000usize..17_000],
        ) {
            let body = |out: &mut Vec<u8>| out.extend(std::iter::repeat_n(7, len));
            let (mut expected, mut seen) = (vec![1], vec![1]);
            let header = |offsets: &[u32], out: &mut Vec<u8>| {
                ResponseHeader::encode_parts(id, Some(false), offsets, out);
            };
            prop_assert!(put_small_frame(&mut expected, len, header, body));
            let short = (0..1 << 28).contains(&id);
            prop_assert_eq!(put_answer_frame(&mut seen, id, len, body), short);
            prop_assert_eq!(seen, if short { expected } else { vec![1] });
        }

        #[test]
        fn a_request_is_the_same_frame_either_way(
            id in prop_oneof![0..300, 16_000..17_000, 268_435_400..268_435_456, any::<i32>()],
            millis in proptest::option::of(prop_oneof![0u32..300, any::<u32>()]),
            names in prop_oneof![1usize..40, 100usize..200],
            len in prop_oneof![0usize..200, 4000usize..4200, 16_000usize..17_000],
        ) {
            let names = "n".repeat(names);
            let body = Body::from(Bytes::from(vec![7; len]));
            let mut field = Vec::new();
            RequestHeader::encode_method(names.as_bytes(), names.as_bytes(), &mut field);
            let header = |offsets: &[u32], out: &mut Vec<u8>| {
                let method = Some((names.as_bytes(), names.as_bytes()));
                let sidecar_offsets = offsets.to_vec();
                RequestHeader { call_id: id, method, timeout_millis: millis, sidecar_offsets, ..Default::default() }
                    .encode(out);
            };
            let (mut expected, mut seen) = (Outbox::default(), Outbox::default());
            expected.push_frame(&body.to_bytes(), &[], header).unwrap();
            seen.push_request(id, &field, millis, &body).unwrap();
            let (mut one, mut other) = (Vec::new(), Vec::new());
            take(&mut expected, usize::MAX, &mut one);
            take(&mut seen, usize::MAX, &mut other);
            prop_assert!(one == other);
            prop_assert_eq!(seen.len(), 0);
        }

        #[test]
        fn what_goes_in_comes_out_in_order_however_it_is_cut(
            sizes in proptest::collection::vec(prop_oneof![0usize..50, 4000usize..9000], 1..8), step in 1usize..5000,
        ) {
            let mut outbox = Outbox::default();
            let mut expected = Vec::new();
            let mut seen = Vec::new();
            for (round, size) in sizes.iter().enumerate() {
                let body = Bytes::from(vec![round as u8; *size]);
                let sidecar = Bytes::from(vec![100 + round as u8; *size]);
                outbox.push_frame(&body, std::slice::from_ref(&sidecar), |offsets, out| out.push(offsets.len() as u8)).unwrap();
                let main = 2 * size;
                let mut frame = ((2 + pb::varint_len(main as u64) + main) as u32).to_be_bytes().to_vec();
                frame.extend([1, 1]);
                pb::put_varint(&mut frame, main as u64);
                expected.extend(frame.iter().chain(&body).chain(&sidecar).copied());
                take(&mut outbox, step, &mut seen);
            }
            while outbox.len() > 0 { take(&mut outbox, step, &mut seen); }
            prop_assert!(seen == expected);
            prop_assert_eq!(outbox.written(), expected.len() as u64);
        }
    }

    fn take(outbox: &mut Outbox, mut step: usize, seen: &mut Vec<u8>) {
        let mut slices = [IoSlice::new(&[]); 3];
        let count = outbox.slices(&mut slices);
        let before = seen.len();
        for slice in &slices[..count] {
            let now = slice.len().min(step);
            seen.extend_from_slice(&slice[..now]);
            step -= now;
        }
        outbox.advance(seen.len() - before);
    }

    #[test]
    fn too_many_sidecars_are_refused_before_anything_is_queued() {
        let mut outbox = Outbox::default();
        let sidecars = vec![Bytes::new(); MAX_SIDECARS + 1];
        let refused = outbox.push_frame(&Bytes::new(), &sidecars, |_, _| ());
        assert_eq!(refused, Err(TooLarge { size: 0, sidecars: MAX_SIDECARS + 1 }));
        assert_eq!(outbox.len(), 0);
    }
}
