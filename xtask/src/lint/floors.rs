//! A crate names only crates on a lower floor, apart from its tests.

use super::packages::Package;

const FLOORS: [(&str, u8); 19] = [
    ("xtask", 8),
    ("cli", 7),
    ("greeter", 7),
    ("loom-models", 7),
    ("fuzz-targets", 7),
    ("mini-cluster", 6),
    ("master", 5),
    ("tserver", 5),
    ("client", 5),
    ("server-base", 4),
    ("rpc-server", 3),
    ("meta-cache", 3),
    ("tablet", 2),
    ("rpc-core", 2),
    ("schema", 1),
    ("net-addr", 0),
    ("proto", 0),
    ("rpc-build", 0),
    ("shm", 0),
];

/// A finding for each dependency that does not point down, and for each crate without a floor.
pub(super) fn check(packages: &[Package]) -> Vec<String> {
    let mut findings = Vec::new();
    for package in packages {
        let Some(own) = floor(&package.name) else {
            findings.push(format!("{}: give it a floor in xtask/src/lint/floors.rs", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            if let Some(other) = floor(dependency)
                && other >= own
            {
                findings
                    .push(format!("{} (floor {own}) depends on {dependency} (floor {other})", package.name));
            }
        }
    }
    findings
}

fn floor(name: &str) -> Option<u8> {
    FLOORS.iter().find(|(known, _)| *known == name).map(|(_, floor)| *floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            dependencies: dependencies.iter().map(|&name| name.to_owned()).collect(),
            ..Package::default()
        }
    }

    #[test]
    fn dependencies_point_down() {
        let packages =
            [package("tserver", &["server-base", "tablet", "tokio"]), package("schema", &["proto"])];
        assert_eq!(check(&packages), Vec::<String>::new());
    }

    #[test]
    fn a_dependency_up_or_on_the_same_floor_is_found() {
        let packages = [package("tablet", &["rpc-core"]), package("proto", &["client"])];
        let expected =
            ["tablet (floor 2) depends on rpc-core (floor 2)", "proto (floor 0) depends on client (floor 5)"];
        assert_eq!(check(&packages), expected);
    }

    #[test]
    fn a_crate_without_a_floor_is_found() {
        assert_eq!(check(&[package("new-crate", &[])]).len(), 1);
    }
}
