//! Reading the whole table, once or more, and what it cost.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use client::{Batch, Table};
use schema::DataType;
use xtask::measure;

use super::super::side::{self, Side};
use crate::interop::Kit;

/// The cost of a row in one sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    pub(super) server_ns: f64,
    pub(super) client_ns: f64,
    pub(super) seconds_a_row: f64,
}

/// What our client is to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) columns: &'a [&'a str],
    pub(super) rows: u64,
    pub(super) batch_bytes: Option<u32>,
    pub(super) at_least: Duration,
}

/// Reads with our client in this process, column by column, and adds the cells up.
pub(super) async fn by_client(side: &Side, table: &Table, reading: &Reading<'_>) -> Result<Pass> {
    let before = (side.cpu()?, measure::own_cpu_time());
    let start = Instant::now();
    let mut times = 0;
    while times == 0 || start.elapsed() < reading.at_least {
        let mut builder = table.scan().project(reading.columns);
        if let Some(bytes) = reading.batch_bytes {
            builder = builder.batch_bytes(bytes);
        }
        let mut scan = builder.start()?;
        let (mut rows, mut sum) = (0, 0);
        while let Some(batch) = scan.next().await {
            let batch = batch?;
            rows += batch.rows() as u64;
            sum = add_up(&batch, sum)?;
        }
        ensure!(rows == reading.rows, "a scan of {} gave {rows} rows", side.name);
        // Every column holds the numbers from 0 on, or strings of 32 bytes.
        let numbers = u128::from(rows) * u128::from(rows - 1) / 2;
        let wanted: u128 = table
            .schema()
            .columns()
            .iter()
            .filter(|column| reading.columns.contains(&column.name.as_str()))
            .map(|column| if column.data_type.is_varlen() { u128::from(rows) * 32 } else { numbers })
            .sum();
        ensure!(sum == wanted, "the cells of {} add up to {sum}, not to {wanted}", side.name);
        times += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    let after = (side.cpu()?, measure::own_cpu_time());
    let rows = (reading.rows * times) as f64;
    let nanoseconds = |after: Duration, before| after.saturating_sub(before).as_nanos() as f64 / rows;
    Ok(Pass {
        server_ns: nanoseconds(after.0, before.0),
        client_ns: nanoseconds(after.1, before.1),
        seconds_a_row: seconds / rows,
    })
}

/// Numbers count as they are, strings by their length.
fn add_up(batch: &Batch, so_far: u128) -> Result<u128> {
    let mut sum = so_far;
    for (index, column) in batch.schema().columns().iter().enumerate() {
        sum += match column.data_type {
            DataType::Int32 => {
                let cells = batch.fixed::<i32>(index)?;
                match cells.as_slice() {
                    Some(cells) => cells.iter().map(|cell| i64::from(*cell)).sum::<i64>(),
                    None => cells.values().map(i64::from).sum(),
                }
            }
            DataType::Int64 => {
                let cells = batch.fixed::<i64>(index)?;
                match cells.as_slice() {
                    Some(cells) => cells.iter().sum::<i64>(),
                    None => cells.values().sum(),
                }
            }
            _ => batch
                .block()
                .columns
                .get(index)
                .and_then(|data| data.varlen.as_ref())
                .map_or(0, |varlen| varlen.len() as i64),
        } as u128;
    }
    Ok(sum)
}

/// What adding up one INT32 column costs that lies in memory as one piece, ns a row: the least of some passes.
pub(super) fn own(rows: u64) -> f64 {
    let cells: Vec<i32> = (0..rows).map(|row| row as i32).collect();
    let pass = || {
        let before = measure::own_cpu_time();
        let sum: i64 = std::hint::black_box(&cells).iter().map(|cell| i64::from(*cell)).sum();
        std::hint::black_box(sum);
        measure::own_cpu_time().saturating_sub(before).as_nanos() as f64 / rows as f64
    };
    (0..5).map(|_| pass()).fold(f64::INFINITY, f64::min)
}

/// Reads once with the real `kudu perf table_scan`; its own start counts on the client's side.
pub(super) fn by_cli(kit: &Kit, side: &Side, arguments: &[String], rows: u64) -> Result<Pass> {
    let before = side.cpu()?;
    let (said, client) = side::kudu(kit, arguments)?;
    let server = side.cpu()?.saturating_sub(before);
    // `Total count 10000000 cost 0.7 seconds`
    let line =
        said.lines().find(|line| line.starts_with("Total count")).context("table_scan told no total")?;
    let mut words = line.split_whitespace();
    let count: u64 = words.nth(2).and_then(|word| word.parse().ok()).with_context(|| line.to_owned())?;
    let seconds: f64 = words.nth(1).and_then(|word| word.parse().ok()).with_context(|| line.to_owned())?;
    ensure!(count == rows, "table_scan of {} counted {count} rows", side.name);
    let rows = rows as f64;
    Ok(Pass {
        server_ns: server.as_nanos() as f64 / rows,
        client_ns: client.as_nanos() as f64 / rows,
        seconds_a_row: seconds / rows,
    })
}
