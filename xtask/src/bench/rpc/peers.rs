//! Our stack beside tonic, tarpc and capnp-rpc: the same calls under the same settings, in turn.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use xtask::figures::Figures;
use xtask::report;

use super::super::peers;
use crate::step;

const PEERS: [&str; 3] = ["tonic", "tarpc", "capnp"];
/// What is taken of each run.
const TAKEN: [(&str, &str); 7] = [
    ("reqs_per_sec", "1/s"),
    ("user_cpu_us_per_req", "us"),
    ("sys_cpu_us_per_req", "us"),
    ("cpu_us_per_req", "us"),
    ("ctx_switches_per_req", ""),
    ("p50_us", "us"),
    ("p99_us", "us"),
];
const CPU: &str = "cpu_us_per_req";
/// Times that each stack is measured.
const ROUNDS: usize = 5;

/// Runs each stack in processes of its own with these arguments of `bench rpc`, and prints what each spends.
pub(super) fn run(arguments: &[String]) -> Result<Figures> {
    let program = peers::build()?;
    let folder = std::env::temp_dir().join(format!("nyala-bench-rpc-{}.json", std::process::id()));
    let mut runs: Vec<(&str, Vec<Value>)> =
        ["ours"].into_iter().chain(PEERS).map(|name| (name, Vec::new())).collect();
    for _ in 0..ROUNDS {
        for (name, runs) in &mut runs {
            let figures = if *name == "ours" {
                let mut ours = Command::new(std::env::current_exe()?);
                ours.args(["bench", "rpc"]).args(arguments).arg("--json").arg(&folder);
                step::capture(&mut ours)?;
                std::fs::read_to_string(&folder)?
            } else {
                step::capture(Command::new(&program).args(["rpc", name]).args(arguments))?
            };
            runs.push(serde_json::from_str(&figures)?);
        }
    }
    std::fs::remove_file(&folder)?;
    let figures = collect(&runs)?;
    print(&runs.iter().map(|(name, _)| *name).collect::<Vec<_>>(), &figures);
    Ok(figures)
}

/// `NAME_STACK` for all that is taken, and `ratio_cpu_STACK` = theirs / ours of the same round.
fn collect(runs: &[(&str, Vec<Value>)]) -> Result<Figures> {
    let samples = |runs: &[Value], name: &str| -> Result<Vec<f64>> {
        let one = |run: &Value| run["figures"][name]["median"].as_f64().with_context(|| format!("no {name}"));
        runs.iter().map(one).collect()
    };
    let mut figures = Figures::default();
    let ours = runs.first().map(|(_, runs)| samples(runs, CPU)).transpose()?.unwrap_or_default();
    for (stack, runs) in runs {
        for (name, unit) in TAKEN {
            figures.add(&format!("{name}_{stack}"), unit, &samples(runs, name)?);
        }
        if *stack != "ours" {
            let ratios = samples(runs, CPU)?.iter().zip(&ours).map(|(theirs, ours)| theirs / ours).collect();
            let ratios: Vec<f64> = ratios;
            figures.add(&format!("ratio_cpu_{stack}"), "x", &ratios);
        }
    }
    Ok(figures)
}

fn print(stacks: &[&str], figures: &Figures) {
    let text = |name: String, digits: usize| match figures.range(&name) {
        Some((median, min, max)) => format!("{median:.digits$} ({min:.digits$} - {max:.digits$})"),
        None => String::new(),
    };
    let row = |stack: &&str| {
        vec![
            (*stack).to_owned(),
            text(format!("{CPU}_{stack}"), 2),
            text(format!("ratio_cpu_{stack}"), 1),
            report::thousands(figures.median(&format!("reqs_per_sec_{stack}")).unwrap_or_default() as u64),
            text(format!("ctx_switches_per_req_{stack}"), 2),
            text(format!("p99_us_{stack}"), 0),
        ]
    };
    let rows: Vec<Vec<String>> = stacks.iter().map(row).collect();
    let headers = ["stack", "CPU us a call", "to ours", "calls/s", "switches a call", "p99 us"];
    println!("Client and server together, medians (ranges) of {ROUNDS} runs in turn\n");
    println!("{}\n", report::table(&headers, &rows));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_round_by_round() {
        let run = |cpu: f64| {
            let one = |name| (name, serde_json::json!({"median": if name == CPU { cpu } else { 1.0 }}));
            let figures: std::collections::BTreeMap<_, _> =
                TAKEN.iter().map(|(name, _)| one(*name)).collect();
            serde_json::json!({ "figures": figures })
        };
        let runs = [("ours", vec![run(1.0), run(2.0)]), ("tarpc", vec![run(7.0), run(12.0)])];
        let figures = collect(&runs).unwrap();
        assert_eq!(figures.range("ratio_cpu_tarpc"), Some((6.5, 6.0, 7.0)));
        assert_eq!(figures.range("ratio_cpu_ours"), None);
        assert!(collect(&[("ours", vec![serde_json::json!({})])]).is_err(), "a figure that is not there");
    }
}
