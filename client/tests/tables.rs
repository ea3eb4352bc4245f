//! Tables: made, listed, opened, deleted.

mod common;

use client::schema::{Column, DataType, PartialRow, Schema, Value};
use client::{MasterCode, RangeBound, RangePartition};
use common::{connect, small_schema, small_table, unique_name};

#[tokio::test]
async fn a_table_is_created_listed_opened_and_deleted() {
    let client = connect().await;
    let name = unique_name("life");
    assert!(!client.table_exists(&name).await.unwrap());
    let table = client
        .create_table(&name, small_schema())
        .hash_partition(&["id"], 3)
        .replicas(1)
        .owner("somebody")
        .comment("a table of a test")
        .extra_config("kudu.table.history_max_age_sec", "3600")
        .create()
        .await
        .unwrap();
    assert_eq!(
        (table.name(), table.replicas(), table.owner(), table.comment()),
        (&name[..], 1, "somebody", "a table of a test")
    );
    assert_eq!(table.extra_configs().get("kudu.table.history_max_age_sec").map(String::as_str), Some("3600"));
    assert_eq!(table.schema().columns().len(), 3);
    assert!(table.schema().ids().is_some());
    assert_eq!(table.partition_schema().hash_dimensions[0].buckets, 3);

    let listed = client.list_tables(&name).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].name[..], &listed[0].id[..]), (&name[..], table.id()));
    assert_eq!((listed[0].tablets, listed[0].replicas), (3, 1));
    assert!(client.list_tables("").await.unwrap().iter().any(|table| table.name == name));
    assert!(client.table_exists(&name).await.unwrap());

    let again = client.open_table(&name).await.unwrap();
    assert_eq!(again.id(), table.id());
    assert_eq!(client.open_table_by_id(table.id()).await.unwrap().name(), name);
    client.table_statistics(&name).await.unwrap();
    let servers = client.list_tablet_servers().await.unwrap();
    assert!(!servers.is_empty());
    assert!(servers.iter().all(|server| server.since_heartbeat.as_secs() < 60), "{servers:?}");
    let tablets = table.tablets().await.unwrap();
    assert_eq!(tablets.len(), 3);
    assert!(tablets.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].id != pair[1].id));
    assert!(tablets.iter().all(|tablet| tablet.replicas.len() == 1 && tablet.replicas[0].is_leader));

    client.delete_table(&name).await.unwrap();
    assert!(client.list_tables(&name).await.unwrap().is_empty());
    let error = client.open_table(&name).await.unwrap_err();
    assert!(error.is_table_not_found() && !error.is_timeout(), "{error}");
    assert!(error.to_string().contains(&name), "{error}");
    assert!(client.delete_table(&name).await.unwrap_err().is_table_not_found());
}

#[tokio::test]
async fn the_cluster_names_its_servers() {
    let client = connect().await;
    let servers = client.list_tablet_servers().await.unwrap();
    assert!(!servers.is_empty());
    assert_eq!(servers[0].uuid.len(), 32);
    assert!(!servers[0].addresses.is_empty());
    assert_eq!(client.client_id().len(), 32);
    assert!(client.cluster_id().is_some_and(|id| !id.is_empty()));
}

#[tokio::test]
async fn a_name_that_is_taken_is_refused() {
    let test = small_table("taken", 1).await;
    let again =
        test.client.create_table(test.table.name(), small_schema()).hash_partition(&["id"], 2).replicas(1);
    let error = again.create().await.unwrap_err();
    assert!(error.is_already_present() && !error.is_retriable(), "{error}");
    test.delete().await;
}

#[tokio::test]
async fn more_replicas_than_servers_are_refused_at_once() {
    let client = connect().await;
    let servers = client.list_tablet_servers().await.unwrap().len();
    let replicas = if servers < 3 { 3 } else { 7 };
    let name = unique_name("replicas");
    let table = client.create_table(&name, small_schema()).hash_partition(&["id"], 2).replicas(replicas);
    let error = table.create().await.unwrap_err();
    // Not a timeout: nobody waited for servers to come.
    assert!(error.to_string().contains(&replicas.to_string()), "{error}");
    let client::CreateTableError::Master(error) = error else { panic!("the master refuses, not {error}") };
    assert_eq!(error.code(), Some(MasterCode::REPLICATION_FACTOR_TOO_HIGH));
    assert!(!client.table_exists(&name).await.unwrap());
}

#[tokio::test]
async fn partitioning_by_a_column_that_is_none_is_refused_here() {
    let client = connect().await;
    let error = client
        .create_table(unique_name("column"), small_schema())
        .hash_partition(&["nope"], 2)
        .create()
        .await;
    assert!(error.unwrap_err().to_string().contains("'nope'"));
}

fn at(schema: &Schema, id: i64) -> PartialRow {
    let mut row = PartialRow::new(schema);
    row.set("id", id).unwrap();
    row
}

#[tokio::test]
async fn ranges_with_bounds_of_every_kind_take_the_rows_they_should() {
    let client = connect().await;
    let schema = small_schema();
    let row = |id| at(&schema, id);
    let table = client
        .create_table(unique_name("ranges"), schema.clone())
        .range_columns(&["id"])
        .range(RangePartition::new(RangeBound::Unbounded, RangeBound::Exclusive(row(0))))
        .range(RangePartition::between(row(10), row(20)))
        .range(RangePartition::new(RangeBound::Exclusive(row(20)), RangeBound::Inclusive(row(30))))
        .split(row(15))
        .replicas(1)
        .create()
        .await
        .unwrap();
    assert_eq!(client.list_tables(table.name()).await.unwrap()[0].tablets, 4);
    let session = client.session().build();
    for (id, is_covered) in [
        (-5, true),
        (0, false),
        (9, false),
        (10, true),
        (19, true),
        (20, false),
        (21, true),
        (30, true),
        (31, false),
    ] {
        let row = table.insert().with("id", id as i64).unwrap().with("value", 1).unwrap();
        let outcome = session.apply(row).await;
        assert_eq!(outcome.is_ok(), is_covered, "row {id}: {outcome:?}");
        if let Err(error) = outcome {
            assert!(error.to_string().contains("no range partition"), "{error}");
        }
    }
    let mut ids: Vec<_> = table.scan().project(&["id"]).start().unwrap().collect_rows().await.unwrap();
    ids.sort_by_key(|row| format!("{row:?}").len());
    assert_eq!(ids.len(), 5);
    client.delete_table(table.name()).await.unwrap();
}

#[tokio::test]
async fn a_range_may_have_hash_partitions_of_its_own() {
    let client = connect().await;
    let columns = vec![
        Column::new("day", DataType::Int32),
        Column::new("id", DataType::Int64),
        Column::new("v", DataType::Double),
    ];
    let schema = Schema::new(columns, 2).unwrap();
    let day = |day: i32| {
        let mut row = PartialRow::new(&schema);
        row.set("day", day).unwrap();
        row
    };
    let table = client
        .create_table(unique_name("own_hash"), schema.clone())
        .range_columns(&["day"])
        .hash_partition(&["id"], 2)
        .range(RangePartition::between(day(0), day(10)))
        .range(RangePartition::between(day(10), day(20)).hash_seeded(&["id"], 5, 7))
        .replicas(1)
        .create()
        .await
        .unwrap();
    assert_eq!(client.list_tables(table.name()).await.unwrap()[0].tablets, 7);
    assert_eq!(table.partition_schema().custom_ranges.len(), 1);
    let session = client.session().mode(client::FlushMode::Manual).build();
    for id in 0..200i64 {
        let row = table
            .insert()
            .with("day", (id % 20) as i32)
            .unwrap()
            .with("id", id)
            .unwrap()
            .with("v", 0.5)
            .unwrap();
        session.apply(row).await.unwrap();
    }
    session.flush().await.unwrap();
    assert_eq!(table.scan().project(&[]).start().unwrap().count().await.unwrap(), 200);
    let one = table
        .scan()
        .filter(client::column("day").eq(13))
        .filter(client::column("id").eq(33i64))
        .start()
        .unwrap();
    assert_eq!(
        one.collect_rows().await.unwrap(),
        [[Some(Value::Int32(13)), Some(Value::Int64(33)), Some(Value::Double(0.5))]]
    );
    client.delete_table(table.name()).await.unwrap();
}

#[tokio::test]
async fn a_table_just_made_is_there_for_every_client_at_once() {
    let clients = [connect().await, connect().await];
    // A table takes a real cluster some 50 ms.
    let rounds = if std::env::var_os("NYALA_TEST_MASTER").is_some() { 30 } else { 100 };
    for round in 0..rounds {
        let name = unique_name("turns");
        let [maker, user] =
            if round % 2 == 0 { [&clients[0], &clients[1]] } else { [&clients[1], &clients[0]] };
        let made = maker
            .create_table(&name, small_schema())
            .hash_partition(&["id"], 2)
            .replicas(1)
            .create()
            .await
            .unwrap();
        let table = user.open_table(&name).await.expect("a table just made can be opened");
        assert_eq!(table.id(), made.id());
        let row = table.insert().with("id", 1i64).unwrap().with("value", 1).unwrap();
        user.session().build().apply(row).await.expect("and written");
        user.delete_table(&name).await.unwrap();
    }
}

#[tokio::test]
async fn a_table_made_anew_under_an_old_name_is_another_table() {
    let test = small_table("anew", 2).await;
    let (client, old) = (&test.client, &test.table);
    let session = client.session().timeout(std::time::Duration::from_secs(10)).build();
    let row = |table: &client::Table| table.insert().with("id", 1i64).unwrap().with("value", 1).unwrap();
    session.apply(row(old)).await.unwrap();
    let other = connect().await;
    other.delete_table(old.name()).await.unwrap();
    let new = other
        .create_table(old.name(), small_schema())
        .hash_partition(&["id"], 2)
        .replicas(1)
        .create()
        .await
        .unwrap();
    assert_ne!(new.id(), old.id());
    let error =
        session.apply(old.insert().with("id", 2i64).unwrap().with("value", 2).unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("Not found") && !error.is_timeout(), "{error}");
    assert_eq!(new.scan().start().unwrap().count().await.unwrap(), 0, "nothing went to the new table");
    assert!(client.location_stats().asks < 50, "{:?}", client.location_stats());
    session.apply(row(&client.open_table(old.name()).await.unwrap())).await.unwrap();
    assert_eq!(new.scan().start().unwrap().count().await.unwrap(), 1);
    test.delete().await;
}
