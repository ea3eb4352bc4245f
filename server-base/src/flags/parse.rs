//! The command line and the files that it names.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::flags::error::{FlagError, Place};
use crate::flags::known::Spec;
use crate::flags::value::Kind;
use crate::flags::{FlagSet, Outcome, help};

impl FlagSet {
    /// Reads the arguments after the program's name, in the manner of gflags:
    ///
    /// * `--name=value`, `--name value`, with one or two dashes; dashes inside a name are underscores;
    /// * `--name` and `--noname` for booleans; a value of theirs must follow an equal sign;
    /// * the last value wins; `--` ends the flags;
    /// * `--flagfile=FILE,...` reads flags there and then, one a line, `#` begins a comment; files may name files;
    /// * `--undefok=NAME,...` lets unknown flags pass;
    /// * `--help`, `--helpshort`, `--helpfull`, `--version`: see [`Outcome::Print`].
    ///
    /// On an error the flags before it are set already; the server should not start.
    pub fn parse<I>(&self, arguments: I) -> Result<Outcome, FlagError>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let mut parser = Parser {
            flags: self,
            print: None,
            undefok: HashSet::new(),
            unknown: Vec::new(),
            files: Vec::new(),
        };
        let mut arguments = arguments.into_iter().map(Into::into);
        let mut positional = Vec::new();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                positional.extend(arguments.by_ref());
            } else if let Some(flag) = flag_text(&argument) {
                parser.flag(flag, &Place::CommandLine, &mut || arguments.next())?;
            } else {
                positional.push(argument);
            }
        }
        // --undefok may come after the flag that it excuses.
        let Parser { undefok, unknown, print, .. } = parser;
        match unknown.into_iter().find(|(name, _)| !undefok.contains(name)) {
            Some((_, error)) => Err(error),
            None => Ok(print.map_or(Outcome::Run { positional }, Outcome::Print)),
        }
    }
}

struct Parser<'a> {
    flags: &'a FlagSet,
    print: Option<String>,
    undefok: HashSet<String>,
    unknown: Vec<(String, FlagError)>,
    /// The flag files that are being read, outermost first.
    files: Vec<PathBuf>,
}

impl Parser<'_> {
    fn flag(
        &mut self,
        text: &str,
        place: &Place,
        next: &mut dyn FnMut() -> Option<String>,
    ) -> Result<(), FlagError> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.replace('-', "_"), Some(value.to_owned())),
            None => (text.replace('-', "_"), None),
        };
        match name.as_str() {
            "flagfile" => {
                let files = value
                    .or_else(next)
                    .ok_or(FlagError::NoValue { name: "flagfile", place: place.clone() })?;
                files
                    .split(',')
                    .filter(|file| !file.is_empty())
                    .try_for_each(|file| self.file(Path::new(file), place))
            }
            "undefok" => {
                let names = value
                    .or_else(next)
                    .ok_or(FlagError::NoValue { name: "undefok", place: place.clone() })?;
                self.undefok.extend(names.split(',').map(|name| name.replace('-', "_")));
                Ok(())
            }
            "help" | "helpshort" => self.print(help::short(self.flags)),
            "helpfull" => self.print(help::full(self.flags)),
            "version" => self.print(crate::identity::version_text(self.flags.program())),
            _ => self.setting(name, value, place, next),
        }
    }

    fn print(&mut self, text: String) -> Result<(), FlagError> {
        self.print.get_or_insert(text);
        Ok(())
    }

    fn setting(
        &mut self,
        name: String,
        value: Option<String>,
        place: &Place,
        next: &mut dyn FnMut() -> Option<String>,
    ) -> Result<(), FlagError> {
        let place = place.clone();
        if let Some(spec) = self.flags.spec(&name) {
            let value = match value {
                Some(value) => value,
                None if spec.kind == Kind::Bool => "true".to_owned(),
                None => next().ok_or(FlagError::NoValue { name: spec.name, place: place.clone() })?,
            };
            return self.store(&spec, value, place);
        }
        if let Some(spec) = name.strip_prefix("no").and_then(|positive| self.flags.spec(positive)) {
            if spec.kind != Kind::Bool || value.is_some() {
                return Err(FlagError::NotBoolean { name: spec.name, kind: spec.kind, place });
            }
            return self.store(&spec, "false".to_owned(), place);
        }
        let error = self.flags.unknown(&name, place);
        self.unknown.push((name, error));
        Ok(())
    }

    fn store(&self, spec: &Spec, value: String, place: Place) -> Result<(), FlagError> {
        let Some(parsed) = spec.kind.parse(&value) else {
            return Err(FlagError::Value { name: spec.name, value, kind: spec.kind, place });
        };
        if let Err(reason) = crate::flags::allowed::check(spec.name, &parsed) {
            return Err(FlagError::NotAllowed { name: spec.name, value, reason, place });
        }
        self.flags.store(spec.name, parsed);
        Ok(())
    }

    fn file(&mut self, path: &Path, named: &Place) -> Result<(), FlagError> {
        let unreadable = |cause| FlagError::File { path: path.to_owned(), cause, place: named.clone() };
        let real = path.canonicalize().map_err(unreadable)?;
        if self.files.contains(&real) {
            return Err(FlagError::Loop { path: path.to_owned(), place: named.clone() });
        }
        let text = std::fs::read_to_string(&real).map_err(unreadable)?;
        self.files.push(real);
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let place = Place::File { path: path.to_owned(), line: index + 1 };
            let Some(flag) = flag_text(line) else {
                return Err(FlagError::Line { line: line.to_owned(), place });
            };
            // `--name value` on one line: gflags would take all of it for a name.
            let (flag, value) = match flag.split_once(char::is_whitespace) {
                Some((name, value)) if !name.contains('=') => (name, Some(value.trim().to_owned())),
                _ => (flag, None),
            };
            self.flag(flag, &place, &mut || value.clone())?;
        }
        self.files.pop();
        Ok(())
    }
}

/// The text after one or two dashes. A lone dash is an argument of its own.
fn flag_text(argument: &str) -> Option<&str> {
    let flag = argument.strip_prefix('-')?;
    let flag = flag.strip_prefix('-').unwrap_or(flag);
    (!flag.is_empty()).then_some(flag)
}
