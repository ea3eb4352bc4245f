//! How long batches of 1,000 rows take while rows are flushed and compacted beside them, what scans of the files cost, and
//! how long a start takes: `cargo run --release -p tablet --example latencies -- FOLDER [ROWS]`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use schema::row_ops::{Decoder, Encoder};
use schema::{Column, DataType, HybridClock, OpKind, PartialRow, Schema, Timestamp};
use tablet::backend::{Backend, Disk};
use tablet::maintenance::{Limits, Load, Work, next_work};
use tablet::{BlockCache, LogOptions, ScanSpec, Storage, Tablet, TabletOptions};

type Failure = Box<dyn std::error::Error>;

const BATCH: u64 = 1000;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("a folder that is not there yet is needed")?);
    let rows: u64 = arguments.next().map_or(Ok(5_000_000), |rows| rows.parse())?;
    for flushed in [false, true] {
        let place = folder.join(flushed.to_string());
        std::fs::create_dir_all(&place)?;
        let tablet = open(&place)?;
        let mut latencies = load(&tablet, rows, flushed)?;
        latencies.sort_unstable();
        let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
        let (median, most) = (at(0.5), at(0.999));
        println!(
            "{rows} rows, maintained: {flushed}: median {median:?}, p99.9 {most:?}, longest {:?}",
            at(1.0)
        );
        println!("  {:?}", tablet.statistics());
        if flushed {
            tablet.flush(Timestamp::MIN)?;
        }
        for (name, projection, ordered) in [
            ("count", vec![], false),
            ("one INT32 column", vec![1], false),
            ("all columns", vec![0, 1, 2], false),
            ("one INT32 column by key", vec![1], true),
        ] {
            let (start, mut seen, mut blocks) = (Instant::now(), 0, 0);
            let mut scanner = tablet.scan(ScanSpec { projection, ordered, ..ScanSpec::default() }, now())?;
            while let Some(block) = scanner.next_block(1 << 20)? {
                seen += block.rows as u64;
                blocks += 1;
            }
            let each = start.elapsed().as_nanos() as f64 / seen as f64;
            println!("  {name}: {seen} rows in {blocks} blocks, {each:.2} ns a row");
        }
        tablet.close()?;
        drop(tablet);
        let start = Instant::now();
        let tablet = open(&place)?;
        println!("  a start: {:?}, {} rows", start.elapsed(), tablet.statistics().live_rows);
    }
    Ok(())
}

fn schema() -> Result<Schema, Failure> {
    let columns = vec![
        Column::new("key", DataType::Int64),
        Column::new("int", DataType::Int32),
        Column::new("text", DataType::String),
    ];
    Ok(Schema::new(columns, 1)?.with_sequential_ids(10))
}

fn open(folder: &Path) -> Result<Tablet, Failure> {
    let backend: Arc<dyn Backend> = Arc::new(Disk::new(folder));
    let cache = Arc::new(BlockCache::new(0));
    let storage = Storage { backend, folder: PathBuf::new(), log: LogOptions::default(), cache };
    let options = TabletOptions {
        id: "t".into(),
        table_id: "t".into(),
        table_name: "t".into(),
        schema: schema()?,
        partition_schema: Default::default(),
        partition: Default::default(),
        schema_version: 0,
        history_max_age_sec: None,
    };
    Ok(Tablet::open_in(storage, options, Arc::new(HybridClock::default()))?)
}

/// Inserts rows and updates every tenth; how long each batch took.
fn load(tablet: &Tablet, rows: u64, maintained: bool) -> Result<Vec<Duration>, Failure> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if maintained {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let idle = Load { compact_at: None, ..tablet.load() };
                    let done = match next_work(&LIMITS, now(), &[idle]) {
                        Some(Work::Flush(_)) => tablet.flush(Timestamp::MIN).map(|()| true),
                        Some(Work::Compact(_)) => tablet.compact(Timestamp::MIN),
                        None => Ok(false),
                    };
                    if !done.unwrap_or(false) {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
            });
        }
        let written = write(tablet, rows);
        over.store(true, Ordering::Relaxed);
        written
    })
}

fn write(tablet: &Tablet, rows: u64) -> Result<Vec<Duration>, Failure> {
    let schema = schema()?;
    let decoder = Decoder::new(&schema, &schema)?;
    let mut latencies = Vec::new();
    for batch in 0..rows / BATCH {
        let mut encoder = Encoder::new(&schema);
        for number in batch * BATCH..(batch + 1) * BATCH {
            let update = number % 10 == 9;
            let key = if update { number / 2 / 10 * 10 } else { number };
            let key = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1) as i64;
            let mut row = PartialRow::new(&schema);
            row.set_at(0, key)?.set_at(1, number as i32)?.set_at(2, format!("{number:032}"))?;
            encoder.push(if update { OpKind::Upsert } else { OpKind::Insert }, &row)?;
        }
        let (bytes, indirect) = encoder.finish();
        let start = Instant::now();
        let ops = decoder.decode(&bytes, &indirect)?;
        tablet.write(&ops, None, now())?;
        latencies.push(start.elapsed());
    }
    Ok(latencies)
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

const LIMITS: Limits = Limits {
    flush_bytes: 32 << 20,
    flush_after: Duration::from_secs(120),
    log_bytes: 1 << 30,
    memory_bytes: u64::MAX,
    compact_after: Duration::ZERO,
};
