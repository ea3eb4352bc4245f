//! The columns of a table while steps change them.

use proto::kudu::{ColumnSchemaDeltaPb, ColumnSchemaPb};
use schema::wire::{compression_from_number, encoding_from_number};
use schema::{Column, ColumnId, DataType, Schema, Value};

use super::check;
use crate::fault::Fault;
use crate::options::Limits;

/// Columns with their ids, and the id that the next one gets: ids are never given twice.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    list: Vec<(ColumnId, Column)>,
    key_columns: usize,
    pub(super) next_id: u32,
}

impl Columns {
    pub(super) fn of(schema: &Schema, next_id: u32) -> Self {
        let ids = (0..schema.len()).map(|index| schema.id(index));
        let list = ids.zip(schema.columns().iter().cloned()).collect();
        Self { list, key_columns: schema.key_columns(), next_id }
    }

    /// The schema they make.
    pub(super) fn schema(&self, limits: &Limits) -> Result<Schema, Fault> {
        if self.list.len() > limits.columns {
            return Err(Fault::TooManyColumns { columns: self.list.len(), max: limits.columns });
        }
        let columns = self.list.iter().map(|(_, column)| column.clone()).collect();
        let schema =
            Schema::new(columns, self.key_columns).map_err(|error| Fault::BadSchema(error.into()))?;
        let ids = self.list.iter().map(|(id, _)| *id).collect();
        schema.with_ids(ids).map_err(|error| Fault::BadSchema(error.into()))
    }

    /// A new column stands behind all others; it is none of the key, whatever the request says.
    pub(super) fn add(&mut self, mut described: ColumnSchemaPb, limits: &Limits) -> Result<(), Fault> {
        if described.id.is_some() {
            return Err(Fault::NewColumnHasId { column: described.name });
        }
        complete_defaults(&mut described)?;
        check_column(&described, limits)?;
        let column = Column::try_from(&described).map_err(Fault::BadSchema)?;
        check_kind(&column)?;
        if column.auto_incrementing || column.name == AUTO_INCREMENTING {
            return Err(Fault::ReservedColumn);
        }
        if !column.nullable && column.read_default.is_none() {
            return Err(Fault::NoDefault { column: column.name });
        }
        self.is_free(&column.name)?;
        self.list.push((ColumnId(self.next_id), column));
        self.next_id = self.next_id.saturating_add(1);
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> Result<(), Fault> {
        let index = self.find(name)?;
        if index < self.key_columns {
            return Err(Fault::DropsKey { column: name.to_owned() });
        }
        self.list.remove(index);
        Ok(())
    }

    pub(super) fn rename(&mut self, old: &str, new: &str, limits: &Limits) -> Result<(), Fault> {
        // The order in which a real master looks.
        self.is_free(new)?;
        let index = self.find(old)?;
        if new.is_empty() {
            return Err(Fault::EmptyNewName);
        }
        check("column name", new, limits.identifier_length)?;
        if new == AUTO_INCREMENTING {
            return Err(Fault::ReservedColumn);
        }
        if let Some((_, column)) = self.list.get_mut(index) {
            new.clone_into(&mut column.name);
        }
        Ok(())
    }

    /// Changes what `delta` names.
    pub(super) fn change(&mut self, delta: &ColumnSchemaDeltaPb, limits: &Limits) -> Result<(), Fault> {
        let index = self.find(delta.name())?;
        if let Some(name) = &delta.new_name {
            self.rename(delta.name(), name, limits)?;
        }
        let Some((_, column)) = self.list.get_mut(index) else { return Ok(()) };
        if let Some(raw) = &delta.default_value {
            // Clients that do not know the type send an INT64 for any integer.
            let width = if column.data_type.is_varlen() { raw.len() } else { column.data_type.cell_size() };
            let value = raw.get(..width).and_then(|raw| Value::from_raw(column.data_type, raw));
            column.write_default = Some(value.ok_or(Fault::DefaultSize)?);
        }
        // Its presence is what counts, on real masters as well.
        if delta.remove_default.is_some() {
            column.write_default = None;
        }
        if let Some(number) = delta.encoding {
            check_encoding(&column.name, column.data_type, number)?;
            column.encoding = encoding_from_number(number);
        }
        if let Some(number) = delta.compression {
            column.compression = compression_from_number(number);
        }
        if let Some(bytes) = delta.block_size {
            column.block_size = bytes;
        }
        if let Some(comment) = &delta.new_comment {
            check_comment(comment, limits)?;
            column.comment.clone_from(comment);
        }
        if let Some(immutable) = delta.immutable {
            column.immutable = immutable;
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Result<usize, Fault> {
        let found = self.list.iter().position(|(_, column)| column.name == name);
        found.ok_or_else(|| Fault::NoSuchColumn { column: name.to_owned() })
    }

    fn is_free(&self, name: &str) -> Result<(), Fault> {
        match self.find(name) {
            Ok(_) => Err(Fault::ColumnExists { column: name.to_owned() }),
            Err(_) => Ok(()),
        }
    }
}

/// Rows written without a column get what old rows show there.
pub(super) fn complete_defaults(column: &mut ColumnSchemaPb) -> Result<(), Fault> {
    match (&column.read_default_value, &column.write_default_value) {
        (Some(read), None) => column.write_default_value = Some(read.clone()),
        (None, Some(_)) => return Err(Fault::WriteDefaultAlone { column: column.name.clone() }),
        (Some(read), Some(write)) if read != write => {
            return Err(Fault::DefaultsDiffer { column: column.name.clone() });
        }
        _ => {}
    }
    Ok(())
}

/// The rules of a column that a request describes, as far as they need no schema.
pub(super) fn check_column(column: &ColumnSchemaPb, limits: &Limits) -> Result<(), Fault> {
    check("column name", &column.name, limits.identifier_length)?;
    check_comment(column.comment(), limits)?;
    if let (Some(number), Some(data_type)) =
        (column.encoding, schema::wire::data_type_from_number(column.r#type))
    {
        check_encoding(&column.name, data_type, number)?;
    }
    Ok(())
}

/// Types that columns of tables cannot have.
pub(super) fn check_kind(column: &Column) -> Result<(), Fault> {
    if column.data_type == DataType::IsDeleted {
        return Err(Fault::VirtualColumn { column: column.name.clone() });
    }
    Ok(())
}

fn check_comment(comment: &str, limits: &Limits) -> Result<(), Fault> {
    if comment.is_empty() { Ok(()) } else { check("column comment", comment, limits.column_comment_length) }
}

fn check_encoding(column: &str, data_type: DataType, number: i32) -> Result<(), Fault> {
    let unknown = number == proto::kudu::EncodingType::UnknownEncoding as i32;
    if !unknown && encoding_from_number(number).suits(data_type) {
        return Ok(());
    }
    let encoding = proto::kudu::EncodingType::try_from(number).map_or("?", |encoding| encoding.as_str_name());
    Err(Fault::Encoding { column: column.to_owned(), encoding, data_type })
}

/// The name that a table's counting column has.
pub(super) const AUTO_INCREMENTING: &str = "auto_incrementing_id";
