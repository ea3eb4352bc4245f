//! `nyala table`.

mod alter;
mod create;
mod describe;
mod export;
mod load;
mod scan;

use anyhow::Result;
use clap::Subcommand;
use cli::interrupt::{Interrupt, Interrupted};
use cli::report;
use serde_json::json;

use crate::Target;

#[derive(Subcommand)]
pub(crate) enum Table {
    /// The tables of a cluster.
    List {
        /// Only names that hold this text.
        filter: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Columns, partitions and size of a table.
    Describe {
        table: String,
        #[command(flatten)]
        target: Target,
    },
    /// Make a table.
    Create(create::Create),
    /// Change columns, ranges, names and properties of a table.
    Alter(alter::Alter),
    /// Delete a table and all its rows.
    Delete {
        table: String,
        #[command(flatten)]
        target: Target,
    },
    /// Print rows.
    Scan(scan::Scan),
    /// Load rows from a CSV file; the table is made if it is not there and a key is given.
    Load(load::Load),
    /// Write rows as CSV.
    Export(export::Export),
}

impl Table {
    pub(crate) async fn run(self, interrupt: &Interrupt) -> Result<()> {
        // A load tells what it has done so far.
        let tells = matches!(self, Table::Load(_));
        tokio::select! {
            biased;
            done = self.finish(interrupt) => done,
            () = interrupt.wait(), if !tells => Err(Interrupted.into()),
        }
    }

    async fn finish(self, interrupt: &Interrupt) -> Result<()> {
        match self {
            Table::List { filter, target } => list(&filter.unwrap_or_default(), &target).await,
            Table::Describe { table, target } => describe::run(&table, &target).await,
            Table::Create(create) => create.run().await,
            Table::Alter(alter) => alter.run().await,
            Table::Delete { table, target } => {
                target.connect().await?.delete_table(&table).await?;
                if target.json {
                    say!("{}", json!({"deleted": table}));
                }
                Ok(())
            }
            Table::Scan(scan) => scan.run().await,
            Table::Load(load) => load.run(interrupt).await,
            Table::Export(export) => export.run().await,
        }
    }
}

async fn list(filter: &str, target: &Target) -> Result<()> {
    let tables = target.connect().await?.list_tables(filter).await?;
    if target.json {
        for table in tables {
            let row = json!({
                "name": table.name, "id": table.id, "rows": table.live_row_count,
                "tablets": table.tablets, "replicas": table.replicas,
            });
            say!("{row}");
        }
        return Ok(());
    }
    let row = |table: &client::TableInfo| {
        vec![
            table.name.clone(),
            table.live_row_count.map(report::thousands).unwrap_or_default(),
            table.tablets.to_string(),
            table.replicas.to_string(),
            table.id.clone(),
        ]
    };
    let rows: Vec<_> = tables.iter().map(row).collect();
    say!("{}", report::table(&["table", "rows", "tablets", "replicas", "id"], &rows));
    Ok(())
}
