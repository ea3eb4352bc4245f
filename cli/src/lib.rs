//! What the command `nyala` is made of: conditions as text, rows from CSV files, values as text, tables for
//! terminals.
//!
//! ```
//! use schema::{Column, DataType, Schema};
//!
//! let columns = vec![Column::new("a", DataType::Int32), Column::new("b", DataType::String).nullable(true)];
//! let schema = Schema::new(columns, 1)?;
//! let filters = cli::condition::parse("a > 5 and b is not null", &schema)?;
//! assert_eq!(filters.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it is not: a library for users; that is the crate `client`.
#![forbid(unsafe_code)]

pub mod alteration;
pub mod condition;
pub mod definition;
pub mod files;
pub mod interrupt;
pub mod range;
pub mod reader;
pub mod report;
pub mod rows;
pub mod run_file;
pub mod servers;
pub mod text;
