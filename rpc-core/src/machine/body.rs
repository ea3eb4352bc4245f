use std::fmt;
use std::ops::Deref;

use bytes::Bytes;
use prost::{DecodeError, Message};

/// An encoded message: most are small enough to need no memory of their own.
#[derive(Clone)]
pub struct Body(Inner);

#[derive(Clone)]
enum Inner {
    Small(u8, [u8; SMALL]),
    Big(Bytes),
}

impl Body {
    /// Encodes a message.
    pub fn encode(message: &impl Message) -> Self {
        let len = message.encoded_len();
        let mut small = [0; SMALL];
        if let (Ok(short), Some(mut room)) = (u8::try_from(len), small.get_mut(..len))
            && message.encode(&mut room).is_ok()
        {
            return Self(Inner::Small(short, small));
        }
        Self(Inner::Big(message.encode_to_vec().into()))
    }

    /// Copies a message that is small enough to need no memory of its own.
    pub(crate) fn small(message: &[u8]) -> Option<Self> {
        let mut small = [0; SMALL];
        small.get_mut(..message.len())?.copy_from_slice(message);
        Some(Self(Inner::Small(u8::try_from(message.len()).ok()?, small)))
    }

    /// Decodes the message; its `bytes` fields share the memory of a big body.
    ///
    /// # Errors
    /// If it is no such message.
    pub fn decode<M: Message + Default>(self) -> Result<M, DecodeError> {
        match self.0 {
            Inner::Small(..) => M::decode(self.as_slice()),
            Inner::Big(bytes) => M::decode(bytes),
        }
    }

    /// The encoded message.
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Inner::Small(len, small) => small.get(..usize::from(*len)).unwrap_or_default(),
            Inner::Big(bytes) => bytes,
        }
    }

    /// The encoded message, shared if it is big.
    pub fn to_bytes(&self) -> Bytes {
        match &self.0 {
            Inner::Small(..) => Bytes::copy_from_slice(self.as_slice()),
            Inner::Big(bytes) => bytes.clone(),
        }
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(Inner::Big(bytes))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.as_slice().len())
    }
}

/// Makes the type as big as a cache line less what its owner has beside it.
const SMALL: usize = 38;
