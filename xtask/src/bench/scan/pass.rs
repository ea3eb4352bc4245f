//! Reading the whole table, once or more, and what it cost.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use client::{Batch, Table, column};
use schema::DataType;
use xtask::measure;

use super::super::side::{self, Side};
use crate::interop::Kit;

/// The cost of a row of the table in one sample.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Pass {
    pub(in super::super) server_ns: f64,
    pub(in super::super) client_ns: f64,
    pub(in super::super) seconds_a_row: f64,
}

impl Pass {
    pub(in super::super) fn of(server: Duration, client: Duration, elapsed: Duration, rows: u64) -> Self {
        let each = |time: Duration| time.as_nanos() as f64 / rows as f64;
        Self {
            server_ns: each(server),
            client_ns: each(client),
            seconds_a_row: elapsed.as_secs_f64() / rows as f64,
        }
    }
}

/// What is to be read.
#[derive(Debug, Clone)]
pub(in super::super) struct Reading {
    /// Names; all of them if there are none.
    pub(in super::super) columns: Vec<String>,
    /// Of the table, whether they are wanted or not.
    pub(in super::super) rows: u64,
    /// Only rows whose `int_val` is less.
    pub(in super::super) below: Option<u64>,
    /// How many rows that gives, and what their cells add up to.
    pub(in super::super) expected: (u64, u128),
    pub(in super::super) batch_bytes: Option<u32>,
}

/// How often to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Times {
    Once,
    /// Until both sides have had a second of CPU, or the longest time is over.
    Enough,
}

impl Times {
    pub(in super::super) fn is_done(self, server: Duration, client: Duration, elapsed: Duration) -> bool {
        self == Times::Once || elapsed >= LONGEST || (server >= CPU_A_SAMPLE && client >= CPU_A_SAMPLE)
    }
}

/// Reads with our client in this process, column by column, and adds the cells up.
pub(in super::super) async fn by_client(
    side: &Side,
    table: &Table,
    reading: &Reading,
    times: Times,
) -> Result<Pass> {
    let columns: Vec<&str> = reading.columns.iter().map(String::as_str).collect();
    let before = (side.cpu()?, measure::own_cpu_time());
    let start = Instant::now();
    let mut done = 0;
    loop {
        let mut builder = table.scan();
        if !columns.is_empty() {
            builder = builder.project(&columns);
        }
        if let Some(below) = reading.below {
            builder = builder.filter(column("int_val").less_than(below as i32));
        }
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
        let expected = reading.expected;
        ensure!((rows, sum) == expected, "{}: {rows} rows add up to {sum}, not {expected:?}", side.name);
        done += 1;
        let server = side.cpu()?.saturating_sub(before.0);
        let client = measure::own_cpu_time().saturating_sub(before.1);
        if times.is_done(server, client, start.elapsed()) {
            return Ok(Pass::of(server, client, start.elapsed(), reading.rows * done));
        }
    }
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
pub(in super::super) fn own(rows: u64) -> f64 {
    let cells: Vec<i32> = (0..rows).map(|row| row as i32).collect();
    let pass = || {
        let before = measure::own_cpu_time();
        let sum: i64 = std::hint::black_box(&cells).iter().map(|cell| i64::from(*cell)).sum();
        std::hint::black_box(sum);
        measure::own_cpu_time().saturating_sub(before).as_nanos() as f64 / rows as f64
    };
    (0..5).map(|_| pass()).fold(f64::INFINITY, f64::min)
}

/// Reads with the real `kudu perf table_scan`; its own starts count on the client's side.
pub(in super::super) fn by_cli(
    kit: &Kit,
    side: &Side,
    arguments: &[String],
    reading: &Reading,
) -> Result<Pass> {
    let before = side.cpu()?;
    let start = Instant::now();
    let (mut client, mut seconds, mut done) = (Duration::ZERO, 0.0, 0);
    loop {
        let (said, used) = side::kudu(kit, arguments)?;
        client += used;
        // `Total count 10000000 cost 0.7 seconds`
        let line =
            said.lines().find(|line| line.starts_with("Total count")).context("table_scan told no total")?;
        let mut words = line.split_whitespace();
        let count: u64 = words.nth(2).and_then(|word| word.parse().ok()).with_context(|| line.to_owned())?;
        let took: f64 = words.nth(1).and_then(|word| word.parse().ok()).with_context(|| line.to_owned())?;
        ensure!(count == reading.expected.0, "table_scan of {} counted {count} rows", side.name);
        seconds += took;
        done += 1;
        let server = side.cpu()?.saturating_sub(before);
        if Times::Enough.is_done(server, client, start.elapsed()) {
            let elapsed = Duration::from_secs_f64(seconds);
            return Ok(Pass::of(server, client, elapsed, reading.rows * done));
        }
    }
}

/// A sample is long enough when both sides have had so much.
const CPU_A_SAMPLE: Duration = Duration::from_secs(1);
/// Of a sample, if a side costs next to nothing.
const LONGEST: Duration = Duration::from_secs(10);
