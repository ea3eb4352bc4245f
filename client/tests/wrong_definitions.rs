//! Tables that cannot be made, each refused with the codes and words of a real master.

mod common;
mod raw;

use client::schema::row_ops::Encoder;
use client::schema::{OpKind, PartialRow};
use proto::kudu::app_status_pb::ErrorCode as Status;
use proto::kudu::master::CreateTableRequestPb;
use proto::kudu::master::master_error_pb::Code;
use proto::kudu::partition_schema_pb::RangeWithHashSchemaPb;
use proto::kudu::{ColumnSchemaPb, PartitionSchemaPb, RowOperationsPb, SchemaPb};
use raw::{Master, base_schema, base_table, bounds, hash, int32, raw_int, refusal};

/// What is asked, and the codes and a part of the text of the refusal.
type Case = (CreateTableRequestPb, Code, Status, &'static str);

async fn check(cases: Vec<Case>) {
    let client = common::connect().await;
    let master = Master::connect(&common::master_address());
    let mut wrong = Vec::new();
    for (request, code, status, text) in cases {
        match master.create(&request).await.map_err(|error| refusal(&error)) {
            Err((c, s, t)) if (c, s) == (code, status) && t.contains(text) => {}
            other => {
                wrong.push(format!("{request:?}\n  expected {code:?} {status:?} {text:?}\n  got {other:?}"))
            }
        }
        if client.table_exists(&request.name).await.expect("an answer") {
            wrong.push(format!("{request:?}\n  made the table all the same"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn with(change: impl FnOnce(&mut CreateTableRequestPb)) -> CreateTableRequestPb {
    let mut request = base_table(&common::unique_name("cannot"));
    change(&mut request);
    request
}

fn columns(columns: Vec<ColumnSchemaPb>) -> CreateTableRequestPb {
    with(|request| {
        request.schema = SchemaPb { columns };
        request.partition_schema = None;
        request.split_rows_range_bounds = None;
    })
}

fn with_column(column: ColumnSchemaPb) -> CreateTableRequestPb {
    columns(vec![key(), column])
}

fn partitioned(change: impl FnOnce(&mut PartitionSchemaPb)) -> CreateTableRequestPb {
    with(|request| change(request.partition_schema.get_or_insert_default()))
}

fn key() -> ColumnSchemaPb {
    ColumnSchemaPb { is_key: Some(true), is_nullable: Some(false), ..int32("key") }
}

fn not_null(name: &str) -> ColumnSchemaPb {
    ColumnSchemaPb { is_nullable: Some(false), ..int32(name) }
}

fn schema_error(request: CreateTableRequestPb, text: &'static str) -> Case {
    (request, Code::InvalidSchema, Status::InvalidArgument, text)
}

fn unknown(request: CreateTableRequestPb, text: &'static str) -> Case {
    (request, Code::UnknownError, Status::InvalidArgument, text)
}

#[tokio::test]
async fn columns_that_cannot_be() {
    let is_deleted = ColumnSchemaPb {
        r#type: 18,
        read_default_value: Some(bytes::Bytes::from_static(&[0])),
        ..not_null("v")
    };
    check(vec![
        unknown(with_column(int32("key")), "key"),
        unknown(columns(vec![int32("v"), key()]), "out-of-order key column"),
        schema_error(columns(vec![int32("v")]), "must specify at least one key column"),
        schema_error(columns(vec![]), "must specify at least one key column"),
        unknown(columns(vec![ColumnSchemaPb { is_key: Some(true), ..int32("key") }]), "ullable"),
        schema_error(
            columns(vec![ColumnSchemaPb { r#type: 11, ..key() }]),
            "key column may not have type of BOOL, FLOAT, or DOUBLE",
        ),
        unknown(with_column(ColumnSchemaPb { id: Some(5), ..int32("v") }), "Bad schema: "),
        schema_error(
            columns(vec![
                ColumnSchemaPb { id: Some(5), ..key() },
                ColumnSchemaPb { id: Some(6), ..int32("v") },
            ]),
            "user requests should not have Column IDs",
        ),
        schema_error(with_column(int32(&"x".repeat(257))), "longer than maximum permitted length 256"),
        schema_error(with_column(int32("a\0b")), "must not contain null bytes"),
        schema_error(
            with_column(ColumnSchemaPb { write_default_value: raw_int(5), ..int32("v") }),
            "column 'v' has write_default field set but no read_default",
        ),
        schema_error(
            with_column(ColumnSchemaPb {
                read_default_value: raw_int(5),
                write_default_value: raw_int(6),
                ..not_null("v")
            }),
            "column 'v' has mismatched read/write defaults",
        ),
        (
            with_column(ColumnSchemaPb { encoding: Some(2), ..int32("v") }),
            Code::InvalidSchema,
            Status::NotSupported,
            "invalid encoding for column 'v': encoding PREFIX_ENCODING not supported for type INT32",
        ),
        schema_error(
            with_column(ColumnSchemaPb { comment: Some("c".repeat(257)), ..int32("v") }),
            "invalid column comment: identifier",
        ),
        schema_error(
            columns(std::iter::once(key()).chain((0..300).map(|i| int32(&format!("c{i}")))).collect()),
            "number of columns 301 is greater than the permitted maximum 300",
        ),
        schema_error(with_column(is_deleted), "may not create virtual column"),
    ])
    .await;
}

#[tokio::test]
async fn names_owners_comments_properties_and_replicas_that_cannot_be() {
    let property = |name: &str, value: &str, text| {
        unknown(with(|request| drop(request.extra_configs.insert(name.into(), value.into()))), text)
    };
    let replicas = |count, code, text| {
        (with(|request| request.num_replicas = Some(count)), code, Status::InvalidArgument, text)
    };
    check(vec![
        schema_error(
            with(|r| r.name = String::new()),
            "invalid table name: empty string not a valid identifier",
        ),
        schema_error(with(|r| r.name = "x".repeat(257)), "longer than maximum permitted length 256"),
        schema_error(
            with(|r| r.name = "a\0b".into()),
            "invalid table name: identifier must not contain null bytes",
        ),
        schema_error(with(|r| r.owner = Some(String::new())), "empty string is not a valid owner"),
        schema_error(with(|r| r.owner = Some("o".repeat(129))), "longer than maximum permitted length"),
        schema_error(with(|r| r.comment = Some("c".repeat(257))), "invalid table comment: identifier"),
        property("a.b", "1", "invalid extra configuration property: a.b"),
        property("kudu.table.history_max_age_sec", "x", "unable to parse kudu.table.history_max_age_sec: x"),
        replicas(2, Code::EvenReplicationFactor, "replication factor must be odd"),
        replicas(0, Code::IllegalReplicationFactor, "minimum allowed replication factor is 1"),
        replicas(-1, Code::IllegalReplicationFactor, "minimum allowed replication factor is 1"),
        replicas(9, Code::ReplicationFactorTooHigh, "maximum allowed replication factor is 7"),
        replicas(7, Code::ReplicationFactorTooHigh, "tablet servers are alive"),
    ])
    .await;
}

#[tokio::test]
async fn partitions_that_cannot_be() {
    let row = |kind: OpKind, key: Option<i32>, v: Option<i32>| {
        let schema = base_schema();
        let (mut rows, mut row) = (Encoder::new(&schema), PartialRow::new(&schema));
        key.into_iter().for_each(|key| drop(row.set("key", key)));
        v.into_iter().for_each(|v| drop(row.set("v", v)));
        rows.push(kind, &row).expect("fits");
        RowOperationsPb::from(rows)
    };
    let ranged = |rows: RowOperationsPb| with(|request| request.split_rows_range_bounds = Some(rows));
    let custom = |range: (i32, i32), buckets| RangeWithHashSchemaPb {
        range_bounds: Some(bounds(&[range])),
        hash_schema: if buckets == 0 { vec![] } else { vec![hash(&["key"], buckets)] },
    };
    let splits = |keys: &[i32]| {
        let schema = base_schema();
        let mut rows = Encoder::new(&schema);
        for key in keys {
            let mut row = PartialRow::new(&schema);
            row.set("key", *key).expect("an INT32");
            rows.push(OpKind::SplitRow, &row).expect("fits");
        }
        RowOperationsPb::from(rows)
    };
    let hashed = |dimensions| partitioned(|p| p.hash_schema = dimensions);
    let only_custom = |ranges: Vec<RangeWithHashSchemaPb>, dimensions| {
        with(|request| {
            request.split_rows_range_bounds = None;
            let partitions = request.partition_schema.get_or_insert_default();
            partitions.custom_hash_schema_ranges = ranges;
            partitions.hash_schema = dimensions;
        })
    };
    check(vec![
        schema_error(hashed(vec![hash(&["key"], 1)]), "must have at least two hash buckets"),
        schema_error(hashed(vec![hash(&["key"], 0)]), "must have at least two hash buckets"),
        schema_error(hashed(vec![hash(&["v"], 2)]), "must specify only primary key columns for"),
        schema_error(hashed(vec![hash(&["key"], 2), hash(&["key"], 3)]), ""),
        schema_error(hashed(vec![hash(&[], 2)]), "must have at least one"),
        schema_error(hashed(vec![hash(&["zz"], 2)]), "zz"),
        schema_error(
            partitioned(|p| p.range_schema.get_or_insert_default().columns.push(raw::column_name("v"))),
            "",
        ),
        schema_error(
            partitioned(|p| p.range_schema.get_or_insert_default().columns.push(raw::column_name("zz"))),
            "zz",
        ),
        unknown(ranged(bounds(&[(0, 100), (50, 150)])), "overlapping range partitions"),
        unknown(
            ranged(bounds(&[(100, 50)])),
            "range partition lower bound must be less than the upper bound",
        ),
        unknown(ranged(row(OpKind::RangeLowerBound, Some(5), None)), ""),
        unknown(ranged(row(OpKind::RangeUpperBound, Some(5), None)), ""),
        unknown(ranged(row(OpKind::SplitRow, Some(5), Some(6))), "v"),
        unknown(ranged(row(OpKind::SplitRow, None, None)), "split rows must contain a value"),
        unknown(ranged(splits(&[5, 5])), "duplicate split row"),
        (ranged(row(OpKind::Insert, Some(5), None)), Code::UnknownError, Status::InvalidArgument, ""),
        (
            ranged(RowOperationsPb { rows: Some(bytes::Bytes::from_static(&[6, 1])), indirect_data: None }),
            Code::UnknownError,
            Status::Corruption,
            "",
        ),
        unknown(
            with(|r| {
                r.partition_schema.get_or_insert_default().custom_hash_schema_ranges = vec![custom((0, 5), 0)]
            }),
            "must not be populated at the same time",
        ),
        (
            only_custom(vec![custom((0, 5), 0)], vec![hash(&["key"], 2)]),
            Code::UnknownError,
            Status::NotSupported,
            "varying number of hash dimensions per range is not yet supported",
        ),
        schema_error(
            only_custom(vec![custom((0, 5), 1)], vec![hash(&["key"], 2)]),
            "at least two hash buckets",
        ),
        schema_error(
            only_custom(vec![custom((0, 5), 2), custom((3, 9), 3)], vec![hash(&["key"], 2)]),
            "overlap",
        ),
        schema_error(
            only_custom(vec![custom((5, 0), 3)], vec![hash(&["key"], 2)]),
            "less than the upper bound",
        ),
    ])
    .await;
}
