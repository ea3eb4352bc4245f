//! The tests of our client on real servers: the same source that runs against ours.

use anyhow::Result;

use super::target::Target;
use crate::step;

/// The variable that points the client's tests at a running master in place of an embedded cluster.
const MASTER_VARIABLE: &str = "NYALA_TEST_MASTER";

pub(super) fn run(target: &Target) -> Result<()> {
    println!("interop: our client on the servers of {}", target.master);
    let mut command = step::cargo(&["test", "--package", "client"]);
    step::run(command.env(MASTER_VARIABLE, &target.master))
}
