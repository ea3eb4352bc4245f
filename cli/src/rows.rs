//! Rows of a table from a CSV file, plain or gzip, with the column types inferred.
//!
//! Empty cells and `NA` are null. The kind of a column (whole numbers, numbers, times, dates, booleans, text) is taken from
//! the first [`SAMPLE`] rows, its width from the whole file; a later cell that is of another kind makes its row a [`BadRow`].

mod infer;
mod parse;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use csv::StringRecord;
use flate2::read::MultiGzDecoder;
use schema::{Column, DataType, Schema, SchemaError, Value};

use infer::Guess;

/// How many rows decide of what kind a column is.
pub const SAMPLE: u64 = 10_000;

/// A CSV file that was looked through once: its table, and how to read it.
#[derive(Debug, Clone)]
pub struct CsvTable {
    path: PathBuf,
    schema: Schema,
    /// For each column of the schema, where it stands in the file.
    positions: Vec<usize>,
    rows: u64,
}

/// One row that can be written: its values in the order of the schema, null as `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Line of the file the row starts on, from 1 (the header).
    pub line: u64,
    /// A value for each column of the schema.
    pub values: Vec<Option<Value>>,
}

/// Why a row cannot be written, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}, value {value:?}: {reason}")]
pub struct BadRow {
    /// Line of the file, from 1 (the header).
    pub line: u64,
    /// Name of the column; `(row)` when the row as a whole is at fault.
    pub column: String,
    /// The cell as it stands in the file.
    pub value: String,
    /// What is wrong with it.
    pub reason: Reason,
}

/// What is wrong with a cell or a row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The text is no value of the type inferred for the column.
    #[error("not a value of type {0}, which the rows before suggest")]
    WrongType(DataType),
    /// A key column has to have a value.
    #[error("null in a key column")]
    NullKey,
    /// More or fewer cells than the header has names.
    #[error("{found} cells, the header names {expected}")]
    CellCount {
        /// Cells of this row.
        found: usize,
        /// Names in the header.
        expected: usize,
    },
    /// Bytes that are no UTF-8.
    #[error("the row is not UTF-8")]
    NotUtf8,
    /// The file cannot be read from this row on.
    #[error("the file cannot be read any further: {0}")]
    Unreadable(String),
    /// The server refused the row.
    #[error("{0}")]
    Refused(String),
}

/// A file that cannot be used as a table at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CsvError {
    /// The file cannot be opened or read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not CSV.
    #[error("{} is not CSV", path.display())]
    Csv {
        /// The file.
        path: PathBuf,
        /// What the parser said, with the line.
        source: csv::Error,
    },
    /// No primary key was named.
    #[error("name the key columns: --key a,b,c (the file has {columns})")]
    NoKey {
        /// The columns of the file.
        columns: String,
    },
    /// A key column is not in the file.
    #[error("no column {name:?} for the key; the file has {columns}")]
    NoSuchColumn {
        /// The name asked for.
        name: String,
        /// The columns of the file.
        columns: String,
    },
    /// The columns do not make a table.
    #[error("the columns do not make a table")]
    Schema(#[from] SchemaError),
}

impl CsvTable {
    /// Reads the file once: infers the types and counts the rows. `key` names the primary key's columns, in order.
    ///
    /// Columns of text, times and dates, whole numbers and booleans can be key columns; the server refuses others.
    pub fn inspect(path: &Path, key: &[String]) -> Result<CsvTable, CsvError> {
        let mut reader = open(path)?;
        let header = reader.headers().map_err(csv_error(path))?.clone();
        let mut guesses = vec![Guess::default(); header.len()];
        let mut record = StringRecord::new();
        let mut rows = 0u64;
        loop {
            match reader.read_record(&mut record) {
                Ok(false) => break,
                Ok(true) => {
                    for (guess, cell) in guesses.iter_mut().zip(&record) {
                        if !is_null(cell) {
                            guess.see(cell, rows < SAMPLE);
                        }
                    }
                }
                // Left to the second reading, which reports the row with its line.
                Err(error) if is_utf8_error(&error) => {}
                Err(error) => return Err(csv_error(path)(error)),
            }
            rows += 1;
        }
        let positions = key_first(&header, key)?;
        let columns = positions
            .iter()
            .enumerate()
            .filter_map(|(index, &at)| {
                let data_type = guesses.get(at)?.data_type();
                let mut column = Column::new(header.get(at)?, data_type);
                column.nullable = index >= key.len();
                Some(column)
            })
            .collect();
        Ok(CsvTable { path: path.to_owned(), schema: Schema::new(columns, key.len())?, positions, rows })
    }

    /// The table's columns, key columns first.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Rows in the file, bad ones too.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Reads the rows, from the first on.
    pub fn read(&self) -> Result<Rows<'_>, CsvError> {
        Ok(Rows { table: self, reader: open(&self.path)?, record: StringRecord::new(), ended: false })
    }

    fn row(&self, line: u64, record: &StringRecord) -> Result<Row, BadRow> {
        let columns = self.schema.columns();
        if record.len() != columns.len() {
            let reason = Reason::CellCount { found: record.len(), expected: columns.len() };
            return Err(BadRow::whole(line, reason));
        }
        let mut values = Vec::with_capacity(columns.len());
        for (index, (column, &at)) in columns.iter().zip(&self.positions).enumerate() {
            let cell = record.get(at).unwrap_or_default();
            let bad = |reason| BadRow { line, column: column.name.clone(), value: cell.to_owned(), reason };
            values.push(if is_null(cell) {
                if index < self.schema.key_columns() {
                    return Err(bad(Reason::NullKey));
                }
                None
            } else {
                let value = parse::value(cell, column.data_type)
                    .ok_or_else(|| bad(Reason::WrongType(column.data_type)))?;
                Some(value)
            });
        }
        Ok(Row { line, values })
    }
}

/// Iterator over the rows of a [`CsvTable`]; ends at the end of the file, or behind a [`Reason::Unreadable`].
pub struct Rows<'a> {
    table: &'a CsvTable,
    reader: Reader,
    record: StringRecord,
    ended: bool,
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, BadRow>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let result = self.reader.read_record(&mut self.record);
        match result {
            Ok(false) => None,
            Ok(true) => {
                let line = self.record.position().map_or(0, csv::Position::line);
                Some(self.table.row(line, &self.record))
            }
            Err(error) if is_utf8_error(&error) => {
                let line = error.position().map_or(0, csv::Position::line);
                Some(Err(BadRow::whole(line, Reason::NotUtf8)))
            }
            Err(error) => {
                self.ended = true;
                let line = self.reader.position().line();
                Some(Err(BadRow::whole(line, Reason::Unreadable(error.to_string()))))
            }
        }
    }
}

impl BadRow {
    fn whole(line: u64, reason: Reason) -> BadRow {
        BadRow { line, column: "(row)".to_owned(), value: String::new(), reason }
    }
}

/// Counts bad rows and keeps the first few; goes on after them or stops at the first one.
#[derive(Debug, Clone)]
pub struct BadRows {
    go_on: bool,
    count: u64,
    first: Vec<BadRow>,
}

impl BadRows {
    /// How many bad rows are kept to be shown.
    pub const SHOWN: usize = 10;

    /// With `go_on`, bad rows are counted and left out; without, the first one is an error.
    pub fn new(go_on: bool) -> BadRows {
        BadRows { go_on, count: 0, first: Vec::new() }
    }

    /// Takes note of a bad row; returns it when the load has to stop.
    pub fn note(&mut self, row: BadRow) -> Result<(), BadRow> {
        self.count += 1;
        if !self.go_on {
            return Err(row);
        }
        if self.first.len() < Self::SHOWN {
            self.first.push(row);
        }
        Ok(())
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first ones, at most [`BadRows::SHOWN`].
    pub fn first(&self) -> &[BadRow] {
        &self.first
    }
}

/// A time, microseconds since 1970-01-01 UTC, as it is read: `2013-01-01T10:00:00Z`.
pub fn time_text(micros: i64) -> String {
    parse::time_text(micros)
}

/// A date, days since 1970-01-01, as it is read: `2013-01-01`.
pub fn date_text(days: i32) -> String {
    parse::date_text(days)
}

/// The reverse of [`time_text`]: `YYYY-MM-DDTHH:MM:SS[.ffffff][Z]`, a blank in place of `T` too.
pub fn time(text: &str) -> Option<i64> {
    parse::micros(text)
}

/// The reverse of [`date_text`].
pub fn date(text: &str) -> Option<i32> {
    parse::date(text)
}

type Reader = csv::Reader<Box<dyn Read>>;

fn open(path: &Path) -> Result<Reader, CsvError> {
    let file = File::open(path).map_err(|source| CsvError::Read { path: path.to_owned(), source })?;
    let packed = path.extension().is_some_and(|ending| ending == "gz");
    let input: Box<dyn Read> =
        if packed { Box::new(MultiGzDecoder::new(BufReader::new(file))) } else { Box::new(file) };
    Ok(csv::ReaderBuilder::new().flexible(true).from_reader(input))
}

fn csv_error(path: &Path) -> impl Fn(csv::Error) -> CsvError + '_ {
    |source| CsvError::Csv { path: path.to_owned(), source }
}

fn is_utf8_error(error: &csv::Error) -> bool {
    matches!(error.kind(), csv::ErrorKind::Utf8 { .. })
}

fn is_null(cell: &str) -> bool {
    cell.is_empty() || cell == "NA"
}

fn key_first(header: &StringRecord, key: &[String]) -> Result<Vec<usize>, CsvError> {
    let columns = || header.iter().collect::<Vec<_>>().join(", ");
    if key.is_empty() {
        return Err(CsvError::NoKey { columns: columns() });
    }
    let mut positions = Vec::with_capacity(header.len());
    for name in key {
        let at = header.iter().position(|column| column == name);
        positions.push(at.ok_or_else(|| CsvError::NoSuchColumn { name: name.clone(), columns: columns() })?);
    }
    let others = (0..header.len()).filter(|at| !positions.contains(at));
    let others: Vec<usize> = others.collect();
    positions.extend(others);
    Ok(positions)
}

#[cfg(test)]
mod tests;
