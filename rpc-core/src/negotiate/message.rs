//! `NegotiatePB` and the connection context. Written by hand because of two rules of proto2 that prost drops: a missing
//! `step` is an error, and so is a step of unknown value.

use bytes::Bytes;

use super::features::{AuthnType, RpcFeature, Step};
use crate::wire::pb::{self, Reader, Value, WireError};

/// One step of negotiation, either direction. Which fields count depends on the step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NegotiateMessage {
    /// Field 1, in [`Step::Negotiate`].
    pub supported_features: Vec<RpcFeature>,
    /// Field 2, required.
    pub step: Step,
    /// Field 3: SASL data.
    pub token: Option<Bytes>,
    /// Field 4: the server's list, or the one mechanism which the client chose.
    pub sasl_mechanisms: Vec<String>,
    /// Field 5: TLS records.
    pub tls_handshake: Option<Bytes>,
    /// Field 6, in [`Step::SaslSuccess`].
    pub channel_bindings: Option<Bytes>,
    /// Field 7: all that the client can do, or the one that the server chose; empty means [`AuthnType::Sasl`].
    pub authn_types: Vec<AuthnType>,
    /// Field 8: an encoded `SignedTokenPB`.
    pub authn_token: Option<Bytes>,
    /// Field 9, in [`Step::SaslSuccess`].
    pub nonce: Option<Bytes>,
    /// Field 10: an encoded `JwtRawPB`.
    pub jwt_raw: Option<Bytes>,
}

impl NegotiateMessage {
    /// A message that has nothing but a step.
    pub fn new(step: Step) -> Self {
        Self {
            supported_features: Vec::new(),
            step,
            token: None,
            sasl_mechanisms: Vec::new(),
            tls_handshake: None,
            channel_bindings: None,
            authn_types: Vec::new(),
            authn_token: None,
            nonce: None,
            jwt_raw: None,
        }
    }

    /// Decodes a message; its byte fields share `bytes`.
    ///
    /// # Errors
    /// [`WireError`]; `MissingField("step")` also if the step's value is unknown.
    pub fn decode(bytes: &Bytes) -> Result<Self, WireError> {
        let mut message = Self::new(Step::Unknown);
        let mut step = None;
        let mut reader = Reader::new(bytes);
        while let Some((field, value)) = reader.next_field()? {
            match (field, value) {
                (1, value) => {
                    let mut numbers = Vec::new();
                    pb::read_repeated_u32(value, &mut numbers, MAX_LIST)?;
                    let features = numbers.iter().map(|number| RpcFeature(number.cast_signed()));
                    message.supported_features.extend(features);
                    check_count(message.supported_features.len())?;
                }
                (2, Value::Varint(number)) => step = Step::from_number(pb::to_i32(number)).or(step),
                (3, Value::Bytes(data)) => message.token = Some(bytes.slice_ref(data)),
                (4, Value::Bytes(data)) => {
                    message.sasl_mechanisms.push(decode_mechanism(data)?);
                    check_count(message.sasl_mechanisms.len())?;
                }
                (5, Value::Bytes(data)) => message.tls_handshake = Some(bytes.slice_ref(data)),
                (6, Value::Bytes(data)) => message.channel_bindings = Some(bytes.slice_ref(data)),
                (7, Value::Bytes(data)) => {
                    message.authn_types.push(decode_authn_type(data)?);
                    check_count(message.authn_types.len())?;
                }
                (8, Value::Bytes(data)) => message.authn_token = Some(bytes.slice_ref(data)),
                (9, Value::Bytes(data)) => message.nonce = Some(bytes.slice_ref(data)),
                (10, Value::Bytes(data)) => message.jwt_raw = Some(bytes.slice_ref(data)),
                _ => {}
            }
        }
        message.step = step.ok_or(WireError::MissingField("step"))?;
        Ok(message)
    }

    /// Appends the message, fields in number order.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for feature in &self.supported_features {
            pb::put_i32(out, 1, feature.0);
        }
        pb::put_i32(out, 2, self.step.number());
        put_some(out, 3, self.token.as_ref());
        for mechanism in &self.sasl_mechanisms {
            let mut message = Vec::with_capacity(mechanism.len().saturating_add(6));
            pb::put_bytes(&mut message, 2, mechanism.as_bytes());
            pb::put_bytes(out, 4, &message);
        }
        put_some(out, 5, self.tls_handshake.as_ref());
        put_some(out, 6, self.channel_bindings.as_ref());
        for kind in &self.authn_types {
            let mut message = Vec::with_capacity(2);
            if let Some(field) = kind.field() {
                pb::put_bytes(&mut message, field, &[]);
            }
            pb::put_bytes(out, 7, &message);
        }
        put_some(out, 8, self.authn_token.as_ref());
        put_some(out, 9, self.nonce.as_ref());
        put_some(out, 10, self.jwt_raw.as_ref());
    }

    /// The encoded message alone.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        self.encode(&mut out);
        out
    }

    /// Is `feature` among the supported ones?
    pub fn supports(&self, feature: RpcFeature) -> bool {
        self.supported_features.contains(&feature)
    }
}

/// Appends an encoded `ConnectionContextPB` as our client sends it: the user as `real_user`.
pub fn encode_context(user: &str, out: &mut Vec<u8>) {
    let mut info = Vec::with_capacity(user.len().saturating_add(6));
    pb::put_bytes(&mut info, 2, user.as_bytes());
    pb::put_bytes(out, 2, &info);
}

/// Checks that `bytes` are a `ConnectionContextPB`. What it says of the user does not count.
///
/// # Errors
/// [`WireError`] if they are not, or user information without `real_user` is there.
pub fn check_context(bytes: &[u8]) -> Result<(), WireError> {
    let (mut info, mut real_user) = (false, false);
    let mut reader = Reader::new(bytes);
    while let Some((field, value)) = reader.next_field()? {
        if let (2, Value::Bytes(data)) = (field, value) {
            info = true;
            let mut reader = Reader::new(data);
            while let Some((field, value)) = reader.next_field()? {
                real_user |= field == 2 && matches!(value, Value::Bytes(_));
            }
        }
    }
    if info && !real_user { Err(WireError::MissingField("DEPRECATED_user_info.real_user")) } else { Ok(()) }
}

fn decode_mechanism(data: &[u8]) -> Result<String, WireError> {
    let mut name = None;
    let mut reader = Reader::new(data);
    while let Some((field, value)) = reader.next_field()? {
        if let (2, Value::Bytes(text)) = (field, value) {
            name = Some(String::from_utf8_lossy(text).into_owned());
        }
    }
    name.ok_or(WireError::MissingField("sasl_mechanisms.mechanism"))
}

fn decode_authn_type(data: &[u8]) -> Result<AuthnType, WireError> {
    let mut kind = AuthnType::Unknown;
    let mut reader = Reader::new(data);
    while let Some((field, value)) = reader.next_field()? {
        match (AuthnType::from_field(field), value) {
            (AuthnType::Unknown, _) => {}
            (known, Value::Bytes(_)) => kind = known,
            _ => {}
        }
    }
    Ok(kind)
}

fn put_some(out: &mut Vec<u8>, field: u32, value: Option<&Bytes>) {
    if let Some(value) = value {
        pb::put_bytes(out, field, value);
    }
}

fn check_count(count: usize) -> Result<(), WireError> {
    if count > MAX_LIST { Err(WireError::TooMany(MAX_LIST)) } else { Ok(()) }
}

/// Nobody has that many features or mechanisms; a peer that is not yet known gets no more memory than this.
const MAX_LIST: usize = 1_000;
