//! What a CreateTable request asks for, checked as far as that goes without looking at other tables.

use proto::kudu::master::CreateTableRequestPb;
use proto::kudu::{PartitionPb, SchemaPb};
use schema::partition::create_partitions;
use schema::wire::partition::{Naming, partition_schema_from_pb, partition_schema_to_pb, range_spec_from_pb};
use schema::{DataType, Schema};

use crate::catalog::tables::TablePlan;
use crate::catalog::{DISABLE_COMPACTION, HISTORY_MAX_AGE_SEC, MAINTENANCE_PRIORITY};
use crate::fault::{Fault, IdentifierFault};
use crate::options::Limits;

/// Turns the request of `user` into a plan, or says which of the rules it breaks.
pub(crate) fn plan(
    mut request: CreateTableRequestPb,
    user: &str,
    limits: &Limits,
) -> Result<TablePlan, Fault> {
    complete_defaults(&mut request.schema)?;
    let schema = schema(&request, limits)?;
    let partitioning = request.partition_schema.clone().unwrap_or_default();
    let mut partitioning = partition_schema_from_pb(&partitioning, &schema).map_err(partition_fault)?;
    let bounds = request.split_rows_range_bounds.clone().unwrap_or_default();
    let spec = range_spec_from_pb(&bounds, &schema).map_err(Fault::BadBounds)?;
    let plain_bounds = spec.bounds.len() + spec.splits.len() > 0;
    if plain_bounds && !partitioning.custom_ranges.is_empty() {
        return Err(Fault::BoundsTwice);
    }
    let partitions = create_partitions(&schema, &partitioning, &spec.splits, &spec.bounds)?;
    partitioning.simplify();
    let partition_schema =
        partition_schema_to_pb(&partitioning, &schema, Naming::ById).map_err(partition_fault)?;
    let replicas = replicas(request.num_replicas, limits)?;
    extra_configs(&request)?;
    Ok(TablePlan {
        name: request.name,
        schema: SchemaPb::from(&schema),
        partition_schema,
        partitions: partitions.iter().map(PartitionPb::from).collect(),
        replicas,
        owner: request.owner.unwrap_or_else(|| user.to_owned()),
        comment: request.comment.unwrap_or_default(),
        extra_configs: request.extra_configs,
        dimension_label: request.dimension_label,
    })
}

fn schema(request: &CreateTableRequestPb, limits: &Limits) -> Result<Schema, Fault> {
    let columns = &request.schema.columns;
    check("table name", &request.name, limits.identifier_length)?;
    if let Some(owner) = &request.owner {
        if owner.is_empty() {
            return Err(Fault::BadIdentifier { what: "owner name", why: IdentifierFault::EmptyOwner });
        }
        check("owner name", owner, limits.owner_length)?;
    }
    if let Some(comment) = request.comment.as_deref().filter(|comment| !comment.is_empty()) {
        check("table comment", comment, limits.table_comment_length)?;
    }
    if columns.len() > limits.columns {
        return Err(Fault::TooManyColumns { columns: columns.len(), max: limits.columns });
    }
    if !columns.iter().any(|column| column.is_key()) {
        return Err(Fault::NoKey);
    }
    for column in columns {
        if column.id.is_some() {
            return Err(Fault::ColumnIdGiven);
        }
        check("column name", &column.name, limits.identifier_length)?;
        if !column.comment().is_empty() {
            check("column comment", column.comment(), limits.column_comment_length)?;
        }
    }
    let schema = Schema::try_from(&request.schema).map_err(Fault::BadSchema)?;
    if let Some(column) = schema.columns().iter().find(|column| column.data_type == DataType::IsDeleted) {
        return Err(Fault::VirtualColumn { column: column.name.clone(), data_type: column.data_type });
    }
    if let Some(column) = schema.columns().iter().find(|column| column.auto_incrementing) {
        return Err(Fault::NoAutoIncrementingYet { column: column.name.clone() });
    }
    Ok(schema.with_sequential_ids(0))
}

/// Rows written without a column get what old rows show there, unless told otherwise.
fn complete_defaults(schema: &mut SchemaPb) -> Result<(), Fault> {
    for column in &mut schema.columns {
        match (&column.read_default_value, &column.write_default_value) {
            (Some(read), None) => column.write_default_value = Some(read.clone()),
            (None, Some(_)) => return Err(Fault::WriteDefaultAlone { column: column.name.clone() }),
            _ => {}
        }
    }
    Ok(())
}

/// Broken rules of partitions read the same wherever they were found.
fn partition_fault(error: schema::wire::WireError) -> Fault {
    match error {
        schema::wire::WireError::Partition(error) => Fault::BadPartitions(error),
        other => Fault::BadBounds(other),
    }
}

fn check(what: &'static str, text: &str, max: usize) -> Result<(), Fault> {
    let why = if text.is_empty() {
        IdentifierFault::Empty
    } else if text.len() > max {
        IdentifierFault::TooLong { text: text.to_owned(), max }
    } else if text.contains('\0') {
        IdentifierFault::ZeroByte
    } else {
        return Ok(());
    };
    Err(Fault::BadIdentifier { what, why })
}

fn replicas(asked: Option<i32>, limits: &Limits) -> Result<i32, Fault> {
    let asked = asked.unwrap_or(limits.default_replicas);
    if asked > limits.max_replicas {
        return Err(Fault::TooManyReplicas { asked, max: limits.max_replicas });
    }
    if asked < limits.min_replicas {
        return Err(Fault::TooFewReplicas { asked, min: limits.min_replicas });
    }
    if asked % 2 == 0 {
        return Err(Fault::EvenReplicas(asked));
    }
    Ok(asked)
}

fn extra_configs(request: &CreateTableRequestPb) -> Result<(), Fault> {
    for (property, value) in &request.extra_configs {
        // An empty value resets the property.
        let (property, good) = match property.as_str() {
            HISTORY_MAX_AGE_SEC => (HISTORY_MAX_AGE_SEC, value.parse::<i32>().is_ok()),
            MAINTENANCE_PRIORITY => (MAINTENANCE_PRIORITY, value.parse::<i32>().is_ok()),
            DISABLE_COMPACTION => (DISABLE_COMPACTION, value.parse::<bool>().is_ok()),
            other => return Err(Fault::UnknownExtraConfig(other.to_owned())),
        };
        if !good && !value.is_empty() {
            return Err(Fault::BadExtraConfig { property, value: value.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proto::kudu::master::master_error_pb::Code;
    use proto::kudu::partition_schema_pb::column_identifier_pb::Identifier;
    use proto::kudu::partition_schema_pb::{ColumnIdentifierPb, HashBucketSchemaPb, RangeSchemaPb};
    use proto::kudu::{ColumnSchemaPb, DataType, PartitionSchemaPb};

    use super::*;

    fn column(name: &str, key: bool) -> ColumnSchemaPb {
        ColumnSchemaPb {
            name: name.into(),
            r#type: DataType::Int32 as i32,
            is_key: Some(key),
            is_nullable: Some(!key),
            ..Default::default()
        }
    }

    fn hash(column: &str, buckets: i32) -> HashBucketSchemaPb {
        let identifier = Some(Identifier::Name(column.into()));
        HashBucketSchemaPb {
            columns: vec![ColumnIdentifierPb { identifier }],
            num_buckets: buckets,
            ..Default::default()
        }
    }

    fn request(name: &str) -> CreateTableRequestPb {
        CreateTableRequestPb {
            name: name.into(),
            schema: SchemaPb { columns: vec![column("id", true), column("v", false)] },
            partition_schema: Some(PartitionSchemaPb {
                hash_schema: vec![hash("id", 2)],
                ..Default::default()
            }),
            num_replicas: Some(1),
            ..Default::default()
        }
    }

    fn refused(request: CreateTableRequestPb) -> (Code, String) {
        let fault = plan(request, "root", &Limits::default()).unwrap_err();
        (fault.codes().0, fault.to_string())
    }

    #[test]
    fn a_plan_has_column_ids_and_one_partition_a_bucket() {
        let plan = plan(request("t"), "root", &Limits::default()).unwrap();
        assert_eq!(
            plan.schema.columns.iter().map(|column| column.id).collect::<Vec<_>>(),
            [Some(0), Some(1)]
        );
        let starts: Vec<_> = plan.partitions.iter().map(|p| p.partition_key_start().to_vec()).collect();
        assert_eq!(starts, [[0, 0, 0, 0], [0, 0, 0, 1]]);
        assert_eq!(plan.partitions[1].partition_key_end(), [0, 0, 0, 2]);
        let range = plan.partition_schema.range_schema.unwrap();
        assert_eq!(
            range.columns[0].identifier,
            Some(Identifier::Id(0)),
            "no range schema means the whole key"
        );
        assert_eq!((plan.owner.as_str(), plan.replicas), ("root", 1));
    }

    #[test]
    fn odd_names_are_taken_and_bad_ones_refused() {
        for name in ["x".repeat(256).as_str(), "sp ace'q\"::😀", "a.b", "-", "."] {
            assert!(plan(request(name), "root", &Limits::default()).is_ok(), "{name}");
        }
        for (name, text) in [
            ("x".repeat(257).as_str(), "longer than maximum permitted length 256"),
            ("", "invalid table name: empty string not a valid identifier"),
            ("a\0b", "invalid table name: identifier must not contain null bytes"),
        ] {
            let (code, message) = refused(request(name));
            assert_eq!(code, Code::InvalidSchema);
            assert!(message.contains(text), "{message}");
        }
    }

    #[test]
    fn at_most_300_columns() {
        let with = |count: usize| {
            let mut request = request("t");
            request.schema.columns.extend((2..count).map(|i| column(&format!("c{i}"), false)));
            request
        };
        assert!(plan(with(300), "root", &Limits::default()).is_ok());
        let text = "number of columns 301 is greater than the permitted maximum 300";
        assert_eq!(refused(with(301)), (Code::InvalidSchema, text.into()));
    }

    #[test]
    fn replication_factors_are_odd_and_from_1_to_7() {
        for (asked, code) in [
            (0, Code::IllegalReplicationFactor),
            (-1, Code::IllegalReplicationFactor),
            (2, Code::EvenReplicationFactor),
            (9, Code::ReplicationFactorTooHigh),
        ] {
            let request = CreateTableRequestPb { num_replicas: Some(asked), ..request("t") };
            let (got, message) = refused(request);
            assert_eq!(got, code, "{message}");
            assert!(message.starts_with(&format!("illegal replication factor {asked}: ")), "{message}");
        }
    }

    #[test]
    fn keys_come_first_and_are_not_null() {
        let with = |columns: Vec<ColumnSchemaPb>| {
            let mut request = request("t");
            request.schema.columns = columns;
            refused(request).1
        };
        let nullable = ColumnSchemaPb { is_nullable: Some(true), ..column("id", true) };
        let double = ColumnSchemaPb { r#type: DataType::Double as i32, ..column("id", true) };
        let given = ColumnSchemaPb { id: Some(5), ..column("id", true) };
        assert!(with(vec![column("v", false), column("id", true)]).contains("key"));
        let deleted = ColumnSchemaPb { r#type: DataType::IsDeleted as i32, ..column("d", false) };
        assert!(with(vec![column("id", true), deleted]).starts_with("may not create virtual column"));
        assert!(with(vec![nullable]).contains("nullable"));
        assert!(with(vec![double]).contains("type"));
        assert_eq!(with(vec![column("v", false)]), "must specify at least one key column");
        assert_eq!(with(vec![]), "must specify at least one key column");
        assert_eq!(with(vec![given]), "user requests should not have Column IDs");
        assert!(with(vec![column("id", true), column("id", false)]).contains("id"));
        assert_eq!(
            with(vec![column("id", true), column("", false)]),
            "invalid column name: empty string not a valid identifier"
        );
    }

    #[test]
    fn a_column_that_would_count_by_itself_is_refused_at_once() {
        let mut request = request("t");
        let counter = ColumnSchemaPb {
            r#type: DataType::Int64 as i32,
            is_auto_incrementing: Some(true),
            ..column("auto_incrementing_id", true)
        };
        request.schema.columns.insert(1, counter);
        let fault = plan(request, "root", &Limits::default()).unwrap_err();
        assert!(matches!(fault, Fault::NoAutoIncrementingYet { .. }), "{fault}");
        assert_eq!(fault.codes().1, proto::kudu::app_status_pb::ErrorCode::NotSupported);
    }

    #[test]
    fn owners_and_comments_have_limits_of_their_own() {
        let limits = Limits {
            owner_length: 3,
            table_comment_length: 4,
            column_comment_length: 5,
            ..Limits::default()
        };
        let with = |owner: &str, table: &str, column: &str| {
            let mut request = request("t");
            (request.owner, request.comment) = (Some(owner.into()), Some(table.into()));
            request.schema.columns[1].comment = Some(column.into());
            plan(request, "root", &limits).map(drop).map_err(|fault| fault.to_string())
        };
        with("123", "1234", "12345").unwrap();
        for (refused, what) in [
            (with("1234", "", ""), "owner name"),
            (with("1", "12345", ""), "table comment"),
            (with("1", "", "123456"), "column comment"),
        ] {
            let text = refused.unwrap_err();
            assert!(text.starts_with(&format!("invalid {what}: ")), "{text}");
        }
    }

    #[test]
    fn partitions_that_cannot_be_are_refused() {
        let with = |hash_schema: Vec<HashBucketSchemaPb>| {
            refused(CreateTableRequestPb {
                partition_schema: Some(PartitionSchemaPb { hash_schema, ..Default::default() }),
                ..request("t")
            })
        };
        for hash_schema in
            [vec![hash("zz", 2)], vec![hash("id", 1)], vec![hash("v", 2)], vec![hash("id", 2), hash("id", 3)]]
        {
            assert_eq!(with(hash_schema.clone()).0, Code::InvalidSchema, "{hash_schema:?}");
        }
        assert_eq!(with(vec![hash("id", i32::MAX)]).0, Code::InvalidSchema, "no memory is taken for these");
    }

    #[test]
    fn properties_are_known_and_have_values_of_their_type() {
        let with = |property: &str, value: &str| {
            let extra_configs = [(property.to_owned(), value.to_owned())].into();
            plan(CreateTableRequestPb { extra_configs, ..request("t") }, "root", &Limits::default())
        };
        assert!(with(HISTORY_MAX_AGE_SEC, "5").is_ok());
        assert!(with(HISTORY_MAX_AGE_SEC, "").is_ok());
        assert!(with(HISTORY_MAX_AGE_SEC, "five").is_err());
        assert_eq!(with("foo", "5").unwrap_err().to_string(), "invalid extra configuration property: foo");
    }

    #[test]
    fn a_table_without_partitions_has_one_tablet() {
        let range_schema = Some(RangeSchemaPb::default());
        let partition_schema = Some(PartitionSchemaPb { range_schema, ..Default::default() });
        let plan =
            plan(CreateTableRequestPb { partition_schema, ..request("t") }, "root", &Limits::default())
                .unwrap();
        assert_eq!(plan.partitions.len(), 1);
        assert!(plan.partitions[0].partition_key_end().is_empty());
    }

    #[test]
    fn a_read_default_is_written_too_and_a_write_default_alone_is_refused() {
        let mut request = request("t");
        let default = Some(bytes::Bytes::from_static(&[42, 0, 0, 0]));
        request.schema.columns[1].read_default_value = default.clone();
        let made = plan(request.clone(), "alice", &Limits::default()).unwrap();
        assert_eq!(made.schema.columns[1].write_default_value, default);
        let column = &mut request.schema.columns[1];
        column.write_default_value = column.read_default_value.take();
        let refused = plan(request, "alice", &Limits::default()).unwrap_err();
        assert!(
            refused.to_string().ends_with("has write_default field set but no read_default"),
            "{refused}"
        );
        assert_eq!(refused.codes().0, Code::InvalidSchema);
    }
}
