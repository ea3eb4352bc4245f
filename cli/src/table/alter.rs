//! `nyala table alter`.

use anyhow::{Context, Result};
use cli::alteration::{STEPS, Steps};
use serde_json::json;

use crate::Target;

/// `nyala table alter sales 'add column note string null' 'rename column price to cost'`
#[derive(clap::Args)]
#[command(after_help = STEPS)]
pub(crate) struct Alter {
    table: String,
    /// What to change, a step an argument.
    #[arg(required = true, value_name = "STEP")]
    steps: Vec<String>,
    #[command(flatten)]
    target: Target,
}

impl Alter {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.target.connect().await?;
        let table = client.open_table(&self.table).await?;
        let mut steps = Steps::new(table.schema(), table.partition_schema());
        let mut alterer = client.alter_table(&self.table);
        for text in &self.steps {
            let step = steps.parse(text).with_context(|| format!("step {text:?}"))?;
            alterer = step.apply(alterer);
        }
        let table = alterer.alter().await?;
        match self.target.json {
            true => say!("{}", json!({"name": table.name(), "id": table.id(), "steps": self.steps.len()})),
            false => say!("{} {}", table.id(), table.name()),
        }
        Ok(())
    }
}
