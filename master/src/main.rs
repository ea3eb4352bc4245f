//! The program `nyala-master`: a master of Kudu's protocol, with Kudu's flags.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use master::{Master, MasterOptions};
use server_base::flags::Outcome;
use server_base::logging;
use server_base::signals::StopSignals;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{PROGRAM}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let flags = MasterOptions::flags(PROGRAM);
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
    // Before the start, so that a signal during it is not lost.
    let mut signals = StopSignals::install()?;
    let in_memory = flags.string("fs_wal_dir").is_empty();
    let master = Master::start(MasterOptions::from_flags(flags)?)?;
    if in_memory {
        tracing::warn!("no --fs_wal_dir: tables live in memory, they are gone when this server stops");
    }
    let stop = signals.wait();
    tracing::info!(?stop, "stopping");
    master.shutdown();
    Ok(())
}

const PROGRAM: &str = "nyala-master";
