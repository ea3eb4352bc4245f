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
