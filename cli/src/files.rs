//! Files of rows: CSV, and with the feature `files` Arrow IPC and Parquet.

use std::path::Path;
use std::str::FromStr;

#[cfg(feature = "files")]
pub use batches::{BatchFile, BatchWriter, FileError, columns, fit};

/// How rows are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text with a header, cells parted by commas.
    Csv,
    /// An Arrow IPC file (also known as Feather, version 2).
    Arrow,
    /// Parquet.
    Parquet,
}

/// A word that names no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no format: csv, arrow, parquet")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(word: &str) -> Result<Format, UnknownFormat> {
        match word {
            "csv" => Ok(Format::Csv),
            "arrow" => Ok(Format::Arrow),
            "parquet" => Ok(Format::Parquet),
            _ => Err(UnknownFormat(word.to_owned())),
        }
    }
}

impl Format {
    /// The format that the end of a file's name suggests; CSV if it suggests none.
    pub fn of(path: &Path) -> Format {
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        match ending.as_ref().and_then(|ending| ending.to_str()) {
            Some("arrow" | "ipc" | "feather") => Format::Arrow,
            Some("parquet" | "pq") => Format::Parquet,
            _ => Format::Csv,
        }
    }
}

#[cfg(feature = "files")]
mod batches;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_tells_the_format() {
        let formats = ["a.csv", "a.csv.gz", "a.arrow", "a.FEATHER", "a.parquet", "a.pq", "a"];
        use Format::{Arrow, Csv, Parquet};
        let expected = [Csv, Csv, Arrow, Arrow, Parquet, Parquet, Csv];
        assert_eq!(formats.map(|name| Format::of(Path::new(name))), expected);
        assert_eq!("arrow".parse(), Ok(Arrow));
        assert!("xml".parse::<Format>().unwrap_err().to_string().contains("csv, arrow, parquet"));
    }
}
