//! Programs and libraries from PyPI, each in an environment of its own below `target`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::step;

pub(crate) const PROGRAMS: &[&str] = &["python3"];

/// The folder of programs, `python` among them, of an environment that has this package, perhaps with `==VERSION`.
pub(crate) fn environment(package: &str) -> Result<PathBuf> {
    let environment = step::root().join("target/python").join(package);
    let programs = environment.join("bin");
    if !environment.join("complete").exists() {
        step::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
        step::run(Command::new(programs.join("python")).args(["-m", "pip", "-q", "install", package]))?;
        std::fs::write(environment.join("complete"), "")?;
    }
    Ok(programs)
}
