//! proto2's required fields, which prost does not check.
//!
//! [`check`] walks the bytes of a message beside the decoder. It looks only at fields that are required or lead to
//! required ones; where the bytes are not protobuf at all it stays silent, since decoding them fails anyway.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod fields;

use fields::{Field, Fields, Malformed, Value};
use std::fmt;

/// The fields of a message type that matter to [`check`], by ascending number. Generated.
#[derive(Debug)]
pub struct MessageTable {
    /// Fields that are required, and message fields below which something is.
    pub fields: &'static [FieldRule],
}

impl MessageTable {
    /// A message that has no required field, neither itself nor in the messages it may hold.
    pub const EMPTY: Self = Self { fields: &[] };
}

/// One field of a [`MessageTable`].
#[derive(Debug)]
pub struct FieldRule {
    /// The field's number.
    pub number: u32,
    /// The field's name in the `.proto` file.
    pub name: &'static str,
    /// Whether a message without it is incomplete.
    pub required: bool,
    /// Whether each occurrence is an element of its own. Occurrences of a singular message are merged.
    pub repeated: bool,
    /// How it travels.
    pub kind: Kind,
}

/// What a field looks like on the wire. Another wire type at its number is an unknown field.
#[derive(Debug)]
pub enum Kind {
    /// bool, and the integers without a fixed width.
    Varint,
    /// Eight bytes.
    Fixed64,
    /// Four bytes.
    Fixed32,
    /// string and bytes.
    Bytes,
    /// An enum, with its known values in ascending order: proto2 treats any other value as an unknown field.
    Enum(&'static [i32]),
    /// A message.
    Message(&'static MessageTable),
    /// A group, proto2's message between two tags.
    Group(&'static MessageTable),
}

/// The required fields that a message lacks. The request is at fault; sending it again changes nothing.
///
/// Prints as Kudu does, e.g. `flag, value` or `schema.columns[0].name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingFields {
    paths: Vec<String>,
}

impl MissingFields {
    /// Paths from the outermost message, never empty: `.` between a message and its field, `[i]` behind a repeated one.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }
}

impl fmt::Display for MissingFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.paths.join(", "))
    }
}

impl std::error::Error for MissingFields {}

/// Looks for required fields that `message`, the wire form of the type that `table` describes, lacks.
///
/// Takes one pass without allocating when all is there. Bytes that are not well-formed protobuf, and nesting deeper
/// than 100 messages, give `Ok`: prost refuses to decode both.
///
/// # Errors
/// [`MissingFields`] with all of them, or about the first hundred if there are more.
pub fn check(table: &MessageTable, message: &[u8]) -> Result<(), MissingFields> {
    let nothing_missing = table.fields.is_empty()
        || is_plainly_complete(table, message)
        || !matches!(is_complete(table, message, DEPTH), Ok(false));
    if nothing_missing {
        return Ok(());
    }
    let mut paths = Vec::new();
    match collect(table, &[message], "", DEPTH, &mut paths) {
        Ok(()) if !paths.is_empty() => Err(MissingFields { paths }),
        _ => Ok(()),
    }
}

/// Whether a message has all required fields, if that is easily seen: its tags and lengths are of one byte each, and no field
/// that it has leads to others. Most small messages are like that.
fn is_plainly_complete(table: &MessageTable, message: &[u8]) -> bool {
    let mut seen = 0_u128;
    let mut rest = message;
    while let Some((tag, behind)) = rest.split_first() {
        let behind = match tag & 7 {
            0 => behind_varint(behind),
            1 => behind.get(8..),
            2 => behind
                .split_first()
                .and_then(|(len, content)| content.get(usize::from(*len)..).filter(|_| *len < 0x80)),
            5 => behind.get(4..),
            _ => None,
        };
        let (8..=0x7f, Some(behind)) = (*tag, behind) else { return false };
        seen |= 1_u128.checked_shl(u32::from(*tag)).unwrap_or(0);
        rest = behind;
    }
    let has = |number: u32, wire_type: u32| {
        let tag = number.checked_mul(8).and_then(|tag| tag.checked_add(wire_type));
        tag.and_then(|tag| seen.checked_shr(tag)).is_some_and(|seen| seen & 1 == 1)
    };
    table.fields.iter().all(|rule| {
        let wire_type = match rule.kind {
            Kind::Varint => 0,
            Kind::Fixed64 => 1,
            Kind::Fixed32 => 5,
            Kind::Bytes => 2,
            // Not all values of an enum count; groups have been left to the close look.
            Kind::Enum(_) | Kind::Group(_) => return !rule.required,
            Kind::Message(_) => return !rule.required && !has(rule.number, 2),
        };
        !rule.required || has(rule.number, wire_type)
    })
}

/// What is behind a number, if that has at most nine bytes.
fn behind_varint(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes;
    for _ in 0..9 {
        let (byte, behind) = rest.split_first()?;
        rest = behind;
        if *byte < 0x80 {
            return Some(rest);
        }
    }
    None
}

/// Whether each message in `message`, taken by itself, has all required fields. Merging occurrences of a singular
/// message can only add fields, so `true` is final and `false` is not.
fn is_complete(table: &MessageTable, message: &[u8], depth: u32) -> Result<bool, Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed)?;
    let mut seen = 0_u64;
    let mut complete = true;
    let mut fields = Fields { rest: message };
    while let Some(field) = fields.next()? {
        let Some((index, rule)) = table.find(&field) else { continue };
        seen |= 1_u64.checked_shl(index).unwrap_or(0);
        if let (Kind::Message(inner) | Kind::Group(inner), Value::Bytes(bytes) | Value::Group(bytes)) =
            (&rule.kind, field.value)
            && !inner.fields.is_empty()
        {
            complete &= is_complete(inner, bytes, depth)?;
        }
    }
    let wanted = (0_u32..).zip(table.fields).filter(|(_, rule)| rule.required);
    // A 65th field does not fit the set: such a message is left to the thorough pass.
    let all =
        wanted.map(|(index, _)| 1_u64.checked_shl(index)).all(|bit| bit.is_some_and(|bit| seen & bit != 0));
    Ok(complete && all)
}

/// Adds the paths of missing fields of a message, given as the parts that are to be merged.
fn collect(
    table: &MessageTable,
    parts: &[&[u8]],
    prefix: &str,
    depth: u32,
    paths: &mut Vec<String>,
) -> Result<(), Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed)?;
    let mut present = vec![false; table.fields.len()];
    for part in parts {
        let mut fields = Fields { rest: part };
        while let Some(field) = fields.next()? {
            let Some((index, _)) = table.find(&field) else { continue };
            if let Some(present) = usize::try_from(index).ok().and_then(|index| present.get_mut(index)) {
                *present = true;
            }
        }
    }
    let rules = || table.fields.iter().zip(&present);
    for (rule, _) in rules().filter(|(rule, present)| rule.required && !**present) {
        paths.push(format!("{prefix}{}", rule.name));
    }
    for (rule, _) in rules().filter(|(_, present)| **present) {
        let (Kind::Message(inner) | Kind::Group(inner)) = &rule.kind else { continue };
        if inner.fields.is_empty() {
            continue;
        }
        let found = parts.iter().flat_map(|part| table.occurrences(rule.number, part));
        if !rule.repeated {
            let merged: Vec<_> = found.take(MERGED).collect();
            collect(inner, &merged, &format!("{prefix}{}.", rule.name), depth, paths)?;
            continue;
        }
        for (index, element) in
            found.enumerate().filter(|(_, e)| !matches!(is_complete(inner, e, depth), Ok(true)))
        {
            if paths.len() >= REPORTED {
                return Ok(());
            }
            collect(inner, &[element], &format!("{prefix}{}[{index}].", rule.name), depth, paths)?;
        }
    }
    Ok(())
}

impl MessageTable {
    /// The rule for a field, with its index, if the field has the wire type and, as an enum, a value that count.
    fn find(&self, field: &Field<'_>) -> Option<(u32, &FieldRule)> {
        let (index, rule) = (0_u32..).zip(self.fields).find(|(_, rule)| rule.number == field.number)?;
        let counts = match (&rule.kind, &field.value) {
            (Kind::Varint, Value::Varint(_))
            | (Kind::Fixed64, Value::Fixed64)
            | (Kind::Fixed32, Value::Fixed32)
            | (Kind::Bytes | Kind::Message(_), Value::Bytes(_))
            | (Kind::Group(_), Value::Group(_)) => true,
            // An enum is the low 32 bits of its varint.
            (Kind::Enum(known), Value::Varint(value)) => known.binary_search(&(*value as i32)).is_ok(),
            _ => false,
        };
        counts.then_some((index, rule))
    }

    /// The contents of a message field, for each time that it stands in `part`, which must be well-formed.
    fn occurrences<'a>(&self, number: u32, part: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let mut fields = Fields { rest: part };
        std::iter::from_fn(move || fields.next().ok().flatten()).filter_map(move |field| {
            let (_, rule) = self.find(&field)?;
            match field.value {
                Value::Bytes(bytes) | Value::Group(bytes) if rule.number == number => Some(bytes),
                _ => None,
            }
        })
    }
}

/// From so many missing fields on no further elements are looked at: a peer must not make us write a book about the
/// millions of empty messages that it sent.
const REPORTED: usize = 100;

/// So many occurrences of one singular message are merged. Nobody sends two.
const MERGED: usize = 1000;

/// How many messages may lie in one another, the outermost included: prost's own limit.
const DEPTH: u32 = 101;
