//! Servers that are killed under load, and a check after each few kills that nothing acknowledged is lost and nothing
//! unacknowledged is there in half. Used by `cargo xtask soak` and, for seconds, by a test of mini-cluster.

mod model;
mod tables;
mod writer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::blocking::Client;
use client::schema::{Column, DataType, Schema, Timestamp};
use client::{ReadMode, Table};
use mini_cluster::MiniCluster;

use model::{Rows, Writer};
use tables::Tables;

/// What goes wrong, and what must not.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// How servers are killed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Threads that write.
    pub(crate) writers: i64,
    /// Kills between two checks.
    pub(crate) kills_a_check: u32,
    /// The longest time between the start of a server and the next kill.
    pub(crate) longest_life: Duration,
    /// A table that saw this many operations is dropped and followed by a new one.
    pub(crate) operations_a_table: u64,
    /// Rows that one batch writes at most.
    pub(crate) rows_a_batch: usize,
}

/// What was done, and what was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) tserver_kills: u32,
    pub(crate) master_kills: u32,
    /// Operations that were acknowledged.
    pub(crate) acknowledged: u64,
    /// Operations whose fate the client was not told.
    pub(crate) unsure: u64,
    /// Rows compared with what they should be, all checks together.
    pub(crate) rows_compared: u64,
    /// Snapshots read again after kills.
    pub(crate) snapshots: u32,
    pub(crate) checks: u32,
    /// Tables made or dropped while masters were killed.
    pub(crate) table_changes: u64,
}

/// A snapshot that must read the same for ever.
struct Snapshot {
    at: Timestamp,
    rows: Rows,
}

/// Kills servers of `cluster` until `enough` says so, and checks.
pub(crate) fn run(
    cluster: &mut MiniCluster,
    plan: Plan,
    mut enough: impl FnMut(&Done) -> bool,
) -> Result<Done> {
    let mut done = Done::default();
    let mut tables = Tables::default();
    for number in 0.. {
        let name = format!("rows {number}");
        let client = connect(cluster)?;
        let definition = client.create_table(name.as_str(), schema()).hash_partition(&["id"], TABLETS);
        client.create(definition.replicas(1))?;
        let mut writers: Vec<Writer> = (0..plan.writers).map(Writer::new).collect();
        let mut snapshot: Option<Snapshot> = None;
        let mut operations = 0;
        while operations < plan.operations_a_table {
            if enough(&done) {
                return Ok(done);
            }
            let before = done.acknowledged + done.unsure;
            kill_under_load(cluster, plan, &name, &mut writers, &mut tables, &mut done)?;
            operations += done.acknowledged + done.unsure - before;
            // A client that knows nothing of the time before.
            let client = connect(cluster)?;
            tables.check(&client)?;
            let table = client.open_table(&name)?;
            if let Some(Snapshot { at, rows }) = &snapshot {
                let again = model::read(&client, &table, ReadMode::Snapshot(*at))?;
                if again != *rows {
                    return Err(format!("the snapshot at {at} reads otherwise after a restart").into());
                }
                done.snapshots += 1;
            }
            let rows = model::read(&client, &table, ReadMode::Snapshot(now(&client, &table)?))?;
            done.rows_compared += rows.len() as u64;
            model::check(&rows, &mut writers)?;
            done.checks += 1;
            let at = now(&client, &table)?;
            let rows = model::read(&client, &table, ReadMode::Snapshot(at))?;
            snapshot = Some(Snapshot { at, rows });
        }
        connect(cluster)?.delete_table(&name)?;
    }
    Ok(done)
}

/// The moment of an answer: later than all that this client has seen.
fn now(client: &Client, table: &Table) -> Result<Timestamp> {
    let scan = client.scan(table.scan().project(&[]).read_mode(ReadMode::SnapshotNow))?;
    scan.collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(client.inner().latest_observed_timestamp())
}

fn kill_under_load(
    cluster: &mut MiniCluster,
    plan: Plan,
    name: &str,
    writers: &mut [Writer],
    tables: &mut Tables,
    done: &mut Done,
) -> Result<()> {
    let stop = AtomicBool::new(false);
    let master = cluster.master_address();
    std::thread::scope(|scope| {
        let threads: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                let (stop, master) = (&stop, &master);
                scope.spawn(move || writer.write(master, name, plan.rows_a_batch, stop))
            })
            .collect();
        let changes = scope.spawn(|| tables.change(&master, &stop));
        let killed = (0..plan.kills_a_check).try_for_each(|_| kill_one(cluster, plan, done));
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            let (acknowledged, unsure) = thread.join().map_err(|_| "a writer panicked")??;
            done.acknowledged += acknowledged;
            done.unsure += unsure;
        }
        done.table_changes += changes.join().map_err(|_| "the thread that makes tables panicked")??;
        killed
    })
}

fn kill_one(cluster: &mut MiniCluster, plan: Plan, done: &mut Done) -> Result<()> {
    let longest = plan.longest_life.as_millis() as u64;
    std::thread::sleep(Duration::from_millis(fastrand::u64(0..=longest)));
    let down = Duration::from_millis(fastrand::u64(0..20));
    let tservers = cluster.tservers().len();
    match fastrand::usize(0..tservers + 1) {
        server if server < tservers => {
            cluster.kill_tserver(server)?;
            std::thread::sleep(down);
            cluster.start_tserver(server)?;
            done.tserver_kills += 1;
        }
        _ => {
            cluster.kill_master()?;
            std::thread::sleep(down);
            cluster.start_master()?;
            done.master_kills += 1;
        }
    }
    Ok(())
}

fn connect(cluster: &MiniCluster) -> Result<Client> {
    Ok(Client::connect(cluster.master_address())?)
}

/// `id` INT64 key, `value` INT64, `text` STRING NULLABLE: what the value says.
fn schema() -> Schema {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("value", DataType::Int64),
        Column::new("text", DataType::String).nullable(true),
    ];
    Schema::new(columns, 1).expect("a key and two columns are a schema")
}

const TABLETS: u32 = 4;
