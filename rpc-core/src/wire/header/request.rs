use crate::call::RequestId;
use crate::wire::limits::{MAX_FEATURE_FLAGS, MAX_SIDECARS};
use crate::wire::pb::{self, Reader, Value, WireError};

/// `RequestHeader` (client to server), borrowed from the frame.
///
/// | number | field | |
/// |---|---|---|
/// | 3 | `call_id` int32 | required |
/// | 6 | `remote_method` {1 service, 2 method} | absent in negotiation |
/// | 10 | `timeout_millis` uint32 | absent or 0 = no deadline |
/// | 11 | `required_feature_flags` uint32, repeated | |
/// | 15 | `request_id` {1 client, 2 seq, 3 first incomplete, 4 attempt} | |
/// | 16 | `sidecar_offsets` uint32, repeated | |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// Chosen by the client; -33 while negotiating.
    pub call_id: i32,
    /// Service and method name, as bytes: not all peers check that they are UTF-8.
    pub method: Option<(&'a [u8], &'a [u8])>,
    /// What is left of the client's deadline, in milliseconds.
    pub timeout_millis: Option<u32>,
    /// At most [`MAX_FEATURE_FLAGS`].
    pub required_feature_flags: Vec<u32>,
    /// Present on calls that are to run exactly once.
    pub request_id: Option<RequestIdRef<'a>>,
    /// At most [`MAX_SIDECARS`]; not yet checked against `main`.
    pub sidecar_offsets: Vec<u32>,
}

/// [`RequestId`], borrowed from the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestIdRef<'a> {
    /// Bytes: not all peers check that they are UTF-8.
    pub client_id: &'a [u8],
    /// See [`RequestId::seq_no`].
    pub seq_no: i64,
    /// See [`RequestId::first_incomplete_seq_no`].
    pub first_incomplete_seq_no: i64,
    /// See [`RequestId::attempt_no`].
    pub attempt_no: i64,
}

impl RequestIdRef<'_> {
    /// Copies it out of the frame; a client id that is not UTF-8 is mended.
    pub fn to_owned(self) -> RequestId {
        RequestId {
            client_id: String::from_utf8_lossy(self.client_id).into_owned(),
            seq_no: self.seq_no,
            first_incomplete_seq_no: self.first_incomplete_seq_no,
            attempt_no: self.attempt_no,
        }
    }
}

impl<'a> From<&'a RequestId> for RequestIdRef<'a> {
    fn from(id: &'a RequestId) -> Self {
        Self {
            client_id: id.client_id.as_bytes(),
            seq_no: id.seq_no,
            first_incomplete_seq_no: id.first_incomplete_seq_no,
            attempt_no: id.attempt_no,
        }
    }
}

impl<'a> RequestHeader<'a> {
    /// Decodes a header. Unknown fields are skipped, repeated numbers may be packed, of a single field given twice the
    /// last counts (messages merge).
    ///
    /// # Errors
    /// [`WireError`] if the bytes are no message, lack a required field, or hold too many numbers.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut header = Self::default();
        let mut call_id = None;
        let mut method: Option<PartialMethod<'a>> = None;
        let mut request_id: Option<PartialId<'a>> = None;
        let mut reader = Reader::new(bytes);
        while let Some((field, value)) = reader.next_field()? {
            match (field, value) {
                (3, Value::Varint(id)) => call_id = Some(pb::to_i32(id)),
                (6, Value::Bytes(message)) => method.get_or_insert_default().merge(message)?,
                (10, Value::Varint(millis)) => header.timeout_millis = Some(pb::to_u32(millis)),
                (11, value) => {
                    pb::read_repeated_u32(value, &mut header.required_feature_flags, MAX_FEATURE_FLAGS)?;
                }
                (15, Value::Bytes(message)) => request_id.get_or_insert_default().merge(message)?,
                (16, value) => pb::read_repeated_u32(value, &mut header.sidecar_offsets, MAX_SIDECARS)?,
                _ => {}
            }
        }
        header.call_id = call_id.ok_or(WireError::MissingField("call_id"))?;
        header.method = method.map(PartialMethod::whole).transpose()?;
        header.request_id = request_id.map(PartialId::whole).transpose()?;
        Ok(header)
    }

    pub(crate) fn encode_method(service: &[u8], method: &[u8], out: &mut Vec<u8>) {
        pb::put_varint(out, (6 << 3) | 2);
        pb::put_varint(out, bytes_len(service).saturating_add(bytes_len(method)));
        pb::put_bytes(out, 1, service);
        pb::put_bytes(out, 2, method);
    }

    /// Appends the header, fields in number order.
    pub fn encode(&self, out: &mut Vec<u8>) {
        pb::put_i32(out, 3, self.call_id);
        if let Some((service, method)) = self.method {
            Self::encode_method(service, method, out);
        }
        if let Some(millis) = self.timeout_millis {
            pb::put_u32(out, 10, millis);
        }
        for flag in &self.required_feature_flags {
            pb::put_u32(out, 11, *flag);
        }
        if let Some(id) = self.request_id {
            let numbers = [id.seq_no, id.first_incomplete_seq_no, id.attempt_no];
            let len = numbers.iter().fold(bytes_len(id.client_id), |len, number| {
                len.saturating_add(1).saturating_add(pb::varint_len(number.cast_unsigned()) as u64)
            });
            pb::put_varint(out, (15 << 3) | 2);
            pb::put_varint(out, len);
            pb::put_bytes(out, 1, id.client_id);
            pb::put_i64(out, 2, id.seq_no);
            pb::put_i64(out, 3, id.first_incomplete_seq_no);
            pb::put_i64(out, 4, id.attempt_no);
        }
        for offset in &self.sidecar_offsets {
            pb::put_u32(out, 16, *offset);
        }
    }
}

/// Length of a bytes field with a one-byte tag.
fn bytes_len(value: &[u8]) -> u64 {
    let len = value.len() as u64;
    len.saturating_add(1).saturating_add(pb::varint_len(len) as u64)
}

#[derive(Default)]
struct PartialMethod<'a> {
    service: Option<&'a [u8]>,
    method: Option<&'a [u8]>,
}

impl<'a> PartialMethod<'a> {
    fn merge(&mut self, message: &'a [u8]) -> Result<(), WireError> {
        let mut reader = Reader::new(message);
        while let Some((field, value)) = reader.next_field()? {
            match (field, value) {
                (1, Value::Bytes(name)) => self.service = Some(name),
                (2, Value::Bytes(name)) => self.method = Some(name),
                _ => {}
            }
        }
        Ok(())
    }

    fn whole(self) -> Result<(&'a [u8], &'a [u8]), WireError> {
        let service = self.service.ok_or(WireError::MissingField("remote_method.service_name"))?;
        Ok((service, self.method.ok_or(WireError::MissingField("remote_method.method_name"))?))
    }
}

#[derive(Default)]
struct PartialId<'a> {
    client_id: Option<&'a [u8]>,
    seq_no: Option<i64>,
    first_incomplete: Option<i64>,
    attempt_no: Option<i64>,
}

impl<'a> PartialId<'a> {
    fn merge(&mut self, message: &'a [u8]) -> Result<(), WireError> {
        let mut reader = Reader::new(message);
        while let Some((field, value)) = reader.next_field()? {
            match (field, value) {
                (1, Value::Bytes(id)) => self.client_id = Some(id),
                (2, Value::Varint(number)) => self.seq_no = Some(pb::to_i64(number)),
                (3, Value::Varint(number)) => self.first_incomplete = Some(pb::to_i64(number)),
                (4, Value::Varint(number)) => self.attempt_no = Some(pb::to_i64(number)),
                _ => {}
            }
        }
        Ok(())
    }

    fn whole(self) -> Result<RequestIdRef<'a>, WireError> {
        Ok(RequestIdRef {
            client_id: self.client_id.ok_or(WireError::MissingField("request_id.client_id"))?,
            seq_no: self.seq_no.ok_or(WireError::MissingField("request_id.seq_no"))?,
            first_incomplete_seq_no: self
                .first_incomplete
                .ok_or(WireError::MissingField("request_id.first_incomplete_seq_no"))?,
            attempt_no: self.attempt_no.ok_or(WireError::MissingField("request_id.attempt_no"))?,
        })
    }
}
