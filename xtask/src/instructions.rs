//! `cargo xtask instructions`: what a call and a row cost in instructions, counted by valgrind, against bounds.
//!
//! Counts do not depend on what else the machine does, so a bound can be near. They are of this program as it is, built with
//! `--release`: a runner of its own (gungraun) would have to be installed in the version that fits, and would build a second
//! time. Each figure is the difference of two runs, so that starting up does not count.

mod request;
mod rows;

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use xtask::report;

use crate::step;

/// Count the instructions of a call and of a row.
#[derive(clap::Args)]
pub(crate) struct Instructions {
    /// Run one of the counted things this many times, and nothing else.
    #[arg(long, requires = "rounds")]
    only: Option<String>,
    /// See `--only`.
    #[arg(long)]
    rounds: Option<u32>,
}

/// One counted thing.
struct Subject {
    name: &'static str,
    run: fn(u32) -> Result<()>,
    rounds: u32,
    /// What a round holds.
    per_round: u32,
    /// Instructions of one, when this was written.
    expected: u64,
}

const SUBJECTS: &[Subject] = &[
    Subject {
        name: "call through both machines",
        run: request::machines,
        rounds: 20,
        per_round: 50,
        expected: 2738,
    },
    Subject {
        name: "call over a unix socket",
        run: request::sockets,
        rounds: 20,
        per_round: 50,
        expected: 3570,
    },
    Subject {
        name: "row of a Write decoded",
        run: rows::decode,
        rounds: 20,
        per_round: rows::ROWS,
        expected: 869,
    },
    Subject {
        name: "row of a columnar block",
        run: rows::columnar,
        rounds: 20,
        per_round: rows::ROWS,
        expected: 23,
    },
    Subject {
        name: "row of a row-wise block",
        run: rows::row_wise,
        rounds: 20,
        per_round: rows::ROWS,
        expected: 154,
    },
];

/// Compilers differ; what regresses, mostly regresses by more.
const SLACK_PERCENT: u64 = 30;

pub(crate) const PROGRAMS: &[&str] = &["valgrind"];

impl Instructions {
    /// # Errors
    /// If valgrind cannot count, or a count is over its bound.
    pub(crate) fn run(self) -> Result<()> {
        if let (Some(name), Some(rounds)) = (&self.only, self.rounds) {
            let subject = SUBJECTS.iter().find(|subject| subject.name == name).context("no such name")?;
            return (subject.run)(rounds);
        }
        ensure!(cfg!(not(debug_assertions)), "counts are of a release build: cargo xtask builds one");
        let program = std::env::current_exe()?;
        let (mut lines, mut over) = (Vec::new(), Vec::new());
        for subject in SUBJECTS {
            let count = |rounds| count(&program, subject.name, rounds);
            let (few, many) = (count(subject.rounds)?, count(subject.rounds * 2)?);
            let counted = u64::from(subject.rounds) * u64::from(subject.per_round);
            let each = many.saturating_sub(few) / counted;
            let bound = subject.expected * (100 + SLACK_PERCENT) / 100;
            if each > bound {
                over.push(format!("{}: {each} instructions, at most {bound}", subject.name));
            }
            lines.push(vec![subject.name.to_owned(), each.to_string(), bound.to_string()]);
        }
        println!("{}", report::table(&["what", "instructions", "bound"], &lines));
        ensure!(over.is_empty(), "{}", over.join("; "));
        Ok(())
    }
}

/// All instructions of one run of this program.
fn count(program: &Path, name: &str, rounds: u32) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program).args([
        "instructions",
        "--only",
        name,
        "--rounds",
        &rounds.to_string(),
    ]);
    let output = command.stdin(Stdio::null()).output().context("valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{name} ended with {} under valgrind\n{said}", output.status);
    }
    collected(&said).with_context(|| format!("valgrind said no count:\n{said}"))
}

/// The number in the line `==1== Collected : 123`.
fn collected(said: &str) -> Option<u64> {
    said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
}

/// Why the counts are left out on this machine.
pub(crate) fn reason_to_skip() -> Option<String> {
    let missing = step::missing(PROGRAMS);
    (!missing.is_empty()).then(|| format!("{} missing (.ci/run installs it)", missing.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_in_what_valgrind_says() {
        let said = "==7== \n==7== Events    : Ir\n==7== Collected : 1234567\n==7== \n";
        assert_eq!(collected(said), Some(1_234_567));
        assert_eq!(collected("valgrind: no such file"), None);
    }

    #[test]
    fn each_counted_thing_runs() {
        for subject in SUBJECTS {
            (subject.run)(1).unwrap_or_else(|error| panic!("{}: {error:#}", subject.name));
        }
    }
}
