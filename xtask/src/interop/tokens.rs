//! Scan tokens from our client to the Java client and back: the same rows, token by token.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use client::schema::{Column, DataType, PartialRow, Schema, Timestamp, Value};
use client::{
    Client, FlushMode, RangeBound, RangePartition, ReadMode, ReplicaSelection, ScanToken, Session, Table,
    TokenBuilder, column,
};

use super::Kit;
use super::java::Program;
use super::target::Target;
use crate::step;

/// Runs the comparison and reports it as a test runner does.
pub(super) fn run(kit: &Kit, program: &Program, target: &Target) -> Result<()> {
    let begin = Instant::now();
    println!("\ninterop: scan tokens of our client and the Java client on {}", target.master);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut tally = Tally::default();
    let exchange = runtime.block_on(Exchange::start(&target.master))?;

    let (ours, theirs) = (kit.folder().join("tokens.ours"), kit.folder().join("tokens.java"));
    let made = runtime.block_on(exchange.make())?;
    write(&ours, &made)?;
    let master = target.master.as_str();
    step::run(&mut program.command(&["open-tokens", master, &text(&ours), &text(&theirs)]))?;
    tally.compare("java_opens_ours", &made, &read(&theirs)?);

    let (start, end) = (exchange.start.0.to_string(), exchange.end.0.to_string());
    let arguments = ["tokens", master, exchange.table.name(), &start, &end, &text(&theirs)];
    step::run(&mut program.command(&arguments))?;
    let mut made = read(&theirs)?;
    let placed = made.pop().context("the partitions of rows by the Java client")?;
    let mut opened = Vec::new();
    for line in &made {
        let rows = runtime.block_on(exchange.open(&line.token));
        let rows = rows.with_context(|| format!("a token of the Java client, {}", line.kind))?;
        opened.push(Line { rows, ..line.clone() });
    }
    tally.compare("ours_opens_java", &made, &opened);
    let partitions = runtime.block_on(exchange.partitions())?;
    let ours = Line { rows: partitions, ..placed.clone() };
    tally.compare("partitions_of_rows", &[placed], &[ours]);

    runtime.block_on(exchange.client.delete_table(exchange.table.name()))?;
    tally.finish(begin.elapsed())
}

/// A token and what is read by it.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    kind: String,
    token: Vec<u8>,
    /// As text, sorted.
    rows: Vec<String>,
}

struct Exchange {
    client: Client,
    table: Table,
    start: Timestamp,
    end: Timestamp,
}

impl Exchange {
    /// A table of every type, hashed and in ranges, that changed between two snapshots.
    async fn start(master: &str) -> Result<Exchange> {
        let client = Client::connect(master).await?;
        let schema = schema()?;
        let mut middle = PartialRow::new(&schema);
        middle.set("s", "key 5")?;
        let ranges = [
            RangePartition::new(RangeBound::Unbounded, RangeBound::Exclusive(middle.clone())),
            RangePartition::new(RangeBound::Inclusive(middle), RangeBound::Unbounded).hash(&["id"], 2),
        ];
        let create = client.create_table("tokens", schema).hash_partition(&["id"], 3).range_columns(&["s"]);
        let create = ranges.into_iter().fold(create, client::TableCreator::range);
        let table = create.replicas(1).create().await?;
        let session = client.session().mode(FlushMode::Manual).build();
        for id in 0..100 {
            session.apply(insert(&table, id)?).await?;
        }
        let start = flush(&session, &client).await?;
        for id in (0..100).step_by(7) {
            session.apply(table.delete().with("id", id)?.with("s", key(id))?).await?;
        }
        for id in (1..100).step_by(7) {
            session.apply(table.update().with("id", id)?.with("s", key(id))?.with("string", "new")?).await?;
        }
        for id in 100..110 {
            session.apply(insert(&table, id)?).await?;
        }
        let end = flush(&session, &client).await?;
        Ok(Exchange { client, table, start, end })
    }

    /// Tokens of all kinds that the Java client can open.
    async fn make(&self) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        for (kind, tokens) in self.kinds()? {
            let tokens = tokens.build().await?;
            if tokens.is_empty() {
                bail!("no tokens of kind {kind}");
            }
            for token in tokens {
                let token = token.to_bytes();
                let rows = self.open(&token).await?;
                lines.push(Line { kind: kind.to_owned(), token, rows });
            }
        }
        Ok(lines)
    }

    fn kinds(&self) -> Result<Vec<(&'static str, TokenBuilder)>> {
        let scan = || self.table.scan();
        let bound = |id: i64, s: &str| -> Result<PartialRow> {
            let mut row = self.table.row();
            row.set("id", id)?.set("s", s)?;
            Ok(row)
        };
        let some = ["string", "id", "double"];
        let snapshot = |at| scan().read_mode(ReadMode::Snapshot(at));
        Ok(vec![
            ("plain", scan().tokens()),
            (
                "without_metadata",
                scan().tokens().include_table_metadata(false).include_tablet_metadata(false),
            ),
            ("with_table_alone", scan().tokens().include_tablet_metadata(false)),
            ("with_tablet_alone", scan().tokens().include_table_metadata(false)),
            ("columns", scan().project(&some).tokens()),
            ("columns_without_metadata", scan().project(&some).tokens().include_table_metadata(false)),
            ("no_columns", scan().project(&[]).tokens()),
            (
                "predicates",
                scan()
                    .filter(column("id").within(20i64, 90i64))
                    .filter(column("string").is_not_null())
                    .tokens(),
            ),
            ("in_list", scan().filter(column("id").is_in([3i64, 55, 56, 57, 1000])).tokens()),
            ("null", scan().filter(column("int8").is_null()).tokens()),
            ("bounds", scan().lower_bound(bound(30, "key 30")?).upper_bound(bound(70, "")?).tokens()),
            ("snapshot", snapshot(self.start).tokens()),
            (
                "in_order",
                snapshot(self.end).fault_tolerant(true).batch_bytes(300).cache_blocks(false).tokens(),
            ),
            (
                "own_writes",
                scan()
                    .read_mode(ReadMode::ReadYourWrites)
                    .selection(ReplicaSelection::Closest)
                    .keep_alive(Duration::from_secs(2))
                    .query_id("one for all")
                    .tokens(),
            ),
            ("limit", scan().limit(1000).tokens()),
            ("changes", scan().diff_scan(self.start, self.end).tokens()),
            (
                "changes_of_columns",
                scan().project(&some).diff_scan(self.start, self.end).tokens().include_table_metadata(false),
            ),
            ("split", scan().tokens().split_bytes(1)),
        ])
    }

    /// The rows of a token, as text.
    async fn open(&self, token: &[u8]) -> Result<Vec<String>> {
        let mut scan = self.client.open_token(&ScanToken::from_bytes(token)?).await?.start()?;
        let mut rows = Vec::new();
        while let Some(batch) = scan.next().await {
            rows.extend(batch?.iter().map(|row| row.values().iter().map(cell).collect::<Vec<_>>().join("|")));
        }
        rows.sort();
        Ok(rows)
    }

    /// Each row's key and the number of its partition.
    async fn partitions(&self) -> Result<Vec<String>> {
        let partitioner = self.table.partitioner().await?;
        let mut placed = Vec::new();
        for row in self.table.scan().project(&["id", "s"]).start()?.collect_rows().await? {
            let mut key = self.table.row();
            for (name, value) in ["id", "s"].into_iter().zip(&row) {
                key.set(name, value.clone().context("a key")?)?;
            }
            let partition = partitioner.partition(&key)?.context("a partition of every row")?;
            placed.push(format!("{}|{}|{partition}", cell(&row[0]), cell(&row[1])));
        }
        placed.sort();
        Ok(placed)
    }
}

fn schema() -> Result<Schema> {
    let columns = vec![
        Column::new("int8", DataType::Int8),
        Column::new("int16", DataType::Int16),
        Column::new("int32", DataType::Int32),
        Column::new("int64", DataType::Int64),
        Column::new("string", DataType::String),
        Column::new("binary", DataType::Binary),
        Column::new("time", DataType::UnixtimeMicros),
        Column::new("date", DataType::Date),
        Column::varchar("varchar", 12),
        Column::decimal("decimal32", 9, 2),
        Column::decimal("decimal64", 18, 3),
        Column::decimal("decimal128", 38, 4),
        Column::new("bool", DataType::Bool),
        Column::new("float", DataType::Float),
        Column::new("double", DataType::Double),
    ];
    let keys = vec![Column::new("id", DataType::Int64), Column::new("s", DataType::String)];
    let columns = keys.into_iter().chain(columns.into_iter().map(|column| column.nullable(true)));
    Ok(Schema::new(columns.collect(), 2)?)
}

fn key(id: i64) -> String {
    format!("key {id}")
}

/// Every seventh row has no values.
fn insert(table: &Table, id: i64) -> Result<client::Operation> {
    let mut insert = table.insert().with("id", id)?.with("s", key(id))?;
    if id % 7 == 6 {
        return Ok(insert);
    }
    let n = i32::try_from(id)?;
    for (name, value) in [
        ("int8", Value::Int8(i8::try_from(id)? - 50)),
        ("int16", Value::Int16(i16::try_from(id)? * -300)),
        ("int32", Value::Int32(n * 10_000_000 - 500_000_000)),
        ("int64", Value::Int64(id * 80_000_000_000_000_000 - i64::MAX / 2)),
        ("string", Value::String(format!("ü{id}\0|\t"))),
        ("binary", Value::Binary(vec![0, 255, n.to_le_bytes()[0]].into())),
        ("time", Value::UnixtimeMicros(-id * 1_000_000_007)),
        ("date", Value::Date(n * 10_000 - 100_000)),
        ("varchar", Value::Varchar(format!("{id}é世界"))),
        ("decimal32", Value::Decimal32(-n)),
        ("decimal64", Value::Decimal64(id * 1_000_000_007)),
        ("decimal128", Value::Decimal128(i128::from(id - 50) * 10_i128.pow(30))),
        ("bool", Value::Bool(id % 2 == 0)),
        ("float", Value::Float(n as f32 / 3.0)),
        ("double", Value::Double(f64::from(n) / -7.0)),
    ] {
        insert.set(name, value)?;
    }
    Ok(insert)
}

async fn flush(session: &Session, client: &Client) -> Result<Timestamp> {
    session.flush().await?;
    Ok(client.latest_observed_timestamp().next())
}

/// As the Java program prints it.
fn cell(value: &Option<Value>) -> String {
    match value {
        None => "null".to_owned(),
        Some(Value::Float(number)) => number.to_bits().to_string(),
        Some(Value::Double(number)) => number.to_bits().to_string(),
        Some(Value::String(text) | Value::Varchar(text)) => hex(text.as_bytes()),
        Some(Value::Binary(bytes)) => hex(bytes),
        Some(number) => number.to_string(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn write(path: &Path, lines: &[Line]) -> Result<()> {
    let lines = lines.iter().map(|line| format!("{}\t{}\n", line.kind, hex(&line.token)));
    std::fs::write(path, lines.collect::<String>()).with_context(|| text(path))
}

fn read(path: &Path) -> Result<Vec<Line>> {
    let lines = std::fs::read_to_string(path).with_context(|| text(path))?;
    lines.lines().map(|line| parse(line).with_context(|| format!("{}: {line}", text(path)))).collect()
}

fn parse(line: &str) -> Result<Line> {
    let mut parts = line.split('\t');
    let (Some(kind), Some(token)) = (parts.next(), parts.next()) else {
        bail!("a kind and a token are needed")
    };
    let byte = |at: usize| u8::from_str_radix(token.get(at..at + 2).unwrap_or_default(), 16);
    let token = (0..token.len()).step_by(2).map(byte).collect::<Result<_, _>>()?;
    // Behind the last separator there is nothing when there is no row, and an empty row has no text.
    let rows: Vec<_> = parts.map(str::to_owned).collect();
    let rows = if rows == [""] { Vec::new() } else { rows };
    Ok(Line { kind: kind.to_owned(), token, rows })
}

/// The verdicts, one a kind.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: Vec<String>,
}

impl Tally {
    fn compare(&mut self, what: &str, expected: &[Line], found: &[Line]) {
        let by_kind = |lines: &[Line]| {
            let mut kinds: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
            for line in lines {
                kinds.entry(line.kind.clone()).or_default().push(line.rows.clone());
            }
            kinds
        };
        let mut found = by_kind(found);
        for (kind, expected) in by_kind(expected) {
            let name = format!("tokens::{what}::{kind}");
            let found = found.remove(&kind).unwrap_or_default();
            let rows = expected.iter().map(Vec::len).sum::<usize>();
            if expected == found && rows > 0 {
                self.passed += 1;
                println!("test {name} ... ok");
            } else {
                println!("test {name} ... FAILED: expected {expected:?}, found {found:?}");
                self.failed.push(name);
            }
        }
    }

    fn finish(self, took: Duration) -> Result<()> {
        println!(
            "\ntest result: {}. {} passed; {} failed; 0 ignored; 0 measured; 0 filtered out; finished in {:.2}s\n",
            if self.failed.is_empty() { "ok" } else { "FAILED" },
            self.passed,
            self.failed.len(),
            took.as_secs_f64(),
        );
        if !self.failed.is_empty() {
            bail!("failed: {}", self.failed.join(", "));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let line = parse("kind\t00ff\ta|b\tc").unwrap();
        assert_eq!(
            line,
            Line { kind: "kind".into(), token: vec![0, 255], rows: vec!["a|b".into(), "c".into()] }
        );
        assert!(parse("kind\t00\t").unwrap().rows.is_empty());
        assert!(parse("kind").is_err() && parse("kind\t0").is_err() && parse("kind\tgg").is_err());
    }
}
