//! Runs of the real `kudu` command line with an expectation on each, reported as a test runner does.

use std::fs::File;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::Kit;

/// How long one command may take.
const LIMIT: Duration = Duration::from_secs(180);

/// What a command did.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// The exit code; none when it was killed, by the limit or a signal.
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

impl From<std::process::Output> for Run {
    fn from(output: std::process::Output) -> Run {
        Run {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Whether a run is as expected, or what is wrong with it.
pub(super) type Verdict = Result<(), String>;

impl Run {
    /// It ended with 0.
    pub(super) fn ok(&self) -> Verdict {
        match self.code {
            Some(0) => Ok(()),
            Some(code) => Err(format!("exit code {code}")),
            None => Err(format!("killed, after {} s at most", LIMIT.as_secs())),
        }
    }

    /// It ended with 0 and its standard output holds all these texts.
    pub(super) fn shows(&self, texts: &[&str]) -> Verdict {
        self.ok()?;
        match texts.iter().find(|text| !self.out.contains(**text)) {
            None => Ok(()),
            Some(text) => Err(format!("no {text:?} in the output")),
        }
    }

    /// It was refused with an exit code of its own, saying this.
    pub(super) fn refused(&self, text: &str) -> Verdict {
        match self.code {
            Some(code) if code != 0 && self.err.contains(text) => Ok(()),
            Some(0) => Err("it was not refused".to_owned()),
            Some(code) => Err(format!("exit code {code}, without {text:?}")),
            None => Err("killed".to_owned()),
        }
    }

    /// It ended with 0 and so many lines of its output hold this text.
    pub(super) fn lines(&self, text: &str, count: usize) -> Verdict {
        self.ok()?;
        let found = self.out.lines().filter(|line| line.contains(text)).count();
        if found == count { Ok(()) } else { Err(format!("{found} lines with {text:?}, expected {count}")) }
    }

    /// A scan that counted so many rows.
    pub(super) fn counted(&self, rows: u64) -> Verdict {
        self.shows(&[&format!("Total count {rows} cost")])
    }
}

/// Runs commands and keeps the tally.
pub(super) struct Suite<'a> {
    kit: &'a Kit,
    passed: usize,
    failed: Vec<String>,
    start: Instant,
}

impl<'a> Suite<'a> {
    pub(super) fn new(kit: &'a Kit) -> Suite<'a> {
        Suite { kit, passed: 0, failed: Vec::new(), start: Instant::now() }
    }

    /// Runs `kudu` and records nothing.
    pub(super) fn kudu(&self, arguments: &[&str]) -> Result<Run> {
        let path = |name: &str| self.kit.folder().join(format!("cli.{name}"));
        let file = |name: &str| File::create(path(name)).with_context(|| format!("cli.{name}"));
        let mut child = self
            .kit
            .kudu()
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file("out")?)
            .stderr(file("err")?)
            .spawn()
            .context("kudu")?;
        let end = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() > end {
                child.kill()?;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let text = |name: &str| -> Result<String> {
            Ok(String::from_utf8_lossy(&std::fs::read(path(name))?).into_owned())
        };
        Ok(Run { code: status.code(), out: text("out")?, err: text("err")? })
    }

    /// Starts `kudu` without waiting for its end.
    pub(super) fn start(&self, arguments: &[&str]) -> Result<std::process::Child> {
        let mut command = self.kit.kudu();
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().context("kudu")
    }

    /// Records a verdict under a name and prints it, with the end of the output when it is bad.
    pub(super) fn record(&mut self, name: &str, run: &Run, verdict: Verdict) {
        match verdict {
            Ok(()) => {
                self.passed += 1;
                println!("test {name} ... ok");
            }
            Err(reason) => {
                println!("test {name} ... FAILED: {reason}");
                for line in last_lines(&run.out, 5).chain(last_lines(&run.err, 5)) {
                    println!("    {line}");
                }
                self.failed.push(name.to_owned());
            }
        }
    }

    /// Prints the result as cargo's test runner does; an error when a check failed.
    pub(super) fn finish(self) -> Result<()> {
        println!(
            "\ntest result: {}. {} passed; {} failed; 0 ignored; 0 measured; 0 filtered out; finished in {:.2}s\n",
            if self.failed.is_empty() { "ok" } else { "FAILED" },
            self.passed,
            self.failed.len(),
            self.start.elapsed().as_secs_f64(),
        );
        if !self.failed.is_empty() {
            bail!("failed: {}", self.failed.join(", "));
        }
        Ok(())
    }
}

fn last_lines(text: &str, count: usize) -> impl Iterator<Item = &str> {
    let lines = text.lines().count();
    text.lines().skip(lines.saturating_sub(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(code: i32, out: &str, err: &str) -> Run {
        Run { code: Some(code), out: out.to_owned(), err: err.to_owned() }
    }

    #[test]
    fn a_count_is_compared_as_a_whole_number() {
        let counted = run(0, "Total count 1000000 cost 0.01 seconds\n", "");
        assert!(counted.counted(1_000_000).is_ok());
        assert!(counted.counted(100_000).is_err());
        assert!(counted.counted(10_000_000).is_err());
    }

    #[test]
    fn a_refusal_needs_an_exit_code_and_its_words() {
        assert!(run(1, "", "Not found: no such table").refused("Not found").is_ok());
        assert!(run(0, "", "Not found").refused("Not found").is_err());
        assert!(run(1, "", "Timed out").refused("Not found").is_err());
        assert!(Run::default().refused("").is_err());
    }

    #[test]
    fn texts_and_lines_count_only_after_success() {
        assert!(run(1, "LEADER", "").shows(&["LEADER"]).is_err());
        assert!(run(0, "a LEADER\nb\n", "").lines("LEADER", 1).is_ok());
        assert!(run(0, "a LEADER\nb LEADER\n", "").lines("LEADER", 1).is_err());
    }
}
