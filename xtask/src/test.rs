//! `cargo xtask test`: everything that has to hold before a change lands, cheapest first.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use xtask::report;

use crate::interop::{self, Interop};
use crate::step::{self, cargo};
use crate::{lint, wire_contract};

/// Formatting, clippy, lint, tests, doc tests, the wire contract and the interop runs, in this order; stops at the first failure.
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

const LOCAL: &[Step] = &[
    ("format", || step::run(&mut cargo(&["fmt", "--all", "--check"]))),
    ("clippy", || step::run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))),
    ("lint", || lint::run(&step::root())),
    ("tests", || step::run(&mut cargo(&["test", "--workspace", "--lib", "--bins", "--tests", "--examples"]))),
    ("doc tests", || step::run(&mut cargo(&["test", "--workspace", "--doc"]))),
];

const WITH_REAL_KUDU: &[Step] =
    &[("wire contract", wire_contract::run), ("interop", || Interop::everything().run())];

impl Test {
    pub(crate) fn run(self) -> Result<()> {
        let mut summary = Vec::new();
        for (name, run) in LOCAL {
            timed(name, &mut summary, || run().map(|()| Outcome::Done))?;
        }
        let strict = std::env::var("CI").is_ok_and(|value| value == "true");
        let reason = self.reason_to_skip();
        for (name, run) in WITH_REAL_KUDU {
            timed(name, &mut summary, || match &reason {
                Some(reason) if strict => bail!("{reason}, and CI=true leaves nothing out"),
                Some(reason) => Ok(Outcome::Skipped(reason.clone())),
                None => run().map(|()| Outcome::Done),
            })?;
        }
        println!("\n{}", report::table(&["step", "result", "seconds"], &summary));
        Ok(())
    }

    fn reason_to_skip(&self) -> Option<String> {
        if self.no_interop {
            return Some("--no-interop was given".to_owned());
        }
        let missing = step::missing(interop::PROGRAMS);
        (!missing.is_empty()).then(|| {
            format!(
                "{} missing: the comparison with the real libraries, the real kudu command line, the Java client and \
                 the real servers are left out (.ci/run installs what they need)",
                missing.join(", ")
            )
        })
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
