//! Keys encoded so that bytes compare as rows do.
//!
//! Integers, and whatever is stored as one: sign bit flipped, big endian. Variable-length columns: raw if last,
//! else `00` becomes `00 01` and `00 00` ends them.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

use crate::{Cell, DataType, PartialRow, Schema};

/// Encodes the primary key of a row; `cells` are in the schema's column order, more than the key may be given.
pub fn encode_key(schema: &Schema, cells: &[Cell<'_>]) -> Result<Vec<u8>, KeyError> {
    let mut out = Vec::with_capacity(16);
    encode_key_into(schema, cells, &mut out)?;
    Ok(out)
}

/// As [`encode_key`], appending to a buffer that is used again. On an error the buffer holds part of a key.
pub fn encode_key_into(schema: &Schema, cells: &[Cell<'_>], out: &mut Vec<u8>) -> Result<(), KeyError> {
    let last = schema.key_columns().wrapping_sub(1);
    for (index, column) in schema.columns().iter().take(schema.key_columns()).enumerate() {
        let Some(Cell::Value(raw)) = cells.get(index) else {
            return Err(KeyError::Missing { column: column.name.clone() });
        };
        if !column.data_type.fits(raw) {
            return Err(KeyError::Width { column: column.name.clone() });
        }
        encode_component(column.data_type, raw, index == last, out);
    }
    Ok(())
}

/// Appends one component. `raw` must be a cell of the type ([`DataType::fits`]).
pub fn encode_component(data_type: DataType, raw: &[u8], last: bool, out: &mut Vec<u8>) {
    if !data_type.is_varlen() {
        let start = out.len();
        // Of the usual widths they are turned round at once.
        match (<&[u8; 8]>::try_from(raw), <&[u8; 4]>::try_from(raw)) {
            (Ok(raw), _) => out.extend_from_slice(&u64::from_le_bytes(*raw).to_be_bytes()),
            (_, Ok(raw)) => out.extend_from_slice(&u32::from_le_bytes(*raw).to_be_bytes()),
            _ => out.extend(raw.iter().rev()),
        }
        if let Some(sign) = out.get_mut(start) {
            *sign ^= 0x80;
        }
    } else if last {
        out.extend_from_slice(raw);
    } else {
        let mut rest = raw;
        while let Some(zero) = rest.iter().position(|byte| *byte == 0) {
            let (head, tail) = rest.split_at(zero);
            out.extend_from_slice(head);
            out.extend_from_slice(&[0, 1]);
            rest = tail.get(1..).unwrap_or_default();
        }
        out.extend_from_slice(rest);
        out.extend_from_slice(&[0, 0]);
    }
}

/// Takes one component off the front of `encoded` and appends its raw cell to `raw`.
pub(crate) fn decode_component(
    data_type: DataType,
    last: bool,
    encoded: &mut &[u8],
    raw: &mut Vec<u8>,
) -> Option<()> {
    if !data_type.is_varlen() {
        let (head, tail) = encoded.split_at_checked(data_type.cell_size())?;
        raw.extend(head.iter().rev());
        *raw.last_mut()? ^= 0x80;
        *encoded = tail;
    } else if last {
        raw.extend_from_slice(encoded);
        *encoded = &[];
    } else {
        loop {
            let zero = encoded.iter().position(|byte| *byte == 0)?;
            let (head, tail) = encoded.split_at_checked(zero)?;
            raw.extend_from_slice(head);
            let (mark, tail) = tail.split_at_checked(2)?;
            *encoded = tail;
            match mark {
                [0, 0] => break,
                [0, 1] => raw.push(0),
                _ => return None,
            }
        }
    }
    Some(())
}

/// Decodes an encoded primary key: a row with exactly the key columns set.
pub fn decode_key(schema: &Schema, encoded: &[u8]) -> Result<PartialRow, KeyError> {
    let mut row = PartialRow::new(schema);
    let mut rest = encoded;
    let mut raw = Vec::new();
    for (index, column) in schema.columns().iter().take(schema.key_columns()).enumerate() {
        let malformed = || KeyError::Malformed { column: column.name.clone() };
        raw.clear();
        let last = index.wrapping_add(1) == schema.key_columns();
        decode_component(column.data_type, last, &mut rest, &mut raw).ok_or_else(malformed)?;
        row.set_raw_at(index, &raw).ok_or_else(malformed)?;
    }
    if rest.is_empty() { Ok(row) } else { Err(KeyError::TrailingBytes { bytes: rest.len() }) }
}

/// A key that cannot be encoded or decoded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A key column is unset or NULL.
    #[error("no value for key column '{column}'")]
    Missing {
        /// Name of the column.
        column: String,
    },
    /// The raw cell is not as wide as its type.
    #[error("the cell of key column '{column}' has the wrong width")]
    Width {
        /// Name of the column.
        column: String,
    },
    /// The encoded key ends early, or is not what the column's type encodes to.
    #[error("the encoded key is cut or malformed at column '{column}'")]
    Malformed {
        /// Name of the column.
        column: String,
    },
    /// The encoded key goes on behind its last column.
    #[error("{bytes} bytes behind the end of the encoded key")]
    TrailingBytes {
        /// How many bytes are too many.
        bytes: usize,
    },
}

impl KeyError {
    /// Always false: the key itself is wrong.
    pub const fn is_retriable(&self) -> bool {
        false
    }
}
