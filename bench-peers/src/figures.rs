//! Figures as `cargo xtask bench` reads them: median, least and greatest of their samples.

use serde_json::{Map, Value, json};

/// Named figures.
#[derive(Debug, Default)]
pub(crate) struct Figures(Map<String, Value>);

impl Figures {
    pub(crate) fn add(&mut self, name: &str, unit: &str, samples: &[f64]) {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else { return };
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        let figure = json!({"median": median, "min": min, "max": max, "unit": unit});
        self.0.insert(name.to_owned(), figure);
    }

    pub(crate) fn into_json(self) -> Value {
        json!({ "figures": self.0 })
    }
}
