//! Interop runs beside the steps that compile: each a process of its own, whose output is shown when both are through.

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use super::summary::{Outcome, Summary};
use super::{Step, skipped};
use crate::interop::What;

/// An interop run that has ended.
struct Ended {
    name: &'static str,
    said: String,
    outcome: Result<Outcome>,
    took: Duration,
}

/// Runs both; what fails first ends the other after its step. `reason_to_skip` is asked beside the others as well, since it
/// may bring a lot over the network.
pub(super) fn run(
    interop: &[(&'static str, What)],
    reason_to_skip: impl Fn() -> Option<String> + Sync,
    others: &[Step],
    summary: &mut Summary,
) -> Result<()> {
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let interop = scope.spawn(|| {
            let reason = reason_to_skip();
            let mut ended = Vec::new();
            for (name, what) in interop {
                if failed.load(Ordering::Relaxed) {
                    break;
                }
                let step = match &reason {
                    Some(reason) => leave_out(name, reason),
                    None => run_apart(name, *what),
                };
                failed.fetch_or(step.outcome.is_err(), Ordering::Relaxed);
                ended.push(step);
            }
            ended
        });
        let mut done = Ok(());
        for (name, run) in others {
            if done.is_err() || failed.load(Ordering::Relaxed) {
                break;
            }
            done = summary.run(name, run);
            failed.fetch_or(done.is_err(), Ordering::Relaxed);
        }
        let Ok(ended) = interop.join() else { bail!("the interop runs have panicked") };
        for Ended { name, said, outcome, took } in ended {
            println!("\n== {name}\n{said}");
            done = done.and(summary.add(name, outcome, took));
        }
        done
    })
}

fn leave_out(name: &'static str, reason: &str) -> Ended {
    Ended { name, said: String::new(), outcome: skipped(reason.to_owned()), took: Duration::ZERO }
}

fn run_apart(name: &'static str, what: What) -> Ended {
    let start = Instant::now();
    let (said, outcome) = match output(what) {
        Ok(Output { status, stdout, stderr }) => {
            let said = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
            let outcome = if status.success() {
                Ok(Outcome::Done)
            } else {
                Err(anyhow::anyhow!("it ended with {status}"))
            };
            (said, outcome)
        }
        Err(error) => (String::new(), Err(error)),
    };
    Ended { name, said, outcome, took: start.elapsed() }
}

fn output(what: What) -> Result<Output> {
    let value = what.to_possible_value().context("a hidden interop run")?;
    let mut command = Command::new(std::env::current_exe()?);
    Ok(command.args(["interop", value.get_name()]).stdin(Stdio::null()).output()?)
}
