//! The demo's work: create, load, scan both ways, compare.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use client::{Client, Table};
use mini_cluster::MiniCluster;
use xtask::measure;
use xtask::report::thousands;
use xtask::rows::{BadRows, CsvTable};

use super::load;
use super::summary::Summary;

/// Timed scans over each way, alternating.
pub(super) const SCANS: usize = 5;
/// Hash buckets a tablet server.
const BUCKETS_A_SERVER: u32 = 2;

/// What the demo measured.
pub(super) struct Outcome {
    loaded: Summary,
    pub(super) scanned: Summary,
    pub(super) bad: BadRows,
    lines: Vec<Line>,
    differing: Vec<&'static str>,
}

/// One row of the table that is printed last.
#[derive(Clone)]
struct Line {
    way: &'static str,
    rows: u64,
    cost: Cost,
}

#[derive(Clone, Copy)]
struct Cost {
    wall: Duration,
    client: Duration,
    servers: Duration,
}

/// The two ways to the tablet servers.
const WAYS: [(&str, bool); 2] = [("scan, TCP", false), ("scan, unix socket", true)];

impl Outcome {
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let row = |line: &Line| {
            let seconds = line.cost.wall.as_secs_f64();
            vec![
                line.way.to_owned(),
                thousands(line.rows),
                format!("{seconds:.3}"),
                thousands((line.rows as f64 / seconds.max(1e-9)) as u64),
                format!("{:.3}", line.cost.client.as_secs_f64()),
                format!("{:.3}", line.cost.servers.as_secs_f64()),
            ]
        };
        self.lines.iter().map(row).collect()
    }

    /// Fails unless both ways brought exactly the rows that were loaded.
    pub(super) fn verdict(&self) -> Result<()> {
        if self.differing.is_empty() {
            println!(
                "\nBoth ways brought the {} rows of the file, every cell the same.",
                thousands(self.loaded.rows)
            );
            return Ok(());
        }
        bail!("the rows differ from the file's: {}", self.differing.join(" and "))
    }
}

pub(super) async fn run(cluster: &MiniCluster, name: &str, csv: &CsvTable, go_on: bool) -> Result<Outcome> {
    let over_unix = connect(cluster, true).await?;
    let over_tcp = connect(cluster, false).await?;
    let buckets = BUCKETS_A_SERVER * cluster.tservers().len() as u32;
    let key: Vec<&str> = csv.schema().columns()[..csv.schema().key_columns()]
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    let created = Instant::now();
    let table = over_unix
        .create_table(name, csv.schema().clone())
        .hash_partition(&key, buckets)
        .replicas(1)
        .create()
        .await?;
    println!(
        "Table {name} with {buckets} tablets by hash of {}, created in {:.0} ms.",
        key.join(", "),
        created.elapsed().as_secs_f64() * 1000.0
    );

    let mut bad = BadRows::new(go_on);
    let meter = Meter::start(cluster)?;
    let refused = load::insert(&over_unix, &table, csv, &mut bad).await?;
    let cost = meter.stop(cluster)?;
    let loaded = refused.account(csv, &mut bad)?;
    let mut lines = vec![Line { way: "load, unix socket", rows: loaded.rows, cost }];

    let tables = [over_tcp.open_table(name).await?, table];
    let mut scanned = None;
    let mut differing = Vec::new();
    for ((way, _), table) in WAYS.iter().zip(&tables) {
        let summary = summarise(table).await?;
        if summary != loaded {
            differing.push(*way);
        }
        scanned = Some(summary);
    }
    let mut costs: [Vec<Cost>; 2] = Default::default();
    for _ in 0..SCANS {
        for (costs, table) in costs.iter_mut().zip(&tables) {
            let (rows, cost) = timed_scan(cluster, table).await?;
            ensure!(rows == loaded.rows, "a scan brought {rows} rows, {} were loaded", loaded.rows);
            costs.push(cost);
        }
    }
    for ((way, _), costs) in WAYS.iter().zip(costs) {
        lines.push(Line { way, rows: loaded.rows, cost: median(costs) });
    }
    check_ways(&over_tcp, &over_unix)?;
    let scanned = scanned.context("no way to scan")?;
    Ok(Outcome { loaded, scanned, bad, lines, differing })
}

async fn connect(cluster: &MiniCluster, unix: bool) -> Result<Client> {
    let client = Client::builder(cluster.master_address()).use_unix_domain_sockets(unix).connect().await?;
    Ok(client)
}

/// The two clients must have gone the way that the table says.
fn check_ways(over_tcp: &Client, over_unix: &Client) -> Result<()> {
    let (tcp, unix) = (over_tcp.location_stats(), over_unix.location_stats());
    ensure!(tcp.unix_chosen == 0, "the TCP client went over a unix socket {} times", tcp.unix_chosen);
    ensure!(unix.unix_chosen > 0 && unix.tcp_chosen == 0, "the unix client went over TCP: {unix:?}");
    Ok(())
}

async fn summarise(table: &Table) -> Result<Summary> {
    let mut summary = Summary::new(table.schema());
    let mut scan = table.scan().start()?;
    while let Some(batch) = scan.next().await {
        let batch = batch?;
        let columns = batch.schema().columns().len();
        for row in 0..batch.rows() {
            let values: Result<Vec<_>, _> = (0..columns).map(|column| batch.value(row, column)).collect();
            summary.add(values?.into_iter());
        }
    }
    Ok(summary)
}

async fn timed_scan(cluster: &MiniCluster, table: &Table) -> Result<(u64, Cost)> {
    let meter = Meter::start(cluster)?;
    let mut rows = 0;
    let mut scan = table.scan().start()?;
    while let Some(batch) = scan.next().await {
        rows += batch?.rows() as u64;
    }
    Ok((rows, meter.stop(cluster)?))
}

/// Wall and CPU time of a stretch of work.
struct Meter {
    wall: Instant,
    client: Duration,
    servers: Duration,
}

impl Meter {
    fn start(cluster: &MiniCluster) -> Result<Self> {
        Ok(Self { servers: server_cpu(cluster)?, client: measure::own_cpu_time(), wall: Instant::now() })
    }

    fn stop(self, cluster: &MiniCluster) -> Result<Cost> {
        let wall = self.wall.elapsed();
        let client = measure::own_cpu_time().saturating_sub(self.client);
        let servers = server_cpu(cluster)?.saturating_sub(self.servers);
        Ok(Cost { wall, client, servers })
    }
}

fn server_cpu(cluster: &MiniCluster) -> Result<Duration> {
    let mut sum = Duration::ZERO;
    for pid in cluster.process_ids() {
        sum += measure::cpu_time(pid).context("a server is gone")?;
    }
    Ok(sum)
}

/// The median of each measure by itself.
fn median(costs: Vec<Cost>) -> Cost {
    let of = |measure: fn(&Cost) -> Duration| {
        let mut values: Vec<Duration> = costs.iter().map(measure).collect();
        values.sort();
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    Cost { wall: of(|c| c.wall), client: of(|c| c.client), servers: of(|c| c.servers) }
}
