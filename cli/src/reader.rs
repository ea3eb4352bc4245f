//! Names, words, quoted texts and symbols, read from what a user typed.
//!
//! Names with other characters than letters, digits and `_` stand in double quotes, texts and times in single ones; a quote
//! inside is doubled.

use schema::{Column, Value};
use thiserror::Error;

/// Something else should be at this place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected {expected} at {found:?} (character {at})")]
#[non_exhaustive]
pub struct Unexpected {
    /// What would have been right.
    pub expected: &'static str,
    /// What is there; empty at the end.
    pub found: String,
    /// Where, from 1.
    pub at: usize,
}

/// The text is no value of the column.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is no value of column {column:?}, which is {data_type}")]
#[non_exhaustive]
pub struct BadValue {
    /// The column.
    pub column: String,
    /// Its type.
    pub data_type: String,
    /// The text.
    pub text: String,
}

/// A text and how far it has been read.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Reader<'a> {
        Reader { text, at: 0 }
    }

    /// What is left, without blanks before it.
    pub(crate) fn rest(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    pub(crate) fn is_at_end(&mut self) -> bool {
        self.rest().is_empty()
    }

    pub(crate) fn unexpected(&mut self, expected: &'static str) -> Unexpected {
        let found = self.rest().split_whitespace().next().unwrap_or_default().to_owned();
        Unexpected { expected, found, at: self.at + 1 }
    }

    /// Takes the symbol if it is next.
    pub(crate) fn symbol(&mut self, symbol: &str) -> bool {
        let is_next = self.rest().starts_with(symbol);
        if is_next {
            self.at += symbol.len();
        }
        is_next
    }

    /// Takes the word if it is next, in any case of letters.
    pub(crate) fn keyword(&mut self, word: &str) -> bool {
        let rest = self.rest();
        let is_next = rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
            && !rest.get(word.len()..).is_some_and(|tail| tail.starts_with(is_name));
        if is_next {
            self.at += word.len();
        }
        is_next
    }

    /// Takes these words if they are next, or none of them.
    pub(crate) fn keywords(&mut self, words: &[&str]) -> bool {
        let before = self.at;
        let all = words.iter().all(|word| self.keyword(word));
        if !all {
            self.at = before;
        }
        all
    }

    pub(crate) fn expect(&mut self, symbol: &'static str) -> Result<(), Unexpected> {
        if self.symbol(symbol) { Ok(()) } else { Err(self.unexpected(symbol)) }
    }

    pub(crate) fn expect_keyword(&mut self, word: &'static str) -> Result<(), Unexpected> {
        if self.keyword(word) { Ok(()) } else { Err(self.unexpected(word)) }
    }

    /// A name; `what` says of what.
    pub(crate) fn name(&mut self, what: &'static str) -> Result<String, Unexpected> {
        match self.quoted('"')? {
            Some(name) => Ok(name),
            None => self.run_of(is_name, what),
        }
    }

    /// A value or another text: in single quotes, or as it is up to a blank, a comma or a bracket.
    pub(crate) fn text(&mut self, what: &'static str) -> Result<String, Unexpected> {
        match self.quoted('\'')? {
            Some(text) => Ok(text),
            None => self.run_of(|c| is_name(c) || "+-.:".contains(c), what),
        }
    }

    /// All that is left, without blanks around it.
    pub(crate) fn remainder(&mut self, what: &'static str) -> Result<String, Unexpected> {
        let rest = self.rest().trim_end();
        if rest.is_empty() {
            return Err(self.unexpected(what));
        }
        self.at = self.text.len();
        Ok(rest.to_owned())
    }

    /// A whole number.
    pub(crate) fn number<N: std::str::FromStr>(&mut self, what: &'static str) -> Result<N, Unexpected> {
        let before = self.clone();
        let text = self.text(what)?;
        text.parse().map_err(|_| {
            *self = before;
            self.unexpected(what)
        })
    }

    /// A value of this column.
    pub(crate) fn value<E: From<Unexpected> + From<BadValue>>(&mut self, of: &Column) -> Result<Value, E> {
        let text = self.text("a value")?;
        let read = crate::text::read(&text, of);
        read.ok_or_else(|| {
            E::from(BadValue { column: of.name.clone(), data_type: of.data_type.to_string(), text })
        })
    }

    fn run_of(&mut self, belongs: impl Fn(char) -> bool, what: &'static str) -> Result<String, Unexpected> {
        let rest = self.rest();
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        let run = rest.get(..end).unwrap_or_default();
        if run.is_empty() {
            return Err(self.unexpected(what));
        }
        self.at += end;
        Ok(run.to_owned())
    }

    /// The text between two such quotes, if one is next.
    fn quoted(&mut self, quote: char) -> Result<Option<String>, Unexpected> {
        if !self.rest().starts_with(quote) {
            return Ok(None);
        }
        let mut text = String::new();
        let mut chars = self.rest().char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            if c != quote {
                text.push(c);
            } else if chars.next_if(|(_, next)| *next == quote).is_some() {
                text.push(quote);
            } else {
                self.at += at + 1;
                return Ok(Some(text));
            }
        }
        self.at = self.text.len();
        Err(self.unexpected("the closing quote"))
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_whole_and_together_or_not_at_all() {
        let mut reader = Reader::new("  Block size 12, blocker");
        assert!(!reader.keyword("blo"));
        assert!(!reader.keywords(&["block", "count"]));
        assert!(reader.keywords(&["block", "size"]));
        assert_eq!(reader.number::<i32>("a number"), Ok(12));
        assert!(reader.symbol(",") && !reader.keyword("block"));
        assert_eq!(reader.number::<u8>("a number").unwrap_err().found, "blocker");
        assert_eq!(reader.name("a name").unwrap(), "blocker");
        assert!(reader.is_at_end());
    }

    #[test]
    fn quotes_hold_anything() {
        let mut reader = Reader::new(r#""a ""b""" 'it''s [1, 2)' "open"#);
        assert_eq!(reader.name("a name").unwrap(), "a \"b\"");
        assert_eq!(reader.text("a text").unwrap(), "it's [1, 2)");
        assert_eq!(reader.name("a name").unwrap_err().expected, "the closing quote");
    }
}
