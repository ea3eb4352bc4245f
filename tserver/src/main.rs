//! `nyala-tserver`: a tablet server as a process of its own.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use net_addr::SystemResolver;
use server_base::flags::Outcome;
use server_base::logging;
use server_base::signals::StopSignals;
use tserver::{TabletServer, TserverOptions};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nyala-tserver: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let flags = TserverOptions::flags();
    match flags.parse(std::env::args().skip(1))? {
        Outcome::Print(text) => {
            print!("{text}");
            return Ok(());
        }
        Outcome::Run { positional } if !positional.is_empty() => {
            return Err(format!("arguments that are no flags: {}", positional.join(" ")).into());
        }
        _ => {}
    }
    logging::init(flags.int("v"))?;
    flags.warn_ignored();
    let mut signals = StopSignals::install()?;
    let server = TabletServer::start(TserverOptions::from_flags(&flags, &SystemResolver)?)?;
    if flags.string("fs_wal_dir").is_empty() {
        tracing::warn!("no --fs_wal_dir: rows live in memory, they are gone when this server stops");
    }
    let stop = signals.wait();
    tracing::info!(?stop, "stopping");
    server.shutdown();
    Ok(())
}
