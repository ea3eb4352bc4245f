//! What a CreateTable request asks for.

use proto::kudu::master::CreateTableRequestPb;
use proto::kudu::{PartitionPb, TableExtraConfigPb};
use schema::Schema;
use schema::partition::create_partitions;
use schema::wire::partition::{partition_schema_from_pb, range_spec_from_pb};

use super::columns::{AUTO_INCREMENTING, check_column, check_kind, complete_defaults};
use super::{check, properties, replicas};
use crate::catalog::tables::{Definition, NewTablet, TablePlan};
use crate::fault::{Fault, IdentifierFault};
use crate::options::Limits;

/// Turns the request of `user` into a plan, or says which of the rules it breaks.
pub(crate) fn plan(
    mut request: CreateTableRequestPb,
    user: &str,
    limits: &Limits,
) -> Result<TablePlan, Fault> {
    request.schema.columns.iter_mut().try_for_each(complete_defaults)?;
    let schema = schema(&request, limits)?;
    let partitioning = request.partition_schema.clone().unwrap_or_default();
    let mut partitioning =
        partition_schema_from_pb(&partitioning, &schema).map_err(Fault::BadPartitioning)?;
    let bounds = request.split_rows_range_bounds.clone().unwrap_or_default();
    let spec = range_spec_from_pb(&bounds, &schema).map_err(Fault::BadRange)?;
    let plain_bounds = spec.bounds.len() + spec.splits.len() > 0;
    if plain_bounds && !partitioning.custom_ranges.is_empty() {
        return Err(Fault::BoundsTwice);
    }
    let partitions = create_partitions(&schema, &partitioning, &spec.splits, &spec.bounds);
    let partitions = partitions.map_err(|error| match partitioning.custom_ranges.is_empty() {
        true => Fault::BadPartitions(error),
        false => Fault::BadPartitioning(error.into()),
    })?;
    partitioning.simplify();
    let replicas = replicas(request.num_replicas.unwrap_or(limits.default_replicas), limits)?;
    let mut extra_config = TableExtraConfigPb::default();
    properties::set(&mut extra_config, &request.extra_configs)?;
    let tablet = |partition| NewTablet {
        partition: PartitionPb::from(partition),
        dimension_label: request.dimension_label.clone(),
    };
    Ok(TablePlan {
        tablets: partitions.iter().map(tablet).collect(),
        about: Definition {
            name: request.name,
            next_column_id: schema.next_id().0,
            schema,
            partitioning,
            replicas,
            owner: request.owner.unwrap_or_else(|| user.to_owned()),
            comment: request.comment.unwrap_or_default(),
            extra_config,
            disk_size_limit: None,
            row_count_limit: None,
        },
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
    // Some with and some without are told apart below.
    if columns.iter().all(|column| column.id.is_some()) {
        return Err(Fault::ColumnIdGiven);
    }
    columns.iter().try_for_each(|column| check_column(column, limits))?;
    let schema = Schema::try_from(&request.schema).map_err(Fault::BadSchema)?;
    schema.columns().iter().try_for_each(check_kind)?;
    for (index, column) in schema.columns().iter().enumerate() {
        // Such a column makes keys unique; it is named so everywhere.
        let counts_in_key = column.auto_incrementing && index < schema.key_columns();
        if (column.name == AUTO_INCREMENTING) != counts_in_key {
            return Err(Fault::ReservedColumn);
        }
    }
    Ok(schema.with_sequential_ids(0))
}

#[cfg(test)]
mod tests {
    use proto::kudu::master::master_error_pb::Code;
    use proto::kudu::partition_schema_pb::column_identifier_pb::Identifier;
    use proto::kudu::partition_schema_pb::{ColumnIdentifierPb, HashBucketSchemaPb, RangeSchemaPb};
    use proto::kudu::{ColumnSchemaPb, DataType, PartitionSchemaPb, SchemaPb};

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
        assert_eq!(plan.about.schema.ids(), Some(&[schema::ColumnId(0), schema::ColumnId(1)][..]));
        let starts: Vec<_> =
            plan.tablets.iter().map(|t| t.partition.partition_key_start().to_vec()).collect();
        assert_eq!(starts, [[0, 0, 0, 0], [0, 0, 0, 1]]);
        assert_eq!(plan.tablets[1].partition.partition_key_end(), [0, 0, 0, 2]);
        let range = &plan.about.partitioning.range_columns;
        assert_eq!(range[..], [schema::ColumnId(0)], "no range schema means the whole key");
        assert_eq!((plan.about.owner.as_str(), plan.about.replicas), ("root", 1));
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
    fn a_column_that_counts_is_of_the_key_and_has_a_name_of_its_own() {
        let mut request = request("t");
        let counter = ColumnSchemaPb {
            r#type: DataType::Int64 as i32,
            is_auto_incrementing: Some(true),
            ..column("auto_incrementing_id", true)
        };
        request.schema.columns.insert(1, counter.clone());
        let made = plan(request.clone(), "root", &Limits::default()).unwrap();
        assert!(made.about.schema.columns()[1].auto_incrementing);
        for wrong in [
            ColumnSchemaPb { name: "other".into(), ..counter.clone() },
            ColumnSchemaPb { is_auto_incrementing: None, ..counter },
        ] {
            request.schema.columns[1] = wrong;
            let fault = plan(request.clone(), "root", &Limits::default()).unwrap_err();
            assert_eq!(fault, Fault::ReservedColumn);
        }
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
        assert_eq!(with(vec![hash("id", i32::MAX)]).0, Code::UnknownError, "no memory is taken for these");
    }

    #[test]
    fn a_table_without_partitions_has_one_tablet() {
        let range_schema = Some(RangeSchemaPb::default());
        let partition_schema = Some(PartitionSchemaPb { range_schema, ..Default::default() });
        let plan =
            plan(CreateTableRequestPb { partition_schema, ..request("t") }, "root", &Limits::default())
                .unwrap();
        assert_eq!(plan.tablets.len(), 1);
        assert!(plan.tablets[0].partition.partition_key_end().is_empty());
    }

    #[test]
    fn a_read_default_is_written_too_and_a_write_default_alone_is_refused() {
        let mut request = request("t");
        request.schema.columns[1].read_default_value = Some(bytes::Bytes::from_static(&[42, 0, 0, 0]));
        let made = plan(request.clone(), "alice", &Limits::default()).unwrap();
        assert_eq!(made.about.schema.columns()[1].write_default, Some(schema::Value::Int32(42)));
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
