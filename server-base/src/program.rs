//! What the programs of both servers do around their server.

use std::error::Error;
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::flags::{FlagSet, Outcome};
use crate::logging;
use crate::signals::StopSignals;

/// Runs a server as a process: reads the command line into `flags`, sets up logs, calls `start`, and `stop` when a signal asks
/// for it. What is wrong goes to standard error as one line, with exit code 1.
pub fn run<S, E: Error + 'static>(
    flags: FlagSet,
    start: impl FnOnce(&FlagSet) -> Result<S, E>,
    stop: impl FnOnce(S),
) -> ExitCode {
    match serve(&flags, start, stop) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", flags.program());
            ExitCode::FAILURE
        }
    }
}

fn serve<S, E: Error + 'static>(
    flags: &FlagSet,
    start: impl FnOnce(&FlagSet) -> Result<S, E>,
    stop: impl FnOnce(S),
) -> Result<(), Box<dyn Error>> {
    match flags.parse(std::env::args().skip(1))? {
        Outcome::Print(text) => {
            print!("{text}");
            return Ok(());
        }
        Outcome::Run { positional } if !positional.is_empty() => {
            return Err(format!("arguments that are no flags: {}", positional.join(" ")).into());
        }
        Outcome::Run { .. } => {}
    }
    logging::init(flags.int("v"))?;
    flags.warn_ignored();
    allow_descriptors();
    // Before the start, so that a signal during it is not lost.
    let mut signals = StopSignals::install()?;
    let server = start(flags)?;
    let signal = signals.wait();
    tracing::info!(?signal, "stopping");
    stop(server);
    Ok(())
}

/// As many as the system grants: each tablet that was written to has a file open, and 1,024 are too few for a thousand.
fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit of open files stays at {:?}", limit.current);
    }
}
