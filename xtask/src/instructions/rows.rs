//! Rows: of a Write as the server decodes them, of a scan's blocks as it makes them.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use schema::row_ops::{Decoder, Encoder};
use schema::{Column, ColumnarBlock, DataType, HybridClock, OpKind, PartialRow, Schema, row_block};
use tablet::{ScanSpec, Tablet, TabletOptions};

/// Rows of a batch, and of a block.
pub(super) const ROWS: u32 = 1000;

const NOW: u64 = 1_700_000_000_000_000;

fn table() -> Result<Schema> {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("at", DataType::UnixtimeMicros),
        Column::new("count", DataType::Int32).nullable(true),
        Column::new("share", DataType::Double),
        Column::new("name", DataType::String).nullable(true),
    ];
    Ok(Schema::new(columns, 1)?.with_sequential_ids(10))
}

fn batch(table: &Schema) -> Result<(bytes::Bytes, bytes::Bytes)> {
    let mut encoder = Encoder::new(table);
    for number in 0..ROWS {
        let mut row = PartialRow::new(table);
        row.set("id", i64::from(number))?.set("at", schema::Value::UnixtimeMicros(i64::from(number)))?;
        row.set("share", f64::from(number))?.set("name", format!("name {number}"))?;
        if number % 4 == 0 {
            row.set_null("count")?;
        } else {
            row.set("count", number as i32)?;
        }
        encoder.push(OpKind::Insert, &row)?;
    }
    Ok(encoder.finish())
}

pub(super) fn decode(rounds: u32) -> Result<()> {
    let table = table()?;
    let (rows, indirect) = batch(&table)?;
    let decoder = Decoder::new(&table, &table)?;
    for _ in 0..rounds {
        let ops = decoder.decode(&rows, &indirect)?;
        let mut cursor = ops.cursor();
        let mut good = 0;
        while let Some(op) = cursor.next_op() {
            good += u32::from(op.fault.is_none());
        }
        ensure!(good == ROWS, "{good} good rows");
    }
    Ok(())
}

pub(super) fn columnar(rounds: u32) -> Result<()> {
    let tablet = filled()?;
    for _ in 0..rounds {
        ensure!(block(&tablet)?.rows as u32 == ROWS, "a block of another size");
    }
    Ok(())
}

pub(super) fn row_wise(rounds: u32) -> Result<()> {
    let (table, block) = (table()?, block(&filled()?)?);
    for _ in 0..rounds {
        let (rows, _) = row_block::encode(&table, &block, false)?;
        ensure!(rows.len() == row_block::stride(&table, false) * ROWS as usize, "rows of another size");
    }
    Ok(())
}

fn filled() -> Result<Tablet> {
    let table = table()?;
    let options = TabletOptions {
        id: "t".to_owned(),
        table_id: "t".to_owned(),
        table_name: "t".to_owned(),
        schema: table.clone(),
        partition_schema: schema::PartitionSchema::default(),
        partition: schema::Partition::default(),
        schema_version: 0,
        history_max_age_sec: None,
    };
    let tablet = Tablet::open(options, Arc::new(HybridClock::default()))?;
    let (rows, indirect) = batch(&table)?;
    tablet.write(&Decoder::new(&table, &table)?.decode(&rows, &indirect)?, None, NOW)?;
    Ok(tablet)
}

fn block(tablet: &Tablet) -> Result<ColumnarBlock> {
    let spec = ScanSpec { projection: (0..tablet.schema().len()).collect(), ..ScanSpec::default() };
    tablet.scan(spec, NOW + 1)?.next_block(8 << 20)?.context("no block")
}
