use std::fmt;

use bytes::Bytes;

use crate::wire::pb::{self, Reader, Value, WireError};

/// Why the other side refused or failed a call. A newtype, so that a code of a newer peer survives.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RpcErrorCode(
    /// The number on the wire.
    pub i32,
);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        impl RpcErrorCode {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// The constant's name; `None` for a number that this version does not know.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $($value => Some(stringify!($name)),)* _ => None }
            }
        }
    };
}

codes! {
    /// The handler failed the call, or the user may not call the method.
    ERROR_APPLICATION = 1,
    /// The service has no such method.
    ERROR_NO_SUCH_METHOD = 2,
    /// The server has no such service (and is fully up).
    ERROR_NO_SUCH_SERVICE = 3,
    /// The service's queue is full, or the call waited there past its deadline: try again later.
    ERROR_SERVER_TOO_BUSY = 4,
    /// The body cannot be parsed, lacks required fields, or the call requires unknown features.
    ERROR_INVALID_REQUEST = 5,
    /// The result of this request id is no longer remembered.
    ERROR_REQUEST_STALE = 6,
    /// The server is starting or stopping; in negotiation: it does not know the token's key yet. Try again later.
    ERROR_UNAVAILABLE = 7,
    /// An internal error; also what an absent code means.
    FATAL_UNKNOWN = 10,
    /// The service is shutting down.
    FATAL_SERVER_SHUTTING_DOWN = 11,
    /// Negotiation only: wrong call id.
    FATAL_INVALID_RPC_HEADER = 12,
    /// Negotiation only: the message cannot be parsed.
    FATAL_DESERIALIZING_REQUEST = 13,
    /// Never sent by Kudu.
    FATAL_VERSION_MISMATCH = 14,
    /// Negotiation only: the peer may not connect like this.
    FATAL_UNAUTHORIZED = 15,
    /// Negotiation only: get a new authentication token.
    FATAL_INVALID_AUTHENTICATION_TOKEN = 16,
    /// The tablet server wants a new authorization token.
    ERROR_INVALID_AUTHORIZATION_TOKEN = 17,
    /// Negotiation only: the JWT is refused.
    FATAL_INVALID_JWT = 18,
}

impl fmt::Display for RpcErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {}", self.0),
        }
    }
}

impl fmt::Debug for RpcErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The body of an error frame (`ErrorStatusPB`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteError {
    /// Absent when an extension carries the error; [`code_or_default`](Self::code_or_default) then says FATAL_UNKNOWN.
    pub code: Option<RpcErrorCode>,
    /// A status as text, `Kind: what happened`, e.g. `Not found: service x not registered`.
    pub message: String,
    /// The required features which the service does not know.
    pub unsupported_feature_flags: Vec<u32>,
    /// Extension fields (numbers from 100) as they are on the wire, tags included; empty if none.
    pub extension: Bytes,
}

impl RemoteError {
    /// An error with a code and a text of the form `Kind: what happened`.
    pub fn new(code: RpcErrorCode, message: impl Into<String>) -> Self {
        Self {
            code: Some(code),
            message: message.into(),
            unsupported_feature_flags: Vec::new(),
            extension: Bytes::new(),
        }
    }

    /// ERROR_INVALID_REQUEST for required features that the service lacks.
    pub fn unsupported_features(missing: Vec<u32>) -> Self {
        Self {
            unsupported_feature_flags: missing,
            ..Self::new(RpcErrorCode::ERROR_INVALID_REQUEST, "unsupported feature flags")
        }
    }

    /// An application error whose details are the message `encoded` in extension field `number`; the code stays absent,
    /// as real servers leave it.
    pub fn with_extension(message: impl Into<String>, number: u32, encoded: &[u8]) -> Self {
        let mut extension = Vec::with_capacity(encoded.len().saturating_add(10));
        pb::put_bytes(&mut extension, number, encoded);
        Self {
            code: None,
            message: message.into(),
            unsupported_feature_flags: Vec::new(),
            extension: Bytes::from(extension),
        }
    }

    /// The code, FATAL_UNKNOWN when absent (the enum's first value, as proto2 has it).
    pub fn code_or_default(&self) -> RpcErrorCode {
        self.code.unwrap_or(RpcErrorCode::FATAL_UNKNOWN)
    }

    /// The encoded message in extension field `number` (102: tablet copy), if it is there.
    pub fn extension_field(&self, number: u32) -> Option<Bytes> {
        let mut found = None;
        let mut reader = Reader::new(&self.extension);
        while let Ok(Some((field, value))) = reader.next_field() {
            if let (true, Value::Bytes(bytes)) = (field == number, value) {
                found = Some(self.extension.slice_ref(bytes));
            }
        }
        found
    }

    /// True for the codes that mean "the same server, a little later".
    pub fn is_retriable(&self) -> bool {
        matches!(self.code, Some(RpcErrorCode::ERROR_SERVER_TOO_BUSY | RpcErrorCode::ERROR_UNAVAILABLE))
    }

    /// Appends the encoded `ErrorStatusPB`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        pb::put_bytes(out, 1, self.message.as_bytes());
        if let Some(code) = self.code {
            pb::put_i32(out, 2, code.0);
        }
        for flag in &self.unsupported_feature_flags {
            pb::put_u32(out, 3, *flag);
        }
        out.extend_from_slice(&self.extension);
    }

    /// Decodes an `ErrorStatusPB`; text that is not UTF-8 is mended, unknown fields from 100 are kept.
    ///
    /// # Errors
    /// [`WireError`] if the bytes are no such message or lack the text.
    pub fn decode(bytes: &Bytes) -> Result<Self, WireError> {
        let mut message = None;
        let mut error = Self::new(RpcErrorCode::FATAL_UNKNOWN, String::new());
        error.code = None;
        let mut extension = Vec::new();
        let mut reader = Reader::new(bytes);
        loop {
            let before = reader.rest();
            let Some((field, value)) = reader.next_field()? else { break };
            match (field, value) {
                (1, Value::Bytes(text)) => message = Some(String::from_utf8_lossy(text).into_owned()),
                (2, Value::Varint(code)) => error.code = Some(RpcErrorCode(pb::to_i32(code))),
                (3, value) => pb::read_repeated_u32(value, &mut error.unsupported_feature_flags, usize::MAX)?,
                (100.., _) => {
                    let used = before.len().saturating_sub(reader.rest().len());
                    extension.extend_from_slice(before.get(..used).unwrap_or_default());
                }
                _ => {}
            }
        }
        error.message = message.ok_or(WireError::MissingField("message"))?;
        error.extension = Bytes::from(extension);
        Ok(error)
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(code) = self.code {
            write!(f, " ({code})")?;
        }
        if !self.unsupported_feature_flags.is_empty() {
            write!(f, " {:?}", self.unsupported_feature_flags)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::damage::{damaged, damages};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn errors_survive_the_wire(code in proptest::option::of(-1i32..30), message in ".{0,40}",
                                   flags in proptest::collection::vec(any::<u32>(), 0..4), extend: bool) {
            let mut error = RemoteError::with_extension(message, 102, b"\x08\x01");
            error.code = code.map(RpcErrorCode);
            error.unsupported_feature_flags = flags;
            if !extend { error.extension = Bytes::new(); }
            let mut bytes = Vec::new();
            error.encode(&mut bytes);
            prop_assert_eq!(RemoteError::decode(&Bytes::from(bytes)).unwrap(), error);
        }

        #[test]
        fn what_is_read_of_damaged_bytes_is_written_and_read_again(
            message in ".{0,40}",
            flags in proptest::collection::vec(any::<u32>(), 0..4),
            damages in damages(),
        ) {
            let mut error = RemoteError::with_extension(message, 102, b"\x08\x01");
            error.code = Some(RpcErrorCode(7));
            error.unsupported_feature_flags = flags;
            let mut bytes = Vec::new();
            error.encode(&mut bytes);
            if let Ok(read) = RemoteError::decode(&Bytes::from(damaged(bytes, &damages))) {
                let mut again = Vec::new();
                read.encode(&mut again);
                prop_assert_eq!(RemoteError::decode(&Bytes::from(again)).unwrap(), read);
            }
        }
    }

    #[test]
    fn an_extension_is_found_by_its_number() {
        let error = RemoteError::with_extension("No such session", 102, b"abc");
        assert_eq!(error.extension_field(102).as_deref(), Some(&b"abc"[..]));
        assert_eq!(error.extension_field(101), None);
        assert_eq!(error.code_or_default(), RpcErrorCode::FATAL_UNKNOWN);
    }
}
