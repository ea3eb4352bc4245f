//! What the two ends can do: RPC features, and ways to authenticate.

use std::fmt;

/// An RPC feature (`RpcFeatureFlag`). A newtype, so that one of a newer peer survives (and is ignored).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RpcFeature(
    /// The number on the wire.
    pub i32,
);

impl RpcFeature {
    /// The peer checks the required application features of each call.
    pub const APPLICATION_FEATURE_FLAGS: Self = Self(1);
    /// The peer can do TLS inside negotiation. It runs if both ends say so.
    pub const TLS: Self = Self(2);
    /// After TLS the stream goes on in clear. Only if both ends say so: a loopback connection.
    pub const TLS_AUTHENTICATION_ONLY: Self = Self(3);
    /// Our own, offered on unix sockets only: the client reads with room for descriptors, so that a server may attach some to
    /// its answers. Kudu has no such number, and ignores it.
    pub const DESCRIPTORS: Self = Self(20_057);
}

/// A way for a client to show who it is (`AuthenticationTypePB`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuthnType {
    /// A SASL mechanism: PLAIN, or GSSAPI.
    Sasl,
    /// A token which the master signed; needs TLS.
    Token,
    /// A certificate which the cluster's CA signed; needs TLS.
    Certificate,
    /// A JSON web token; needs TLS.
    Jwt,
    /// A kind that is newer than this code.
    Unknown,
}

impl AuthnType {
    /// The message's field number.
    pub(crate) fn field(self) -> Option<u32> {
        match self {
            Self::Sasl => Some(1),
            Self::Token => Some(2),
            Self::Certificate => Some(3),
            Self::Jwt => Some(4),
            Self::Unknown => None,
        }
    }

    pub(crate) fn from_field(field: u32) -> Self {
        match field {
            1 => Self::Sasl,
            2 => Self::Token,
            3 => Self::Certificate,
            4 => Self::Jwt,
            _ => Self::Unknown,
        }
    }
}

/// What a negotiation message is for (`NegotiateStep`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Server: you are in.
    SaslSuccess,
    /// Both: what I can do.
    Negotiate,
    /// Client: mechanism and first token.
    SaslInitiate,
    /// Server: go on.
    SaslChallenge,
    /// Client: the next token.
    SaslResponse,
    /// Both: TLS records.
    TlsHandshake,
    /// Both: authentication by token.
    TokenExchange,
    /// Both: authentication by JWT.
    JwtExchange,
    /// The enum's own "unknown".
    Unknown,
}

impl Step {
    const ALL: [(Self, i32, &str); 9] = [
        (Self::SaslSuccess, 0, "SASL_SUCCESS"),
        (Self::Negotiate, 1, "NEGOTIATE"),
        (Self::SaslInitiate, 2, "SASL_INITIATE"),
        (Self::SaslChallenge, 3, "SASL_CHALLENGE"),
        (Self::SaslResponse, 4, "SASL_RESPONSE"),
        (Self::TlsHandshake, 5, "TLS_HANDSHAKE"),
        (Self::TokenExchange, 6, "TOKEN_EXCHANGE"),
        (Self::JwtExchange, 7, "JWT_EXCHANGE"),
        (Self::Unknown, 999, "UNKNOWN"),
    ];

    /// The number on the wire.
    pub fn number(self) -> i32 {
        Self::ALL.iter().find(|(step, ..)| *step == self).map_or(999, |(_, number, _)| *number)
    }

    /// `None` = a value that proto2 keeps out of the field, so that the field is missing.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.iter().find(|(_, n, _)| *n == number).map(|(step, ..)| *step)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(step, ..)| step == self).map_or("UNKNOWN", |(.., name)| name))
    }
}
