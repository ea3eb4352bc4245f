//! Limits of a table's rows and bytes, on a master that takes them.

mod common;

use client::Client;
use common::{count, row, run, start, table};
use mini_cluster::MiniCluster;

#[test]
fn limits_are_set_told_and_taken_away_and_hold_nobody_up() {
    let cluster = start(MiniCluster::builder().master_flag("--enable_table_write_limit=true"));
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        let table = table(&client, "t", 2).await;
        let told = async || {
            let statistics = client.table_statistics("t").await.unwrap();
            (statistics.row_count_limit, statistics.disk_size_limit)
        };
        assert_eq!(told().await, (None, None));
        client.alter_table("t").row_count_limit(Some(5)).disk_size_limit(Some(0)).alter().await.unwrap();
        assert_eq!(told().await, (Some(5), Some(0)));
        // As on real servers that do not look at tokens.
        let session = client.session().build();
        for id in 0..20 {
            session.apply(row(&table, id)).await.unwrap();
        }
        assert_eq!(count(&table).await, 20);
        client.alter_table("t").row_count_limit(None).comment("many rows").alter().await.unwrap();
        assert_eq!(told().await, (None, Some(0)));
        let together = [
            client.alter_table("t").disk_size_limit(None).owner("ann"),
            client.alter_table("t").disk_size_limit(None).rename_to("other"),
            client.alter_table("t").disk_size_limit(None).drop_column("text"),
            client.alter_table("t").disk_size_limit(None).extra_config("kudu.table.history_max_age_sec", "7"),
        ];
        for alteration in together {
            let error = alteration.alter().await.unwrap_err().to_string();
            assert!(error.contains("limit cannot be combined with other alterations"), "{error}");
        }
        assert_eq!(told().await, (None, Some(0)));
    });
}
