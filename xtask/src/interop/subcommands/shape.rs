//! When two runs of a command say the same: ids, addresses, log lines and widths aside.

use crate::interop::suite::Run;

/// What of the output counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// All lines, in any order.
    Lines,
    /// All lines, in any order, whatever the numbers.
    LinesWithoutNumbers,
    /// Of each line what is before the colon.
    Fields,
    /// The first line, whatever the numbers.
    Heading,
    /// Nothing: a server that runs until it is ended.
    Server,
}

/// What a call on our cluster came to, beside the same call on the real one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Works,
    /// Both clusters refused it, with the same exit code and words.
    Refused,
    /// How it differs.
    Differs(String),
}

pub(super) fn compare(look: Look, ours: &Run, real: &Run) -> Outcome {
    if look == Look::Server && (ours.code, real.code) != (Some(0), Some(0)) {
        return Outcome::Differs("a server did not come up beside ours and the real ones".to_owned());
    }
    if ours.code != real.code {
        let code = |run: &Run| run.code.map_or("none".to_owned(), |code| code.to_string());
        return Outcome::Differs(format!(
            "exit code {} where Kudu's is {}: {}",
            code(ours),
            code(real),
            if ours.code == Some(0) { last_line(real) } else { last_line(ours) }
        ));
    }
    if look == Look::Server {
        return Outcome::Works;
    }
    if ours.code != Some(0) {
        let (ours, real) = (last_line(ours), last_line(real));
        return if ours == real {
            Outcome::Refused
        } else {
            Outcome::Differs(format!("{ours:?} where Kudu says {real:?}"))
        };
    }
    let (ours, real) = (lines(look, &ours.out), lines(look, &real.out));
    match first_difference(&ours, &real) {
        None => Outcome::Works,
        Some(text) => Outcome::Differs(text),
    }
}

fn first_difference(ours: &[String], real: &[String]) -> Option<String> {
    let missing = real.iter().find(|line| !ours.contains(line));
    let more = ours.iter().find(|line| !real.contains(line));
    match (missing, more) {
        (Some(missing), Some(more)) => Some(format!("{more:?} where Kudu says {missing:?}")),
        (Some(missing), None) => Some(format!("no line {missing:?}")),
        (None, Some(more)) => Some(format!("a line {more:?} that Kudu does not print")),
        (None, None) if ours.len() != real.len() => {
            Some(format!("{} lines, Kudu prints {}", ours.len(), real.len()))
        }
        (None, None) => None,
    }
}

fn lines(look: Look, text: &str) -> Vec<String> {
    let numbers = look == Look::Lines;
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| !is_log(line) && !is_setting(line))
        .map(|line| {
            if look == Look::Fields || is_remark(line) {
                line.split(':').next().unwrap_or_default()
            } else {
                line
            }
        })
        .map(|line| mask(line, numbers))
        .filter(|line| !line.is_empty())
        .collect();
    if look == Look::Heading {
        lines.truncate(1);
    }
    lines.sort();
    lines
}

fn last_line(run: &Run) -> String {
    let said = run.err.lines().rev().find(|line| !line.trim().is_empty() && !is_log(line));
    mask(said.unwrap_or_default(), false)
}

/// Lines of the tool's own log: `W20261201 ...`.
fn is_log(line: &str) -> bool {
    let mut chars = line.chars();
    chars.next().is_some_and(|level| "IWEF".contains(level))
        && chars.take(4).filter(char::is_ascii_digit).count() == 4
}

/// How a server was started, as `ksck` lists it: not what the subcommand does.
fn is_setting(line: &str) -> bool {
    line.contains("server(s) checked")
}

/// What a server says of a replica in its own words.
fn is_remark(line: &str) -> bool {
    line.trim_start().starts_with("Last status:")
}

/// The line with ids and addresses by their kind, runs of blanks and rulers shortened, and numbers too unless they are `kept`.
fn mask(line: &str, numbers_kept: bool) -> String {
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        if word.starts_with('/') {
            words.push("PATH".to_owned());
            continue;
        }
        let mut masked = String::new();
        for (text, is_word) in pieces(word) {
            if !is_word {
                masked += text;
            } else if text.len() == 32 && text.chars().all(|c| c.is_ascii_hexdigit()) {
                masked += "ID";
            } else if !numbers_kept && text.starts_with(|c: char| c.is_ascii_digit()) {
                masked += "N";
            } else {
                masked += text;
            }
        }
        // A number with a fraction or an exponent is one number.
        let masked = addresses(&masked).replace("N.N", "N").replace("N-N", "N");
        if !masked.chars().all(|c| c == '-' || c == '+') {
            words.push(masked);
        }
    }
    words.join(" ")
}

/// The word cut into runs of letters and digits (a decimal point between digits belongs to them) and what is between.
fn pieces(word: &str) -> Vec<(&str, bool)> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let inside = first.is_alphanumeric() || first == '_';
        let end = rest.find(|c: char| (c.is_alphanumeric() || c == '_') != inside).unwrap_or(rest.len());
        let (piece, tail) = rest.split_at(end);
        pieces.push((piece, inside));
        rest = tail;
    }
    pieces
}

/// `127.0.0.1:7051` and its masked form by one word.
fn addresses(word: &str) -> String {
    let mut text = String::new();
    let mut rest = word;
    for loopback in ["127.0.0.1:", "N.N.N.N:"] {
        while let Some(start) = rest.find(loopback) {
            let after = &rest[start + loopback.len()..];
            let port = after.find(|c: char| !c.is_ascii_digit() && c != 'N').unwrap_or(after.len());
            text += &rest[..start];
            text += "ADDRESS";
            rest = &after[port..];
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(code: i32, out: &str, err: &str) -> Run {
        Run { code: Some(code), out: out.to_owned(), err: err.to_owned() }
    }

    #[test]
    fn ids_addresses_widths_and_the_order_of_lines_do_not_count() {
        let ours = run(0, "  T 0123456789abcdef0123456789abcdef\n    L 127.0.0.1:4000\n", "");
        let real =
            run(0, " L   127.0.0.1:50  \n T ffffffffffffffffffffffffffffffff\n-----\n", "I20261201 start\n");
        assert_eq!(compare(Look::Lines, &ours, &real), Outcome::Works);
    }

    #[test]
    fn numbers_count_unless_they_are_of_the_moment() {
        let (ours, real) = (run(0, "rows: 12, cost 0.5 s", ""), run(0, "rows: 13, cost 0.25 s", ""));
        assert_eq!(compare(Look::LinesWithoutNumbers, &ours, &real), Outcome::Works);
        assert!(matches!(compare(Look::Lines, &ours, &real), Outcome::Differs(_)));
    }

    #[test]
    fn a_refusal_must_have_the_same_code_and_words() {
        let real = run(1, "", "W1201 10:00 slow\nNot found: the table does not exist\n");
        assert_eq!(compare(Look::Lines, &real, &real), Outcome::Refused);
        let other = run(1, "", "Not found: no such table\n");
        assert!(matches!(compare(Look::Lines, &other, &real), Outcome::Differs(_)));
        assert!(matches!(compare(Look::Lines, &run(0, "", ""), &real), Outcome::Differs(_)));
    }

    #[test]
    fn a_servers_own_words_on_a_replica_do_not_count() {
        let (ours, real) = (run(0, "  Last status:\n", ""), run(0, "  Last status: opened a new log\n", ""));
        assert_eq!(compare(Look::Lines, &ours, &real), Outcome::Works);
    }

    #[test]
    fn a_line_more_or_less_is_a_difference() {
        let (two, one) = (run(0, "a\na\n", ""), run(0, "a\n", ""));
        assert!(matches!(compare(Look::Lines, &two, &one), Outcome::Differs(_)));
    }
}
