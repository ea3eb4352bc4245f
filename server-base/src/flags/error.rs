//! What can be wrong with a flag.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::flags::value::Kind;

/// The command line cannot be used as it is: whoever started the server has to change it. One line of text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlagError {
    /// No server knows a flag of this name.
    #[error("unknown flag --{name}{}{place}", hint(*.suggestion, *.elsewhere))]
    Unknown {
        /// As it was written, with underscores.
        name: String,
        /// The known flag with the nearest name.
        suggestion: Option<&'static str>,
        /// The flag exists, but only for the other server.
        elsewhere: bool,
        /// Where it was found.
        place: Place,
    },
    /// The value is none of the flag's type.
    #[error("--{name}={value}: the flag takes {}{place}", expected(*.kind))]
    Value {
        /// The flag.
        name: &'static str,
        /// As it was written.
        value: String,
        /// What the flag takes.
        kind: Kind,
        /// Where it was found.
        place: Place,
    },
    /// The value is of the right type, but not allowed.
    #[error("--{name}={value}: {reason}{place}")]
    NotAllowed {
        /// The flag.
        name: &'static str,
        /// As it was written.
        value: String,
        /// What is allowed.
        reason: &'static str,
        /// Where it was found.
        place: Place,
    },
    /// The flag needs a value and stands last.
    #[error("--{name} needs a value: --{name}=...{place}")]
    NoValue {
        /// The flag.
        name: &'static str,
        /// Where it was found.
        place: Place,
    },
    /// `--noNAME` of a flag that is not boolean.
    #[error("--no{name}: only boolean flags can be switched off, --{name} is {kind}{place}")]
    NotBoolean {
        /// The flag.
        name: &'static str,
        /// Its type.
        kind: Kind,
        /// Where it was found.
        place: Place,
    },
    /// A file named by `--flagfile` cannot be read.
    #[error("--flagfile: cannot read {}: {cause}{place}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
        /// Where it was named.
        place: Place,
    },
    /// A file names itself by `--flagfile`, directly or through others.
    #[error("--flagfile: {} includes itself{place}", path.display())]
    Loop {
        /// The file.
        path: PathBuf,
        /// Where it was named.
        place: Place,
    },
    /// A line of a flag file is neither a flag nor a comment.
    #[error("`{line}` is no flag: write --name=value or # for a comment{place}")]
    Line {
        /// The line.
        line: String,
        /// Where it was found.
        place: Place,
    },
}

impl FlagError {
    /// Always false.
    pub fn is_retriable(&self) -> bool {
        false
    }
}

/// Where a flag was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// On the command line.
    CommandLine,
    /// In a flag file.
    File {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => Ok(()),
            Self::File { path, line } => write!(f, " ({}, line {line})", path.display()),
        }
    }
}

/// A flag could not be changed while the server runs.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// No flag of this name, written with underscores, exists for this server.
    #[error("there is no flag --{name}")]
    NoSuchFlag {
        /// As asked.
        name: String,
    },
    /// The flag lacks the tag `runtime` and the change was not forced.
    #[error("--{name} cannot safely be changed at runtime")]
    NotSafe {
        /// The flag.
        name: &'static str,
    },
    /// The value is none of the flag's type, or not allowed.
    #[error("`{value}` is no value for --{name}, which stays {old}")]
    BadValue {
        /// The flag.
        name: &'static str,
        /// As asked.
        value: String,
        /// The value that it keeps.
        old: String,
    },
}

impl SetError {
    /// Always false.
    pub fn is_retriable(&self) -> bool {
        false
    }
}

fn hint(suggestion: Option<&str>, elsewhere: bool) -> String {
    match (elsewhere, suggestion) {
        (true, _) => ": it belongs to the other server".to_owned(),
        (false, Some(name)) => format!(", did you mean --{name}?"),
        (false, None) => " (see --help)".to_owned(),
    }
}

fn expected(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "true or false",
        Kind::Int32 => "an integer from -2147483648 to 2147483647",
        Kind::Int64 => "an integer of 64 bits",
        Kind::Uint32 => "an integer from 0 to 4294967295",
        Kind::Uint64 => "an integer from 0 to 18446744073709551615",
        Kind::Double => "a number",
        Kind::String => "any text",
    }
}
