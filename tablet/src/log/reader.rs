//! The records of one segment, one after the other.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

use super::error::Problem;
use super::segment::{self, FRAME, HEADER};

/// Reads the records behind a segment's header.
#[derive(Clone, Debug)]
pub(crate) struct Records<'a> {
    bytes: &'a [u8],
    offset: usize,
    salt: u32,
    /// The number of the next entry.
    next: u64,
}

/// A record that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) offset: usize,
    pub(crate) first: u64,
    pub(crate) entries: Vec<&'a [u8]>,
}

/// Where reading ended before the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(crate) offset: usize,
    pub(crate) problem: Problem,
    /// Nothing whole follows: the last write was cut off.
    pub(crate) is_tail: bool,
}

impl<'a> Records<'a> {
    pub(crate) fn new(bytes: &'a [u8], salt: u32, first: u64) -> Self {
        Self { bytes, offset: HEADER, salt, next: first }
    }

    /// The number of the entry behind the last that was read.
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    pub(crate) fn next_record(&mut self) -> Option<Result<Record<'a>, Bad>> {
        let offset = self.offset;
        if offset >= self.bytes.len() {
            return None;
        }
        Some(match self.whole(offset) {
            Ok((first, entries, end)) if first == self.next => {
                self.offset = end;
                self.next = self.next.saturating_add(entries.len() as u64);
                Ok(Record { offset, first, entries })
            }
            Ok((found, ..)) => {
                Err(Bad { offset, problem: Problem::Gap { expected: self.next, found }, is_tail: false })
            }
            Err(problem) => Err(Bad { offset, problem, is_tail: !self.is_followed(offset) }),
        })
    }

    /// The record at an offset, if its checksum agrees: the number of its first entry, its entries, its end.
    fn whole(&self, offset: usize) -> Result<(u64, Vec<&'a [u8]>, usize), Problem> {
        let rest = self.bytes.get(offset..).unwrap_or_default();
        let (frame, rest) = rest.split_first_chunk::<FRAME>().ok_or(Problem::Cut)?;
        let (length, count) = (segment::u32_at(frame, 0) as usize, segment::u32_at(frame, 16));
        let body = rest.get(..length).ok_or(Problem::Cut)?;
        let crc = crc32c::crc32c_append(segment::frame_crc(self.salt, frame), body);
        if crc != segment::u32_at(frame, 4) {
            return Err(Problem::Checksum);
        }
        let entries = split(body).filter(|entries| entries.len() == count as usize);
        let end = offset.saturating_add(FRAME).saturating_add(length);
        Ok((segment::u64_at(frame, 8), entries.ok_or(Problem::Checksum)?, end))
    }

    /// Whether a whole record starts anywhere behind `bad`.
    fn is_followed(&self, bad: usize) -> bool {
        let most = self.next.saturating_add(self.bytes.len() as u64);
        (bad.saturating_add(1)..self.bytes.len()).any(|offset| {
            // Cheap, and never true for nearly all offsets.
            let first = segment::u64_at(self.bytes, offset.saturating_add(8));
            (self.next..most).contains(&first) && self.whole(offset).is_ok()
        })
    }
}

fn split(mut body: &[u8]) -> Option<Vec<&[u8]>> {
    let mut entries = Vec::new();
    while let Some((length, rest)) = body.split_first_chunk() {
        let (entry, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        entries.push(entry);
        body = rest;
    }
    body.is_empty().then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SALT: u32 = 0xdead;

    fn record(first: u64, entries: &[Vec<u8>]) -> Vec<u8> {
        salted(SALT, first, entries)
    }

    fn salted(salt: u32, first: u64, entries: &[Vec<u8>]) -> Vec<u8> {
        let pieces: Vec<_> = entries.iter().cloned().map(Into::into).collect();
        let mut bytes = segment::frame(salt, first, &pieces).to_vec();
        for entry in entries {
            bytes.extend_from_slice(&(entry.len() as u32).to_le_bytes());
            bytes.extend_from_slice(entry);
        }
        bytes
    }

    /// A segment of these records, and where each of them ends.
    fn segment(records: &[Vec<Vec<u8>>]) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends, mut next) = (vec![0; HEADER], vec![HEADER], 5);
        for entries in records {
            bytes.extend(record(next, entries));
            ends.push(bytes.len());
            next += entries.len() as u64;
        }
        (bytes, ends)
    }

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<Bad>) {
        let (mut records, mut read) = (Records::new(bytes, SALT, 5), Vec::new());
        loop {
            match records.next_record() {
                None => return (read, None),
                Some(Err(bad)) => return (read, Some(bad)),
                Some(Ok(record)) => read.extend(record.entries.iter().map(|entry| entry.to_vec())),
            }
        }
    }

    fn records() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
        let entry = proptest::collection::vec(any::<u8>(), 0..20);
        proptest::collection::vec(proptest::collection::vec(entry, 1..4), 1..5)
    }

    proptest! {
        #[test]
        fn a_segment_cut_anywhere_gives_its_whole_records_and_a_tail(records in records()) {
            let (bytes, ends) = segment(&records);
            for length in HEADER..=bytes.len() {
                let whole = ends.iter().filter(|end| **end <= length).count() - 1;
                let (got, bad) = read(&bytes[..length]);
                prop_assert_eq!(got, records[..whole].concat());
                match bad {
                    None => prop_assert_eq!(length, ends[whole]),
                    Some(bad) => prop_assert_eq!((bad.offset, bad.is_tail), (ends[whole], true)),
                }
            }
        }

        #[test]
        fn a_changed_bit_is_found_and_is_no_tail_unless_it_is_in_the_last_record(
            records in records(), bit in any::<u32>()
        ) {
            let (mut bytes, ends) = segment(&records);
            let bit = HEADER * 8 + bit as usize % ((bytes.len() - HEADER) * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let hit = ends.iter().filter(|end| **end <= bit / 8).count() - 1;
            let (got, bad) = read(&bytes);
            prop_assert_eq!(got, records[..hit].concat());
            let bad = bad.unwrap();
            prop_assert_eq!((bad.offset, bad.is_tail), (ends[hit], hit + 1 == records.len()));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            read(&bytes);
        }
    }

    #[test]
    fn a_cell_that_looks_like_a_record_makes_no_torn_tail_a_damaged_log() {
        for (salt, is_tail) in [(0, true), (SALT, false)] {
            let (mut bytes, _) = segment(&[vec![salted(salt, 6, &[b"x".to_vec()])]]);
            // Whoever writes the cell does not know the salt.
            bytes.extend_from_slice(b"more of the last write");
            bytes[HEADER + 4] ^= 1;
            assert_eq!(read(&bytes).1.map(|bad| bad.is_tail), Some(is_tail), "salt {salt}");
        }
    }

    #[test]
    fn a_missing_record_is_a_gap() {
        let (mut bytes, _) = segment(&[vec![b"a".to_vec()]]);
        bytes.extend(record(7, &[b"c".to_vec()]));
        let bad = read(&bytes).1.unwrap();
        assert_eq!((bad.problem, bad.is_tail), (Problem::Gap { expected: 6, found: 7 }, false));
    }
}
