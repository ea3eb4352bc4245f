//! Protobuf's wire format, as far as it takes to find the fields of a message.

/// A field as it stands in the bytes.
pub(super) struct Field<'a> {
    pub(super) number: u32,
    pub(super) value: Value<'a>,
}

pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64,
    Fixed32,
    Bytes(&'a [u8]),
    /// What stands between a group's two tags.
    Group(&'a [u8]),
}

/// The fields of a message, one after the other.
pub(super) struct Fields<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn next(&mut self) -> Result<Option<Field<'a>>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire_type) = self.tag()?;
        let value = match wire_type {
            3 => Value::Group(self.group(number)?),
            4 => return Err(Malformed),
            _ => self.scalar(wire_type)?,
        };
        Ok(Some(Field { number, value }))
    }

    /// Number and wire type.
    fn tag(&mut self) -> Result<(u32, u64), Malformed> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| Malformed)?;
        if number == 0 || number > 0x1fff_ffff { Err(Malformed) } else { Ok((number, tag & 7)) }
    }

    fn scalar(&mut self, wire_type: u64) -> Result<Value<'a>, Malformed> {
        match wire_type {
            0 => self.varint().map(Value::Varint),
            1 => self.take(8).map(|_| Value::Fixed64),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                self.take(length).map(Value::Bytes)
            }
            5 => self.take(4).map(|_| Value::Fixed32),
            _ => Err(Malformed),
        }
    }

    /// The content of a group whose first tag has been read. Groups inside are skipped by counting, not by recursion.
    fn group(&mut self, number: u32) -> Result<&'a [u8], Malformed> {
        let content = self.rest;
        let mut open = vec![number];
        loop {
            let before = self.rest.len();
            let (number, wire_type) = self.tag()?;
            match wire_type {
                3 if open.len() < GROUPS => open.push(number),
                4 if open.pop() == Some(number) => {}
                3 | 4 => return Err(Malformed),
                _ => {
                    self.scalar(wire_type)?;
                }
            }
            if open.is_empty() {
                let length = content.len().checked_sub(before).ok_or(Malformed)?;
                return content.get(..length).ok_or(Malformed);
            }
        }
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0_u32..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(Malformed)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if shift == 63 && byte > 1 {
                return Err(Malformed);
            }
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }
}

/// The bytes are not protobuf, or nest deeper than prost allows.
pub(super) struct Malformed;

/// How many groups may lie in one another where they are skipped: prost's own limit.
const GROUPS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kudu::master::PingRequestPb;
    use proptest::prelude::*;
    use prost::Message;

    /// Bytes that prost would accept and the walker would give up on could carry an incomplete message past it. For a
    /// message without fields, both only have to find their way.
    fn agrees_with_prost(bytes: &[u8]) -> bool {
        let mut fields = Fields { rest: bytes };
        let walked = loop {
            match fields.next() {
                Ok(Some(_)) => {}
                Ok(None) => break true,
                Err(Malformed) => break false,
            }
        };
        walked == PingRequestPb::decode(bytes).is_ok()
    }

    /// A field with any wire type, mostly well-formed.
    fn field() -> impl Strategy<Value = Vec<u8>> {
        (any::<u32>(), 0_u32..8, proptest::collection::vec(any::<u8>(), 0..12)).prop_map(
            |(number, wire_type, bytes)| {
                let mut field = Vec::new();
                prost::encoding::encode_varint(u64::from(number >> 3 << 3 | wire_type), &mut field);
                match wire_type {
                    0 => prost::encoding::encode_varint(u64::from(number), &mut field),
                    1 => field.extend_from_slice(&[0; 8]),
                    2 => {
                        prost::encoding::encode_varint(bytes.len() as u64, &mut field);
                        field.extend_from_slice(&bytes);
                    }
                    3 => prost::encoding::encode_varint(u64::from(number >> 3 << 3 | 4), &mut field),
                    5 => field.extend_from_slice(&[0; 4]),
                    _ => {}
                }
                field
            },
        )
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_protobuf_to_both_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
            prop_assert!(agrees_with_prost(&bytes));
        }

        #[test]
        fn fields_are_protobuf_to_both_or_none_wherever_they_are_cut(
            fields in proptest::collection::vec(field(), 0..4),
        ) {
            let bytes = fields.concat();
            for end in 0..=bytes.len() {
                prop_assert!(agrees_with_prost(bytes.get(..end).unwrap_or_default()), "cut at {}", end);
            }
        }
    }

    #[test]
    fn nested_groups_are_protobuf_to_both_or_none() {
        for depth in 1..=102 {
            let bytes = [vec![0x0b; depth], vec![0x0c; depth]].concat();
            assert!(agrees_with_prost(&bytes), "{depth} groups");
        }
        assert!(agrees_with_prost(&[0x0b, 0x13, 0x0c, 0x14]), "crossed groups");
    }

    #[test]
    fn long_varints_are_protobuf_to_both_or_none() {
        for last in [0x00, 0x01, 0x02, 0x7f, 0x80] {
            let value = [&[0xff; 9][..], &[last]].concat();
            assert!(agrees_with_prost(&[&[0x08][..], &value].concat()), "value ending with {last:#x}");
            assert!(agrees_with_prost(&value), "tag ending with {last:#x}");
        }
    }
}
