//! Java programs of ours that tell what happens, on our servers and on real ones: both must tell the same.

use std::time::Instant;

use anyhow::{Result, bail};

use mini_cluster::MiniClusterBuilder;

use super::Kit;
use super::java::Program;
use super::target::{Servers, Target};
use crate::step;

/// What `Main` of `xtask/java` can tell of.
const PROGRAMS: [&str; 3] = ["ddl", "tables", "scans"];
/// What a server must do to its tablets for the programs to see it: idle scanners are forgotten and rows go to files soon.
const SETTINGS: [&str; 3] =
    ["--scanner_ttl_ms=2000", "--scanner_gc_check_interval_us=200000", "--flush_threshold_secs=1"];
/// Refusals that our servers put in their own words, because Kudu's say less, or speak of what only Kudu has. Of these the kind
/// counts.
const OWN_WORDS: [&str; 4] = [
    "not supported for type",
    "no column '",
    "must specify only primary key columns for",
    "the table does not exist: table_id:",
];
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
        let settings = |builder: MiniClusterBuilder| {
            SETTINGS.iter().fold(builder.data_dir(data), |builder, flag| builder.tserver_flag(*flag))
        };
        let target = Target::start_with(kit, servers, 3, settings)?;
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
        .filter(|&index| match (ours.get(index), real.get(index)) {
            (Some(ours), Some(real)) => !same(ours, real),
            _ => true,
        })
        .map(|index| {
            format!("line {}: {} where Kudu has {}", index + 1, line(&ours, index), line(&real, index))
        })
        .collect()
}

/// Whether two lines tell the same. Our refusals may say more than Kudu's after the same words.
fn same(ours: &str, real: &str) -> bool {
    if ours == real {
        return true;
    }
    let (Some(ours), Some(real)) = (refusal(ours), refusal(real)) else { return false };
    let is_own = OWN_WORDS.iter().any(|words| ours.words.contains(words));
    (ours.what, ours.kind) == (real.what, real.kind) && (is_own || ours.words.starts_with(real.words))
}

/// A line that tells of a refusal by a server.
struct Refusal<'a> {
    what: &'a str,
    kind: &'a str,
    words: &'a str,
}

/// `what was tried: refused, Kind: words (error 0)`.
fn refusal(line: &str) -> Option<Refusal<'_>> {
    let (what, rest) = [": refused, ", ": row error, "].iter().find_map(|mark| line.split_once(mark))?;
    let (kind, words) = rest.split_once(": ")?;
    Some(Refusal { what, kind, words: words.strip_suffix("(error 0)").unwrap_or(words).trim_end() })
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

    #[test]
    fn a_refusal_has_the_words_of_kudu_or_those_and_more() {
        let real = "drop: refused, Not found: no such column (error 0)";
        assert!(same(real, real));
        assert!(same("drop: refused, Not found: no such column 'x' (error 0)", real));
        for other in [
            "drop: refused, Not found: no such (error 0)",
            "drop: refused, Invalid argument: no such column (error 0)",
            "drop: row error, Not found: another thing (error 0)",
            "add: refused, Not found: no such column (error 0)",
            "drop: done",
        ] {
            assert!(!same(other, real), "{other}");
        }
        let own = "drop: refused, Not found: no column 'x' (error 0)";
        assert!(same(own, real), "our own words, of the same kind");
        assert!(!same("drop: refused, Invalid argument: no column 'x' (error 0)", real));
    }
}
