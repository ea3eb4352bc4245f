//! Tables that are deleted for a while.

mod common;

use std::time::Duration;

use client::{MasterCode, StatusCode};
use common::{connect, small_table, unique_name};

#[tokio::test]
async fn a_table_deleted_softly_is_not_listed_and_comes_back_with_its_rows() {
    let test = small_table("soft", 2).await;
    let (client, table) = (&test.client, &test.table);
    let session = client.session().build();
    let row = |id: i64| table.insert().with("id", id).unwrap().with("value", 1).unwrap();
    session.apply(row(1)).await.unwrap();
    client.soft_delete_table(table.name(), Duration::from_secs(600)).await.unwrap();
    assert!(client.list_tables(table.name()).await.unwrap().is_empty());
    let listed = client.list_soft_deleted_tables(table.name()).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].id[..], listed[0].tablets), (table.id(), 2));
    // As on real servers: who knows it can still use it, and its name is taken.
    assert_eq!(client.open_table(table.name()).await.unwrap().id(), table.id());
    session.apply(row(2)).await.unwrap();
    let taken =
        client.create_table(table.name(), common::small_schema()).hash_partition(&["id"], 2).replicas(1);
    assert!(taken.create().await.unwrap_err().is_already_present());
    let error = client.alter_table(table.name()).comment("x").alter().await.unwrap_err();
    assert!(error.to_string().contains("should not be altered"), "{error}");
    assert_eq!(error.code(), Some(MasterCode::TABLE_SOFT_DELETED));
    let error = client.soft_delete_table(table.name(), Duration::from_secs(5)).await.unwrap_err();
    assert!(error.to_string().contains("should not be soft deleted again"), "{error}");
    assert_eq!(error.code(), Some(MasterCode::TABLE_SOFT_DELETED));

    client.recall_table(table.id(), None).await.unwrap();
    assert_eq!(client.list_tables(table.name()).await.unwrap().len(), 1);
    assert!(client.list_soft_deleted_tables(table.name()).await.unwrap().is_empty());
    assert_eq!(table.scan().start().unwrap().count().await.unwrap(), 2);
    let error = client.recall_table(table.id(), None).await.unwrap_err();
    assert!(error.to_string().contains("can't recall"), "{error}");
    assert_eq!(error.code(), Some(MasterCode::TABLE_NOT_FOUND));
    test.delete().await;
}

#[tokio::test]
async fn a_table_comes_back_under_another_name() {
    let test = small_table("recall", 1).await;
    let (client, table) = (&test.client, &test.table);
    client.soft_delete_table(table.name(), Duration::from_secs(600)).await.unwrap();
    let other = unique_name("recalled");
    client.recall_table(table.id(), Some(&other)).await.unwrap();
    assert_eq!(client.open_table(&other).await.unwrap().id(), table.id());
    assert!(!client.table_exists(table.name()).await.unwrap());
    client.delete_table(&other).await.unwrap();
}

#[tokio::test]
async fn a_table_deleted_softly_can_be_deleted_for_good() {
    let test = small_table("good", 1).await;
    let (client, table) = (&test.client, &test.table);
    client.soft_delete_table(table.name(), Duration::from_secs(600)).await.unwrap();
    client.delete_table(table.name()).await.unwrap();
    assert!(!client.table_exists(table.name()).await.unwrap());
    assert!(client.list_soft_deleted_tables(table.name()).await.unwrap().is_empty());
    assert!(client.recall_table(table.id(), None).await.is_err());
}

#[tokio::test]
async fn what_does_not_exist_is_not_recalled() {
    let client = connect().await;
    let error = client.recall_table("no such id", None).await.unwrap_err();
    assert!(error.is_table_not_found() && error.to_string().contains("no such id"), "{error}");
    let error = client.soft_delete_table("no such table", Duration::from_secs(5)).await.unwrap_err();
    assert!(error.is_table_not_found(), "{error}");
}

#[tokio::test]
async fn a_table_whose_time_is_over_is_gone() {
    let test = small_table("over", 1).await;
    let (client, table) = (&test.client, &test.table);
    client.soft_delete_table(table.name(), Duration::from_secs(1)).await.unwrap();
    // A real master looks every half minute.
    for _ in 0..1200 {
        if !client.table_exists(table.name()).await.unwrap() {
            let error = client.recall_table(table.id(), None).await.unwrap_err();
            assert_eq!(error.code(), Some(MasterCode::TABLE_NOT_FOUND));
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it is still there");
}

#[tokio::test]
async fn statistics_tell_limits_only_where_there_are_any() {
    let test = small_table("limits", 1).await;
    let statistics = test.client.table_statistics(test.table.name()).await.unwrap();
    assert_eq!((statistics.row_count_limit, statistics.disk_size_limit), (None, None));
    let error =
        test.client.alter_table(test.table.name()).row_count_limit(Some(5)).alter().await.unwrap_err();
    assert!(error.to_string().contains("--enable_table_write_limit"), "{error}");
    let client::AlterTableError::Master(client::MasterError::Refused { source, .. }) = error else {
        panic!("the master refuses")
    };
    let client::AttemptError::Master { refusal, .. } = source else { panic!("{source}") };
    assert_eq!(refusal.status, StatusCode::NOT_SUPPORTED);
    test.delete().await;
}
