//! `nyala table create`.

use anyhow::{Result, anyhow};
use serde_json::json;

use crate::Target;

/// `nyala table create sales --columns 'id int64, day date, price decimal(10, 2) null' --key id,day --hash id:4`
#[derive(clap::Args)]
pub(crate) struct Create {
    table: String,
    /// Columns as `name type [null]`, with commas between.
    #[arg(long)]
    columns: String,
    /// The primary key's columns, in order.
    #[arg(long, value_delimiter = ',', required = true)]
    key: Vec<String>,
    /// Hash partitions, as COLUMN[+COLUMN..]:BUCKETS; may be given several times.
    #[arg(long)]
    hash: Vec<String>,
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
            client.create_table(&self.table, schema).replicas(self.replicas).comment(&self.comment);
        for hash in &self.hash {
            let (columns, buckets) = hash_partition(hash)?;
            table = table.hash_partition(&columns, buckets);
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

fn hash_partition(text: &str) -> Result<(Vec<&str>, u32)> {
    let parsed = text.rsplit_once(':').and_then(|(columns, buckets)| Some((columns, buckets.parse().ok()?)));
    let (columns, buckets) =
        parsed.ok_or_else(|| anyhow!("--hash {text:?}: expected COLUMN[+COLUMN..]:BUCKETS, as id:4"))?;
    Ok((columns.split('+').collect(), buckets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_partitions_have_columns_and_a_number() {
        assert_eq!(hash_partition("a+b:4").unwrap(), (vec!["a", "b"], 4));
        for wrong in ["a", "a:", "a:x", ""] {
            assert!(hash_partition(wrong).unwrap_err().to_string().contains("--hash"), "{wrong}");
        }
    }
}
