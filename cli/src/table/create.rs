//! `nyala table create`.

use anyhow::{Context, Result};
use cli::range;
use serde_json::json;

use crate::Target;

/// `nyala table create sales --columns 'id int64, day date, price decimal(10, 2) null' --key id,day --hash id:4`
#[derive(clap::Args)]
pub(crate) struct Create {
    table: String,
    /// Columns as `name type [null] [default VALUE] [comment TEXT] ..`, with commas between.
    #[arg(long)]
    columns: String,
    /// The primary key's columns, in order.
    #[arg(long, value_delimiter = ',', required = true)]
    key: Vec<String>,
    /// Hash partitions, as COLUMN[+COLUMN..]:BUCKETS; may be given several times.
    #[arg(long)]
    hash: Vec<String>,
    /// Columns of the key whose values part the rows into ranges; the whole key if not given.
    #[arg(long, value_delimiter = ',')]
    range_columns: Vec<String>,
    /// A range, as `[LOWER, UPPER)`, with `hash COLUMN:BUCKETS` behind it if it is to have its own; may be given several times.
    #[arg(long, value_name = "RANGE")]
    range: Vec<String>,
    /// Replicas of each tablet.
    #[arg(long, default_value_t = 1)]
    replicas: u32,
    /// A word on what the table is for.
    #[arg(long, default_value = "")]
    comment: String,
    #[command(flatten)]
    target: Target,
}

impl Create {
    pub(super) async fn run(self) -> Result<()> {
        let schema = cli::definition::parse(&self.columns, &self.key)?;
        let client = self.target.connect().await?;
        let mut table =
            client.create_table(&self.table, schema.clone()).replicas(self.replicas).comment(&self.comment);
        for text in &self.hash {
            let (columns, buckets) = range::parse_hash(text).with_context(|| format!("--hash {text:?}"))?;
            table = table.hash_partition(&names(&columns), buckets);
        }
        let columns = if self.range_columns.is_empty() { &self.key } else { &self.range_columns };
        if !self.range_columns.is_empty() {
            table = table.range_columns(&names(columns));
        }
        let places: Vec<usize> = columns.iter().filter_map(|name| schema.index_of(name)).collect();
        for text in &self.range {
            let range = range::parse(text, &schema, &places).with_context(|| format!("--range {text:?}"))?;
            table = table.range(range);
        }
        let table = table.create().await?;
        if self.target.json {
            say!("{}", json!({"name": table.name(), "id": table.id()}));
        } else {
            say!("{} {}", table.id(), table.name());
        }
        Ok(())
    }
}

fn names(columns: &[String]) -> Vec<&str> {
    columns.iter().map(String::as_str).collect()
}
