//! The bytes of a segment: its header and the frame of a record.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

use std::hash::{BuildHasher, RandomState};

use super::entry::Pieces;
use super::error::Problem;

/// The newest format that is known.
pub(crate) const VERSION: u32 = 1;
/// Bytes of a segment's header.
pub(crate) const HEADER: usize = 40;
/// Bytes before the body of a record.
pub(crate) const FRAME: usize = 20;

const MAGIC: &[u8; 8] = b"NYALALOG";

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Whose log it is: the CRC-32C of the owner's id.
    pub(crate) owner: u32,
    /// From 1.
    pub(crate) number: u64,
    /// The number of its first entry.
    pub(crate) first: u64,
    /// Where the checksums of its records start: nobody who does not see the file can write a cell that looks like a record.
    pub(crate) salt: u32,
}

/// A header that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHeader {
    Problem(Problem),
    Newer(u32),
}

impl Header {
    pub(crate) fn new(owner: &str, number: u64, first: u64) -> Self {
        let salt = RandomState::new().hash_one(number) as u32;
        Self { owner: owner_of(owner), number, first, salt }
    }

    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let parts: [&[u8]; 6] = [
            MAGIC,
            &VERSION.to_le_bytes(),
            &self.owner.to_le_bytes(),
            &self.number.to_le_bytes(),
            &self.first.to_le_bytes(),
            &self.salt.to_le_bytes(),
        ];
        let body = parts.concat();
        let crc = crc32c::crc32c(&body).to_le_bytes();
        bytes.iter_mut().zip(body.iter().chain(&crc)).for_each(|(to, from)| *to = *from);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        let header = bytes.first_chunk::<HEADER>().ok_or(BadHeader::Problem(Problem::NoSegment))?;
        if !header.starts_with(MAGIC) {
            return Err(BadHeader::Problem(Problem::NoSegment));
        }
        let version = u32_at(header, 8);
        if version > VERSION {
            return Err(BadHeader::Newer(version));
        }
        let (body, crc) = header.split_at(HEADER.saturating_sub(4));
        if crc32c::crc32c(body).to_le_bytes() != crc {
            return Err(BadHeader::Problem(Problem::Header));
        }
        let (owner, salt) = (u32_at(header, 12), u32_at(header, 32));
        Ok(Self { owner, number: u64_at(header, 16), first: u64_at(header, 24), salt })
    }
}

/// The frame of a record of `entries`, whose first has the number `first`; behind it each entry follows its length (u32).
pub(crate) fn frame(salt: u32, first: u64, entries: &[Pieces]) -> [u8; FRAME] {
    let length = entries.iter().fold(0_usize, |sum, entry| sum.saturating_add(entry.len()).saturating_add(4));
    let mut frame = [0; FRAME];
    let mut put = |at: usize, bytes: &[u8]| {
        frame.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
    };
    put(0, &(length as u32).to_le_bytes());
    put(8, &first.to_le_bytes());
    put(16, &(entries.len() as u32).to_le_bytes());
    let mut crc = frame_crc(salt, &frame);
    for entry in entries {
        crc = crc32c::crc32c_append(crc, &(entry.len() as u32).to_le_bytes());
        crc = entry.slices().fold(crc, crc32c::crc32c_append);
    }
    frame.iter_mut().skip(4).zip(crc.to_le_bytes()).for_each(|(to, from)| *to = from);
    frame
}

/// The checksum so far: of everything in a frame but the checksum.
pub(crate) fn frame_crc(salt: u32, frame: &[u8; FRAME]) -> u32 {
    let (length, rest) = frame.split_at(4);
    let (_, rest) = rest.split_at(4);
    crc32c::crc32c_append(crc32c::crc32c_append(salt, length), rest)
}

pub(crate) fn owner_of(id: &str) -> u32 {
    crc32c::crc32c(id.as_bytes())
}

/// The name of a segment's file.
pub(crate) fn name(number: u64) -> String {
    format!("{number:016}.log")
}

/// The number in the name of a segment's file.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log").filter(|digits| digits.len() == 16)?;
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// 0 behind the end; callers have checked the length.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

/// 0 behind the end; callers have checked the length.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_no_changed_bit_goes_unnoticed() {
        let header = Header::new("tablet", 7, 123);
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header));
        for bit in 0..HEADER * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&changed).is_err(), "bit {bit}");
        }
        (0..HEADER).for_each(|len| assert!(Header::decode(&bytes[..len]).is_err()));
        assert_eq!((number_of(&name(7)), number_of("7.log")), (Some(7), None));
    }
}
