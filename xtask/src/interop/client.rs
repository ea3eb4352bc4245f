//! The tests of our client on real servers: the same source that runs against ours.

use anyhow::{Result, bail};

use super::target::Target;
use crate::step;
use crate::tests_of::tests_of;

/// Points the client's tests at a running master in place of an embedded cluster.
const MASTER_VARIABLE: &str = "NYALA_TEST_MASTER";
/// Lets them use unix sockets or not.
const SOCKETS_VARIABLE: &str = "NYALA_TEST_UNIX_SOCKETS";

pub(super) fn run(target: &Target) -> Result<()> {
    let programs = tests_of("client")?;
    let mut failed = Vec::new();
    for (sockets, way) in [("true", "unix sockets"), ("false", "TCP")] {
        println!("\ninterop: our client on the servers of {}, over {way}", target.master);
        for program in &programs {
            println!("\ninterop: {}", program.name);
            let mut command = program.command();
            command.env(MASTER_VARIABLE, &target.master).env(SOCKETS_VARIABLE, sockets);
            if let Err(error) = step::run(&mut command) {
                println!("{error:#}");
                failed.push(format!("{} over {way}", program.name));
            }
        }
    }
    if !failed.is_empty() {
        bail!("our client on real servers: {}", failed.join(", "));
    }
    Ok(())
}
