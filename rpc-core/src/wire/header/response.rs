use crate::wire::limits::MAX_SIDECARS;
use crate::wire::pb::{self, Reader, Value, WireError};

/// `ResponseHeader` (server to client).
///
/// | number | field | |
/// |---|---|---|
/// | 1 | `call_id` int32 | required, copied from the request |
/// | 2 | `is_error` bool | the body is an `ErrorStatusPB`; real servers write it even when false, but not in negotiation |
/// | 3 | `sidecar_offsets` uint32, repeated | |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseHeader {
    /// Copied from the request; -33 while negotiating.
    pub call_id: i32,
    /// `None` = not on the wire, which means false.
    pub is_error: Option<bool>,
    /// At most [`MAX_SIDECARS`]; not yet checked against `main`.
    pub sidecar_offsets: Vec<u32>,
}

impl ResponseHeader {
    /// Decodes a header; see [`RequestHeader::decode`](super::RequestHeader::decode).
    ///
    /// # Errors
    /// [`WireError`] if the bytes are no message, lack `call_id`, or hold too many offsets.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        if let Some(usual) = Self::usual(bytes) {
            return Ok(usual);
        }
        let mut header = Self::default();
        let mut call_id = None;
        let mut reader = Reader::new(bytes);
        while let Some((field, value)) = reader.next_field()? {
            match (field, value) {
                (1, Value::Varint(id)) => call_id = Some(pb::to_i32(id)),
                (2, Value::Varint(flag)) => header.is_error = Some(flag != 0),
                (3, value) => pb::read_repeated_u32(value, &mut header.sidecar_offsets, MAX_SIDECARS)?,
                _ => {}
            }
        }
        header.call_id = call_id.ok_or(WireError::MissingField("call_id"))?;
        Ok(header)
    }

    /// Reads a header as almost all are: an id of at most 28 bits and a flag. `None` = it has to be decoded.
    #[inline]
    pub(crate) fn usual(bytes: &[u8]) -> Option<Self> {
        let ([0x08, id @ ..], [0x10, flag @ (0 | 1)]) = bytes.split_last_chunk::<2>()? else { return None };
        let (last, more) = id.split_last()?;
        if id.len() > 4 || *last >= 0x80 || more.iter().any(|byte| *byte < 0x80) {
            return None;
        }
        let call_id = id.iter().rev().fold(0i32, |id, byte| (id << 7) | i32::from(byte & 0x7f));
        Some(Self { call_id, is_error: Some(*flag == 1), sidecar_offsets: Vec::new() })
    }

    /// Appends the header, fields in number order.
    pub fn encode(&self, out: &mut Vec<u8>) {
        Self::encode_parts(self.call_id, self.is_error, &self.sidecar_offsets, out);
    }

    pub(crate) fn encode_parts(
        call_id: i32,
        is_error: Option<bool>,
        sidecar_offsets: &[u32],
        out: &mut Vec<u8>,
    ) {
        pb::put_i32(out, 1, call_id);
        if let Some(is_error) = is_error {
            pb::put_u32(out, 2, u32::from(is_error));
        }
        for offset in sidecar_offsets {
            pb::put_u32(out, 3, *offset);
        }
    }
}
