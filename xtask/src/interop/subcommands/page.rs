//! The page docs/compatibility.md.

use std::fmt::Write;

use super::shape::Outcome;

/// How a subcommand is marked that differs from Kudu's.
const NOT_YET: &str = "not yet";

/// One subcommand.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) command: String,
    pub(super) about: String,
    pub(super) calls: usize,
    pub(super) outcome: Outcome,
}

impl Row {
    pub(super) fn mark(&self) -> &'static str {
        match self.outcome {
            Outcome::Works => "works",
            Outcome::Refused => "refused as by Kudu",
            Outcome::Differs(_) => NOT_YET,
        }
    }

    pub(super) fn differs(&self) -> bool {
        matches!(self.outcome, Outcome::Differs(_))
    }

    fn note(&self) -> &str {
        match &self.outcome {
            Outcome::Differs(why) => why,
            _ => "",
        }
    }
}

/// How many rows have each mark, in words.
pub(super) fn summary(rows: &[Row]) -> String {
    let count = |mark: &str| rows.iter().filter(|row| row.mark() == mark).count();
    format!(
        "{} subcommands in {} calls: {} work, {} are refused as by Kudu, {} not yet",
        rows.len(),
        rows.iter().map(|row| row.calls).sum::<usize>(),
        count("works"),
        count("refused as by Kudu"),
        count(NOT_YET),
    )
}

/// The commands that a page marks "not yet".
pub(super) fn recorded(page: &str) -> Vec<&str> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .filter(|(_, rest)| rest.split(" | ").last().is_some_and(|mark| mark.starts_with(NOT_YET)))
        .map(|(command, _)| command)
        .collect()
}

/// The whole page.
pub(super) fn page(rows: &[Row], date: &str) -> String {
    let mut text = format!(
        "# Compatibility with the real command line\n\n\
         Every subcommand that `kudu` 1.18.1 lists for tables, tablets, tablet servers, masters, clusters and remote replicas, run on a Nyala\n\
         cluster and on a real one (1 master, 3 tablet servers, tables of one replica each), exit codes and the shape of the output\n\
         compared: ids, addresses, column widths and figures of the moment aside. *Refused as by Kudu*: every call was refused by both, in the\n\
         same words. Written by `cargo xtask interop subcommands --write` on {date}.\n\n{}.\n",
        summary(rows)
    );
    let mut group = "";
    for row in rows {
        let (head, _) = row.command.split_once(' ').unwrap_or((&row.command, ""));
        if head != group {
            group = head;
            let _ = write!(
                text,
                "\n## kudu {group}\n\n| command | what it is for | calls | on Nyala |\n|---|---|---:|---|\n"
            );
        }
        let note = if row.note().is_empty() {
            String::new()
        } else {
            format!(": {}", row.note().replace('|', "\\|"))
        };
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {}{note} |",
            row.command,
            row.about.replace('|', "\\|"),
            row.calls,
            row.mark()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(command: &str, outcome: Outcome) -> Row {
        Row { command: command.to_owned(), about: "List | tables".to_owned(), calls: 2, outcome }
    }

    #[test]
    fn what_a_page_marks_as_not_yet_is_read_from_it() {
        let rows = [
            row("table list", Outcome::Works),
            row("table recall", Outcome::Refused),
            row("remote_replica copy", Outcome::Differs("exit code 1 | 0".to_owned())),
        ];
        let page = page(&rows, "2026-12-01");
        assert!(
            page.contains("3 subcommands in 6 calls: 1 work, 1 are refused as by Kudu, 1 not yet"),
            "{page}"
        );
        assert_eq!(recorded(&page), ["remote_replica copy"]);
    }
}
