//! Scan tokens: each row in one of them, whatever they tell and whoever opens them, and no surprise from foreign bytes.

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use client::schema::{Column, DataType, Schema, Timestamp, Value};
use client::{
    Client, FlushMode, ReadMode, ReplicaSelection, ScanBuilder, ScanToken, ScanTokenError, TokenBuilder,
    column,
};
use common::{TestTable, connect, fill, small_schema, small_table, unique_name};
use mini_cluster::MiniCluster;
use prost::Message;
use proto::kudu::client::ScanTokenPb;

/// Sends tokens as bytes to another client and reads there the first column of all rows, sorted.
async fn read(tokens: Vec<ScanToken>) -> Vec<i64> {
    read_by(&connect().await, tokens).await
}

async fn read_by(other: &Client, tokens: Vec<ScanToken>) -> Vec<i64> {
    let mut ids = Vec::new();
    for token in tokens {
        let token = ScanToken::from_bytes(&token.to_bytes()).unwrap();
        let mut scan = other.open_token(&token).await.unwrap().start().unwrap();
        while let Some(batch) = scan.next().await {
            ids.extend(batch.unwrap().fixed::<i64>(0).unwrap().values());
        }
    }
    ids.sort_unstable();
    ids
}

async fn ids(scan: ScanBuilder) -> Vec<i64> {
    let rows = scan.start().unwrap().collect_rows().await.unwrap();
    let id = |row: &Vec<Option<Value>>| match row[0] {
        Some(Value::Int64(id)) => id,
        _ => panic!("no id in {row:?}"),
    };
    let mut ids: Vec<_> = rows.iter().map(id).collect();
    ids.sort_unstable();
    ids
}

async fn filled(test: &str, tablets: u32, rows: i64) -> TestTable {
    let test = small_table(test, tablets).await;
    fill(&test.client.session().mode(FlushMode::Manual).build(), &test.table, rows).await;
    test
}

/// Every way to make tokens of a scan.
fn ways(scan: &ScanBuilder) -> Vec<TokenBuilder> {
    let tokens = || scan.clone().tokens();
    vec![
        tokens(),
        tokens().include_table_metadata(false),
        tokens().include_tablet_metadata(false),
        tokens().include_table_metadata(false).include_tablet_metadata(false),
        tokens().split_bytes(1),
    ]
}

#[tokio::test]
async fn tokens_together_give_each_row_of_the_scan_once() {
    let test = filled("tokens", 4, 1000).await;
    let table = &test.table;
    let bound = |id: i64| {
        let mut row = table.row();
        row.set("id", id).unwrap();
        row
    };
    let at = test.client.latest_observed_timestamp().next();
    for scan in [
        table.scan(),
        table.scan().project(&["id"]),
        table.scan().project(&["id", "text", "value"]),
        table.scan().filter(column("value").at_least(300)).filter(column("text").is_not_null()),
        table.scan().filter(column("id").is_in([5i64, 999, 4000])),
        table.scan().lower_bound(bound(100)).upper_bound(bound(900)),
        table.scan().read_mode(ReadMode::Snapshot(at)).batch_bytes(500),
        table.scan().fault_tolerant(true),
        table.scan().read_mode(ReadMode::ReadYourWrites).selection(ReplicaSelection::Closest),
    ] {
        let expected = ids(scan.clone()).await;
        assert!(!expected.is_empty());
        for tokens in ways(&scan) {
            let tokens = tokens.build().await.unwrap();
            assert_eq!(read(tokens).await, expected, "{scan:?}");
        }
    }
    test.delete().await;
}

/// How many flushed rowsets are below a folder.
fn rowsets(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.file_name() == "data.arrow" { 1 } else { rowsets(&entry.path()) }).sum()
}

#[tokio::test]
async fn tokens_of_rows_in_files_are_of_about_the_size_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = MiniCluster::builder()
        .data_dir(folder.path())
        .tserver_flag("--flush_threshold_secs=0")
        .tserver_flag("--maintenance_manager_polling_interval_ms=5");
    let cluster = cluster.start().await.unwrap();
    let client = Client::connect(cluster.master_address()).await.unwrap();
    let table = client.create_table("flushed", small_schema()).hash_partition(&["id"], 2).replicas(1);
    let table = table.create().await.unwrap();
    fill(&client.session().mode(FlushMode::Manual).build(), &table, 20_000).await;
    let started = Instant::now();
    while rowsets(folder.path()) < 2 {
        assert!(started.elapsed() < Duration::from_secs(30), "nothing is flushed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // A row takes 16 bytes, and what its text has.
    let (whole, bytes) = (table.scan().tokens(), 50_000);
    assert_eq!(whole.build().await.unwrap().len(), 2);
    let tokens = table.scan().tokens().split_bytes(bytes).build().await.unwrap();
    assert!((6..20).contains(&tokens.len()), "{} tokens", tokens.len());
    let mut all = Vec::new();
    for token in tokens {
        let some = read_by(&client, vec![token]).await;
        assert!((500..5000).contains(&some.len()), "{} rows", some.len());
        all.extend(some);
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(0..20_000), "each row once");
}

#[tokio::test]
async fn there_is_a_token_for_each_tablet_that_can_have_rows_and_none_for_the_others() {
    let test = filled("pruned", 4, 100).await;
    let tokens = test.table.scan().tokens().build().await.unwrap();
    assert_eq!(tokens.len(), 4);
    let tablets = test.table.tablets().await.unwrap();
    let told: Vec<_> = tokens.iter().map(|token| token.tablet().unwrap().clone()).collect();
    assert_eq!(told, tablets);
    for token in &tokens {
        assert_eq!((token.table_id(), token.table_name()), (Some(test.table.id()), Some(test.table.name())));
    }
    let one = test.table.scan().filter(column("id").eq(7i64)).tokens().build().await.unwrap();
    assert_eq!(one.len(), 1);
    let none = test.table.scan().filter(column("id").is_in::<i64>([])).tokens().build().await.unwrap();
    assert!(none.is_empty());
    test.delete().await;
}

#[tokio::test]
async fn a_token_shows_the_snapshot_of_its_scan_and_its_limit_counts_by_itself() {
    let test = filled("state", 2, 100).await;
    let at = test.client.latest_observed_timestamp().next();
    let scan = test.table.scan().read_mode(ReadMode::Snapshot(at));
    let tokens = scan.clone().tokens().build().await.unwrap();
    let limited = scan.limit(3).tokens().build().await.unwrap();
    let session = test.client.session().mode(FlushMode::Manual).build();
    for id in 0..100i64 {
        session.apply(test.table.delete().with("id", id).unwrap()).await.unwrap();
    }
    session.flush().await.unwrap();
    assert_eq!(read(tokens).await.len(), 100);
    assert_eq!(read(limited).await.len(), 6);
    test.delete().await;
}

#[tokio::test]
async fn a_token_alone_is_enough_to_find_its_rows() {
    let test = filled("alone", 3, 300).await;
    let tokens = test.table.scan().tokens().build().await.unwrap();
    let other = connect().await;
    for token in &tokens {
        let scan = other.open_token(token).await.unwrap();
        assert_eq!((scan.table().id(), scan.table().name()), (test.table.id(), test.table.name()));
        assert_eq!(scan.table().partition_schema(), test.table.partition_schema());
        assert_eq!(scan.table().schema(), test.table.schema());
        assert!(scan.start().unwrap().count().await.unwrap() > 0);
    }
    assert_eq!(other.location_stats().asks, 0, "no master was asked where the tablets are");
    test.delete().await;
}

#[tokio::test]
async fn what_the_maker_has_seen_is_seen_by_who_opens_the_token() {
    let test = filled("seen", 1, 10).await;
    let token = test.table.scan().tokens().build().await.unwrap().remove(0);
    let other = connect().await;
    assert!(other.latest_observed_timestamp() < test.client.latest_observed_timestamp());
    drop(other.open_token(&token).await.unwrap());
    assert!(other.latest_observed_timestamp() >= test.client.latest_observed_timestamp());
    test.delete().await;
}

#[tokio::test]
async fn what_is_added_to_an_opened_token_narrows_it_and_never_widens_it() {
    let test = filled("narrow", 1, 100).await;
    let bound = |id: i64| {
        let mut row = test.table.row();
        row.set("id", id).unwrap();
        row
    };
    let scan = test.table.scan().lower_bound(bound(20)).upper_bound(bound(80));
    let token = scan.tokens().build().await.unwrap().remove(0);
    let open = || async { test.client.open_token(&token).await.unwrap() };
    assert_eq!(ids(open().await).await, (20..80).collect::<Vec<_>>());
    assert_eq!(ids(open().await.lower_bound(bound(0)).upper_bound(bound(100))).await.len(), 60);
    assert_eq!(ids(open().await.lower_bound(bound(70))).await, (70..80).collect::<Vec<_>>());
    assert_eq!(ids(open().await.filter(column("value").less_than(25))).await, (20..25).collect::<Vec<_>>());
    test.delete().await;
}

#[tokio::test]
async fn a_renamed_table_is_found_by_its_id_and_a_deleted_one_not_at_all() {
    let test = filled("renamed", 2, 50).await;
    let tokens = || test.table.scan().tokens().include_table_metadata(false).build();
    let (tokens, later) = (tokens().await.unwrap(), tokens().await.unwrap().remove(0));
    let name = unique_name("renamed_now");
    test.client.alter_table(test.table.name()).rename_to(&name).alter().await.unwrap();
    assert_eq!(read(tokens).await.len(), 50);
    test.client.delete_table(&name).await.unwrap();
    let error = connect().await.open_token(&later).await.unwrap_err();
    assert!(error.is_table_not_found() && !error.is_retriable(), "{error}");
}

#[tokio::test]
async fn a_column_that_is_gone_or_another_is_named() {
    let client = connect().await;
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("a", DataType::Int32).nullable(true),
        Column::new("b", DataType::Int32).nullable(true),
    ];
    let name = unique_name("columns");
    let create = client.create_table(&name, Schema::new(columns, 1).unwrap());
    let table = create.hash_partition(&["id"], 2).replicas(1).create().await.unwrap();
    let tokens = table.scan().tokens().include_table_metadata(false).build().await.unwrap();
    let alter = client.alter_table(&name).rename_column("a", "now_a");
    alter.alter().await.unwrap();
    // Renamed, it is still the same column.
    let opened = connect().await.open_token(&tokens[0]).await.unwrap();
    assert_eq!(opened.start().unwrap().schema().columns()[1].name, "now_a");
    client.alter_table(&name).drop_column("b").alter().await.unwrap();
    let error = connect().await.open_token(&tokens[0]).await.unwrap_err();
    assert!(matches!(&error, ScanTokenError::NoSuchColumn { column, .. } if column == "'b'"), "{error}");

    let mut message = ScanTokenPb::decode(&tokens[0].to_bytes()[..]).unwrap();
    message.projected_columns.truncate(2);
    message.projected_columns[1].is_nullable = Some(false);
    let token = ScanToken::from_bytes(&message.encode_to_vec()).unwrap();
    let error = connect().await.open_token(&token).await.unwrap_err();
    assert!(matches!(&error, ScanTokenError::ColumnType { column, .. } if column == "now_a"), "{error}");
    client.delete_table(&name).await.unwrap();
}

#[tokio::test]
async fn bytes_that_are_no_token_are_refused_and_never_a_panic() {
    let test = filled("nonsense", 2, 10).await;
    let scan = test.table.scan().filter(column("value").within(1, 5)).filter(column("text").eq("x"));
    let token = scan.tokens().build().await.unwrap().remove(0);
    let bytes = token.to_bytes();
    let mut refused = 0;
    for length in 0..bytes.len() {
        match ScanToken::from_bytes(&bytes[..length]) {
            Err(ScanTokenError::Malformed { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
            // What is there can stand by itself; the table may still be missing.
            Ok(token) => drop(test.client.open_token(&token).await),
        }
    }
    assert!(refused > bytes.len() / 2);
    let empty = ScanToken::from_bytes(b"").unwrap();
    assert!(matches!(test.client.open_token(&empty).await, Err(ScanTokenError::NoTable)));

    let changed = |change: fn(&mut ScanTokenPb)| {
        let mut message = ScanTokenPb::decode(&bytes[..]).unwrap();
        change(&mut message);
        message.encode_to_vec()
    };
    let from_the_future = ScanToken::from_bytes(&changed(|token| token.feature_flags.push(1)));
    assert!(matches!(from_the_future, Err(ScanTokenError::Feature { feature: 1 })));
    let changes: [fn(&mut ScanTokenPb); 7] = [
        |token| token.projected_column_idx.push(99),
        |token| token.projected_column_idx.push(-1),
        |token| token.read_mode = Some(0),
        |token| token.replica_selection = Some(77),
        |token| token.column_predicates[0].column = Some("nope".into()),
        |token| {
            token.read_mode = Some(2);
            token.snap_start_timestamp = Some(1);
        },
        |token| token.table_metadata.as_mut().unwrap().schema.as_mut().unwrap().columns[0].r#type = 99,
    ];
    for change in changes {
        let token = ScanToken::from_bytes(&changed(change)).unwrap();
        let error = test.client.open_token(&token).await.unwrap_err();
        assert!(error.to_string().contains(test.table.name()) && !error.is_retriable(), "{error}");
    }
    test.delete().await;
}

#[tokio::test]
async fn where_a_token_is_wrong_about_its_tablet_the_master_knows_better() {
    let test = filled("moved", 2, 100).await;
    let mut ids = 0;
    for token in test.table.scan().tokens().build().await.unwrap() {
        let mut message = ScanTokenPb::decode(&token.to_bytes()[..]).unwrap();
        let tablet = message.tablet_metadata.as_mut().unwrap();
        tablet.tablet_id = Some("0".repeat(32));
        let client = connect().await;
        let token = ScanToken::from_bytes(&message.encode_to_vec()).unwrap();
        ids += client.open_token(&token).await.unwrap().start().unwrap().count().await.unwrap();
    }
    assert_eq!(ids, 100);
    test.delete().await;
}

#[tokio::test]
async fn an_opened_token_has_the_options_of_its_scan() {
    let test = filled("options", 1, 1).await;
    let scan = test
        .table
        .scan()
        .query_id("my query")
        .batch_bytes(12_345)
        .cache_blocks(false)
        .limit(7)
        .timeout(std::time::Duration::from_millis(4321))
        .keep_alive(std::time::Duration::from_millis(1234))
        .selection(ReplicaSelection::First)
        .fault_tolerant(true)
        .read_mode(ReadMode::Snapshot(Timestamp(1 << 60)));
    let token = scan.tokens().build().await.unwrap().remove(0);
    let client: Client = connect().await;
    let again = client.open_token(&token).await.unwrap().tokens().build().await.unwrap().remove(0);
    let message = |token: &ScanToken| ScanTokenPb::decode(&token.to_bytes()[..]).unwrap();
    let (mut first, mut second) = (message(&token), message(&again));
    for message in [&mut first, &mut second] {
        // Those go on.
        message.propagated_timestamp = None;
        message.tablet_metadata.as_mut().unwrap().ttl_millis = None;
        message.authz_token = None;
    }
    assert_eq!(first, second);
    assert_eq!((first.query_id(), first.batch_size_bytes(), first.limit()), ("my query", 12_345, 7));
    assert_eq!((first.scan_request_timeout_ms(), first.keep_alive_period_ms()), (4321, 1234));
    assert!(!first.cache_blocks() && first.fault_tolerant());
    test.delete().await;
}
