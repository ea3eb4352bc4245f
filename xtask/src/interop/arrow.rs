//! Rowsets in the eyes of pyarrow, which knows nothing of us.

use anyhow::{Context, Result, ensure};

use crate::tests_of::tests_of;
use crate::{python, step};

/// Runs the test of crate `tablet` that compares all cells; needs Python.
pub(super) fn run() -> Result<()> {
    let test = "rowset::tests::others::pyarrow_reads_the_same_cells";
    let programs = tests_of("tablet")?;
    let own = programs.iter().find(|program| program.name == "lib").context("no tests of the library")?;
    let mut command = own.command();
    command.args(["--exact", test]).env("NYALA_PYTHON", python::environment("pyarrow")?.join("python"));
    let said = step::capture(&mut command)?;
    ensure!(said.contains("1 passed"), "not the one test that was asked for:\n{said}");
    println!("{said}");
    Ok(())
}
