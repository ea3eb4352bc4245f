//! The types that flags have.

use std::fmt;

/// The type of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// True or false.
    Bool,
    /// 32 bits, signed.
    Int32,
    /// 64 bits, signed.
    Int64,
    /// 32 bits, unsigned.
    Uint32,
    /// 64 bits, unsigned.
    Uint64,
    /// Double precision.
    Double,
    /// Any text.
    String,
}

/// The value of a flag.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a [`Kind::Bool`].
    Bool(bool),
    /// Any of the integer types; a `uint64` beyond `i64` is in [`Value::Uint`].
    Int(i64),
    /// Of a [`Kind::Uint64`], beyond `i64`.
    Uint(u64),
    /// Of a [`Kind::Double`].
    Double(f64),
    /// Of a [`Kind::String`].
    String(String),
}

impl Kind {
    /// Reads a value: `true`, `t`, `yes`, `y`, `1` and their contraries; integers in decimal or `0x` hex, in range; doubles.
    /// White space is only part of strings. `None` if `text` is no value of this type.
    pub fn parse(self, text: &str) -> Option<Value> {
        match self {
            Self::String => Some(Value::String(text.to_owned())),
            Self::Bool => match text.to_ascii_lowercase().as_str() {
                "1" | "t" | "true" | "y" | "yes" => Some(Value::Bool(true)),
                "0" | "f" | "false" | "n" | "no" => Some(Value::Bool(false)),
                _ => None,
            },
            Self::Double => text.parse().ok().map(Value::Double),
            Self::Int32 => integer(text).and_then(|n| i32::try_from(n).ok()).map(|n| Value::Int(n.into())),
            Self::Int64 => integer(text).and_then(|n| i64::try_from(n).ok()).map(Value::Int),
            Self::Uint32 => integer(text).and_then(|n| u32::try_from(n).ok()).map(|n| Value::Int(n.into())),
            Self::Uint64 => {
                let n = integer(text).and_then(|n| u64::try_from(n).ok())?;
                Some(i64::try_from(n).map_or(Value::Uint(n), Value::Int))
            }
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => Self::Bool,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "uint32" => Self::Uint32,
            "uint64" => Self::Uint64,
            "double" => Self::Double,
            "string" => Self::String,
            _ => return None,
        })
    }
}

fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let magnitude = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) if hex.starts_with(|c: char| c.is_ascii_hexdigit()) => {
            i128::from_str_radix(hex, 16).ok()?
        }
        Some(_) => return None,
        None => digits.parse::<i128>().ok()?,
    };
    Some(if negative { magnitude.checked_neg()? } else { magnitude })
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Double => "double",
            Self::String => "string",
        })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Uint(value) => value.fmt(f),
            Self::Double(value) => value.fmt(f),
            Self::String(value) => value.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_their_range() {
        for (kind, text, expected) in [
            (Kind::Bool, "Yes", Some("true")),
            (Kind::Bool, "0", Some("false")),
            (Kind::Bool, "", None),
            (Kind::Bool, "maybe", None),
            (Kind::Int32, "-2147483648", Some("-2147483648")),
            (Kind::Int32, "2147483648", None),
            (Kind::Int32, "0x10", Some("16")),
            (Kind::Int32, "-0x10", Some("-16")),
            (Kind::Int32, "0x", None),
            (Kind::Int32, "0x-1", None),
            (Kind::Int32, "1.5", None),
            (Kind::Int32, "", None),
            (Kind::Int32, "--1", None),
            (Kind::Int64, "9223372036854775807", Some("9223372036854775807")),
            (Kind::Int64, "9223372036854775808", None),
            (Kind::Uint32, "-1", None),
            (Kind::Uint64, "18446744073709551615", Some("18446744073709551615")),
            (Kind::Uint64, "340282366920938463463374607431768211456", None),
            (Kind::Double, "0.5", Some("0.5")),
            (Kind::Double, "-1e3", Some("-1000")),
            (Kind::Double, "x", None),
            (Kind::String, " a ", Some(" a ")),
        ] {
            let value = kind.parse(text).map(|value| value.to_string());
            assert_eq!(value.as_deref(), expected, "{kind} {text:?}");
        }
    }
}
