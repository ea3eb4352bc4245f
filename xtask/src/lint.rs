//! `cargo xtask lint`: the rules of the workspace that the compiler does not check.

mod dependencies;
mod files;
mod floors;
mod packages;

use std::path::Path;

use anyhow::{Result, bail};

use crate::r#gen::Gen;
use packages::Package;

/// Checks everything; prints each finding and fails when there is one.
pub(crate) fn run(root: &Path) -> Result<()> {
    let packages = packages::read()?;
    let parts = [
        ("floors", floors::check(&packages)),
        ("crate roots", unsafe_is_forbidden(&packages)?),
        ("files", files::check(root)?),
        ("dependencies", dependencies::check()?),
        ("generated code", generated_code_is_fresh()),
    ];
    let mut count = 0;
    for (part, findings) in parts {
        println!("lint: {part}: {}", if findings.is_empty() { "ok" } else { "not ok" });
        for finding in &findings {
            println!("  {finding}");
        }
        count += findings.len();
    }
    if count > 0 {
        bail!("lint: {count} findings");
    }
    Ok(())
}

fn unsafe_is_forbidden(packages: &[Package]) -> Result<Vec<String>> {
    let attribute = "#![forbid(unsafe_code)]";
    let mut findings = Vec::new();
    // System calls need `unsafe`: in these two the workspace's `deny` holds, and `files` looks for exceptions.
    for package in packages.iter().filter(|package| !["rpc-core", "shm"].contains(&&*package.name)) {
        for path in &package.roots {
            if !std::fs::read_to_string(path)?.contains(attribute) {
                findings.push(format!("{}: {} lacks {attribute}", package.name, path.display()));
            }
        }
    }
    Ok(findings)
}

fn generated_code_is_fresh() -> Vec<String> {
    let compare = Gen { check: true, descriptor_set: None };
    compare.run().err().map(|error| format!("{error:#}")).into_iter().collect()
}
