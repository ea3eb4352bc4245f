//! What versions that have ended cost scans of the newest snapshot: `cargo run --release -p tablet --example history -- [ROWS]`.

use std::sync::Arc;
use std::time::Duration;

use schema::row_ops::{Decoder, Encoder};
use schema::{Column, DataType, HybridClock, OpKind, PartialRow, Schema, Timestamp};
use tablet::{ScanSpec, Tablet, TabletOptions};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let rows: i64 = std::env::args().nth(1).map_or(Ok(2_000_000), |rows| rows.parse())?;
    for each in [0, 1000, 100, 10, 2, 1] {
        let tablet = open()?;
        write(&tablet, OpKind::Insert, 0..rows, 1)?;
        tablet.flush(Timestamp::MIN)?;
        if each > 0 {
            write(&tablet, OpKind::Update, 0..rows / each, each)?;
        }
        println!("{rows} rows, {} of them updated", if each == 0 { 0 } else { rows / each });
        scans(&tablet, "new versions in memory", rows)?;
        tablet.flush(Timestamp::MIN)?;
        scans(&tablet, "new versions in a file", rows)?;
        // Enough files to be worth it.
        for _ in 0..2 {
            write(&tablet, OpKind::Update, 0..1, 1)?;
            tablet.flush(Timestamp::MIN)?;
        }
        let done = tablet.compact(Timestamp::MIN)?;
        scans(&tablet, if done { "compacted, with history" } else { "not compacted" }, rows)?;
    }
    Ok(())
}

fn scans(tablet: &Tablet, what: &str, rows: i64) -> Result<(), Failure> {
    let mut text = String::new();
    for projection in [vec![], vec![1], vec![0, 1, 2]] {
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = cpu_time();
            let mut seen = 0;
            let spec = ScanSpec { projection: projection.clone(), ..ScanSpec::default() };
            let mut scanner = tablet.scan(spec, now())?;
            while let Some(block) = scanner.next_block(1 << 20)? {
                seen += block.rows as i64;
                std::hint::black_box(block);
            }
            assert_eq!(seen, rows);
            best = best.min((cpu_time() - start).as_nanos() as f64 / rows as f64);
        }
        text += &format!(" {best:8.3}");
    }
    println!("  {what:25}{text} ns a row (count, one INT32 column, all three)");
    Ok(())
}

fn write(tablet: &Tablet, kind: OpKind, rows: std::ops::Range<i64>, each: i64) -> Result<(), Failure> {
    let schema = schema()?;
    let decoder = Decoder::new(&schema, &schema)?;
    let mut rows = rows.map(|row| row * each).peekable();
    while rows.peek().is_some() {
        let mut encoder = Encoder::new(&schema);
        for key in rows.by_ref().take(10_000) {
            let mut row = PartialRow::new(&schema);
            row.set_at(0, key)?.set_at(1, key as i32)?.set_at(2, format!("{key:032}"))?;
            encoder.push(kind, &row)?;
        }
        let (bytes, indirect) = encoder.finish();
        assert!(tablet.write(&decoder.decode(&bytes, &indirect)?, None, now())?.row_errors.is_empty());
    }
    Ok(())
}

fn schema() -> Result<Schema, Failure> {
    let columns = vec![
        Column::new("key", DataType::Int64),
        Column::new("int", DataType::Int32).nullable(true),
        Column::new("text", DataType::String).nullable(true),
    ];
    Ok(Schema::new(columns, 1)?.with_sequential_ids(10))
}

fn open() -> Result<Tablet, Failure> {
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
    Ok(Tablet::open(options, Arc::new(HybridClock::default()))?)
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// Of this process: other programs on the machine do not count.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
