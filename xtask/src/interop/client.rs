//! The tests of our client on real servers: the same source that runs against ours.

use anyhow::Result;

use super::target::Target;
use crate::step;

/// Points the client's tests at a running master in place of an embedded cluster.
const MASTER_VARIABLE: &str = "NYALA_TEST_MASTER";
/// Lets them use unix sockets or not.
const SOCKETS_VARIABLE: &str = "NYALA_TEST_UNIX_SOCKETS";

pub(super) fn run(target: &Target) -> Result<()> {
    for (sockets, way) in [("true", "unix sockets"), ("false", "TCP")] {
        println!("\ninterop: our client on the servers of {}, over {way}", target.master);
        let mut command =
            step::cargo(&["test", "--package", "client", "--features", "arrow", "--lib", "--tests"]);
        step::run(command.env(MASTER_VARIABLE, &target.master).env(SOCKETS_VARIABLE, sockets))?;
    }
    Ok(())
}
