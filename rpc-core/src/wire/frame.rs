//! Frames: a length, a header, and `main`.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use thiserror::Error;

use super::pb::{self, WireError};
use super::sidecar::SidecarError;

/// The length prefix in bytes.
pub const PREFIX: usize = 4;

/// A frame that breaks the connection: the receiver closes and sends nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Length 0.
    #[error("a frame of length 0")]
    Empty,
    /// Longer than the receiver's bound.
    #[error(
        "a frame of {len} bytes is over the limit of {limit} (--rpc_max_message_size; 131072 at most during negotiation)"
    )]
    TooLarge {
        /// Value of the length prefix.
        len: u32,
        /// The bound on length + prefix.
        limit: u32,
    },
    /// The bytes are an HTTP response: the other side is no Kudu server.
    #[error("it looks like an HTTP server")]
    Http,
    /// Header or `main` does not end where the frame ends.
    #[error("the parts of a frame do not add up to its length")]
    Parts,
    /// The header is no header.
    #[error("a header that {0}")]
    Header(#[from] WireError),
    /// A request without `remote_method`.
    #[error("a request that names no method")]
    NoMethod,
    /// Sidecar offsets that do not fit.
    #[error(transparent)]
    Sidecar(#[from] SidecarError),
}

/// Where header and `main` lie inside a frame, in bytes from the length prefix on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// The header.
    pub header: Range<usize>,
    /// Body and sidecars.
    pub main: Range<usize>,
}

/// Reads the length prefix at the start of `bytes`: the frame's whole length, prefix included; `None` = not yet there.
///
/// # Errors
/// [`FrameError::Empty`], or [`FrameError::TooLarge`] if that is more than `limit`.
pub fn length(bytes: &[u8], limit: u32) -> Result<Option<usize>, FrameError> {
    let Some(prefix) = bytes.first_chunk::<PREFIX>() else { return Ok(None) };
    let len = u32::from_be_bytes(*prefix);
    if len == 0 {
        return Err(FrameError::Empty);
    }
    match len.checked_add(4) {
        Some(total) if total <= limit => Ok(Some(usize::try_from(total).unwrap_or(usize::MAX))),
        _ if prefix == b"HTTP" => Err(FrameError::Http),
        _ => Err(FrameError::TooLarge { len, limit }),
    }
}

/// Finds the parts in the beginning of a frame of `total` bytes: `None` = the bytes do not reach `main` yet.
///
/// # Errors
/// [`FrameError::Parts`] as soon as it is certain that the parts do not add up to `total`.
pub fn parts(bytes: &[u8], total: usize) -> Result<Option<Parts>, FrameError> {
    let within = |range: Option<Range<usize>>| range.filter(|r| r.end <= total).ok_or(FrameError::Parts);
    let section = |at: usize| -> Result<Option<Range<usize>>, FrameError> {
        let rest = bytes.get(at..bytes.len().min(total)).unwrap_or_default();
        let Some((len, used)) = pb::varint32(rest).map_err(|_| FrameError::Parts)? else {
            // A varint that the frame's end cuts off never gets complete.
            return if bytes.len() >= total { Err(FrameError::Parts) } else { Ok(None) };
        };
        let start = at.saturating_add(used);
        let end = usize::try_from(len).ok().and_then(|len| start.checked_add(len));
        within(end.map(|end| start..end)).map(Some)
    };
    let Some(header) = section(PREFIX)? else { return Ok(None) };
    let Some(main) = section(header.end)? else { return Ok(None) };
    if main.end != total {
        return Err(FrameError::Parts);
    }
    Ok(Some(Parts { header, main }))
}

/// Looks at the frame at the start of `bytes`: if it is whole, shorter than `limit` and has a header of less than 128 bytes,
/// its header, its `main`, and its length, prefix included. `None` = it has to be looked at closely.
#[inline]
pub(crate) fn small(bytes: &[u8], limit: usize) -> Option<(&[u8], &[u8], usize)> {
    let (prefix, rest) = bytes.split_first_chunk::<PREFIX>()?;
    let len = usize::try_from(u32::from_be_bytes(*prefix)).ok().filter(|len| *len < limit)?;
    let (header_len, rest) = rest.get(..len)?.split_first()?;
    if *header_len >= 0x80 {
        return None;
    }
    let (header, rest) = rest.split_at_checked(usize::from(*header_len))?;
    let (main_len, used) = pb::varint32(rest).ok()??;
    let main = rest.get(used..)?;
    (usize::try_from(main_len).ok() == Some(main.len())).then_some((header, main, len.saturating_add(PREFIX)))
}

/// Takes one whole frame off the front of `buffer`, without copying: `(header, main)`, or `None` if it is not complete.
///
/// # Errors
/// As [`length`] and [`parts`].
pub fn take(buffer: &mut BytesMut, limit: u32) -> Result<Option<(Bytes, Bytes)>, FrameError> {
    let Some(total) = length(buffer, limit)? else { return Ok(None) };
    if buffer.len() < total {
        // What is certainly wrong need not be waited for.
        parts(buffer, total)?;
        return Ok(None);
    }
    let Some(parts) = parts(buffer, total)? else { return Err(FrameError::Parts) };
    let frame = buffer.split_to(total).freeze();
    Ok(Some((frame.slice(parts.header), frame.slice(parts.main))))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]
mod tests {
    use super::*;
    use crate::wire::damage::{damaged, damages};
    use proptest::prelude::*;

    const LIMIT: u32 = super::super::limits::DEFAULT_MAX_MESSAGE_SIZE;

    #[test]
    fn the_bound_counts_the_prefix() {
        assert_eq!(length(&52_428_796u32.to_be_bytes(), LIMIT), Ok(Some(52_428_800)));
        let len = 52_428_797u32;
        assert_eq!(length(&len.to_be_bytes(), LIMIT), Err(FrameError::TooLarge { len, limit: LIMIT }));
        assert_eq!(length(&[0; 4], LIMIT), Err(FrameError::Empty));
        assert_eq!(length(&[0; 3], LIMIT), Ok(None));
        assert_eq!(length(b"HTTP/1.1", LIMIT), Err(FrameError::Http));
        assert!(length(&[0xff; 4], u32::MAX).is_err());
    }

    fn frame(header: &[u8], main: &[u8]) -> Vec<u8> {
        let mut payload = Vec::new();
        pb::put_varint(&mut payload, header.len() as u64);
        payload.extend_from_slice(header);
        pb::put_varint(&mut payload, main.len() as u64);
        payload.extend_from_slice(main);
        let mut out = (payload.len() as u32).to_be_bytes().to_vec();
        out.extend_from_slice(&payload);
        out
    }

    proptest! {
        #[test]
        fn a_frame_is_found_only_when_whole(header in proptest::collection::vec(any::<u8>(), 0..200),
                                            main in proptest::collection::vec(any::<u8>(), 0..200)) {
            let bytes = frame(&header, &main);
            for cut in 0..bytes.len() {
                let mut buffer = BytesMut::from(&bytes[..cut]);
                prop_assert_eq!(take(&mut buffer, LIMIT), Ok(None));
                prop_assert_eq!(buffer.len(), cut);
            }
            let mut buffer = BytesMut::from(&bytes[..]);
            buffer.extend_from_slice(b"next");
            let (h, m) = take(&mut buffer, LIMIT).unwrap().unwrap();
            prop_assert_eq!((&h[..], &m[..], &buffer[..]), (&header[..], &main[..], &b"next"[..]));
            let expected = (header.len() < 128 && bytes.len() < 1000).then_some((&header[..], &main[..], bytes.len()));
            let longer = [&bytes[..], b"next"].concat();
            prop_assert_eq!(small(&longer, 1000), expected);
            prop_assert_eq!(small(&bytes[..bytes.len() - 1], 1000), None);
        }

        #[test]
        fn damaged_frames_are_taken_within_their_bounds_or_refused(
            header in proptest::collection::vec(any::<u8>(), 0..200),
            main in proptest::collection::vec(any::<u8>(), 0..200),
            damages in damages(),
        ) {
            let bytes = damaged([frame(&header, &main), frame(&main, &header)].concat(), &damages);
            let mut buffer = BytesMut::from(&bytes[..]);
            // A frame has four bytes of length, and one each for those of its parts.
            for _ in 0..=bytes.len() / 6 {
                let before = buffer.len();
                let Ok(Some((header, main))) = take(&mut buffer, LIMIT) else { return Ok(()) };
                prop_assert!(before - buffer.len() >= 6 + header.len() + main.len());
            }
            prop_assert!(false, "more frames than bytes");
        }
    }

    #[test]
    fn parts_must_end_with_the_frame() {
        let good = frame(b"ab", b"cd");
        for change in [-1i8, 1] {
            let mut bad = good.clone();
            bad[3] = bad[3].wrapping_add_signed(change);
            bad.push(0);
            assert_eq!(take(&mut BytesMut::from(&bad[..]), LIMIT), Err(FrameError::Parts));
        }
    }

    #[test]
    fn a_header_that_cannot_fit_is_refused_before_the_rest_comes() {
        let mut buffer = BytesMut::from(&[0, 0, 0, 9, 100][..]);
        assert_eq!(take(&mut buffer, LIMIT), Err(FrameError::Parts));
    }
}
