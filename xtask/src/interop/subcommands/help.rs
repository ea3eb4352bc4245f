//! Which subcommands the real command line has, by its own help.

use anyhow::Result;

use crate::interop::suite::Suite;

/// The groups whose subcommands talk to clusters.
const GROUPS: [&str; 6] = ["table", "tablet", "tserver", "master", "cluster", "remote_replica"];

/// All subcommands of the groups with what the help says of each, as `table set_limit disk_size`.
pub(super) fn subcommands(suite: &Suite<'_>) -> Result<Vec<(String, String)>> {
    let mut open: Vec<(String, String)> =
        GROUPS.iter().rev().map(|&group| (group.to_owned(), String::new())).collect();
    let mut found = Vec::new();
    while let Some((command, about)) = open.pop() {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let run = suite.kudu(&words)?;
        let inner = listed(&format!("{}{}", run.out, run.err));
        if inner.is_empty() {
            found.push((command, about));
        } else {
            open.extend(inner.into_iter().rev().map(|(name, about)| (format!("{command} {name}"), about)));
        }
    }
    Ok(found)
}

/// The names below "<command> can be one of the following", each with the sentence beside it.
fn listed(help: &str) -> Vec<(String, String)> {
    let Some((_, list)) = help.split_once("<command> can be one of the following:") else {
        return Vec::new();
    };
    let mut names: Vec<(String, String)> = Vec::new();
    for line in list.lines() {
        match line.trim().split_once("   ") {
            Some((name, about)) if name.chars().all(|c| c.is_ascii_lowercase() || c == '_') => {
                names.push((name.to_owned(), about.trim().to_owned()));
            }
            _ => {
                if let (Some((_, about)), false) = (names.last_mut(), line.trim().is_empty()) {
                    *about = format!("{about} {}", line.trim());
                }
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sentences_that_go_on_are_read() {
        let help = "Usage: kudu tserver <command> [<args>]\n\n<command> can be one of the following:\n   \
                    list   List tablet servers\n   unregister   Unregister a tablet server from the master's\n                \
                    state and catalog.\n\n";
        let names = listed(help);
        assert_eq!(names[0], ("list".to_owned(), "List tablet servers".to_owned()));
        assert_eq!(names[1].1, "Unregister a tablet server from the master's state and catalog.");
        assert!(listed("Usage: kudu tserver list <master>").is_empty());
    }
}
