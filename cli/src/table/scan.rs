//! `nyala table scan`.

use std::io::Write;

use anyhow::Result;
use cli::{condition, report, text};
use client::schema::{Column, Value};
use serde_json::{Map, json};

use crate::Target;

/// `nyala table scan sales --where 'price > 5 and day between 2024-01-01 and 2024-12-31' --limit 10`
#[derive(clap::Args)]
pub(crate) struct Scan {
    table: String,
    #[command(flatten)]
    what: What,
    /// At most so many rows; 0: all.
    #[arg(long, default_value_t = 100)]
    limit: u64,
    /// Only how many rows there are.
    #[arg(long)]
    count: bool,
    /// In the order of the primary key within each tablet.
    #[arg(long)]
    ordered: bool,
    #[command(flatten)]
    target: Target,
}

/// Which columns of which rows.
#[derive(clap::Args)]
pub(super) struct What {
    /// Only rows for which this holds: comparisons of columns with values, joined by `and`.
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// Only these columns.
    #[arg(long, value_delimiter = ',')]
    columns: Vec<String>,
}

impl What {
    /// A scan of these rows and columns.
    pub(super) fn scan(&self, table: &client::Table) -> Result<client::ScanBuilder> {
        let mut scan = table.scan();
        if !self.columns.is_empty() {
            scan = scan.project(&self.columns.iter().map(String::as_str).collect::<Vec<_>>());
        }
        if let Some(condition) = &self.condition {
            for filter in condition::parse(condition, table.schema())? {
                scan = scan.filter(filter);
            }
        }
        Ok(scan)
    }
}

impl Scan {
    pub(super) async fn run(self) -> Result<()> {
        let table = self.target.connect().await?.open_table(&self.table).await?;
        let mut scan = self.what.scan(&table)?.fault_tolerant(self.ordered);
        if self.count {
            let rows = scan.project(&[]).start()?.count().await?;
            match self.target.json {
                true => say!("{}", json!({"rows": rows})),
                false => say!("{}", report::thousands(rows)),
            }
            return Ok(());
        }
        if self.limit > 0 {
            scan = scan.limit(self.limit);
        }
        let mut scan = scan.start()?;
        let columns = scan.schema().columns().to_vec();
        let mut out = std::io::stdout().lock();
        let mut printed = 0_u64;
        let mut pending: Vec<Vec<String>> = Vec::new();
        while let Some(batch) = scan.next().await {
            for row in batch?.iter() {
                let values = row.values();
                printed += 1;
                if self.target.json {
                    writeln!(out, "{}", object(&columns, &values))?;
                } else {
                    pending.push(cells(&columns, &values));
                    // Columns are as wide as those of one screenful after the other: a long scan prints as it comes.
                    if pending.len() == SCREENFUL {
                        page(&mut out, &columns, &mut pending, printed <= SCREENFUL as u64)?;
                    }
                }
            }
        }
        if !self.target.json {
            if !pending.is_empty() || printed == 0 {
                page(&mut out, &columns, &mut pending, printed <= SCREENFUL as u64)?;
            }
            let rows = if printed == 1 { "row" } else { "rows" };
            let more = if self.limit > 0 && printed == self.limit { " (--limit 0 for all)" } else { "" };
            writeln!(out, "\n{} {rows}{more}", report::thousands(printed))?;
        }
        Ok(())
    }
}

fn page(out: &mut impl Write, columns: &[Column], rows: &mut Vec<Vec<String>>, first: bool) -> Result<()> {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let table = report::table(&names, rows);
    let skipped = if first { 0 } else { 2 };
    for line in table.lines().skip(skipped) {
        writeln!(out, "{line}")?;
    }
    rows.clear();
    Ok(())
}

fn cells(columns: &[Column], values: &[Option<Value>]) -> Vec<String> {
    let cell = |(column, value): (&Column, &Option<Value>)| match value {
        // One line a row, whatever the text holds.
        Some(value) => text::show(value, column).replace(['\n', '\r', '\t'], " "),
        None => "NULL".to_owned(),
    };
    columns.iter().zip(values).map(cell).collect()
}

fn object(columns: &[Column], values: &[Option<Value>]) -> serde_json::Value {
    let mut object = Map::new();
    for (column, value) in columns.iter().zip(values) {
        let value = value.as_ref().map_or(serde_json::Value::Null, |value| text::json(value, column));
        object.insert(column.name.clone(), value);
    }
    object.into()
}

const SCREENFUL: usize = 1000;
