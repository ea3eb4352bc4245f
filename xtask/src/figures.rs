//! Figures of a benchmark, as the acceptance checks read them.
//!
//! The file is `{"figures": {NAME: {"median": x, "min": x, "max": x, "unit": "..."}}}`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

/// Named figures, each the median, least and greatest of its samples.
#[derive(Debug, Default, Clone)]
pub struct Figures {
    figures: BTreeMap<String, Figure>,
}

#[derive(Debug, Clone)]
struct Figure {
    median: f64,
    min: f64,
    max: f64,
    unit: String,
}

impl Figures {
    /// Adds a figure from its samples, in `unit`; a name without samples is left out, since nothing was measured.
    pub fn add(&mut self, name: &str, unit: &str, samples: &[f64]) {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
            return;
        };
        let figure = Figure { median: median(&sorted), min, max, unit: unit.to_owned() };
        self.figures.insert(name.to_owned(), figure);
    }

    /// The median of a figure, if it was measured.
    pub fn median(&self, name: &str) -> Option<f64> {
        self.figures.get(name).map(|figure| figure.median)
    }

    /// Median, least and greatest of a figure, if it was measured.
    pub fn range(&self, name: &str) -> Option<(f64, f64, f64)> {
        self.figures.get(name).map(|figure| (figure.median, figure.min, figure.max))
    }

    /// The figures as JSON text, ended by a line feed.
    pub fn to_json(&self) -> String {
        let figures: BTreeMap<&String, Value> = self
            .figures
            .iter()
            .map(|(name, f)| {
                let value = json!({"median": f.median, "min": f.min, "max": f.max, "unit": f.unit});
                (name, value)
            })
            .collect();
        format!("{:#}\n", json!({ "figures": figures }))
    }

    /// Writes [`Figures::to_json`] to a file, replacing it.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        std::fs::write(path, self.to_json())
    }

    /// The figures as rows (name, median, least, greatest, unit) for a table on the terminal.
    pub fn rows(&self) -> Vec<Vec<String>> {
        self.figures
            .iter()
            .map(|(name, f)| {
                vec![
                    name.clone(),
                    format!("{:.2}", f.median),
                    format!("{:.2}", f.min),
                    format!("{:.2}", f.max),
                    f.unit.clone(),
                ]
            })
            .collect()
    }
}

/// Median of sorted samples; of an even number, the mean of the two in the middle.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_holds_median_min_max_and_unit() {
        let mut figures = Figures::default();
        figures.add("idle_rss_mib", "MiB", &[12.0, 10.0, 11.0, 30.0]);
        let value: Value = serde_json::from_str(&figures.to_json()).unwrap();
        let expected = json!({"median": 11.5, "min": 10.0, "max": 30.0, "unit": "MiB"});
        assert_eq!(value["figures"]["idle_rss_mib"], expected);
    }

    #[test]
    fn a_figure_without_samples_is_left_out() {
        let mut figures = Figures::default();
        figures.add("nothing", "ms", &[]);
        assert_eq!(figures.median("nothing"), None);
        assert!(figures.rows().is_empty());
    }
}
