//! What the whole machine does while the real `kudu perf table_scan` reads a table, as `perf stat` counts it.

use std::process::Command;

use anyhow::{Result, bail};
use xtask::figures::Figures;
use xtask::report;

use crate::step;

/// What `perf stat -a -r 10` says of one command: by event, the mean and how much the runs differ, in percent.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    /// Whose server, and how it was reached.
    pub(super) name: String,
    events: Vec<(String, f64, f64)>,
}

impl Counts {
    /// Runs the command ten times under `perf`.
    pub(super) fn of(name: String, command: &Command) -> Result<Counts> {
        if !step::missing(&["perf"]).is_empty() {
            bail!("--system-wide needs the program perf");
        }
        let said = std::env::temp_dir().join(format!("nyala-perf-{}", std::process::id()));
        let mut perf = Command::new("perf");
        perf.args(["stat", "-a", "-r", RUNS, "-x,", "-e", &EVENTS.join(","), "-o"]).arg(&said).arg("--");
        perf.arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => perf.env(key, value),
                None => perf.env_remove(key),
            };
        }
        let done = step::capture(&mut perf).and_then(|_| Ok(std::fs::read_to_string(&said)?));
        let _ = std::fs::remove_file(&said);
        let events = parse(&done?);
        if events.is_empty() {
            bail!("perf counted nothing: may this user look at the whole machine?");
        }
        Ok(Counts { name, events })
    }
}

/// Adds the counts to the figures, and prints them side by side.
pub(super) fn publish(counts: &[Counts], figures: &mut Figures) {
    for Counts { name, events } in counts {
        for (event, mean, percent) in events {
            let figure = format!("system_{}_{name}", event.replace('-', "_"));
            let unit = if event == "cpu-clock" { "ms" } else { "" };
            figures.add(&figure, unit, &[*mean]);
            figures.add(&format!("{figure}_percent"), "+- %", &[*percent]);
        }
    }
    let headers: Vec<&str> =
        ["system-wide"].into_iter().chain(counts.iter().map(|one| one.name.as_str())).collect();
    let row = |event: &&str| {
        let cell = |one: &Counts| {
            let found = one.events.iter().find(|(name, ..)| name == event);
            found.map_or("not counted here".to_owned(), |(_, mean, percent)| {
                let mean =
                    if *mean < 1000.0 { format!("{mean:.2}") } else { report::thousands(*mean as u64) };
                format!("{mean} (+- {percent:.2} %)")
            })
        };
        [(*event).to_owned()].into_iter().chain(counts.iter().map(cell)).collect()
    };
    let rows: Vec<Vec<String>> = EVENTS.iter().map(row).collect();
    println!("\nkudu perf table_scan, mean of {RUNS} runs\n\n{}", report::table(&headers, &rows));
}

/// Lines of `count,unit,event,percent,...`; what the machine does not count has no number.
fn parse(text: &str) -> Vec<(String, f64, f64)> {
    let line = |line: &str| {
        let mut fields = line.split(',');
        let count: f64 = fields.next()?.parse().ok()?;
        let event = fields.nth(1)?.to_owned();
        let percent = fields.next()?.trim_end_matches('%').parse().ok()?;
        Some((event, count, percent))
    };
    text.lines().filter_map(line).collect()
}

const RUNS: &str = "10";
const EVENTS: [&str; 8] = [
    "cpu-clock",
    "context-switches",
    "cpu-migrations",
    "page-faults",
    "cycles",
    "instructions",
    "branches",
    "branch-misses",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_perf_counted_is_read_and_what_it_did_not_is_left_out() {
        let text = "# started on Tue\n\n404.52,msec,cpu-clock,0.07%,404522185,100.00,2.001,CPUs utilized\n\
                    285,,context-switches,11.54%,404522215,100.00,704.520,/sec\n\
                    <not supported>,,cycles,0.00%,0,100.00,,\n";
        let expected =
            [("cpu-clock".to_owned(), 404.52, 0.07), ("context-switches".to_owned(), 285.0, 11.54)];
        assert_eq!(parse(text), expected);
    }
}
