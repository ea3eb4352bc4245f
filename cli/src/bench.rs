//! `nyala bench`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use cli::interrupt::{Interrupt, Interrupted};
use cli::report;
use client::schema::{Column, DataType, Schema};
use client::{Client, FlushMode, Table, column};
use indicatif::ProgressBar;
use serde_json::json;

use crate::Target;

/// Load rows into a table of its own and scan it, and tell how long it took.
///
/// Works on Nyala and on Apache Kudu alike. The figures are of the whole way: this client, the network, the servers.
#[derive(clap::Args)]
pub(crate) struct Bench {
    /// How many rows to load.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,
    /// How many clients load and scan at the same time, each in a thread of its own.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=256))]
    clients: u64,
    /// Bytes of the text in each row.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    text_bytes: u64,
    /// How often the whole table is scanned.
    #[arg(long, default_value_t = 3)]
    scans: u32,
    /// Hash buckets of the table.
    #[arg(long, default_value_t = 4)]
    buckets: u32,
    /// Replicas of each tablet.
    #[arg(long, default_value_t = 1)]
    replicas: u32,
    /// The table to make; it must not be there yet.
    #[arg(long, default_value = "nyala_bench")]
    table: String,
    /// Leave the table there afterwards.
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    target: Target,
}

/// What one pass over all rows took.
struct Pass {
    name: String,
    rows: u64,
    bytes: u64,
    time: Duration,
}

impl Bench {
    pub(crate) fn run(self, runtime: &tokio::runtime::Runtime) -> Result<()> {
        let interrupt = Interrupt::install()?;
        let client = runtime.block_on(self.target.connect())?;
        let table = runtime.block_on(self.make(&client))?;
        let measured = self.measure(&table, &interrupt);
        if !self.keep {
            runtime.block_on(client.delete_table(&self.table))?;
        }
        self.print(&measured?)
    }

    async fn make(&self, client: &Client) -> Result<Table> {
        let columns = vec![
            Column::new("id", DataType::Int64),
            Column::new("number", DataType::Int32),
            Column::new("text", DataType::String),
        ];
        let mut table = client.create_table(&self.table, Schema::new(columns, 1)?).replicas(self.replicas);
        if self.buckets > 1 {
            table = table.hash_partition(&["id"], self.buckets);
        }
        Ok(table.create().await?)
    }

    fn measure(&self, table: &Table, interrupt: &Interrupt) -> Result<Vec<Pass>> {
        let row_bytes = 12 + self.text_bytes;
        let mut passes = Vec::new();
        let load = self.pass("load", interrupt, |share, bar| {
            let text = "x".repeat(usize::try_from(self.text_bytes)?);
            self.on_own_client(|table| async move { load(&table, share, &text, bar, interrupt).await })
        })?;
        passes.push(Pass { bytes: load.rows * row_bytes, ..load });
        for turn in 1..=self.scans {
            let scan = self.pass(&format!("scan {turn}"), interrupt, |share, bar| {
                self.on_own_client(|table| async move { scan(&table, share, bar, interrupt).await })
            })?;
            let (found, expected) = (scan.rows, self.rows);
            ensure!(
                found == expected,
                "{expected} rows were loaded, a scan of {} found {found}",
                table.name()
            );
            passes.push(Pass { bytes: scan.rows * row_bytes, ..scan });
        }
        Ok(passes)
    }

    /// Has each client do its share of the rows, all at the same time.
    fn pass(
        &self,
        name: &str,
        interrupt: &Interrupt,
        work: impl Fn(std::ops::Range<u64>, &ProgressBar) -> Result<u64> + Sync,
    ) -> Result<Pass> {
        let bar = report::progress(self.rows, name);
        let done = AtomicU64::new(0);
        let begin = Instant::now();
        let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
            let share = |number: u64| self.rows * number / self.clients;
            let threads: Vec<_> = (0..self.clients)
                .map(|number| {
                    let (work, bar, done) = (&work, &bar, &done);
                    scope.spawn(move || {
                        done.fetch_add(work(share(number)..share(number + 1), bar)?, Ordering::Relaxed);
                        Ok(())
                    })
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<()>>| {
                thread.join().unwrap_or_else(|_| bail!("a client of the benchmark has panicked"))
            };
            threads.into_iter().map(join).collect()
        });
        let time = begin.elapsed();
        bar.finish_and_clear();
        if interrupt.is_set() {
            return Err(Interrupted.into());
        }
        outcomes.into_iter().collect::<Result<()>>()?;
        Ok(Pass { name: name.to_owned(), rows: done.into_inner(), bytes: 0, time })
    }

    fn on_own_client<F: Future<Output = Result<u64>>>(&self, work: impl FnOnce(Table) -> F) -> Result<u64> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let table = self.target.connect().await?.open_table(&self.table).await?;
            work(table).await
        })
    }

    fn print(&self, passes: &[Pass]) -> Result<()> {
        let rate = |amount: u64, time: Duration| amount as f64 / time.as_secs_f64().max(1e-9);
        if self.target.json {
            for pass in passes {
                let row = json!({
                    "pass": pass.name, "rows": pass.rows, "seconds": pass.time.as_secs_f64(),
                    "rows_per_second": rate(pass.rows, pass.time), "bytes_per_second": rate(pass.bytes, pass.time),
                });
                say!("{row}");
            }
            return Ok(());
        }
        let row = |pass: &Pass| {
            vec![
                pass.name.clone(),
                report::thousands(pass.rows),
                format!("{:.3}", pass.time.as_secs_f64()),
                report::thousands(rate(pass.rows, pass.time) as u64),
                format!("{:.1}", rate(pass.bytes, pass.time) / f64::from(1 << 20)),
            ]
        };
        let rows: Vec<_> = passes.iter().map(row).collect();
        say!("{}", report::table(&["pass", "rows", "seconds", "rows/s", "MiB/s"], &rows));
        say!(
            "\n{} clients, {} buckets, cells of {} bytes a row{}",
            self.clients,
            self.buckets,
            12 + self.text_bytes,
            if self.keep { format!("; the table is {}", self.table) } else { String::new() }
        );
        Ok(())
    }
}

async fn load(
    table: &Table,
    share: std::ops::Range<u64>,
    text: &str,
    bar: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<u64> {
    let session = table.client().session().mode(FlushMode::AutoBackground).build();
    let mut rows = 0;
    for id in share {
        let mut insert = table.insert();
        let row = insert.row_mut();
        row.set_at(0, i64::try_from(id)?)?;
        row.set_at(1, i32::try_from(id % 1_000_003)?)?;
        row.set_at(2, text)?;
        session.apply(insert).await?;
        rows += 1;
        if rows % STRIDE == 0 {
            bar.inc(STRIDE);
            if interrupt.is_set() || session.pending_errors() > 0 {
                break;
            }
        }
    }
    let flushed = session.flush().await;
    if let Some(failed) = session.take_errors().errors.first() {
        bail!("a row was refused: {}", failed.error());
    }
    flushed?;
    bar.inc(rows % STRIDE);
    Ok(rows)
}

async fn scan(
    table: &Table,
    share: std::ops::Range<u64>,
    bar: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<u64> {
    let from = column("id").at_least(i64::try_from(share.start)?);
    let to = column("id").less_than(i64::try_from(share.end)?);
    let mut scan = table.scan().filter(from).filter(to).start()?;
    let mut rows = 0;
    while let Some(batch) = scan.next().await {
        let found = batch?.rows() as u64;
        rows += found;
        bar.inc(found);
        if interrupt.is_set() {
            break;
        }
    }
    Ok(rows)
}

/// How many rows pass between two looks at the signals.
const STRIDE: u64 = 1000;
