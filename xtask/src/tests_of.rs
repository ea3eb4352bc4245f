//! Tests of one crate as programs, from the build of all tests: `cargo test -p` would compile for other features again.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::step::{self, FEATURES};

/// One program of tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestProgram {
    /// `lib`, or the name of the file in `tests`.
    pub(crate) name: String,
    path: PathBuf,
    /// Of the crate.
    folder: PathBuf,
}

impl TestProgram {
    /// A run of it, where cargo would run it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder);
        command
    }
}

/// Builds all tests of the workspace, as the step `tests` runs them; those of this crate.
pub(crate) fn tests_of(package: &str) -> Result<Vec<TestProgram>> {
    let arguments = ["test", "--workspace", FEATURES, "--tests", "--no-run", "--message-format=json"];
    let messages = step::capture(&mut step::cargo(&arguments))?;
    let folder = step::root().join(package);
    let programs: Vec<_> = messages.lines().filter_map(|line| program(line, &folder)).collect();
    ensure!(!programs.is_empty(), "cargo built no tests of {package}");
    Ok(programs)
}

/// What a message of cargo says of a program of tests in `folder`.
fn program(message: &str, folder: &Path) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(message).ok()?;
    let text = |path: &str| message.pointer(path)?.as_str();
    let manifest = folder.join("Cargo.toml");
    if text("/manifest_path")? != manifest.to_str()? || message.pointer("/profile/test")? != true {
        return None;
    }
    let name = match text("/target/kind/0")? {
        "test" => text("/target/name")?,
        kind => kind,
    };
    Some(TestProgram { name: name.to_owned(), path: text("/executable")?.into(), folder: folder.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_from_libraries_and_other_crates() {
        let message = |folder: &str, kind: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/{folder}/Cargo.toml","profile":{{"test":{test}}},
                "target":{{"kind":["{kind}"],"name":"scans"}},"executable":"/w/target/debug/deps/scans-1"}}"#
            )
        };
        let found = |message: String| program(&message, Path::new("/w/client")).map(|program| program.name);
        assert_eq!(found(message("client", "test", true)).as_deref(), Some("scans"));
        assert_eq!(found(message("client", "lib", true)).as_deref(), Some("lib"));
        assert_eq!(found(message("client", "lib", false)), None);
        assert_eq!(found(message("tablet", "test", true)), None);
        assert_eq!(found("   Compiling client".to_owned()), None);
    }
}
