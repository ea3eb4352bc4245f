//! Sizes and contents of the files of the checkout.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const MAX_LINES: usize = 1000;
const MAX_BYTES: usize = 1 << 20;

/// The only places where `unsafe` is allowed, apart from tests, which may have to make what safe code cannot.
const UNSAFE_MODULES: [&str; 2] = ["rpc-core/src/reactor/", "shm/src/"];

/// What a clone has to hold so that the tests need nothing beside it.
const REQUIRED: &[&str] = &[
    "LICENSE",
    "README.md",
    ".ci/run",
    "Cargo.lock",
    "proto/own_names.txt",
    "testdata/captures",
    "testdata/flights.csv",
    "testdata/vectors.json",
    "tools/wire_contract.py",
];

/// A finding for each file that is too long, names this machine, or is missing.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings: Vec<String> = REQUIRED
        .iter()
        .filter(|name| !root.join(name).exists())
        .map(|name| format!("{name} is missing"))
        .collect();
    let here = machine_paths(root);
    for path in walk(root)? {
        let content = std::fs::read(&path).with_context(|| path.display().to_string())?;
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        findings.extend(file(&name, &content, &here));
    }
    findings.sort();
    Ok(findings)
}

fn file(name: &str, content: &[u8], machine_paths: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    if content.len() > MAX_BYTES {
        findings.push(format!("{name}: {} bytes, at most {MAX_BYTES}", content.len()));
    }
    let Ok(text) = std::str::from_utf8(content) else {
        return findings;
    };
    let lines = text.lines().count();
    if name.ends_with(".rs") && lines > MAX_LINES && !name.contains("src/gen/") {
        findings.push(format!("{name}: {lines} lines, at most {MAX_LINES}: more than one idea?"));
    }
    for (index, line) in text.lines().enumerate() {
        if let Some(path) = machine_paths.iter().find(|path| mentions(line, path)) {
            findings.push(format!("{name}:{}: a path of this machine: {path}", index + 1));
        }
        if name.ends_with(".rs") && line.trim_start().starts_with(concat!("#[", "ignore")) {
            findings.push(format!("{name}:{}: an ignored test", index + 1));
        }
        if name.ends_with(".rs")
            && line.contains(concat!("allow(", "unsafe_code"))
            && !UNSAFE_MODULES.iter().any(|module| name.starts_with(module))
            && !name.contains("/tests/")
        {
            findings.push(format!(
                "{name}:{}: unsafe code outside {}",
                index + 1,
                UNSAFE_MODULES.join(" and ")
            ));
        }
    }
    findings
}

/// Whether a line names an absolute path: `/src/` is in ` /src/a` but not in `proto/src/a`.
fn mentions(line: &str, path: &str) -> bool {
    let is_inside = |c: char| c.is_alphanumeric() || "._-/~*}$".contains(c);
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(is_inside))
}

/// Where this checkout and its user live: texts that make sense on one machine only.
fn machine_paths(root: &Path) -> Vec<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let shared = [Path::new("/"), Path::new("/tmp"), Path::new("/home"), Path::new("/usr")];
    [Some(root), root.parent(), home.as_deref()]
        .into_iter()
        .flatten()
        .filter(|path| !shared.contains(path))
        .map(|path| format!("{}/", path.display()))
        .collect()
}

/// All files below the root but those of git and of cargo's target folders.
fn walk(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_file() {
                files.push(entry.path());
            } else if kind.is_dir() && entry.file_name() != "target" && entry.file_name() != ".git" {
                folders.push(entry.path());
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_found_but_not_generated_ones() {
        let long = "x\n".repeat(MAX_LINES + 1);
        assert_eq!(file("a/src/lib.rs", long.as_bytes(), &[]).len(), 1);
        assert!(file("proto/src/gen/kudu.rs", long.as_bytes(), &[]).is_empty());
        assert!(file("a/notes.md", long.as_bytes(), &[]).is_empty());
    }

    #[test]
    fn machine_paths_are_found_with_their_line() {
        let here = ["/somewhere/nyala/".to_owned()];
        let findings = file("a.md", b"one\nsee /somewhere/nyala/a\n", &here);
        assert_eq!(findings, ["a.md:2: a path of this machine: /somewhere/nyala/"]);
        // A checkout right below the root must not make every relative path suspicious.
        assert!(file("a.md", b"see proto/src/gen\n", &["/src/".to_owned()]).is_empty());
        assert_eq!(file("a.md", b"(/src/gen)\n", &["/src/".to_owned()]).len(), 1);
    }

    #[test]
    fn blobs_and_ignored_tests_are_found() {
        assert_eq!(file("a.bin", &vec![0xff; MAX_BYTES + 1], &[]).len(), 1);
        let text = concat!("    #[", "ignore = \"slow\"]\n");
        assert_eq!(file("a.rs", text.as_bytes(), &[]).len(), 1);
    }

    #[test]
    fn unsafe_is_found_outside_its_places() {
        let text = concat!("#![allow(", "unsafe_code)]\n");
        assert_eq!(file("client/src/lib.rs", text.as_bytes(), &[]).len(), 1);
        assert!(file("rpc-core/src/reactor/sys.rs", text.as_bytes(), &[]).is_empty());
        assert!(file("shm/src/map.rs", text.as_bytes(), &[]).is_empty());
        assert!(file("net-addr/tests/padding.rs", text.as_bytes(), &[]).is_empty());
    }

    #[test]
    fn a_missing_file_of_the_clone_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("LICENSE"), "text").unwrap();
        let findings = check(dir.path()).unwrap();
        assert!(findings.contains(&"tools/wire_contract.py is missing".to_owned()));
        assert!(!findings.contains(&"LICENSE is missing".to_owned()));
    }
}
