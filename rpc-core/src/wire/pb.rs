//! The few rules of the protobuf encoding that headers need, borrowed and without allocation.

use thiserror::Error;

/// Bytes that are no protobuf message, or not the wanted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The message ends in the middle of a field.
    #[error("ends in the middle of a field")]
    Truncated,
    /// A varint is longer than its type allows.
    #[error("holds a varint that is too long")]
    BadVarint,
    /// A tag has field number 0, an unknown wire type, or ends a group that never began.
    #[error("holds an impossible tag")]
    BadTag,
    /// A required field is absent.
    #[error("missing fields: {0}")]
    MissingField(&'static str),
    /// A repeated field has more entries than we are ready to hold.
    #[error("holds a repeated field of more than {0} entries")]
    TooMany(usize),
}

/// One field's content as the wire type gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire types 1 and 5 and groups: nothing in our headers, so only skipped.
    Other,
    /// Wire type 2: string, bytes, message, packed numbers.
    Bytes(&'a [u8]),
}

/// Walks the fields of one message.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first field.
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// What is not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next field's number and content; `None` at the end.
    ///
    /// # Errors
    /// [`WireError`] if what follows is no field; the reader must not be used after that.
    #[inline]
    pub fn next_field(&mut self) -> Result<Option<(u32, Value<'a>)>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint32()?;
        let (field, wire_type) = (tag >> 3, tag & 7);
        if field == 0 {
            return Err(WireError::BadTag);
        }
        let value = match wire_type {
            0 => Value::Varint(self.varint64()?),
            1 => self.skip(8)?,
            2 => {
                let len = usize::try_from(self.varint32()?).map_err(|_| WireError::Truncated)?;
                Value::Bytes(self.take(len)?)
            }
            3 => self.skip_group(field)?,
            5 => self.skip(4)?,
            _ => return Err(WireError::BadTag),
        };
        Ok(Some((field, value)))
    }

    /// An unsigned LEB128 number of at most 32 bits.
    ///
    /// # Errors
    /// [`WireError::Truncated`] or [`WireError::BadVarint`].
    #[inline]
    pub fn varint32(&mut self) -> Result<u32, WireError> {
        if let Some((byte, rest)) = self.rest.split_first()
            && *byte < 0x80
        {
            self.rest = rest;
            return Ok(u32::from(*byte));
        }
        self.long_varint32()
    }

    fn long_varint32(&mut self) -> Result<u32, WireError> {
        let (value, used) = varint32(self.rest)?.ok_or(WireError::Truncated)?;
        self.take(used)?;
        Ok(value)
    }

    #[inline]
    fn varint64(&mut self) -> Result<u64, WireError> {
        if let Some((byte, rest)) = self.rest.split_first()
            && *byte < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        self.long_varint64()
    }

    fn long_varint64(&mut self) -> Result<u64, WireError> {
        let mut value = 0u64;
        for (index, byte) in self.rest.iter().take(10).enumerate() {
            let shift = u32::try_from(index).unwrap_or(0).saturating_mul(7);
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                self.take(index.saturating_add(1))?;
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 { WireError::Truncated } else { WireError::BadVarint })
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn skip(&mut self, len: usize) -> Result<Value<'a>, WireError> {
        self.take(len)?;
        Ok(Value::Other)
    }

    /// Groups nest, so this counts instead of recursing: no stack is to be had for hostile bytes.
    fn skip_group(&mut self, field: u32) -> Result<Value<'a>, WireError> {
        let mut open = vec![field];
        while let Some(innermost) = open.last().copied() {
            let tag = self.varint32()?;
            let (field, wire_type) = (tag >> 3, tag & 7);
            match wire_type {
                _ if field == 0 => return Err(WireError::BadTag),
                0 => drop(self.varint64()?),
                1 => drop(self.take(8)?),
                2 => {
                    let len = usize::try_from(self.varint32()?).map_err(|_| WireError::Truncated)?;
                    self.take(len)?;
                }
                3 if open.len() < 100 => open.push(field),
                4 if field == innermost => drop(open.pop()),
                5 => drop(self.take(4)?),
                _ => return Err(WireError::BadTag),
            }
        }
        Ok(Value::Other)
    }
}

/// Takes an unsigned LEB128 number of at most 28 bits, as almost all are, off the front of `bytes`; `None` = it is longer, or
/// cut off.
#[inline]
pub(crate) fn short_varint(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (mut value, mut rest) = (0u32, bytes);
    for shift in [0, 7, 14, 21] {
        let (byte, behind) = rest.split_first()?;
        value |= u32::from(byte & 0x7f) << shift;
        rest = behind;
        if *byte < 0x80 {
            return Some((value, rest));
        }
    }
    None
}

/// Reads an unsigned LEB128 number of at most 32 bits: `(value, bytes used)`, or `None` if more bytes are needed.
///
/// # Errors
/// [`WireError::BadVarint`] if it is longer than 5 bytes or does not fit 32 bits.
#[inline]
pub fn varint32(bytes: &[u8]) -> Result<Option<(u32, usize)>, WireError> {
    match bytes.first() {
        Some(byte) if *byte < 0x80 => Ok(Some((u32::from(*byte), 1))),
        _ => long_varint32(bytes),
    }
}

fn long_varint32(bytes: &[u8]) -> Result<Option<(u32, usize)>, WireError> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(5).enumerate() {
        let shift = u32::try_from(index).unwrap_or(0).saturating_mul(7);
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            let value = u32::try_from(value).map_err(|_| WireError::BadVarint)?;
            return Ok(Some((value, index.saturating_add(1))));
        }
    }
    if bytes.len() < 5 { Ok(None) } else { Err(WireError::BadVarint) }
}

/// Collects a repeated uint32, packed or not; other wire types are unknown fields and skipped.
///
/// # Errors
/// [`WireError::TooMany`] beyond `limit` entries, else what the numbers give.
pub fn read_repeated_u32(value: Value<'_>, into: &mut Vec<u32>, limit: usize) -> Result<(), WireError> {
    match value {
        Value::Varint(number) => {
            if into.len() >= limit {
                return Err(WireError::TooMany(limit));
            }
            into.push(to_u32(number));
        }
        Value::Bytes(packed) => {
            let mut reader = Reader::new(packed);
            while !reader.rest.is_empty() {
                if into.len() >= limit {
                    return Err(WireError::TooMany(limit));
                }
                into.push(to_u32(reader.varint64()?));
            }
        }
        Value::Other => {}
    }
    Ok(())
}

/// A varint as proto2's int32 and enums: the low 32 bits.
#[inline]
pub fn to_i32(varint: u64) -> i32 {
    to_u32(varint).cast_signed()
}

/// A varint as proto2's uint32: the low 32 bits.
#[inline]
pub fn to_u32(varint: u64) -> u32 {
    u32::try_from(varint & u64::from(u32::MAX)).unwrap_or(0)
}

/// A varint as proto2's int64.
pub fn to_i64(varint: u64) -> i64 {
    varint.cast_signed()
}

/// Appends an unsigned LEB128 number.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, value: u64) {
    match u8::try_from(value) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => put_long_varint(out, value),
    }
}

fn put_long_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or(0));
}

/// How many bytes [`put_varint`] appends: 1 to 10.
pub fn varint_len(value: u64) -> usize {
    let bits = 64u32.saturating_sub((value | 1).leading_zeros());
    usize::try_from(bits.div_ceil(7)).unwrap_or(10)
}

/// Appends a field of wire type 0.
#[inline]
pub fn put_u64(out: &mut Vec<u8>, field: u32, value: u64) {
    put_varint(out, u64::from(field) << 3);
    put_varint(out, value);
}

/// Appends a uint32 field.
#[inline]
pub fn put_u32(out: &mut Vec<u8>, field: u32, value: u32) {
    put_u64(out, field, u64::from(value));
}

/// Appends an int32 or enum field; negative values take 10 bytes, as proto2 has it.
#[inline]
pub fn put_i32(out: &mut Vec<u8>, field: u32, value: i32) {
    put_i64(out, field, i64::from(value));
}

/// Appends an int64 field.
#[inline]
pub fn put_i64(out: &mut Vec<u8>, field: u32, value: i64) {
    put_u64(out, field, value.cast_unsigned());
}

/// Appends a string, bytes or message field.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    put_varint(out, (u64::from(field) << 3) | 2);
    put_varint(out, u64::try_from(value.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(value);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::wire::damage::{damaged, damages};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_survive(value: u64) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            prop_assert_eq!(bytes.len(), varint_len(value));
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.varint64().unwrap(), value);
            prop_assert!(reader.rest().is_empty());
            prop_assert_eq!(varint32(&bytes).ok().flatten().map(|(v, _)| u64::from(v)),
                            u32::try_from(value).ok().map(u64::from));
        }

        #[test]
        fn damaged_fields_are_read_within_their_bytes_or_refused(
            fields in proptest::collection::vec(
                (1_u32..5000, any::<u64>(), proptest::collection::vec(any::<u8>(), 0..40)), 1..6),
            damages in damages(),
        ) {
            let mut bytes = Vec::new();
            for (field, number, content) in &fields {
                put_varint(&mut bytes, u64::from(*field) << 3);
                put_varint(&mut bytes, *number);
                put_bytes(&mut bytes, *field, content);
                // A group of one field.
                put_varint(&mut bytes, (u64::from(*field) << 3) | 3);
                put_bytes(&mut bytes, 1, content);
                put_varint(&mut bytes, (u64::from(*field) << 3) | 4);
            }
            let bytes = damaged(bytes, &damages);
            let mut reader = Reader::new(&bytes);
            for _ in 0..=bytes.len() {
                let before = reader.rest().len();
                let Ok(Some((field, _))) = reader.next_field() else { return Ok(()) };
                prop_assert!(field > 0 && reader.rest().len() < before);
            }
            prop_assert!(false, "more fields than bytes");
        }
    }

    #[test]
    fn groups_are_skipped_whole() {
        let bytes = [0x0b, 0x10, 1, 0x13, 0x14, 0x0d, 1, 2, 3, 4, 0x0c, 0x10, 7];
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.next_field(), Ok(Some((1, Value::Other))));
        assert_eq!(reader.next_field(), Ok(Some((2, Value::Varint(7)))));
        assert_eq!(reader.next_field(), Ok(None));
    }

    #[test]
    fn a_group_may_not_end_another() {
        assert_eq!(Reader::new(&[0x0b, 0x14]).next_field(), Err(WireError::BadTag));
        assert_eq!(Reader::new(&[0x0c]).next_field(), Err(WireError::BadTag));
        assert_eq!(Reader::new(&[0x0b; 5000]).next_field(), Err(WireError::BadTag));
    }

    #[test]
    fn a_varint_of_more_than_32_bits_is_no_length() {
        assert_eq!(varint32(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Ok(Some((u32::MAX, 5))));
        assert_eq!(varint32(&[0xff, 0xff, 0xff, 0xff, 0x1f]), Err(WireError::BadVarint));
        assert_eq!(varint32(&[0x80; 5]), Err(WireError::BadVarint));
        assert_eq!(varint32(&[0x80; 4]), Ok(None));
    }
}
