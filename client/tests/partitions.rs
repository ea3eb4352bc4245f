//! Partition lists and the placement of rows: as the servers have them.

mod common;

use std::collections::BTreeSet;

use client::schema::{Column, DataType, PartitionError, Schema, Value};
use client::{FlushMode, Partitioner, RangePartition, Table, TabletLocation};
use common::{connect, unique_name};

fn texts(tablets: &[TabletLocation]) -> Vec<&str> {
    tablets.iter().map(|tablet| tablet.partition.as_str()).collect()
}

fn row(table: &Table, cells: &[(&str, Value)]) -> client::schema::PartialRow {
    let mut row = table.row();
    for (name, value) in cells {
        row.set(name, value.clone()).unwrap();
    }
    row
}

/// The rows of each tablet by a scan of it alone are those that the partitioner places there.
async fn compare_with_scans(table: &Table, partitioner: &Partitioner) {
    let tokens = table.scan().tokens().build().await.unwrap();
    assert_eq!(tokens.len(), partitioner.partitions());
    let mut rows = 0;
    for (index, token) in tokens.iter().enumerate() {
        assert_eq!(token.tablet(), partitioner.tablets().get(index));
        let scan = table.client().open_token(token).await.unwrap().start().unwrap();
        for cells in scan.collect_rows().await.unwrap() {
            let mut row = table.row();
            for (column, value) in cells.into_iter().enumerate() {
                row.set_at(column, value.unwrap()).unwrap();
            }
            assert_eq!(partitioner.partition(&row).unwrap(), Some(index), "{row:?}");
            rows += 1;
        }
    }
    assert_eq!(rows, 200);
}

#[tokio::test]
async fn rows_are_placed_where_the_servers_have_them_and_gaps_nowhere() {
    let client = connect().await;
    let columns = vec![
        Column::new("a", DataType::Int32),
        Column::new("b", DataType::String),
        Column::new("c", DataType::Int64),
    ];
    let schema = Schema::new(columns, 3).unwrap();
    let name = unique_name("placed");
    let bound = |b: &str| {
        let mut row = client::schema::PartialRow::new(&schema);
        row.set("b", b).unwrap();
        row
    };
    let table = client
        .create_table(&name, schema.clone())
        .hash_partition(&["a"], 3)
        .hash_partition_seeded(&["c"], 2, 7)
        .range_columns(&["b"])
        .range(RangePartition::between(bound("c"), bound("m")))
        .range(RangePartition::between(bound("p"), bound("x")).hash(&["a"], 2).hash(&["c"], 3))
        .replicas(1)
        .create()
        .await
        .unwrap();
    let partitioner = table.partitioner().await.unwrap();
    assert_eq!(partitioner.partitions(), 3 * 2 + 2 * 3);
    assert_eq!(
        texts(partitioner.tablets())[..3],
        [
            r#"HASH (a) PARTITION 0, HASH (c) PARTITION 0, RANGE (b) PARTITION "c" <= VALUES < "m""#,
            r#"HASH (a) PARTITION 0, HASH (c) PARTITION 0, RANGE (b) PARTITION "p" <= VALUES < "x""#,
            r#"HASH (a) PARTITION 0, HASH (c) PARTITION 1, RANGE (b) PARTITION "c" <= VALUES < "m""#,
        ]
    );
    let session = client.session().mode(FlushMode::Manual).build();
    let mut used = BTreeSet::new();
    for n in 0..200i64 {
        let b = if n % 2 == 0 { format!("d{n}") } else { format!("q{n}") };
        let insert =
            table.insert().with("a", n as i32).unwrap().with("b", b).unwrap().with("c", n * n).unwrap();
        used.insert(partitioner.partition(insert.row()).unwrap().expect("a range covers it"));
        session.apply(insert).await.unwrap();
    }
    session.flush().await.unwrap();
    assert_eq!(used.len(), partitioner.partitions(), "rows are spread");
    compare_with_scans(&table, &partitioner).await;
    for b in ["", "b", "m", "n", "x", "zz"] {
        let outside = row(&table, &[("a", Value::Int32(1)), ("b", b.into()), ("c", Value::Int64(1))]);
        assert_eq!(partitioner.partition(&outside).unwrap(), None, "{b:?}");
    }
    let incomplete = row(&table, &[("a", Value::Int32(1)), ("c", Value::Int64(1))]);
    assert!(matches!(partitioner.partition(&incomplete), Err(PartitionError::MissingCell { .. })));
    client.delete_table(&name).await.unwrap();
}

#[tokio::test]
async fn a_table_that_is_not_partitioned_has_one_partition_for_every_row() {
    let test = common::small_table("one", 1).await;
    let partitioner = test.table.partitioner().await.unwrap();
    assert_eq!((partitioner.partitions(), texts(partitioner.tablets())), (1, vec![""]));
    let any = row(&test.table, &[("id", Value::Int64(i64::MIN))]);
    assert_eq!(partitioner.partition(&any).unwrap(), Some(0));
    test.delete().await;
}

/// As `kudu table list -list_tablets -show_tablet_partition_info -show_hash_partition_info` of 1.18.1 prints them.
#[tokio::test]
async fn bounds_of_every_type_read_as_kudu_prints_them() {
    let client = connect().await;
    for (column, lower, upper, text) in [
        (Column::new("a", DataType::Int8), Value::Int8(-5), Value::Int8(7), "-5 <= VALUES < 7"),
        (Column::new("a", DataType::Int64), Value::Int64(-5), Value::Int64(-4), "-5 <= VALUES < -4"),
        (
            Column::new("a", DataType::Date),
            Value::Date(-1),
            Value::Date(18_262),
            "1969-12-31 <= VALUES < 2020-01-01",
        ),
        (
            Column::new("a", DataType::UnixtimeMicros),
            Value::UnixtimeMicros(-1),
            Value::UnixtimeMicros(1_577_836_800_000_001),
            "1969-12-31T23:59:59.999999Z <= VALUES < 2020-01-01T00:00:00.000001Z",
        ),
        (
            Column::decimal("a", 9, 2),
            Value::Decimal32(-105),
            Value::Decimal32(1230),
            "-105_D32 <= VALUES < 1230_D32",
        ),
        (
            Column::decimal("a", 38, 0),
            Value::Decimal128(-1),
            Value::Decimal128(12),
            "-1_D128 <= VALUES < 12_D128",
        ),
        (Column::decimal("a", 18, 3), Value::Decimal64(0), Value::Decimal64(1), "0_D64 <= VALUES < 1_D64"),
        (
            Column::varchar("a", 9),
            Value::from("a\t\u{1}é"),
            Value::from("b"),
            r#""a\t\001é" <= VALUES < "b""#,
        ),
        (
            Column::new("a", DataType::String),
            Value::from("a\u{7}'\"\\x"),
            Value::from("zä"),
            r#""a\007\'\"\\x" <= VALUES < "zä""#,
        ),
        (
            Column::new("a", DataType::Binary),
            Value::Binary(b"\0a".to_vec().into()),
            Value::Binary(b"\xff".to_vec().into()),
            r#""\x00\x61" <= VALUES < "\xff""#,
        ),
    ] {
        let schema = Schema::new(vec![column, Column::new("k", DataType::Int32)], 2).unwrap();
        let bound = |value: Value| {
            let mut row = client::schema::PartialRow::new(&schema);
            row.set("a", value).unwrap();
            row
        };
        let name = unique_name("texts");
        let create =
            client.create_table(&name, schema.clone()).hash_partition(&["k"], 2).range_columns(&["a"]);
        let create = create.range(RangePartition::between(bound(lower), bound(upper))).replicas(1);
        let table = create.create().await.unwrap();
        let tablets = table.tablets().await.unwrap();
        let expected: Vec<_> =
            (0..2).map(|bucket| format!("HASH (k) PARTITION {bucket}, RANGE (a) PARTITION {text}")).collect();
        assert_eq!(texts(&tablets), expected);
        assert_eq!(tablets[1].hash_buckets, [1]);
        client.delete_table(&name).await.unwrap();
    }
}
