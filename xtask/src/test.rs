//! `cargo xtask test`: everything that has to hold before a change lands, cheapest first.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use xtask::report;

use crate::instructions::{self, Instructions};
use crate::interop::{self, Interop, Kit, What};
use crate::lint;
use crate::step::{self, cargo};

/// Formatting, clippy, lint, tests, documentation, instruction counts, the wire contract and the interop runs, in this
/// order; stops at the first failure.
#[derive(clap::Args)]
pub(crate) struct Test {
    /// Leave out what needs Maven, Java and Python (the real Kudu components).
    #[arg(long)]
    no_interop: bool,
}

/// How a step ended, when it did not fail.
enum Outcome {
    Done,
    Skipped(String),
}

type Step = (&'static str, fn() -> Result<()>);

/// What is off by default and tested all the same.
const FEATURES: &str = "--features=client/arrow";

const LOCAL: &[Step] = &[
    ("format", || step::run(&mut cargo(&["fmt", "--all", "--check"]))),
    ("clippy", || {
        step::run(&mut cargo(&["clippy", "--workspace", FEATURES, "--all-targets", "--", "-D", "warnings"]))
    }),
    ("lint", || lint::run(&step::root())),
    // `--lib` would also run the tests of libraries that say they have none to run (loom-models).
    ("tests", || step::run(&mut cargo(&["test", "--workspace", FEATURES, "--no-fail-fast", "--tests"]))),
    ("doc tests", || step::run(&mut cargo(&["test", "--workspace", FEATURES, "--no-fail-fast", "--doc"]))),
    ("documentation", || {
        step::run(
            cargo(&["doc", "--workspace", FEATURES, "--no-deps", "--quiet"])
                .env("RUSTDOCFLAGS", "-D warnings"),
        )
    }),
];

const WITH_VALGRIND: &[Step] = &[("instruction counts", || Instructions::all().run())];

const WITH_REAL_KUDU: &[Step] = &[
    ("wire contract", || Interop::only(What::Wire).run()),
    ("rowsets in pyarrow", || Interop::only(What::Arrow).run()),
    ("kudu command line on our servers", || Interop::only(What::Cli).run()),
    ("all subcommands on our servers and on real ones", || Interop::only(What::Subcommands).run()),
    ("Java client on our servers", || Interop::only(What::Java).run()),
    ("Java programs on our servers and on real ones", || Interop::only(What::Programs).run()),
    ("faults played to real clients", || Interop::only(What::Faults).run()),
    ("our client on real servers", || Interop::only(What::Client).run()),
];

impl Test {
    pub(crate) fn run(self) -> Result<()> {
        let mut summary = Vec::new();
        for (name, run) in LOCAL {
            timed(name, &mut summary, || run().map(|()| Outcome::Done))?;
        }
        let strict = std::env::var("CI").is_ok_and(|value| value == "true");
        let optional =
            [(WITH_VALGRIND, instructions::reason_to_skip()), (WITH_REAL_KUDU, self.reason_to_skip())];
        for (steps, reason) in optional {
            for (name, run) in steps {
                timed(name, &mut summary, || match &reason {
                    Some(reason) if strict => bail!("{reason}, and CI=true leaves nothing out"),
                    Some(reason) => Ok(Outcome::Skipped(reason.clone())),
                    None => run().map(|()| Outcome::Done),
                })?;
            }
        }
        println!("\n{}", report::table(&["step", "result", "seconds"], &summary));
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

fn timed(name: &str, summary: &mut Vec<Vec<String>>, run: impl FnOnce() -> Result<Outcome>) -> Result<()> {
    println!("\n== {name}");
    let start = Instant::now();
    let outcome = run().with_context(|| format!("step {name}"));
    let seconds = seconds(start.elapsed());
    match outcome? {
        Outcome::Done => {
            println!("== {name}: ok, {seconds} s");
            summary.push(vec![name.to_owned(), "ok".to_owned(), seconds]);
        }
        Outcome::Skipped(reason) => {
            println!("== {name}: SKIPPED: {reason}");
            summary.push(vec![name.to_owned(), "skipped".to_owned(), seconds]);
        }
    }
    Ok(())
}

fn seconds(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64())
}
