//! Alterations that cannot be, each refused with the codes and words of a real master, leaving the table as it was.

mod common;
mod raw;

use proto::kudu::app_status_pb::ErrorCode as Status;
use proto::kudu::master::alter_table_request_pb::{AddRangePartition, Step, StepType, add_range_partition};
use proto::kudu::master::master_error_pb::Code;
use proto::kudu::master::{AlterTableRequestPb, DeleteTableRequestPb, TableIdentifierPb};
use proto::kudu::{ColumnSchemaDeltaPb, ColumnSchemaPb, ColumnTypeAttributesPb, RowOperationsPb, SchemaPb};
use proto::methods::master_service::DeleteTable;
use raw::{
    Master, add, add_range, alter, base_table, bounds, change, delta, drop, drop_range, hash, int32, named,
    raw_int, refusal, rename, step,
};

/// What is asked, and the codes and a part of the text of the refusal.
type Case = (AlterTableRequestPb, Code, Status, &'static str);

/// Asks for each on a table of its own; tells all that are answered otherwise.
async fn check(cases: Vec<Case>) {
    let master = Master::connect(&common::master_address());
    let name = common::unique_name("wrong");
    master.create(&base_table(&name)).await.expect("a table");
    let before = master.describe(&name).await;
    let mut wrong = Vec::new();
    for (mut request, code, status, text) in cases {
        if request.table.table_name.as_deref() == Some("") {
            request.table = named(&name);
        }
        match master.alter(&request).await.map_err(|error| refusal(&error)) {
            Err((c, s, t)) if (c, s) == (code, status) && t.contains(text) => {}
            other => {
                wrong.push(format!("{request:?}\n  expected {code:?} {status:?} {text:?}\n  got {other:?}"))
            }
        }
        let after = master.describe(&name).await;
        if after != before {
            wrong.push(format!("{request:?}\n  changed the table to {after:?}"));
        }
    }
    master.ask::<DeleteTable>(&DeleteTableRequestPb { table: named(&name), ..Default::default() }).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn steps(steps: Vec<Step>) -> AlterTableRequestPb {
    alter("", steps)
}

fn invalid_schema(asked: Vec<Step>, text: &'static str) -> Case {
    (steps(asked), Code::InvalidSchema, Status::InvalidArgument, text)
}

fn invalid(asked: Vec<Step>, text: &'static str) -> Case {
    (steps(asked), Code::UnknownError, Status::InvalidArgument, text)
}

fn schema_error(step: Step, status: Status, text: &'static str) -> Case {
    (steps(vec![step]), Code::InvalidSchema, status, text)
}

fn not_null(name: &str) -> ColumnSchemaPb {
    ColumnSchemaPb { is_nullable: Some(false), ..int32(name) }
}

#[tokio::test]
async fn columns_that_cannot_be_added() {
    let five = || raw_int(5);
    let encoded = |encoding| add(ColumnSchemaPb { encoding: Some(encoding), ..int32("a") });
    let text_rle = ColumnSchemaPb { encoding: Some(4), r#type: 8, ..int32("a") };
    let is_deleted = ColumnSchemaPb {
        r#type: 18,
        read_default_value: Some(bytes::Bytes::from_static(&[0])),
        ..not_null("a")
    };
    check(vec![
        schema_error(add(int32("v")), Status::AlreadyPresent, "The column already exists: v"),
        invalid_schema(vec![add(not_null("a"))], "column `a`: NOT NULL columns must have a default"),
        invalid_schema(
            vec![add(ColumnSchemaPb { write_default_value: five(), ..int32("a") })],
            "column 'a' has write_default field set but no read_default",
        ),
        invalid_schema(
            vec![add(ColumnSchemaPb {
                read_default_value: five(),
                write_default_value: raw_int(6),
                ..not_null("a")
            })],
            "column 'a' has mismatched read/write defaults",
        ),
        invalid_schema(
            vec![add(ColumnSchemaPb { id: Some(77), ..int32("a") })],
            "client should not specify column ID",
        ),
        invalid_schema(
            vec![add(is_deleted)],
            "may not create virtual column of type 'is_deleted' (column 'a')",
        ),
        invalid_schema(vec![add(int32(&"x".repeat(257)))], "longer than maximum permitted length 256"),
        invalid_schema(vec![add(int32("a\0b"))], "identifier must not contain null bytes"),
        invalid_schema(
            vec![add(ColumnSchemaPb { comment: Some("c".repeat(257)), ..int32("a") })],
            "invalid column comment: identifier",
        ),
        schema_error(
            encoded(2),
            Status::NotSupported,
            "encoding PREFIX_ENCODING not supported for type INT32",
        ),
        schema_error(encoded(5), Status::NotSupported, "encoding DICT_ENCODING not supported for type INT32"),
        schema_error(encoded(3), Status::NotSupported, "encoding GROUP_VARINT not supported for type INT32"),
        schema_error(encoded(999), Status::NotSupported, "encoding UNKNOWN_ENCODING not supported"),
        schema_error(add(text_rle), Status::NotSupported, "invalid encoding for column 'a': encoding RLE"),
        invalid_schema(vec![step(StepType::AddColumn)], "ADD_COLUMN missing column info"),
        invalid_schema(
            (0..297).map(|i| add(int32(&format!("c{i}")))).collect(),
            "number of columns 301 is greater than the permitted maximum 300",
        ),
        invalid(vec![step(StepType::Unknown)], "Invalid alter step type"),
        invalid(vec![Step { r#type: Some(99), ..Default::default() }], "Invalid alter step type"),
        invalid(vec![Step::default()], "Invalid alter step type"),
    ])
    .await;
}

#[tokio::test]
async fn columns_that_cannot_be_changed() {
    let missing = Status::NotFound;
    let taken = Status::AlreadyPresent;
    check(vec![
        schema_error(drop("nope"), missing, "The specified column does not exist: nope"),
        schema_error(drop(""), missing, "The specified column does not exist"),
        invalid_schema(vec![drop("key")], "cannot remove a key column: key"),
        (steps(vec![drop("v"), drop("v")]), Code::InvalidSchema, missing, "does not exist: v"),
        invalid_schema(vec![step(StepType::DropColumn)], "DROP_COLUMN missing column info"),
        schema_error(rename("nope", "b"), missing, "The specified column does not exist: nope"),
        schema_error(rename("v", "s"), taken, "The column already exists: s"),
        schema_error(rename("nope", "s"), taken, "The column already exists: s"),
        schema_error(rename("v", "v"), taken, "The column already exists: v"),
        invalid_schema(vec![rename("v", "")], "column name must be non-empty"),
        invalid_schema(vec![rename("v", &"x".repeat(257))], "invalid column name: identifier"),
        invalid_schema(vec![rename("v", "a\0b")], "identifier must not contain null bytes"),
        invalid_schema(vec![step(StepType::RenameColumn)], "RENAME_COLUMN missing column info"),
        schema_error(change(delta("nope")), missing, "The specified column does not exist: nope"),
        schema_error(change(ColumnSchemaDeltaPb::default()), missing, "The specified column does not exist"),
        invalid_schema(vec![step(StepType::AlterColumn)], "ALTER_COLUMN missing column info"),
        invalid_schema(
            vec![change(ColumnSchemaDeltaPb {
                default_value: Some(bytes::Bytes::from_static(&[1])),
                ..delta("v")
            })],
            "wrong size for default value",
        ),
        schema_error(
            change(ColumnSchemaDeltaPb { encoding: Some(2), ..delta("v") }),
            Status::NotSupported,
            "invalid encoding for column 'v': encoding PREFIX_ENCODING not supported for type INT32",
        ),
        invalid_schema(
            vec![change(ColumnSchemaDeltaPb { new_comment: Some("h".repeat(257)), ..delta("v") })],
            "invalid column comment: identifier",
        ),
        schema_error(
            change(ColumnSchemaDeltaPb { new_name: Some("s".into()), ..delta("v") }),
            taken,
            "The column already exists: s",
        ),
        // The last of several steps is wrong: none of them happens.
        (
            steps(vec![add(int32("a")), drop("v"), rename("s", "t"), add_range(&[(200, 300)]), drop("nope")]),
            Code::InvalidSchema,
            missing,
            "The specified column does not exist: nope",
        ),
    ])
    .await;
}

#[tokio::test]
async fn ranges_that_cannot_be() {
    let no_bounds = |kind| Step {
        add_range_partition: Some(AddRangePartition::default()),
        drop_range_partition: Some(Default::default()),
        ..step(kind)
    };
    let with_rows = |rows: &'static [u8]| {
        let rows = RowOperationsPb { rows: Some(bytes::Bytes::from_static(rows)), indirect_data: None };
        let range = AddRangePartition { range_bounds: Some(rows), ..Default::default() };
        Step { add_range_partition: Some(range), ..step(StepType::AddRangePartition) }
    };
    let one_dimension = AddRangePartition {
        range_bounds: Some(bounds(&[(200, 300)])),
        custom_hash_schema: Some(add_range_partition::CustomHashSchema {
            hash_schema: vec![hash(&["key"], 3)],
        }),
        dimension_label: None,
    };
    let one_dimension =
        Step { add_range_partition: Some(one_dimension), ..step(StepType::AddRangePartition) };
    let present = |asked, text| (steps(asked), Code::UnknownError, Status::AlreadyPresent, text);
    let other = SchemaPb { columns: vec![ColumnSchemaPb { is_key: Some(true), ..not_null("zz") }] };
    let fresh = || vec![add_range(&[(200, 300)])];
    let two = "expected two row operations for alter range partition step";
    check(vec![
        invalid(vec![no_bounds(StepType::AddRangePartition)], two),
        invalid(vec![no_bounds(StepType::DropRangePartition)], two),
        invalid(vec![step(StepType::AddRangePartition)], two),
        invalid(vec![step(StepType::DropRangePartition)], two),
        invalid(vec![add_range(&[(200, 300), (300, 400)])], two),
        invalid(
            vec![add_range(&[(150, 250)])],
            "new range partition conflicts with existing one: 150 <= VALUES < 250",
        ),
        invalid(vec![add_range(&[(110, 120)])], "conflicts with existing one: 110 <= VALUES < 120"),
        invalid(vec![add_range(&[(-10, 320)])], "conflicts with existing one: -10 <= VALUES < 320"),
        present(vec![add_range(&[(100, 200)])], "range partition already exists: 100 <= VALUES < 200"),
        invalid(
            vec![add_range(&[(300, 200)])],
            "range partition lower bound must be less than the upper bound: 300 <= VALUES < 200",
        ),
        invalid(vec![add_range(&[(300, 300)])], "less than the upper bound: 300 <= VALUES < 300"),
        invalid(
            vec![add_range(&[(200, 300)]), add_range(&[(250, 350)])],
            "new range partition conflicts with another newly added one: 250 <= VALUES < 350",
        ),
        present(
            vec![add_range(&[(200, 300)]), add_range(&[(200, 300)])],
            "new range partition duplicates another newly added one: 200 <= VALUES < 300",
        ),
        invalid(vec![drop_range(&[(300, 400)])], "no range partition to drop: 300 <= VALUES < 400"),
        invalid(vec![drop_range(&[(100, 150)])], "no range partition to drop: 100 <= VALUES < 150"),
        invalid(vec![drop_range(&[(0, 200)])], "no range partition to drop: 0 <= VALUES < 200"),
        invalid(
            vec![drop_range(&[(0, 100)]), drop_range(&[(0, 100)])],
            "no range partition to drop: 0 <= VALUES < 100",
        ),
        (
            steps(vec![one_dimension]),
            Code::UnknownError,
            Status::NotSupported,
            "varying number of hash dimensions per range is not yet supported",
        ),
        (
            AlterTableRequestPb { schema: None, ..steps(fresh()) },
            Code::UnknownError,
            Status::InvalidArgument,
            "key",
        ),
        (
            AlterTableRequestPb { schema: Some(other), ..steps(fresh()) },
            Code::UnknownError,
            Status::InvalidArgument,
            "zz",
        ),
        (steps(vec![with_rows(&[6, 1])]), Code::UnknownError, Status::Corruption, ""),
    ])
    .await;
}

#[tokio::test]
async fn names_owners_comments_properties_and_limits_that_cannot_be() {
    let master = Master::connect(&common::master_address());
    let taken = common::unique_name("taken");
    master.create(&base_table(&taken)).await.expect("a table");
    let with = |change: &dyn Fn(&mut AlterTableRequestPb)| {
        let mut request = steps(Vec::new());
        change(&mut request);
        request
    };
    let schema = |request, text| (request, Code::InvalidSchema, Status::InvalidArgument, text);
    let renamed = |name: &str| with(&|request| request.new_table_name = Some(name.to_owned()));
    let owned = |owner: &str| with(&|request| request.new_table_owner = Some(owner.to_owned()));
    let property = |name: &str, value: &str, text| {
        let set = |request: &mut AlterTableRequestPb| {
            request.new_extra_configs.insert(name.to_owned(), value.to_owned());
        };
        (with(&set), Code::UnknownError, Status::InvalidArgument, text)
    };
    let replicas = |count, code, text| {
        (with(&|request| request.num_replicas = Some(count)), code, Status::InvalidArgument, text)
    };
    let no_limits = "altering table limit is not supported because --enable_table_write_limit is not enabled";
    let limits = |rows, bytes| {
        let request = with(&|request| (request.row_count_limit, request.disk_size_limit) = (rows, bytes));
        (request, Code::UnknownError, Status::NotSupported, no_limits)
    };
    let missing = |table| {
        let request = AlterTableRequestPb { table, ..steps(Vec::new()) };
        (request, Code::TableNotFound, Status::NotFound, "the table does not exist: ")
    };
    let by_id = TableIdentifierPb { table_id: Some(bytes::Bytes::from_static(b"abc")), table_name: None };
    let nothing = AlterTableRequestPb { table: TableIdentifierPb::default(), ..steps(Vec::new()) };
    let both = AlterTableRequestPb { alter_schema_steps: vec![add(int32("a"))], ..renamed(&taken) };
    check(vec![
        (both, Code::TableAlreadyPresent, Status::AlreadyPresent, "already exists with id"),
        schema(renamed(""), "invalid table name: empty string not a valid identifier"),
        schema(renamed(&"t".repeat(257)), "longer than maximum permitted length 256"),
        schema(renamed("t\0t"), "invalid table name: identifier must not contain null bytes"),
        schema(owned(""), "empty string is not a valid owner: invalid owner name"),
        schema(owned(&"o".repeat(129)), "invalid owner name"),
        schema(with(&|r| r.new_table_comment = Some("o".repeat(257))), "invalid table comment: identifier"),
        property("a.b", "1", "invalid extra configuration property: a.b"),
        property("kudu.table.history_max_age_sec", "x", "unable to parse kudu.table.history_max_age_sec: x"),
        property(
            "kudu.table.disable_compaction",
            "yes",
            "unable to parse kudu.table.disable_compaction: yes",
        ),
        replicas(
            2,
            Code::EvenReplicationFactor,
            "illegal replication factor 2: replication factor must be odd",
        ),
        replicas(0, Code::IllegalReplicationFactor, "minimum allowed replication factor is 1"),
        replicas(9, Code::ReplicationFactorTooHigh, "maximum allowed replication factor is 7"),
        replicas(
            7,
            Code::ReplicationFactorTooHigh,
            "not enough live tablet servers to alter a table with the requested replication factor 7; ",
        ),
        limits(Some(5), None),
        limits(None, Some(-1)),
        missing(named("no such table")),
        missing(by_id),
        (nothing, Code::UnknownError, Status::InvalidArgument, "missing table ID or table name"),
    ])
    .await;
    // Its own name is taken as well.
    let itself = AlterTableRequestPb { table: named(&taken), ..renamed(&taken) };
    let (code, status, _) = refusal(&master.alter(&itself).await.unwrap_err());
    assert_eq!((code, status), (Code::TableAlreadyPresent, Status::AlreadyPresent));
    master.ask::<DeleteTable>(&DeleteTableRequestPb { table: named(&taken), ..Default::default() }).await;
}

/// A real master takes these or ends its process: not to be asked on a cluster that others need.
#[tokio::test]
async fn what_real_masters_do_not_survive_or_should_not_take() {
    if std::env::var_os("NYALA_TEST_MASTER").is_some() {
        return;
    }
    let of_type = |number| add(ColumnSchemaPb { r#type: number, ..int32("a") });
    let sized = |number, precision, scale| {
        let attributes =
            ColumnTypeAttributesPb { precision: Some(precision), scale: Some(scale), length: None };
        add(ColumnSchemaPb { r#type: number, type_attributes: Some(attributes), ..int32("a") })
    };
    let counter = ColumnSchemaPb { r#type: 7, is_auto_incrementing: Some(true), ..int32("a") };
    check(vec![
        invalid_schema(vec![add(int32(""))], "invalid column name: empty string not a valid identifier"),
        invalid_schema(
            vec![change(ColumnSchemaDeltaPb { new_name: Some(String::new()), ..delta("v") })],
            "non-empty",
        ),
        invalid_schema(
            vec![add(int32("auto_incrementing_id"))],
            "auto_incrementing_id is a reserved column name",
        ),
        invalid_schema(vec![rename("v", "auto_incrementing_id")], "is a reserved column name"),
        invalid_schema(vec![add(counter)], ""),
        invalid_schema(vec![of_type(999)], "type"),
        invalid_schema(vec![of_type(4)], "type"),
        invalid_schema(vec![of_type(14)], "type"),
        invalid_schema(vec![of_type(15)], "precision"),
        invalid_schema(vec![of_type(19)], "length"),
        invalid_schema(vec![sized(15, 20, 0)], "precision"),
        invalid_schema(vec![sized(15, 5, 6)], "scale"),
        invalid_schema(
            vec![add(ColumnSchemaPb {
                read_default_value: Some(bytes::Bytes::from_static(&[1, 2, 3, 4, 5])),
                ..not_null("a")
            })],
            "default",
        ),
    ])
    .await;
}
