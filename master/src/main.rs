//! `nyala-master`: a master of Kudu's protocol as a process of its own, with Kudu's flags.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use master::{Master, MasterOptions};
use net_addr::SystemResolver;

fn main() -> ExitCode {
    server_base::program::run(
        MasterOptions::flags(),
        |flags| Master::start(MasterOptions::from_flags(flags, &SystemResolver)?),
        |master| master.shutdown(),
    )
}
