//! Bytes on their way in: small frames are cut out of the read buffer without a copy, the pieces of big ones go into
//! buffers of their own.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};

use super::aligned::AlignedBuffer;
use crate::wire::frame::{self, FrameError, Parts};
use crate::wire::sidecar;

/// One whole frame.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// The frame, if `main` is in it; else the header alone.
    bytes: Bytes,
    header: Range<usize>,
    main: Main,
}

#[derive(Debug)]
enum Main {
    /// From here to the frame's end; not yet split, offsets are not yet checked.
    From(usize),
    /// Split and checked; each sidecar is 64-byte aligned.
    Pieces(Bytes, Vec<Bytes>),
    /// Read and forgotten, by [`Plan::Discard`].
    Discarded,
}

impl Incoming {
    fn big(header: Bytes, main: Main) -> Self {
        Self { header: 0..header.len(), bytes: header, main }
    }

    pub(crate) fn header(&self) -> &[u8] {
        self.bytes.get(self.header.clone()).unwrap_or_default()
    }

    pub(crate) fn is_discarded(&self) -> bool {
        matches!(self.main, Main::Discarded)
    }

    /// All of `main`, for frames that have no sidecars.
    pub(crate) fn into_body(self) -> Bytes {
        match self.main {
            Main::From(start) => {
                let mut bytes = self.bytes;
                bytes.advance(start.min(bytes.len()));
                bytes
            }
            Main::Pieces(body, _) => body,
            Main::Discarded => Bytes::new(),
        }
    }

    /// Body and sidecars.
    pub(crate) fn split(self, offsets: &[u32]) -> Result<(Bytes, Vec<Bytes>), FrameError> {
        match self.main {
            Main::From(_) if offsets.is_empty() => Ok((self.into_body(), Vec::new())),
            Main::From(_) => Ok(sidecar::split(self.into_body(), offsets)?),
            Main::Pieces(body, sidecars) => Ok((body, sidecars)),
            Main::Discarded => Ok((Bytes::new(), Vec::new())),
        }
    }
}

/// What to do with the main part of a big frame.
pub(crate) enum Plan {
    /// Keep it; sidecars start at these offsets.
    Keep(Vec<u32>),
    /// Nobody waits for it: read it and forget it.
    Discard,
}

#[derive(Debug)]
pub(crate) struct Inbox {
    limit: u32,
    eager: usize,
    big: Option<Big>,
}

#[derive(Debug)]
enum Big {
    Keep { header: Bytes, done: Vec<Bytes>, pieces: VecDeque<AlignedBuffer> },
    Discard { header: Bytes, left: usize },
}

impl Inbox {
    /// Frames may be `limit` bytes long; for a piece that is announced, `eager` bytes of memory are taken at once.
    pub(crate) fn new(limit: u32, eager: usize) -> Self {
        Self { limit, eager, big: None }
    }

    /// From the next frame on, frames may be `limit` bytes long.
    pub(crate) fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Is a big frame under way? (Of small ones the read buffer holds the beginning.)
    pub(crate) fn is_partial(&self) -> bool {
        self.big.is_some()
    }

    /// The next whole frame out of `buffer`; `None` = more bytes are needed. `plan` is asked about big frames, as soon
    /// as their header is there.
    pub(crate) fn next(
        &mut self,
        buffer: &mut BytesMut,
        plan: impl Fn(&[u8]) -> Result<Plan, FrameError>,
    ) -> Result<Option<Incoming>, FrameError> {
        loop {
            if let Some(big) = self.big.take() {
                self.big = match big {
                    Big::Discard { header, left } => {
                        let count = left.min(buffer.len());
                        buffer.advance(count);
                        if count == left {
                            return Ok(Some(Incoming::big(header, Main::Discarded)));
                        }
                        Some(Big::Discard { header, left: left.saturating_sub(count) })
                    }
                    Big::Keep { header, mut done, mut pieces } => {
                        while let Some(piece) = pieces.front_mut() {
                            let count = piece.missing().min(buffer.len());
                            piece.fill(buffer.get(..count).unwrap_or_default());
                            buffer.advance(count);
                            if piece.missing() > 0 {
                                break;
                            }
                            done.extend(pieces.pop_front().map(AlignedBuffer::freeze));
                        }
                        if pieces.is_empty() {
                            // Body first, then the sidecars.
                            let sidecars = done.split_off(1.min(done.len()));
                            let body = done.pop().unwrap_or_default();
                            return Ok(Some(Incoming::big(header, Main::Pieces(body, sidecars))));
                        }
                        Some(Big::Keep { header, done, pieces })
                    }
                };
                return Ok(None);
            }
            let Some(total) = frame::length(buffer, self.limit)? else { return Ok(None) };
            if total < BIG || buffer.len() >= total {
                let parts = frame::parts(buffer, total)?;
                if buffer.len() < total {
                    return Ok(None);
                }
                let Parts { header, main } = parts.ok_or(FrameError::Parts)?;
                let bytes = buffer.split_to(total).freeze();
                return Ok(Some(Incoming { bytes, header, main: Main::From(main.start) }));
            }
            let Some(parts) = frame::parts(buffer, total)? else { return Ok(None) };
            let main_len = parts.main.len();
            let mut front = buffer.split_to(parts.main.start.min(buffer.len()));
            let header = front.split_off(parts.header.start.min(front.len()));
            // A copy, so that the header of a call in progress does not pin the read buffer.
            let header = Bytes::copy_from_slice(header.get(..parts.header.len()).unwrap_or_default());
            self.big = Some(match plan(&header)? {
                Plan::Discard => Big::Discard { header, left: main_len },
                Plan::Keep(offsets) => {
                    sidecar::check(&offsets, main_len)?;
                    let starts = offsets.iter().map(|offset| usize::try_from(*offset).unwrap_or(usize::MAX));
                    let ends = starts.clone().chain([main_len]);
                    let pieces = [0].into_iter().chain(starts).zip(ends);
                    let pieces =
                        pieces.map(|(start, end)| AlignedBuffer::new(end.saturating_sub(start), self.eager));
                    Big::Keep { header, done: Vec::new(), pieces: pieces.collect() }
                }
            });
        }
    }

    /// Where the next bytes may be read to directly, once the read buffer is empty; `None` = into the read buffer.
    pub(crate) fn direct(&mut self) -> Option<&mut [u8]> {
        let Some(Big::Keep { pieces, .. }) = &mut self.big else { return None };
        let piece = pieces.front_mut()?;
        // A system call for a few bytes costs more than their copy.
        if piece.missing() < DIRECT { None } else { Some(piece.room()) }
    }

    /// `count` bytes were read to [`direct`](Self::direct).
    pub(crate) fn direct_filled(&mut self, count: usize) {
        if let Some(Big::Keep { pieces, .. }) = &mut self.big
            && let Some(piece) = pieces.front_mut()
        {
            piece.advance(count);
        }
    }
}

/// Frames from this size on are taken apart while they arrive.
pub(crate) const BIG: usize = 64 << 10;

/// Pieces with less than this missing are read through the read buffer.
const DIRECT: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::outbox::Outbox;
    use std::io::IoSlice;

    fn wire(bodies: &[(usize, Vec<usize>)]) -> (Vec<u8>, Vec<Vec<u32>>) {
        let (mut out, mut all_offsets) = (Vec::new(), Vec::new());
        for (body, sidecars) in bodies {
            let mut outbox = Outbox::default();
            let piece = |len: &usize| (0..*len).map(|i| (i * 7 + len) as u8).collect::<Bytes>();
            let sidecars: Vec<Bytes> = sidecars.iter().map(piece).collect();
            outbox
                .push_frame(&piece(body), &sidecars, |offsets, header| {
                    all_offsets.push(offsets.to_vec());
                    header.push(all_offsets.len() as u8 - 1);
                })
                .unwrap();
            let mut slices = [IoSlice::new(&[]); 16];
            let count = outbox.slices(&mut slices);
            slices[..count].iter().for_each(|slice| out.extend_from_slice(slice));
        }
        (out, all_offsets)
    }

    #[test]
    fn big_and_small_frames_come_out_alike_however_they_are_cut() {
        let frames = [
            (10, vec![]),
            (100_000, vec![]),
            (5, vec![70_000, 0, 3, 90_000]),
            (0, vec![1, 2]),
            (7, vec![80_000]),
        ];
        let (bytes, offsets) = wire(&frames);
        for (cut, direct) in [(1, true), (997, true), (997, false), (65_536, true), (usize::MAX, false)] {
            let (mut inbox, mut buffer, mut seen, mut rest) =
                (Inbox::new(1 << 20, 1 << 15), BytesMut::new(), 0, &bytes[..]);
            while !rest.is_empty() || !buffer.is_empty() {
                let mut count = cut.min(rest.len());
                match inbox.direct().filter(|_| direct && buffer.is_empty()) {
                    Some(room) => {
                        count = count.min(room.len());
                        room[..count].copy_from_slice(&rest[..count]);
                        inbox.direct_filled(count);
                    }
                    None => buffer.extend_from_slice(&rest[..count]),
                }
                rest = &rest[count..];
                while let Some(frame) = inbox
                    .next(&mut buffer, |header| Ok(Plan::Keep(offsets[header[0] as usize].clone())))
                    .unwrap()
                {
                    assert_eq!(frame.header()[0] as usize, seen);
                    let (body, sidecars) = frame.split(&offsets[seen]).unwrap();
                    let lens: Vec<usize> = sidecars.iter().map(Bytes::len).collect();
                    assert_eq!((body.len(), lens), frames[seen].clone());
                    for piece in sidecars.iter().chain([&body]) {
                        assert!(piece.iter().enumerate().all(|(i, b)| *b == (i * 7 + piece.len()) as u8));
                        let big = sidecars.iter().chain([&body]).map(Bytes::len).sum::<usize>() >= BIG;
                        let whole = cut == usize::MAX;
                        assert!(
                            !big || whole || piece.is_empty() || (piece.as_ptr() as usize).is_multiple_of(64)
                        );
                    }
                    seen += 1;
                }
            }
            assert_eq!(seen, frames.len());
            assert!(!inbox.is_partial());
        }
    }

    #[test]
    fn a_discarded_frame_takes_no_memory_and_leaves_the_next_alone() {
        let (bytes, _) = wire(&[(500_000, vec![]), (3, vec![])]);
        let (mut inbox, mut buffer, mut seen) = (Inbox::new(1 << 20, 1 << 15), BytesMut::new(), 0);
        for piece in bytes.chunks(1000) {
            buffer.extend_from_slice(piece);
            while let Some(frame) = inbox.next(&mut buffer, |_| Ok(Plan::Discard)).unwrap() {
                match seen {
                    0 => assert!(frame.is_discarded()),
                    _ => assert_eq!(frame.split(&[]).unwrap().0.len(), 3),
                }
                seen += 1;
            }
            assert!(buffer.len() < 2000 && inbox.direct().is_none());
        }
        assert_eq!(seen, 2);
    }
}
