//! Table definitions at and beyond the limits: odd names are taken and listed, the others are refused and not listed.

mod common;

use std::time::Duration;

use client::schema::wire::schema_without_ids;
use client::schema::{Column, DataType, Schema};
use client::{Client, CreateTableError, Table};
use common::raw::{self, RawCall, RawClient};
use common::{a_good_client_is_served, master, run, schema, start, table};
use mini_cluster::MiniCluster;
use prost::Message;
use proto::kudu::SchemaPb;
use proto::kudu::master::{CreateTableRequestPb, CreateTableResponsePb};
use rpc_core::RpcErrorCode;

async fn create(
    client: &Client,
    name: &str,
    schema: Schema,
    replicas: u32,
) -> Result<Table, CreateTableError> {
    let table = client.create_table(name, schema).hash_partition(&["id"], 2).replicas(replicas);
    table.timeout(Duration::from_secs(20)).create().await
}

/// INT64 `id` and INT32 columns, this many in all.
fn wide(columns: usize) -> Schema {
    let others = (1..columns).map(|index| Column::new(format!("c{index}"), DataType::Int32));
    Schema::new(std::iter::once(Column::new("id", DataType::Int64)).chain(others).collect(), 1).unwrap()
}

async fn names(client: &Client) -> Vec<String> {
    let mut names: Vec<_> =
        client.list_tables("").await.unwrap().into_iter().map(|table| table.name).collect();
    names.sort_unstable();
    names
}

#[test]
fn odd_names_are_taken_and_the_rest_is_refused_and_not_listed() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = start(MiniCluster::builder().data_dir(folder.path()));
    let longest = "n".repeat(256);
    let mut odd = vec![longest.as_str(), "a b  c", "\"double\" 'single'", "impala::db.t", "\u{1f98c}"];
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        for name in &odd {
            let made = create(&client, name, schema(), 1).await.unwrap();
            assert_eq!(client.open_table(name).await.unwrap().id(), made.id());
        }
        create(&client, "wide", wide(300), 1).await.unwrap();
        odd.push("wide");
        odd.sort_unstable();
        assert_eq!(names(&client).await, odd);

        let too_long = "n".repeat(257);
        let refused = [
            create(&client, &too_long, schema(), 1).await,
            create(&client, "", schema(), 1).await,
            create(&client, "a\0b", schema(), 1).await,
            create(&client, "wider", wide(301), 1).await,
            create(&client, "none", schema(), 0).await,
            create(&client, "even", schema(), 2).await,
            create(&client, "many", schema(), 9).await,
        ];
        for (index, refused) in refused.into_iter().enumerate() {
            let error = refused.expect_err("beyond the limits");
            assert!(!error.is_timeout() && !error.is_retriable(), "{index}: {error}");
        }
        assert_eq!(names(&client).await, odd);
        a_good_client_is_served(&cluster).await;
    });
    // Nothing of what was refused is in the way of a start.
    cluster.stop_tserver(0).unwrap();
    cluster.stop_master().unwrap();
    cluster.start_master().unwrap();
    cluster.start_tserver(0).unwrap();
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        assert_eq!(names(&client).await, odd);
        for name in &odd {
            let table = client.open_table(name).await.unwrap();
            assert_eq!(table.scan().project(&[]).start().unwrap().count().await.unwrap(), 0, "{name}");
        }
        a_good_client_is_served(&cluster).await;
    });
}

#[test]
fn what_our_client_cannot_even_say_is_refused_by_the_master() {
    let cluster = start(MiniCluster::builder());
    let request = |schema: SchemaPb| CreateTableRequestPb {
        name: "t".into(),
        schema,
        num_replicas: Some(1),
        ..Default::default()
    };
    let good = || schema_without_ids(&schema());
    let mut key_last = good();
    key_last.columns.reverse();
    let mut nullable_key = good();
    nullable_key.columns[0].is_nullable = Some(true);
    let mut no_key = good();
    no_key.columns[0].is_key = Some(false);
    let mut twice = good();
    twice.columns[1].name = "id".into();
    let mut nameless = good();
    nameless.columns[1].name = String::new();
    let mut client = RawClient::open(&master(&cluster));
    let mut call = |body: &[u8]| {
        let service = "kudu.master.MasterService";
        client.call(&RawCall {
            service,
            method: "CreateTable",
            timeout_ms: Some(9000),
            body,
            ..Default::default()
        })
    };
    for schema in [key_last, nullable_key, no_key, twice, nameless, SchemaPb::default()] {
        let answer = call(&request(schema.clone()).encode_to_vec());
        let answer = CreateTableResponsePb::decode(answer.result.unwrap()).unwrap();
        assert!(answer.error.is_some() && answer.table_id.is_none(), "{schema:?}");
    }
    // A name that is no UTF-8.
    let mut body = Vec::new();
    raw::field(&mut body, 1, b"caf\xe9");
    raw::field(&mut body, 2, &good().encode_to_vec());
    match call(&body).result {
        Ok(answer) => assert!(CreateTableResponsePb::decode(answer).unwrap().error.is_some()),
        Err(error) => assert_eq!(error.code, Some(RpcErrorCode::ERROR_INVALID_REQUEST)),
    }
    run(async {
        let client = Client::connect(cluster.master_address()).await.unwrap();
        assert_eq!(names(&client).await, [""; 0]);
        table(&client, "t", 2).await;
    });
}
