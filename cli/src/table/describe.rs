//! `nyala table describe`.

use anyhow::Result;
use cli::{report, text};
use client::schema::{Column, DataType};
use serde_json::json;

use crate::Target;

pub(super) async fn run(name: &str, target: &Target) -> Result<()> {
    let client = target.connect().await?;
    let table = client.open_table(name).await?;
    let statistics = client.table_statistics(name).await?;
    let tablets = table.tablets().await?;
    let schema = table.schema();
    let key = |index: usize| index < schema.key_columns();
    if target.json {
        let column = |(index, column): (usize, &Column)| {
            json!({
                "name": column.name, "type": type_name(column), "key": key(index), "nullable": column.nullable,
                "default": column.write_default.as_ref().map(|value| text::json(value, column)),
                "comment": column.comment,
            })
        };
        let columns: Vec<_> = schema.columns().iter().enumerate().map(column).collect();
        let described = json!({
            "name": table.name(), "id": table.id(), "owner": table.owner(), "comment": table.comment(),
            "replicas": table.replicas(), "rows": statistics.live_row_count, "bytes": statistics.on_disk_size,
            "tablets": tablets.len(), "columns": columns,
        });
        say!("{described}");
        return Ok(());
    }
    let row = |(index, column): (usize, &Column)| {
        let nullable = if column.nullable { "null" } else { "" };
        let default = column.write_default.as_ref().map(|value| text::show(value, column));
        vec![
            column.name.clone(),
            type_name(column),
            if key(index) { "key".to_owned() } else { nullable.to_owned() },
            default.unwrap_or_default(),
            column.comment.clone(),
        ]
    };
    let rows: Vec<_> = schema.columns().iter().enumerate().map(row).collect();
    say!("{}\n", report::table(&["column", "type", "", "default", "comment"], &rows));
    let count = statistics.live_row_count.map_or("an unknown number of".to_owned(), report::thousands);
    say!(
        "{count} rows in {} tablets, {} replica(s) each; owner {}",
        tablets.len(),
        table.replicas(),
        table.owner()
    );
    let rows: Vec<_> = tablets
        .iter()
        .map(|tablet| {
            let leader = tablet.replicas.iter().find(|replica| replica.is_leader);
            vec![tablet.id.clone(), leader.map(|leader| leader.address.to_string()).unwrap_or_default()]
        })
        .collect();
    say!("\n{}", report::table(&["tablet", "leader"], &rows));
    Ok(())
}

fn type_name(column: &Column) -> String {
    match column.data_type {
        DataType::Varchar => format!("VARCHAR({})", column.length),
        DataType::Decimal32 | DataType::Decimal64 | DataType::Decimal128 => {
            format!("DECIMAL({}, {})", column.precision, column.scale)
        }
        other => other.to_string(),
    }
}
