//! `nyala-tserver`: a tablet server as a process of its own.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use net_addr::SystemResolver;
use tserver::{TabletServer, TserverOptions};

fn main() -> ExitCode {
    server_base::program::run(
        TserverOptions::flags(),
        |flags| TabletServer::start(TserverOptions::from_flags(flags, &SystemResolver)?),
        |server| server.shutdown(),
    )
}
