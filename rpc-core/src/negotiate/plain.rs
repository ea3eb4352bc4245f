//! SASL PLAIN (RFC 4616) as Kudu has it: one message, authzid NUL authcid NUL password, any password will do.

use thiserror::Error;

/// The mechanism's name.
pub const NAME: &str = "PLAIN";

/// A PLAIN message that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlainError {
    /// Not two NULs, or a NUL in the password.
    #[error("the PLAIN message is not authzid NUL authcid NUL password")]
    Malformed,
    /// No user, or nothing but blanks.
    #[error("All-whitespace username.")]
    NoUser,
    /// The user name is not UTF-8.
    #[error("the user name is not UTF-8")]
    NotUtf8,
    /// Someone asks to act as another.
    #[error("Requested identity not authenticated identity")]
    OtherIdentity,
}

/// The message with which `user` introduces itself.
pub fn encode(user: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(user.len().saturating_add(2));
    out.push(0);
    out.extend_from_slice(user.as_bytes());
    out.push(0);
    out
}

/// The user whom a message names.
///
/// # Errors
/// [`PlainError`] if it names none, or asks for another identity.
pub fn decode(message: &[u8]) -> Result<&str, PlainError> {
    let mut parts = message.split(|byte| *byte == 0);
    let (Some(authzid), Some(authcid), Some(_password), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(PlainError::Malformed);
    };
    let user = std::str::from_utf8(authcid).map_err(|_| PlainError::NotUtf8)?;
    if user.trim().is_empty() {
        return Err(PlainError::NoUser);
    }
    if !authzid.is_empty() && authzid != authcid {
        return Err(PlainError::OtherIdentity);
    }
    Ok(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_password_is_accepted() {
        assert_eq!(decode(&encode("root")), Ok("root"));
        assert_eq!(decode(b"\0root\0secret"), Ok("root"));
        assert_eq!(decode(b"root\0root\0"), Ok("root"));
    }

    #[test]
    fn what_is_no_identity_is_refused() {
        assert_eq!(decode(b""), Err(PlainError::Malformed));
        assert_eq!(decode(b"\0root"), Err(PlainError::Malformed));
        assert_eq!(decode(b"\0root\0a\0b"), Err(PlainError::Malformed));
        assert_eq!(decode(b"\0\0"), Err(PlainError::NoUser));
        assert_eq!(decode(b"\0  \0"), Err(PlainError::NoUser));
        assert_eq!(decode(b"\0\xff\0"), Err(PlainError::NotUtf8));
        assert_eq!(decode(b"alice\0bob\0"), Err(PlainError::OtherIdentity));
    }
}
