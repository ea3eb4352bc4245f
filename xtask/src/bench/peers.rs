//! `bench-peers/`: a workspace of its own with what a Rust user would take instead, run as child processes.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::step;

/// Builds it, unless it is built already; the program. The first time takes minutes.
pub(super) fn build() -> Result<PathBuf> {
    let root = step::root();
    let target = root.join("target/peers");
    let mut cargo = Command::new("nice");
    cargo.arg(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--locked", "--quiet"]).current_dir(root.join("bench-peers"));
    cargo.arg("--target-dir").arg(&target);
    step::run(&mut cargo)?;
    Ok(target.join("release/bench-peers"))
}

/// A child that answers lines of its standard input by lines of its output. It ends when dropped.
#[derive(Debug)]
pub(super) struct Talker {
    child: Child,
    /// Closed first: the child's sign to end.
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Talker {
    pub(super) fn start(command: &mut Command) -> Result<Talker> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let asks = child.stdin.take();
        let answers = child.stdout.take().context("a child without output")?;
        Ok(Talker { child, asks, answers: BufReader::new(answers) })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("a peer of the benchmark ended");
        }
        Ok(line.trim_end().to_owned())
    }

    pub(super) fn ask(&mut self) -> Result<Value> {
        self.asks.as_mut().context("closed")?.write_all(b"\n")?;
        let line = self.line()?;
        serde_json::from_str(&line).with_context(|| line.clone())
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        drop(self.asks.take());
        // A child that was told to end needs no more; what is wrong with it was reported by then.
        let _ = self.child.wait();
    }
}
