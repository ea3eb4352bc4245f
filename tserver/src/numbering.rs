//! Columns that count by themselves: inserted rows get the next number of their tablet.
//!
//! Rows are numbered before the tablet sees them, so that its log holds the numbers. The greatest number is looked up when a
//! tablet gets its first rows since the server started; numbers of rows that are deleted by then may be given again.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use proto::kudu::RowOperationsPb;
use proto::kudu::app_status_pb::ErrorCode;
use proto::kudu::tserver::tablet_server_error_pb::Code;
use schema::row_ops::{Decoder, Encoder};
use schema::{Cell, OpKind, Schema};
use server_base::physical_micros;
use tablet::{ScanError, ScanSpec, Tablet};

use crate::fault::Fault;
use crate::write_path::undecodable;

/// The greatest numbers that tablets have given, by tablet id; `None` until they are looked up.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    tablets: Mutex<HashMap<String, Arc<Mutex<Option<i64>>>>>,
}

impl Numbering {
    /// Rows of a client that leave the number out, with numbers, and their columns; `None` if the table does not count.
    pub(crate) fn number(
        &self,
        tablet: &Tablet,
        client: &Schema,
        operations: &RowOperationsPb,
    ) -> Result<Option<(Schema, RowOperationsPb)>, Fault> {
        let table = tablet.schema();
        let Some(column) = table.columns().iter().position(|column| column.auto_incrementing) else {
            return Ok(None);
        };
        let decoder = Decoder::new(client, &table)
            .map_err(|error| Fault::invalid(Code::MismatchedSchema, error.to_string()))?;
        let ops = decoder.decode(operations.rows(), operations.indirect_data()).map_err(undecodable)?;
        let counter = Arc::clone(self.tablets.lock().entry(tablet.options().id.clone()).or_default());
        // Held until all rows have numbers, so that another request's are behind these.
        let mut counter = counter.lock();
        let mut greatest = match *counter {
            Some(greatest) => greatest,
            None => greatest_of(tablet, &table, column).map_err(unreadable)?,
        };
        let mut encoder = Encoder::new(&table);
        let mut cells = Vec::with_capacity(table.len());
        for index in 0..ops.len() {
            let Some(kind) = ops.sent(index, &mut cells) else { break };
            let number = number_of(kind, cells.get(column).copied(), &mut greatest)?;
            let cell = |index: usize| match &number {
                Some(number) if index == column => Cell::Value(number),
                _ => cells.get(index).copied().unwrap_or(Cell::Unset),
            };
            encoder
                .push_cells(kind, cell)
                .map_err(|error| Fault::invalid(Code::MismatchedSchema, error.to_string()))?;
        }
        *counter = Some(greatest);
        let columns = Schema::new(table.columns().to_vec(), table.key_columns());
        let columns = columns.map_err(|error| Fault::invalid(Code::InvalidSchema, error.to_string()))?;
        Ok(Some((columns, encoder.into())))
    }

    /// The tablet is gone.
    pub(crate) fn forget(&self, tablet: &str) {
        self.tablets.lock().remove(tablet);
    }
}

/// The raw number that a row gets; `None` if it stays as it is.
fn number_of(kind: OpKind, cell: Option<Cell<'_>>, greatest: &mut i64) -> Result<Option<[u8; 8]>, Fault> {
    let given = cell
        .and_then(|cell| cell.value())
        .and_then(|raw| raw.first_chunk())
        .map(|raw| i64::from_le_bytes(*raw));
    if kind.is_insert() {
        if given.is_some() {
            let text = "auto-incrementing column should not be set for INSERT/INSERT_IGNORE operations";
            return Err(Fault::invalid(Code::MismatchedSchema, text));
        }
        let next = greatest.checked_add(1).ok_or_else(|| {
            let text = "the auto-incrementing column has no number left";
            Fault::new(Code::UnknownError, ErrorCode::IllegalState, text)
        })?;
        *greatest = next;
        return Ok(Some(next.to_le_bytes()));
    }
    if let (true, Some(given)) = (kind.is_upsert(), given) {
        *greatest = given.max(*greatest);
    }
    Ok(None)
}

fn greatest_of(tablet: &Tablet, table: &Schema, column: usize) -> Result<i64, ScanError> {
    let spec = ScanSpec { schema: Some(table.clone()), projection: vec![column], ..ScanSpec::default() };
    let mut scanner = tablet.scan(spec, physical_micros())?;
    let mut greatest = 0;
    while let Some(block) = scanner.next_block(BLOCK_BYTES)? {
        for row in 0..block.rows {
            if let Some(raw) = block.cell(row, 0).value().and_then(|raw| raw.first_chunk()) {
                greatest = greatest.max(i64::from_le_bytes(*raw));
            }
        }
    }
    Ok(greatest)
}

fn unreadable(error: ScanError) -> Fault {
    Fault::new(Code::UnknownError, ErrorCode::RuntimeError, error.to_string())
}

const BLOCK_BYTES: usize = 1 << 20;
