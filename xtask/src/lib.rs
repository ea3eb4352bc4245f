//! What the developer commands share: rows from CSV files, measures of a process, tables and figures.
//!
//! ```
//! let mut figures = xtask::figures::Figures::default();
//! figures.add("start_to_first_table_ms", "ms", &[31.0, 29.5, 30.2]);
//! assert_eq!(figures.median("start_to_first_table_ms"), Some(30.2));
//! ```
//!
//! What it is not: a library for users. Nothing outside this workspace should depend on it.
#![forbid(unsafe_code)]

pub mod figures;
pub mod measure;

pub use cli::{interrupt, report, rows};
