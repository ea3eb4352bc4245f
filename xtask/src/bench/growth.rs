//! `cargo xtask bench growth`: what a row costs in small and in large tables, in few and in many tablets.

use std::path::PathBuf;

use anyhow::Result;
use schema::DataType;
use xtask::figures::Figures;
use xtask::measure;
use xtask::report::{self, thousands};

use super::peak::Peak;
use super::scan::pass::{self, Pass, Reading, Times};
use super::shape::Shape;
use super::side::{self, Folder, Rows, Side, Start};

/// Loads tables of `kudu perf loadgen`'s rows into fresh servers, the log on and rows flushed as by default, and scans them over
/// the unix socket.
#[derive(clap::Args)]
pub(crate) struct Growth {
    /// Rows of the tables in two tablets.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 10_000_000, 100_000_000])]
    rows: Vec<u64>,

    /// Tablets of the tables of `--tablet-rows` rows.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16, 64])]
    tablets: Vec<u32>,

    /// Rows of the tables in several numbers of tablets.
    #[arg(long, default_value_t = 10_000_000)]
    tablet_rows: u64,

    /// Samples of each scan.
    #[arg(long, default_value_t = 3)]
    rounds: u32,

    /// Write the figures to FILE.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What one table cost.
struct Cost {
    insert_server_ns: f64,
    insert_client_ns: f64,
    peak_mib: f64,
    on_disk_mib: f64,
    int32: Vec<Pass>,
    three: Vec<Pass>,
}

impl Growth {
    pub(crate) fn run(self) -> Result<()> {
        let by_rows = self.rows.iter().map(|rows| (*rows, side::TABLETS));
        let by_tablets = self.tablets.iter().map(|tablets| (self.tablet_rows, *tablets));
        let (mut figures, mut lines) = (Figures::default(), Vec::new());
        for (count, tablets) in by_rows.chain(by_tablets) {
            let cost = self.table(Rows { shape: Shape::Loadgen, count, tablets })?;
            lines.push(cost.line(count, tablets));
            cost.publish(&format!("_{count}_rows_{tablets}_tablets"), &mut figures);
            println!("\n{}", report::table(&HEADERS, &lines));
        }
        super::publish(&figures, self.json.as_ref())
    }

    fn table(&self, rows: Rows) -> Result<Cost> {
        let folder = Folder::new()?;
        let flags = [format!("--fs_wal_dir={}", folder.path().join("data").display())];
        let side = Side::start(Start { kit: None, tserver_flags: &flags })?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        println!("loading {} rows into {} tablets", thousands(rows.count), rows.tablets);
        let before = (measure::whole_cpu_time(side.tserver)?, measure::own_cpu_time());
        let peak = Peak::watch(side.tserver);
        let table = runtime.block_on(async {
            let client = side.client(true, false).await?;
            side::load(&client, rows).await
        })?;
        let client = measure::own_cpu_time().saturating_sub(before.1);
        // What is still flushed and compacted belongs to the rows, too.
        side.settle()?;
        let server = measure::whole_cpu_time(side.tserver)?.saturating_sub(before.0);
        let each = |time: std::time::Duration| time.as_nanos() as f64 / rows.count as f64;
        let mut cost = Cost {
            insert_server_ns: each(server),
            insert_client_ns: each(client),
            peak_mib: peak.stop()? as f64 / MIB,
            on_disk_mib: side::bytes_below(folder.path())? as f64 / MIB,
            int32: Vec::new(),
            three: Vec::new(),
        };
        let int32 = reading(rows, &["int_val"], &[DataType::Int32]);
        let all = ["key", "int_val", "string_val"];
        let three = reading(rows, &all, &[DataType::Int64, DataType::Int32, DataType::String]);
        for (reading, passes) in [(int32, &mut cost.int32), (three, &mut cost.three)] {
            // The first one fills caches.
            runtime.block_on(pass::by_client(&side, &table, &reading, Times::Once))?;
            for _ in 0..self.rounds.max(1) {
                passes.push(runtime.block_on(pass::by_client(&side, &table, &reading, Times::Enough))?);
            }
        }
        side.stop()?;
        Ok(cost)
    }
}

fn reading(rows: Rows, columns: &[&str], kinds: &[DataType]) -> Reading {
    Reading {
        columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        rows: rows.count,
        below: None,
        expected: rows.shape.sum(kinds, rows.count, None),
        batch_bytes: None,
    }
}

impl Cost {
    fn publish(&self, table: &str, figures: &mut Figures) {
        let mut add =
            |name: &str, unit: &str, samples: &[f64]| figures.add(&format!("{name}{table}"), unit, samples);
        add("insert_server_cpu_ns_per_row", "ns", &[self.insert_server_ns]);
        add("insert_client_cpu_ns_per_row", "ns", &[self.insert_client_ns]);
        add("insert_peak_memory_mib", "MiB", &[self.peak_mib]);
        add("on_disk_mib", "MiB", &[self.on_disk_mib]);
        for (what, passes) in [("int32", &self.int32), ("three", &self.three)] {
            let all = |of: fn(&Pass) -> f64| passes.iter().map(of).collect::<Vec<_>>();
            add(&format!("scan_{what}_server_cpu_ns_per_row"), "ns", &all(|pass| pass.server_ns));
            add(&format!("scan_{what}_client_cpu_ns_per_row"), "ns", &all(|pass| pass.client_ns));
        }
    }

    fn line(&self, rows: u64, tablets: u32) -> Vec<String> {
        let mut figures = Figures::default();
        self.publish("", &mut figures);
        let median = |name: &str| figures.median(name).map_or(String::new(), |median| format!("{median:.2}"));
        let names = [
            "insert_server_cpu_ns_per_row",
            "insert_client_cpu_ns_per_row",
            "insert_peak_memory_mib",
            "on_disk_mib",
            "scan_int32_server_cpu_ns_per_row",
            "scan_int32_client_cpu_ns_per_row",
            "scan_three_server_cpu_ns_per_row",
            "scan_three_client_cpu_ns_per_row",
        ];
        [thousands(rows), tablets.to_string()].into_iter().chain(names.map(median)).collect()
    }
}

/// CPU in ns a row.
const HEADERS: [&str; 10] = [
    "rows",
    "tablets",
    "insert: server",
    "client",
    "peak MiB",
    "disk MiB",
    "INT32: server",
    "client",
    "three: server",
    "client",
];
const MIB: f64 = 1_048_576.0;
