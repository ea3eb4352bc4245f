//! Java programs of ours that tell what happens, on our servers and on real ones: both must tell the same.

use std::time::Instant;

use anyhow::{Result, bail};

use super::Kit;
use super::java::Program;
use super::target::{Servers, Target};
use crate::step;

/// What `Main` of `xtask/java` can tell of.
const PROGRAMS: [&str; 2] = ["ddl", "tables"];
/// How many lines that differ are shown.
const SHOWN: usize = 10;

/// Runs each program on both clusters and compares the lines.
pub(super) fn run(kit: &Kit) -> Result<()> {
    let start = Instant::now();
    let program = Program::compile(kit)?;
    let mut told = Vec::new();
    for servers in [Servers::Ours, Servers::Real] {
        let folder = tempfile::tempdir()?;
        // On disk, as real servers always are.
        let data = folder.path().join("cluster");
        let target = Target::start_with(kit, servers, 3, |builder| builder.data_dir(data))?;
        let tell = |name: &&str| step::capture(&mut program.command(&[name, &target.master]));
        told.push(PROGRAMS.iter().map(tell).collect::<Result<Vec<_>>>()?);
        target.stop()?;
    }
    let mut failed = Vec::new();
    let [ours, real] = told.as_slice() else { bail!("two clusters") };
    for (name, (ours, real)) in PROGRAMS.iter().zip(ours.iter().zip(real)) {
        let lines = real.lines().filter(|line| !line.is_empty()).count();
        let differences = differences(ours, real);
        if differences.is_empty() && lines > 0 {
            println!("test java::{name} ... ok ({lines} lines)");
            continue;
        }
        println!("test java::{name} ... FAILED: {} of {lines} lines differ", differences.len());
        for line in differences.iter().take(SHOWN) {
            println!("    {line}");
        }
        failed.push(*name);
    }
    println!(
        "\ntest result: {}. {} passed; {} failed; 0 ignored; 0 measured; 0 filtered out; finished in {:.2}s\n",
        if failed.is_empty() { "ok" } else { "FAILED" },
        PROGRAMS.len() - failed.len(),
        failed.len(),
        start.elapsed().as_secs_f64(),
    );
    if !failed.is_empty() {
        bail!("Java programs tell of our servers what they do not of the real ones: {}", failed.join(", "));
    }
    Ok(())
}

/// Lines that are not the same, each with its place.
fn differences(ours: &str, real: &str) -> Vec<String> {
    let (ours, real): (Vec<&str>, Vec<&str>) = (ours.lines().collect(), real.lines().collect());
    let line = |lines: &[&str], index: usize| {
        lines.get(index).map_or("nothing".to_owned(), |line| format!("{line:?}"))
    };
    (0..ours.len().max(real.len()))
        .filter(|&index| ours.get(index) != real.get(index))
        .map(|index| {
            format!("line {}: {} where Kudu has {}", index + 1, line(&ours, index), line(&real, index))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_differs_or_is_missing_is_named() {
        assert!(differences("a\nb\n", "a\nb\n").is_empty());
        assert_eq!(differences("a\nc\n", "a\nb\n"), ["line 2: \"c\" where Kudu has \"b\""]);
        assert_eq!(differences("a\n", "a\nb\n"), ["line 2: nothing where Kudu has \"b\""]);
        assert_eq!(differences("a\nb\n", "a\n"), ["line 2: \"b\" where Kudu has nothing"]);
    }
}
