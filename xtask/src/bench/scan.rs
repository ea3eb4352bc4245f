//! `cargo xtask bench scan`: what a scanned row costs, ours beside Kudu's.

mod flight;
pub(super) mod pass;
mod system;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::ValueEnum;
use schema::DataType;
use xtask::figures::Figures;
use xtask::report::thousands;

use super::shape::Shape;
use super::side::{self, Rows, Side, Start};
use crate::interop::Kit;
use crate::step;
use flight::Flight;
use pass::{Pass, Reading, Times};
use system::Counts;

/// Scans the table of `kudu perf loadgen` (INT64 key, INT32, STRING of 32 bytes; two tablets), each sample until both sides
/// have had a second of CPU.
#[derive(clap::Args)]
pub(crate) struct Scan {
    /// Rows of the table.
    #[arg(long, default_value_t = 10_000_000)]
    rows: u64,

    /// What to read.
    #[arg(long, value_enum, default_value_t = Columns::Int32)]
    columns: Columns,

    /// Which rows to read. Costs are per row of the table, wanted or not.
    #[arg(long, value_enum, default_value_t = Wanted::None)]
    filter: Wanted,

    /// How the client reaches the tablet server.
    #[arg(long, value_enum, default_value_t = Way::Tcp)]
    way: Way,

    /// Measure the real servers in turns with ours, and the real `kudu perf table_scan` on both.
    #[arg(long)]
    versus_kudu: bool,

    /// Measure the same rows from an Arrow Flight server to its client in turns with ours (bench-peers/).
    #[arg(long)]
    peers: bool,

    /// Have `perf stat -a -r 10` count what the whole machine does while the real `kudu perf table_scan` reads, over TCP and over
    /// the unix socket.
    #[arg(long)]
    system_wide: bool,

    /// Rounds; each side is measured once a round.
    #[arg(long, default_value_t = 5)]
    rounds: u32,

    /// What our client asks for as the size of a batch; its default when not given.
    #[arg(long, value_name = "BYTES")]
    batch_bytes: Option<u32>,

    /// Write the figures to FILE.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Columns {
    /// One INT32 column.
    Int32,
    /// All three.
    #[value(alias = "all")]
    Three,
    /// All of another table of twenty columns: INT64 key, ten INT32, five INT64, four STRING of 32 bytes.
    Wide,
}

impl Columns {
    /// None: all of them.
    fn names(self) -> &'static [&'static str] {
        match self {
            Columns::Int32 => &["int_val"],
            Columns::Three => &["key", "int_val", "string_val"],
            Columns::Wide => &[],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Columns::Int32 => "int32",
            Columns::Three => "three",
            Columns::Wide => "wide",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Wanted {
    /// All rows.
    None,
    /// Of a hundred rows one, anywhere in the table: `int_val` is less than a hundredth of the rows, and in no order.
    #[value(name = "1pct")]
    OnePercent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    Tcp,
    Uds,
    /// Over a unix socket, with rows in memory that our server shares. A real server sends them.
    Shm,
}

impl Way {
    fn is_unix(self) -> bool {
        self != Way::Tcp
    }
}

/// What is measured a round: the side, and whether the real command line reads.
struct Series {
    side: usize,
    by_cli: bool,
    passes: Vec<Pass>,
}

impl Scan {
    pub(crate) fn run(self) -> Result<()> {
        let shape = self.shape()?;
        let reading = self.reading(shape)?;
        let uses_kit = self.versus_kudu || self.system_wide;
        let kit = uses_kit.then(|| Kit::bring(&step::root())).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut sides = Vec::new();
        for kit in [None, kit.as_ref()].into_iter().take(if self.versus_kudu { 2 } else { 1 }) {
            let side = Side::start(Start { kit, tserver_flags: &[] })?;
            println!("loading {} rows: {}", thousands(self.rows), side.name);
            let table = runtime.block_on(async {
                let client = side.client(self.way.is_unix(), self.way == Way::Shm).await?;
                side::load(&client, Rows { shape, count: self.rows, tablets: side::TABLETS }).await
            })?;
            side.settle()?;
            sides.push((side, table));
        }
        let mut series = Vec::new();
        for by_cli in [false, true] {
            let on = |side| Series { side, by_cli, passes: Vec::new() };
            let wanted = !by_cli || self.versus_kudu;
            series.extend((0..sides.len()).filter(|_| wanted).map(on));
        }
        // Before all else: the server fills its memory, and a client maps it.
        let mut fresh = Fresh::default();
        if self.way == Way::Shm
            && let Some((side, table)) = sides.first()
        {
            fresh.filled.push(runtime.block_on(pass::by_client(side, table, &reading, Times::Once))?);
        }
        let mut flight = self.peers.then(|| self.flight()).transpose()?;
        let mut flights = Vec::new();
        // One more round goes first and does not count: caches are filled, connections made.
        for round in 0..=self.rounds.max(1) {
            for series in &mut series {
                let (side, table) = &sides[series.side];
                let pass = match (&kit, series.by_cli) {
                    (Some(kit), true) => {
                        pass::by_cli(kit, side, &self.arguments(side, self.way.is_unix()), &reading)?
                    }
                    _ => runtime.block_on(pass::by_client(side, table, &reading, Times::Enough))?,
                };
                if round > 0 {
                    series.passes.push(pass);
                }
            }
            if let Some((side, _)) = sides.first().filter(|_| self.way == Way::Shm) {
                let pass = runtime.block_on(async {
                    let client = side.client(true, true).await?;
                    let table = client.open_table(side::TABLE).await?;
                    // The connection is made, and says what it can do.
                    table.scan().limit(1).start()?.count().await?;
                    pass::by_client(side, &table, &reading, Times::Once).await
                })?;
                if round > 0 {
                    fresh.mapped.push(pass);
                }
            }
            if let Some(flight) = &mut flight {
                let pass = flight.pass()?;
                if round > 0 {
                    flights.push(pass);
                }
            }
        }
        let mut figures = publish(&series, self.rows);
        if let Some(later) = series.first().filter(|_| self.way == Way::Shm) {
            fresh.publish(&later.passes, pass::own(self.rows), &mut figures);
        }
        if let Some(ours) = series.first().filter(|_| self.peers) {
            add_flight(&mut figures, &ours.passes, &flights, self.rows);
        }
        if let Some(kit) = kit.as_ref().filter(|_| self.system_wide) {
            let sides = sides.iter().map(|(side, _)| side);
            system::publish(&self.system_wide(kit, sides)?, &mut figures);
        }
        for (side, _) in sides {
            side.stop()?;
        }
        let way = match self.way {
            Way::Tcp => "TCP",
            Way::Uds => "unix socket",
            Way::Shm => "shared memory",
        };
        let (rows, given) = (thousands(self.rows), thousands(reading.expected.0));
        println!("\n{rows} rows, {given} of them given, columns {}, {way}\n", self.columns.name());
        super::publish(&figures, self.json.as_ref())
    }

    /// The table that has what is to be read.
    fn shape(&self) -> Result<Shape> {
        match (self.columns, self.filter) {
            (Columns::Wide, Wanted::None) => Ok(Shape::Wide),
            (Columns::Wide, Wanted::OnePercent) => bail!("--filter 1pct is about the columns int32 or three"),
            (_, Wanted::None) => Ok(Shape::Loadgen),
            (_, Wanted::OnePercent) if self.peers => {
                bail!("Arrow Flight has no filters: --peers goes without")
            }
            (_, Wanted::OnePercent) if i32::try_from(self.rows).is_err() => {
                bail!("too many --rows for INT32")
            }
            (_, Wanted::OnePercent) => Ok(Shape::Scattered),
        }
    }

    fn reading(&self, shape: Shape) -> Result<Reading> {
        let names = self.columns.names();
        let is_read = |name: &String| names.is_empty() || names.contains(&name.as_str());
        let schema = shape.schema()?;
        let columns = schema.columns().iter().filter(|column| is_read(&column.name));
        let kinds: Vec<DataType> = columns.map(|column| column.data_type).collect();
        let below = (self.filter == Wanted::OnePercent).then_some(self.rows / 100);
        Ok(Reading {
            columns: names.iter().map(|name| (*name).to_owned()).collect(),
            rows: self.rows,
            below,
            expected: shape.sum(&kinds, self.rows, below),
            batch_bytes: self.batch_bytes,
        })
    }

    fn flight(&self) -> Result<Flight> {
        let (rows, columns, unix) = (self.rows, self.columns.name(), self.way.is_unix());
        Flight::start(flight::Setting { rows, columns, unix })
    }

    /// Of the real `kudu perf table_scan`.
    fn arguments(&self, side: &Side, unix: bool) -> Vec<String> {
        let mut arguments = ["perf", "table_scan"].map(str::to_owned).to_vec();
        arguments.extend([side.master(), side::TABLE.to_owned(), "--num_threads=2".to_owned()]);
        if !self.columns.names().is_empty() {
            arguments.push(format!("--columns={}", self.columns.names().join(",")));
        }
        if self.filter == Wanted::OnePercent {
            arguments.push(format!(r#"--predicates=["AND",["<","int_val",{}]]"#, self.rows / 100));
        }
        if unix {
            let unix = ["--client_use_unix_domain_sockets=true", "--unlock_experimental_flags"];
            arguments.extend(unix.map(str::to_owned));
        }
        arguments
    }

    fn system_wide<'a>(&self, kit: &Kit, sides: impl Iterator<Item = &'a Side>) -> Result<Vec<Counts>> {
        let mut counts = Vec::new();
        for side in sides {
            for (way, unix) in [("tcp", false), ("uds", true)] {
                let mut command = kit.kudu();
                command.args(self.arguments(side, unix));
                counts.push(Counts::of(format!("{}_{way}", side.name), &command)?);
            }
        }
        Ok(counts)
    }
}

/// Scans that do not find everything mapped.
#[derive(Default)]
struct Fresh {
    /// The first one of all: the server fills its memory.
    filled: Vec<Pass>,
    /// The first of a client.
    mapped: Vec<Pass>,
}

impl Fresh {
    /// Server and client together; `own` is what the client's pass over the cells costs by itself.
    fn publish(&self, later: &[Pass], own: f64, figures: &mut Figures) {
        let both = |passes: &[Pass]| passes.iter().map(|pass| pass.server_ns + pass.client_ns).collect();
        let (first, new, later): (Vec<f64>, Vec<f64>, Vec<f64>) =
            (both(&self.filled), both(&self.mapped), both(later));
        let beyond: Vec<f64> = later.iter().map(|cost| cost - own).collect();
        figures.add("cpu_ns_per_row_first_scan_of_all", "ns", &first);
        figures.add("cpu_ns_per_row_first_scan_of_a_client", "ns", &new);
        figures.add("cpu_ns_per_row_later_scans", "ns", &later);
        figures.add("cpu_ns_per_row_of_the_pass_itself", "ns", &[own]);
        figures.add("cpu_ns_per_row_beyond_the_pass", "ns", &beyond);
    }
}

fn publish(series: &[Series], rows: u64) -> Figures {
    let mut figures = Figures::default();
    for one in series {
        let reader = if one.by_cli { "_cli" } else { "" };
        let whose = if one.side == 0 { "" } else { "_kudu" };
        let all = |of: fn(&Pass) -> f64| one.passes.iter().map(of).collect::<Vec<_>>();
        figures.add(&format!("server_cpu_ns_per_row{reader}{whose}"), "ns", &all(|pass| pass.server_ns));
        figures.add(&format!("client_cpu_ns_per_row{reader}{whose}"), "ns", &all(|pass| pass.client_ns));
        figures.add(&format!("rows_per_sec{reader}{whose}"), "1/s", &all(|pass| 1.0 / pass.seconds_a_row));
        let seconds: Vec<f64> = one.passes.iter().map(|pass| pass.seconds_a_row * rows as f64).collect();
        figures.add(&format!("seconds{reader}{whose}"), "s", &seconds);
    }
    let find = |side, by_cli| series.iter().find(|one| one.side == side && one.by_cli == by_cli);
    for (ours, theirs, name) in [(false, false, ""), (true, true, "_cli"), (false, true, "_cli_to_client")] {
        if let (Some(ours), Some(theirs)) = (find(0, ours), find(1, theirs)) {
            let ratio = |of: fn(&Pass) -> f64| {
                theirs
                    .passes
                    .iter()
                    .zip(&ours.passes)
                    .map(|(theirs, ours)| of(theirs) / of(ours))
                    .collect::<Vec<_>>()
            };
            figures.add(&format!("ratio_server_cpu{name}"), "x", &ratio(|pass| pass.server_ns));
            figures.add(&format!("ratio_client_cpu{name}"), "x", &ratio(|pass| pass.client_ns));
        }
    }
    figures
}

fn add_flight(figures: &mut Figures, ours: &[Pass], theirs: &[Pass], rows: u64) {
    let all = |of: fn(&Pass) -> f64| theirs.iter().map(of).collect::<Vec<_>>();
    figures.add("server_cpu_ns_per_row_flight", "ns", &all(|pass| pass.server_ns));
    figures.add("client_cpu_ns_per_row_flight", "ns", &all(|pass| pass.client_ns));
    figures.add("rows_per_sec_flight", "1/s", &all(|pass| 1.0 / pass.seconds_a_row));
    let seconds: Vec<f64> = theirs.iter().map(|pass| pass.seconds_a_row * rows as f64).collect();
    figures.add("seconds_flight", "s", &seconds);
    let ratio = |of: fn(&Pass) -> f64| {
        theirs.iter().zip(ours).map(|(theirs, ours)| of(theirs) / of(ours)).collect::<Vec<_>>()
    };
    figures.add("ratio_server_cpu_flight", "x", &ratio(|pass| pass.server_ns));
    figures.add("ratio_client_cpu_flight", "x", &ratio(|pass| pass.client_ns));
}
