//! The page docs/compatibility.md.

use std::fmt::Write;

use super::shape::Outcome;

/// One subcommand.
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
            Outcome::Differs(_) => "not yet",
        }
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
        count("not yet"),
    )
}

/// The whole page.
pub(super) fn page(rows: &[Row], date: &str) -> String {
    let mut text = format!(
        "# Compatibility with the real command line\n\n\
         Every subcommand that `kudu` 1.18.1 lists for tables, tablet servers, masters, clusters and remote replicas, run on a Nyala\n\
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
        let _ =
            writeln!(text, "| `{}` | {} | {} | {}{note} |", row.command, row.about, row.calls, row.mark());
    }
    text
}
