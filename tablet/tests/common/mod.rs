//! What the tests of a tablet share.

#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod storage;

use std::sync::Arc;

use schema::row_ops::{Decoder, Encoder};
use schema::{
    ColumnarBlock, HybridClock, OpKind, PartialRow, Partition, PartitionSchema, Schema, Value, key,
};
use tablet::{Tablet, TabletOptions, WriteError, WriteOutcome};

/// Physical time of all tests, in microseconds.
pub(crate) const NOW: u64 = 1_700_000_000_000_000;

/// A tablet with all rows of a table.
pub(crate) fn open(schema: Schema) -> Tablet {
    Tablet::open(options(schema), Arc::new(HybridClock::default())).unwrap()
}

/// What describes such a tablet.
pub(crate) fn options(schema: Schema) -> TabletOptions {
    TabletOptions {
        id: "t".into(),
        table_id: "table".into(),
        table_name: "table".into(),
        schema,
        partition_schema: PartitionSchema::default(),
        partition: Partition::default(),
        schema_version: 0,
        history_max_age_sec: None,
    }
}

/// Writes rows made for the tablet's schema.
pub(crate) fn batch(tablet: &Tablet, rows: &[(OpKind, PartialRow)]) -> Result<WriteOutcome, WriteError> {
    let schema = &tablet.schema();
    let mut encoder = Encoder::new(schema);
    rows.iter().for_each(|(kind, row)| encoder.push(*kind, row).unwrap());
    let (rows, indirect) = encoder.finish();
    let decoder = Decoder::new(schema, schema).unwrap();
    tablet.write(&decoder.decode(&rows, &indirect).unwrap(), None, NOW)
}

/// All rows of a block.
pub(crate) fn rows_of(projection: &Schema, block: &ColumnarBlock) -> Vec<Vec<Option<Value>>> {
    let cells = |row| (0..projection.len()).map(|column| block.value(projection, row, column)).collect();
    (0..block.rows).map(cells).collect()
}

/// The encoded key of a table keyed by INT8 and STRING.
pub(crate) fn encoded_key(schema: &Schema, k: i8, s: &str) -> Vec<u8> {
    let mut row = PartialRow::new(schema);
    row.set_at(0, k).unwrap().set_at(1, s.to_owned()).unwrap();
    key::encode_key(schema, &row.cells()).unwrap()
}
