//! Rowsets in the eyes of pyarrow, which knows nothing of us.

use anyhow::Result;

use super::Kit;
use crate::step;

/// Runs the test of crate `tablet` that compares all cells; needs Python.
pub(super) fn run(kit: &Kit) -> Result<()> {
    let test = "rowset::tests::others::pyarrow_reads_the_same_cells";
    let mut command = step::cargo(&["test", "--package", "tablet", "--lib", "--", "--exact", test]);
    step::run(command.env("NYALA_PYTHON", kit.python("pyarrow")?))
}
