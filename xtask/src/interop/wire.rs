//! The comparison of our message definitions with those that the real 1.18.1 libraries carry.

use std::process::Command;

use anyhow::Result;

use super::Kit;
use crate::r#gen::Gen;
use crate::{python, step};

/// Fails when a field, type, number or method differs; needs Python and the real libraries.
pub(super) fn run(kit: &Kit) -> Result<()> {
    let root = step::root();
    let ours = kit.folder().join("ours.fds");
    Gen { check: false, descriptor_set: Some(ours.clone()) }.run()?;
    let python = python::environment("protobuf")?.join("python");
    step::run(
        Command::new(&python)
            .current_dir(&root)
            .arg("tools/wire_contract.py")
            .arg("--kudu")
            .arg(kit.libraries())
            .arg("--check")
            .arg(&ours)
            .args(["--allow", "proto/own_names.txt"]),
    )
}
