//! Address to text.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

use std::fmt;

use crate::SockAddr;

pub(crate) const UNNAMED: &str = "<unnamed>";

/// `1.2.3.4:7050`, `[::1]:7050`, `unix:@name`, `unix:/path`, `unix:<unnamed>`. In names, backslashes, control characters
/// and bytes that are not UTF-8 are written `\\` and `\xHH`, so that a peer's name cannot forge a line of a log.
impl fmt::Display for SockAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(a) => a.fmt(f),
            Self::V6(a) => a.fmt(f),
            Self::UnixPath(path) => {
                f.write_str("unix:")?;
                match path.as_bytes() {
                    // The two first characters that would make a path look like another kind of address.
                    [first @ (b'@' | b'<'), rest @ ..] => {
                        write!(f, "\\x{first:02x}")?;
                        escape(f, rest)
                    }
                    bytes => escape(f, bytes),
                }
            }
            Self::UnixAbstract(name) => {
                f.write_str("unix:@")?;
                escape(f, name.as_bytes())
            }
            Self::UnixUnnamed => write!(f, "unix:{UNNAMED}"),
        }
    }
}

impl SockAddr {
    /// The form that servers advertise and that Kudu's clients read: `@name` or the path, without `unix:` and without
    /// escapes. `None` for IP addresses, unnamed sockets, and names that are not UTF-8.
    pub fn advertised_unix_path(&self) -> Option<String> {
        match self {
            Self::UnixPath(path) => path.as_path().to_str().map(str::to_owned),
            Self::UnixAbstract(name) => {
                std::str::from_utf8(name.as_bytes()).ok().map(|name| format!("@{name}"))
            }
            _ => None,
        }
    }
}

fn escape(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                // Also the C1 controls, which take two bytes in UTF-8.
                c if c.is_control() => {
                    let mut buffer = [0; 4];
                    for byte in c.encode_utf8(&mut buffer).bytes() {
                        write!(f, "\\x{byte:02x}")?;
                    }
                }
                c => fmt::Write::write_char(f, c)?,
            }
        }
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_forge_other_addresses_or_log_lines() {
        let forged = SockAddr::unix_path("@kudu-1").unwrap();
        assert_eq!(forged.to_string(), "unix:\\x40kudu-1");
        assert_eq!(SockAddr::unix_path("<unnamed>").unwrap().to_string(), "unix:\\x3cunnamed>");
        let name = SockAddr::unix_abstract(b"a\n\xff\\z\0\xc2\x85").unwrap();
        assert_eq!(name.to_string(), "unix:@a\\x0a\\xff\\\\z\\x00\\xc2\\x85");
        assert_eq!(name.to_string().parse::<SockAddr>().unwrap(), name);
    }

    #[test]
    fn advertised_form_is_what_the_kudu_client_parses() {
        let text = "@kudu-0123456789abcdef0123456789abcdef";
        assert_eq!(SockAddr::parse(text, 0).unwrap().advertised_unix_path().as_deref(), Some(text));
        assert_eq!(SockAddr::parse("/tmp/x", 0).unwrap().advertised_unix_path().as_deref(), Some("/tmp/x"));
        assert_eq!(SockAddr::parse("1.2.3.4", 0).unwrap().advertised_unix_path(), None);
        assert_eq!(SockAddr::UnixUnnamed.advertised_unix_path(), None);
        assert_eq!(SockAddr::unix_abstract(b"\xff").unwrap().advertised_unix_path(), None);
    }
}
