//! Handles that know ranges which somebody else drops and adds again.

mod common;

use std::time::{Duration, Instant};

use client::schema::PartialRow;
use client::{Operation, RangePartition, Table};
use common::{connect, small_schema, unique_name};

fn row(table: &Table, id: i64) -> Operation {
    table.insert().with("id", id).unwrap().with("value", 1).unwrap()
}

fn range(from: i64, to: i64) -> RangePartition {
    let schema = small_schema();
    let bound = |id: i64| {
        let mut row = PartialRow::new(&schema);
        row.set("id", id).unwrap();
        row
    };
    RangePartition::between(bound(from), bound(to))
}

#[tokio::test]
async fn an_old_handle_sees_the_gap_of_a_dropped_range_and_then_the_new_one() {
    let (client, other) = (connect().await, connect().await);
    let name = unique_name("gap");
    let maker = client.create_table(&name, small_schema()).replicas(1).range_columns(&["id"]);
    let old = maker.range(range(0, 100)).range(range(100, 200)).create().await.unwrap();
    let session = client.session().build();
    for id in [5, 105] {
        session.apply(row(&old, id)).await.unwrap();
    }
    let count = async || old.scan().start().unwrap().count().await;
    assert_eq!(count().await.unwrap(), 2);
    let asks = client.location_stats().asks;

    let opened = other.open_table(&name).await.unwrap();
    let bounds = |from, to| {
        let mut rows = [opened.row(), opened.row()];
        rows[0].set("id", from).unwrap();
        rows[1].set("id", to).unwrap();
        let [lower, upper] = rows;
        RangePartition::between(lower, upper)
    };
    other.alter_table(&name).drop_range(bounds(0i64, 100i64)).alter().await.unwrap();
    // Real servers may take a row for a moment more: the tablet is deleted behind the alteration's back.
    let start = Instant::now();
    while session.apply(row(&old, 6)).await.is_ok() {
        assert!(start.elapsed() < Duration::from_secs(30), "the range is not gone");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for _ in 0..20 {
        let error = session.apply(row(&old, 6)).await.unwrap_err();
        assert!(error.to_string().contains("no range partition"), "{error}");
    }
    assert_eq!(count().await.unwrap(), 1, "the rows of the other range");
    session.apply(row(&old, 106)).await.expect("the other range goes on");

    other.alter_table(&name).add_range(bounds(0i64, 100i64)).alter().await.unwrap();
    let start = Instant::now();
    while let Err(error) = session.apply(row(&old, 7)).await {
        assert!(error.to_string().contains("no range partition"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(30), "the range is there again: {error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(count().await.unwrap(), 3, "the dropped rows stay away");
    let asked = client.location_stats().asks - asks;
    assert!(asked < 50, "{asked} look-ups");
    client.delete_table(&name).await.unwrap();
}
