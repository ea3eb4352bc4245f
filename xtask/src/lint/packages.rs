//! The packages of the workspace, from `cargo metadata`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::step;

/// One member of the workspace.
#[derive(Debug, Default)]
pub(super) struct Package {
    pub(super) name: String,
    /// Names of what it depends on to be built: normal and build dependencies, not those of its tests.
    pub(super) dependencies: Vec<String>,
    /// The root files of its library and its programs.
    pub(super) roots: Vec<PathBuf>,
}

/// Reads all members.
pub(super) fn read() -> Result<Vec<Package>> {
    let text = step::capture(&mut step::cargo(&["metadata", "--no-deps", "--format-version=1"]))?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata")?;
    Ok(list(&metadata, "packages").iter().map(package).collect())
}

fn package(value: &Value) -> Package {
    let is_built = |dependency: &&Value| text(dependency, "kind") != "dev";
    let is_root = |target: &&Value| {
        let kinds = list(target, "kind");
        kinds.iter().any(|kind| matches!(kind.as_str(), Some("lib" | "bin")))
    };
    Package {
        name: text(value, "name").to_owned(),
        dependencies: list(value, "dependencies")
            .iter()
            .filter(is_built)
            .map(|dependency| text(dependency, "name").to_owned())
            .collect(),
        roots: list(value, "targets")
            .iter()
            .filter(is_root)
            .map(|target| PathBuf::from(text(target, "src_path")))
            .collect(),
    }
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dependencies_of_tests_are_left_out() {
        let value = json!({
            "name": "a",
            "dependencies": [
                {"name": "b", "kind": null}, {"name": "c", "kind": "build"}, {"name": "d", "kind": "dev"}
            ],
            "targets": [
                {"kind": ["lib"], "src_path": "a/src/lib.rs"}, {"kind": ["test"], "src_path": "a/tests/t.rs"}
            ],
        });
        let package = package(&value);
        assert_eq!(package.dependencies, ["b", "c"]);
        assert_eq!(package.roots, [PathBuf::from("a/src/lib.rs")]);
    }
}
