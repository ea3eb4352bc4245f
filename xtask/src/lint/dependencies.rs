//! What must not be among the dependencies of a crate, however deep.

use anyhow::Result;

use crate::step;

const RUNTIMES: &[&str] = &["tokio", "mio", "async-std", "smol", "futures-executor"];
const PROTOBUF: &[&str] = &["proto", "prost", "protobuf"];
const HEAVY: &[&str] =
    &["arrow", "arrow-array", "arrow-schema", "arrow-ipc", "parquet", "datafusion", "axum"];

struct Rule {
    package: &'static str,
    default_features: bool,
    forbidden: &'static [&'static str],
}

const fn bare(package: &'static str, forbidden: &'static [&'static str]) -> Rule {
    Rule { package, default_features: false, forbidden }
}

const fn with_defaults(package: &'static str, forbidden: &'static [&'static str]) -> Rule {
    Rule { package, default_features: true, forbidden }
}

const RULES: &[Rule] = &[
    bare("net-addr", RUNTIMES),
    bare("proto", RUNTIMES),
    bare("schema", RUNTIMES),
    bare("schema", PROTOBUF),
    bare("rpc-core", RUNTIMES),
    bare("tablet", RUNTIMES),
    bare("tablet", PROTOBUF),
    bare("meta-cache", RUNTIMES),
    bare("meta-cache", PROTOBUF),
    with_defaults("net-addr", PROTOBUF),
    with_defaults("net-addr", HEAVY),
    with_defaults("schema", HEAVY),
    with_defaults("tablet", HEAVY),
    with_defaults("server-base", HEAVY),
    with_defaults("rpc-core", HEAVY),
    with_defaults("rpc-server", HEAVY),
    with_defaults("meta-cache", HEAVY),
    with_defaults("client", HEAVY),
];

/// A finding for each forbidden dependency.
pub(super) fn check() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for rule in RULES {
        let mut command = step::cargo(&["tree", "--edges=normal", "--prefix=none", "--package"]);
        command.arg(rule.package);
        if !rule.default_features {
            command.arg("--no-default-features");
        }
        for name in found(&step::capture(&mut command)?, rule.forbidden) {
            let features = if rule.default_features { "" } else { " without default features" };
            findings.push(format!("{}{features} depends on {name}", rule.package));
        }
    }
    Ok(findings)
}

/// The forbidden names among the first words of the lines, each once.
fn found<'a>(tree: &'a str, forbidden: &[&str]) -> Vec<&'a str> {
    let mut names: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| forbidden.contains(name))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_names_are_whole_words_and_reported_once() {
        let tree = "tablet v0.1.0 (tablet)\ntokio v1.54.0\ntokio-util v0.7\nmio v1.2\ntokio v1.54.0 (*)\n";
        assert_eq!(found(tree, RUNTIMES), ["mio", "tokio"]);
        assert!(found(tree, PROTOBUF).is_empty());
    }
}
