//! What the commands print: tables, numbers, progress.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

/// A table of text cells; columns whose every cell begins with a digit are set to the right.
pub fn table(headers: &[&str], rows: &[Vec<String>]) -> String {
    let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
    let columns: Vec<(usize, bool)> = (0..headers.len())
        .map(|column| {
            let cells = rows.iter().map(|row| cell(row, column));
            let width = cells.clone().map(|cell| cell.chars().count()).max().unwrap_or(0);
            let numbers = cells.into_iter().all(|cell| cell.starts_with(|c: char| c.is_ascii_digit()));
            (width.max(headers[column].chars().count()), numbers && !rows.is_empty())
        })
        .collect();
    let line = |row: &[String]| {
        let cells = columns.iter().enumerate().map(|(column, &(width, numbers))| {
            let cell = cell(row, column);
            if numbers { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("   ").trim_end().to_owned()
    };
    let head: Vec<String> = headers.iter().map(|&header| header.to_owned()).collect();
    let ruler: Vec<String> = columns.iter().map(|&(width, _)| "-".repeat(width)).collect();
    let lines = [line(&head), ruler.join("---")].into_iter().chain(rows.iter().map(|row| line(row)));
    lines.collect::<Vec<_>>().join("\n")
}

/// A number with a comma between groups of three digits: `336,776`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A progress bar over `total` rows; it draws nothing when standard error is no terminal, and leaves nothing there when dropped.
pub fn progress(total: u64, what: &str) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg} [{bar:40}] {human_pos}/{human_len} rows, {per_sec}, {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> ");
    ProgressBar::new(total)
        .with_style(style)
        .with_message(what.to_owned())
        .with_finish(ProgressFinish::AndClear)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped_by_three() {
        let texts: Vec<String> = [0, 999, 1000, 336_776, 350_217_607].into_iter().map(thousands).collect();
        assert_eq!(texts, ["0", "999", "1,000", "336,776", "350,217,607"]);
    }

    #[test]
    fn columns_of_numbers_are_set_to_the_right() {
        let rows = [("tcp", "7"), ("unix", "1,000")].map(|(way, rows)| vec![way.to_owned(), rows.to_owned()]);
        let expected = "way     rows\n------------\ntcp        7\nunix   1,000";
        assert_eq!(table(&["way", "rows"], &rows), expected);
    }
}
