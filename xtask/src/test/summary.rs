//! What was run, how it ended and in what time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use xtask::report;

/// How a step ended, when it did not fail.
pub(super) enum Outcome {
    Done,
    Skipped(String),
}

pub(super) struct Summary {
    start: Instant,
    lines: Vec<Vec<String>>,
}

impl Default for Summary {
    fn default() -> Self {
        Self { start: Instant::now(), lines: Vec::new() }
    }
}

impl Summary {
    /// Runs a step whose output is shown as it comes.
    pub(super) fn run(&mut self, name: &str, run: impl FnOnce() -> Result<Outcome>) -> Result<()> {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = run();
        self.add(name, outcome, start.elapsed())
    }

    /// A step that has ended.
    pub(super) fn add(&mut self, name: &str, outcome: Result<Outcome>, took: Duration) -> Result<()> {
        let seconds = seconds(took);
        let result = match outcome.with_context(|| format!("step {name}"))? {
            Outcome::Done => {
                println!("== {name}: ok, {seconds} s");
                "ok"
            }
            Outcome::Skipped(reason) => {
                println!("== {name}: SKIPPED: {reason}");
                "skipped"
            }
        };
        self.lines.push(vec![name.to_owned(), result.to_owned(), seconds]);
        Ok(())
    }

    pub(super) fn print(mut self) {
        self.lines.push(vec!["all".to_owned(), "ok".to_owned(), seconds(self.start.elapsed())]);
        println!("\n{}", report::table(&["step", "result", "seconds"], &self.lines));
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64())
}
