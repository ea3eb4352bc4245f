//! Changes of a table as text, one a step: `add column note string null`, `rename to sales_2024`.

use client::{RangePartition, TableAlterer};
use schema::{Column, ColumnId, Compression, Encoding, PartitionSchema, Schema, Value};
use thiserror::Error;

use crate::definition::{self, ATTRIBUTES, DefinitionError};
use crate::range::{self, RangeError};
use crate::reader::{BadValue, Reader, Unexpected};

/// What a step may be, as the help shows it.
pub const STEPS: &str = "\
Steps, made in this order, all of them or none:
  add column NAME TYPE [null] [default VALUE] [comment TEXT] [encoding NAME] [compression NAME] [block size BYTES] [immutable]
  drop column NAME
  rename column NAME to NAME
  alter column NAME set default VALUE | drop default | set comment TEXT | set encoding NAME | set compression NAME
                    | set block size BYTES | set immutable | drop immutable
  add range [LOWER, UPPER) [hash COLUMN[+COLUMN..]:BUCKETS]
  drop range [LOWER, UPPER)
  rename to NAME
  set owner NAME | set comment TEXT | set config KEY VALUE
  set limit rows COUNT | set limit bytes COUNT | drop limit rows | drop limit bytes
A square bracket takes the bound of a range in, a round one leaves it out, no value is no bound. Names with blanks stand in
\"double quotes\", texts in 'single quotes'.";

/// A text that is no step on this table.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum AlterationError {
    /// Something else should be at some place.
    #[error(transparent)]
    Unexpected(#[from] Unexpected),
    /// A default that is no value of its column.
    #[error(transparent)]
    BadValue(#[from] BadValue),
    /// A column that cannot be read.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A range that cannot be read.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// No such column, after the steps before.
    #[error("no column {name:?}; the table has {known}")]
    #[non_exhaustive]
    NoColumn {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
}

/// One change of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Adds a column.
    AddColumn(Column),
    /// Drops a column.
    DropColumn(String),
    /// Renames a column.
    RenameColumn {
        /// The name so far.
        from: String,
        /// The name from then on.
        to: String,
    },
    /// Changes a column.
    Column {
        /// Its name.
        name: String,
        /// What of it.
        change: Change,
    },
    /// Adds a range.
    AddRange(RangePartition),
    /// Drops a range and its rows.
    DropRange(RangePartition),
    /// Renames the table.
    Rename(String),
    /// Gives the table to somebody else.
    Owner(String),
    /// Sets the table's comment.
    Comment(String),
    /// Sets an extra configuration.
    Config {
        /// Its name.
        key: String,
        /// Its value; empty takes it away.
        value: String,
    },
    /// Sets or takes away the limit of rows.
    RowLimit(Option<u64>),
    /// Sets or takes away the limit of bytes.
    SizeLimit(Option<u64>),
}

/// One change of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Sets or takes away what rows get that do not set the column.
    Default(Option<Value>),
    /// Sets the comment.
    Comment(String),
    /// Sets a storage hint.
    Encoding(Encoding),
    /// Sets a storage hint.
    Compression(Compression),
    /// Sets the size of storage blocks in bytes.
    BlockSize(i32),
    /// Makes cells refuse updates, or take them again.
    Immutable(bool),
}

/// Reads steps one after the other; later ones see the columns that earlier ones left.
#[derive(Clone, Debug)]
pub struct Steps {
    schema: Schema,
    range_columns: Vec<usize>,
    columns: Vec<Column>,
}

impl Steps {
    /// For a table of this schema and these partitions.
    pub fn new(schema: &Schema, partitions: &PartitionSchema) -> Steps {
        let index = |id: &ColumnId| schema.index_of_id(*id);
        let range_columns = partitions.range_columns.iter().filter_map(index).collect();
        Steps { schema: schema.clone(), range_columns, columns: schema.columns().to_vec() }
    }

    /// The step that the whole text is.
    ///
    /// # Errors
    /// [`AlterationError`], with the place; the columns are as they were then.
    pub fn parse(&mut self, text: &str) -> Result<Step, AlterationError> {
        let mut reader = Reader::new(text);
        let step = self.step(&mut reader)?;
        if !reader.is_at_end() {
            let expected = if matches!(step, Step::AddColumn(_)) { ATTRIBUTES } else { "the end" };
            return Err(reader.unexpected(expected).into());
        }
        match &step {
            Step::AddColumn(column) => self.columns.push(column.clone()),
            Step::DropColumn(name) => self.columns.retain(|column| column.name != *name),
            Step::RenameColumn { from, to } => {
                let renamed = self.columns.iter_mut().filter(|column| column.name == *from);
                renamed.for_each(|column| column.name.clone_from(to));
            }
            _ => {}
        }
        Ok(step)
    }

    fn step(&self, reader: &mut Reader<'_>) -> Result<Step, AlterationError> {
        if reader.keywords(&["add", "column"]) {
            return Ok(Step::AddColumn(definition::column(reader)?));
        }
        if reader.keywords(&["drop", "column"]) {
            return Ok(Step::DropColumn(reader.name("a column")?));
        }
        if reader.keywords(&["rename", "column"]) {
            let from = reader.name("a column")?;
            reader.expect_keyword("to")?;
            return Ok(Step::RenameColumn { from, to: reader.name("a column")? });
        }
        if reader.keywords(&["alter", "column"]) {
            let name = reader.name("a column")?;
            let change = self.change(reader, &name)?;
            return Ok(Step::Column { name, change });
        }
        if reader.keywords(&["add", "range"]) {
            return Ok(Step::AddRange(range::range(reader, &self.schema, &self.range_columns)?));
        }
        if reader.keywords(&["drop", "range"]) {
            return Ok(Step::DropRange(range::range(reader, &self.schema, &self.range_columns)?));
        }
        if reader.keywords(&["rename", "to"]) {
            return Ok(Step::Rename(words(reader, "a name")?));
        }
        if reader.keywords(&["set", "owner"]) {
            return Ok(Step::Owner(words(reader, "a name")?));
        }
        if reader.keywords(&["set", "comment"]) {
            return Ok(Step::Comment(words(reader, "a comment")?));
        }
        if reader.keywords(&["set", "config"]) {
            return Ok(Step::Config { key: reader.text("a name")?, value: words(reader, "a value")? });
        }
        for (unit, limit) in [("rows", Step::RowLimit as fn(_) -> _), ("bytes", Step::SizeLimit)] {
            if reader.keywords(&["set", "limit", unit]) {
                return Ok(limit(Some(reader.number("a number")?)));
            }
            if reader.keywords(&["drop", "limit", unit]) {
                return Ok(limit(None));
            }
        }
        Err(reader.unexpected("add, drop, rename, alter or set, as the help shows").into())
    }

    fn change(&self, reader: &mut Reader<'_>, name: &str) -> Result<Change, AlterationError> {
        let column = self.columns.iter().find(|column| column.name == name).ok_or_else(|| {
            let known = self.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>();
            AlterationError::NoColumn { name: name.to_owned(), known: known.join(", ") }
        })?;
        if reader.keyword("set") {
            if reader.keyword("default") {
                return Ok(Change::Default(Some(reader.value::<AlterationError>(column)?)));
            }
            if reader.keyword("comment") {
                return Ok(Change::Comment(words(reader, "a comment")?));
            }
            if reader.keyword("encoding") {
                return Ok(Change::Encoding(definition::encoding(reader)?));
            }
            if reader.keyword("compression") {
                return Ok(Change::Compression(definition::compression(reader)?));
            }
            if reader.keywords(&["block", "size"]) {
                return Ok(Change::BlockSize(reader.number("a number of bytes")?));
            }
            if reader.keyword("immutable") {
                return Ok(Change::Immutable(true));
            }
            let expected = "default, comment, encoding, compression, block size or immutable";
            return Err(reader.unexpected(expected).into());
        }
        reader.expect_keyword("drop")?;
        if reader.keyword("default") {
            return Ok(Change::Default(None));
        }
        if reader.keyword("immutable") {
            return Ok(Change::Immutable(false));
        }
        Err(reader.unexpected("default or immutable").into())
    }
}

/// All that is left, or the quoted text that it begins with.
fn words(reader: &mut Reader<'_>, what: &'static str) -> Result<String, Unexpected> {
    if reader.rest().starts_with('\'') { reader.text(what) } else { reader.remainder(what) }
}

impl Step {
    /// Adds the step to a request.
    pub fn apply(self, table: TableAlterer) -> TableAlterer {
        match self {
            Step::AddColumn(column) => table.add_column(&column),
            Step::DropColumn(name) => table.drop_column(name),
            Step::RenameColumn { from, to } => table.rename_column(from, to),
            Step::Column { name, change } => match change {
                Change::Default(Some(value)) => table.set_default(name, value),
                Change::Default(None) => table.remove_default(name),
                Change::Comment(text) => table.set_column_comment(name, text),
                Change::Encoding(encoding) => table.set_encoding(name, encoding),
                Change::Compression(compression) => table.set_compression(name, compression),
                Change::BlockSize(bytes) => table.set_block_size(name, bytes),
                Change::Immutable(immutable) => table.set_immutable(name, immutable),
            },
            Step::AddRange(range) => table.add_range(range),
            Step::DropRange(range) => table.drop_range(range),
            Step::Rename(name) => table.rename_to(name),
            Step::Owner(name) => table.owner(name),
            Step::Comment(text) => table.comment(text),
            Step::Config { key, value } => table.extra_config(key, value),
            Step::RowLimit(limit) => table.row_count_limit(limit),
            Step::SizeLimit(limit) => table.disk_size_limit(limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use schema::DataType;

    use super::*;

    fn steps() -> Steps {
        let columns =
            vec![Column::new("id", DataType::Int64), Column::new("price", DataType::Double).nullable(true)];
        let schema = Schema::new(columns, 1).unwrap().with_sequential_ids(10);
        let partitions = PartitionSchema { range_columns: vec![ColumnId(10)], ..Default::default() };
        Steps::new(&schema, &partitions)
    }

    fn read(text: &str) -> Step {
        steps().parse(text).unwrap()
    }

    fn told(text: &str) -> String {
        steps().parse(text).unwrap_err().to_string()
    }

    #[test]
    fn every_kind_of_step_is_read() {
        let note = Column::new("note", DataType::String).nullable(true).default_value("none");
        assert_eq!(read("add column note string null default 'none'"), Step::AddColumn(note));
        assert_eq!(read("DROP COLUMN price"), Step::DropColumn("price".to_owned()));
        let column = |change| Step::Column { name: "price".to_owned(), change };
        let changes = [
            ("set default 1.5", Change::Default(Some(Value::Double(1.5)))),
            ("drop default", Change::Default(None)),
            ("set comment what it costs", Change::Comment("what it costs".to_owned())),
            ("set encoding rle", Change::Encoding(Encoding::Rle)),
            ("set compression zlib", Change::Compression(Compression::Zlib)),
            ("set block size 4096", Change::BlockSize(4096)),
            ("set immutable", Change::Immutable(true)),
            ("drop immutable", Change::Immutable(false)),
        ];
        for (text, change) in changes {
            assert_eq!(read(&format!("alter column price {text}")), column(change));
        }
        let range = range::parse("[0, 10)", &steps().schema, &[0]).unwrap();
        assert_eq!(read("add range [0, 10)"), Step::AddRange(range.clone()));
        assert_eq!(read("drop range [0, 10)"), Step::DropRange(range));
        assert_eq!(read("rename to a.b c"), Step::Rename("a.b c".to_owned()));
        assert_eq!(read("set owner ann"), Step::Owner("ann".to_owned()));
        assert_eq!(read("set comment 'it''s'"), Step::Comment("it's".to_owned()));
        assert_eq!(read("set comment ''"), Step::Comment(String::new()));
        let config = Step::Config { key: "kudu.table.x".to_owned(), value: "7".to_owned() };
        assert_eq!(read("set config kudu.table.x 7"), config);
        assert_eq!(read("set limit rows 100"), Step::RowLimit(Some(100)));
        assert_eq!(read("drop limit bytes"), Step::SizeLimit(None));
    }

    #[test]
    fn later_steps_see_what_earlier_ones_left() {
        let mut steps = steps();
        steps.parse("add column n int8").unwrap();
        steps.parse("rename column n to m").unwrap();
        let change = Change::Default(Some(Value::Int8(3)));
        assert_eq!(
            steps.parse("alter column m set default 3").unwrap(),
            Step::Column { name: "m".to_owned(), change }
        );
        steps.parse("drop column price").unwrap();
        let error = steps.parse("alter column price set default 3").unwrap_err();
        assert_eq!(error.to_string(), "no column \"price\"; the table has id, m");
    }

    #[test]
    fn what_is_no_step_is_named_with_its_place() {
        assert!(told("change it").starts_with("expected add, drop, rename, alter or set"));
        assert_eq!(told("rename column price cost"), "expected to at \"cost\" (character 21)");
        assert_eq!(told("drop column price now"), "expected the end at \"now\" (character 19)");
        assert_eq!(
            told("alter column price set default dear"),
            "\"dear\" is no value of column \"price\", which is DOUBLE"
        );
        assert!(told("add column x int8 maybe").starts_with("expected null, not null"));
        assert_eq!(told("set limit rows many"), "expected a number at \"many\" (character 16)");
        assert_eq!(told("rename to"), "expected a name at \"\" (character 10)");
    }
}
