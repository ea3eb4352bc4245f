//! Signals stop a server once, and a second Ctrl-C is obeyed at once. Each test runs in a child process: signals are for all of it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use server_base::signals::StopSignals;

const ROLE: &str = "NYALA_TEST_SIGNAL_CHILD";

/// In the child: catches signals, says when it is ready and what stopped it. In the parent: nothing.
#[test]
fn child_waits_for_a_signal() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut signals = StopSignals::install().unwrap();
    say("ready");
    if role == "close" {
        let closer = signals.closer();
        std::thread::spawn(move || closer.close());
    }
    say(&format!("{:?}", signals.wait()));
    if role == "slow" {
        std::thread::sleep(Duration::from_secs(60));
    }
    std::process::exit(0);
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{text}").unwrap();
    out.flush().unwrap();
}

struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_waits_for_a_signal", "--nocapture"])
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut running = Self { child, lines };
        running.expect("ready");
        running
    }

    fn expect(&mut self, text: &str) {
        let found = self.lines.by_ref().map_while(Result::ok).find(|line| line == text);
        assert_eq!(found.as_deref(), Some(text));
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn status(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "the child did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_first_signal_of_either_kind_ends_the_wait() {
    for (signal, name) in [(Signal::TERM, "Terminate"), (Signal::INT, "Interrupt")] {
        let mut running = Running::start("quick");
        running.send(signal);
        running.expect(name);
        assert_eq!(running.status(), Some(0));
    }
}

#[test]
fn a_second_ctrl_c_ends_the_process_at_once() {
    let mut running = Running::start("slow");
    running.send(Signal::INT);
    running.expect("Interrupt");
    running.send(Signal::INT);
    assert_eq!(running.status(), Some(130));
}

#[test]
fn a_wait_can_be_ended_without_a_signal() {
    let mut running = Running::start("close");
    running.expect("Closed");
    assert_eq!(running.status(), Some(0));
}
