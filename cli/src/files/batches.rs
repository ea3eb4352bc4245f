//! Arrow IPC and Parquet files as record batches.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType as ArrowType, Field, Schema as ArrowSchema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use schema::{Column, DataType, Schema};
use thiserror::Error;

use super::Format;

/// A file that cannot be read or written, or that does not go with a table.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system refused.
    #[error("cannot read {}", path.display())]
    #[non_exhaustive]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The content is wrong, or cannot be written.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// The content is wrong, or cannot be written.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// It is of no format that has record batches.
    #[error("CSV has no record batches")]
    Text,
    /// Kudu has nothing like it.
    #[error("column {column:?} is {data_type}, which no column of a table can be")]
    #[non_exhaustive]
    Type {
        /// The column of the file.
        column: String,
        /// Its type there.
        data_type: Box<ArrowType>,
    },
    /// Values that the table's column cannot hold.
    #[error("column {column:?}: {source}")]
    #[non_exhaustive]
    Values {
        /// The column.
        column: String,
        /// Which.
        source: ArrowError,
    },
    /// The table has no such column.
    #[error("the file has a column {column:?}, the table has not")]
    #[non_exhaustive]
    NoColumn {
        /// The column of the file.
        column: String,
    },
}

/// An open file of record batches.
pub struct BatchFile {
    reader: Box<dyn RecordBatchReader>,
    rows: u64,
}

impl BatchFile {
    /// Opens a file and reads what it says of its columns.
    ///
    /// # Errors
    /// [`FileError`]: it is not there, or damaged.
    pub fn open(path: &Path, format: Format) -> Result<BatchFile, FileError> {
        let file = File::open(path).map_err(|source| FileError::Io { path: path.to_owned(), source })?;
        Ok(match format {
            Format::Csv => return Err(FileError::Text),
            // The number of rows stands in each batch only.
            Format::Arrow => {
                BatchFile { reader: Box::new(FileReader::try_new(BufReader::new(file), None)?), rows: 0 }
            }
            Format::Parquet => {
                let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
                let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
                BatchFile { reader: Box::new(builder.build()?), rows }
            }
        })
    }

    /// Its columns.
    pub fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }

    /// How many rows it says that it has; 0 if it does not say.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

impl Iterator for BatchFile {
    type Item = Result<RecordBatch, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.reader.next()?.map_err(FileError::from))
    }
}

/// The columns of a table that is made after a file; those of `key` are never null.
///
/// # Errors
/// [`FileError::Type`] names the column that no table can have.
pub fn columns(file: &ArrowSchema, key: &[String]) -> Result<Vec<Column>, FileError> {
    file.fields().iter().map(|field| column(field, key)).collect()
}

fn column(field: &Field, key: &[String]) -> Result<Column, FileError> {
    let name = field.name();
    let column = match typed(name, field.data_type()) {
        Some(column) => column,
        None => {
            let data_type = Box::new(field.data_type().clone());
            return Err(FileError::Type { column: name.clone(), data_type });
        }
    };
    Ok(column.nullable(field.is_nullable() && !key.contains(name)))
}

fn typed(name: &str, arrow: &ArrowType) -> Option<Column> {
    let data_type = match arrow {
        ArrowType::Int8 => DataType::Int8,
        ArrowType::Int16 | ArrowType::UInt8 => DataType::Int16,
        ArrowType::Int32 | ArrowType::UInt16 => DataType::Int32,
        ArrowType::Int64 | ArrowType::UInt32 | ArrowType::UInt64 => DataType::Int64,
        ArrowType::Float16 | ArrowType::Float32 => DataType::Float,
        ArrowType::Float64 => DataType::Double,
        ArrowType::Boolean => DataType::Bool,
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => DataType::String,
        ArrowType::Binary
        | ArrowType::LargeBinary
        | ArrowType::BinaryView
        | ArrowType::FixedSizeBinary(_) => DataType::Binary,
        ArrowType::Timestamp(_, _) => DataType::UnixtimeMicros,
        ArrowType::Date32 | ArrowType::Date64 => DataType::Date,
        ArrowType::Decimal32(precision, scale)
        | ArrowType::Decimal64(precision, scale)
        | ArrowType::Decimal128(precision, scale) => {
            return Some(Column::decimal(name, *precision, u8::try_from(*scale).ok()?));
        }
        ArrowType::Dictionary(_, values) => return typed(name, values),
        _ => return None,
    };
    Some(Column::new(name, data_type))
}

/// The batch with its columns in the types of the table's: narrower numbers, other units of time, dictionaries and the like
/// are converted.
///
/// # Errors
/// [`FileError`]: a column that the table has not, or values that it cannot hold.
pub fn fit(batch: &RecordBatch, table: &Schema) -> Result<RecordBatch, FileError> {
    let mut fields = Vec::new();
    let mut arrays = Vec::new();
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let index = table.index_of(field.name());
        let column = index.and_then(|index| table.columns().get(index));
        let column = column.ok_or_else(|| FileError::NoColumn { column: field.name().clone() })?;
        let wanted = match (client::arrow::to_arrow_type(column), array.data_type()) {
            // The zone is for showing only: the moment is the same in each.
            (ArrowType::Timestamp(unit, _), ArrowType::Timestamp(_, zone)) => {
                ArrowType::Timestamp(unit, zone.clone())
            }
            (ArrowType::Timestamp(unit, _), _) => ArrowType::Timestamp(unit, None),
            (wanted, _) => wanted,
        };
        let options = CastOptions { safe: false, ..Default::default() };
        let fitted = cast_with_options(array, &wanted, &options)
            .map_err(|source| FileError::Values { column: field.name().clone(), source })?;
        fields.push(Field::new(field.name(), wanted, true));
        arrays.push(fitted);
    }
    Ok(RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), arrays)?)
}

/// Writes record batches to a file.
pub enum BatchWriter<W: Write + Send> {
    /// An Arrow IPC file.
    Arrow(Box<FileWriter<W>>),
    /// A Parquet file.
    Parquet(Box<ArrowWriter<W>>),
}

impl<W: Write + Send> BatchWriter<W> {
    /// Begins a file of these columns.
    ///
    /// # Errors
    /// [`FileError`]: it cannot be written, or is a format of text.
    pub fn begin(out: W, format: Format, schema: &ArrowSchema) -> Result<BatchWriter<W>, FileError> {
        Ok(match format {
            Format::Csv => return Err(FileError::Text),
            Format::Arrow => BatchWriter::Arrow(Box::new(FileWriter::try_new(out, schema)?)),
            Format::Parquet => {
                let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                let schema = Arc::new(schema.clone());
                BatchWriter::Parquet(Box::new(ArrowWriter::try_new(out, schema, Some(properties))?))
            }
        })
    }

    /// Appends rows.
    ///
    /// # Errors
    /// [`FileError`]: they cannot be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), FileError> {
        match self {
            BatchWriter::Arrow(writer) => writer.write(batch)?,
            BatchWriter::Parquet(writer) => writer.write(batch)?,
        }
        Ok(())
    }

    /// Ends the file; without it nobody can read it.
    ///
    /// # Errors
    /// [`FileError`]: it cannot be written.
    pub fn finish(self) -> Result<(), FileError> {
        match self {
            BatchWriter::Arrow(mut writer) => {
                writer.finish()?;
                writer.get_mut().flush().map_err(ArrowError::from)?;
            }
            BatchWriter::Parquet(writer) => {
                let mut out = writer.into_inner()?;
                out.flush().map_err(ArrowError::from)?;
            }
        }
        Ok(())
    }
}
