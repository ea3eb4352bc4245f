use proto::kudu::{
    BlockBloomFilterPb, ColumnPredicatePb, ColumnSchemaPb, PartitionSchemaPb, SchemaPb, column_predicate_pb,
    partition_schema_pb::{ColumnIdentifierPb, HashBucketSchemaPb, column_identifier_pb::Identifier},
};

use super::{
    partition::{Naming, partition_schema_from_pb, partition_schema_to_pb},
    predicate::{predicate_from_pb, predicate_to_pb},
    *,
};
use crate::{
    HashDimension, Partition, PartitionSchema, Predicate, PredicateError, RangeWithHash,
    bloom::{BlockBloomFilter, BloomError},
};

fn table() -> Schema {
    let columns = vec![
        Column::new("k", DataType::Int32).encoding(Encoding::BitShuffle).compression(Compression::Lz4),
        Column::new("s", DataType::String).block_size(4096),
        Column::decimal("d", 20, 3).nullable(true).default_value(Value::Decimal128(-5)),
        Column::varchar("v", 65535).default_value(Value::Varchar("x".into())).comment("text"),
        Column::new("i", DataType::Date).nullable(true).immutable(true),
    ];
    Schema::new(columns, 2).unwrap().with_sequential_ids(10)
}

#[test]
fn schemas_go_both_ways_with_ids_and_without() {
    let schema = table();
    let pb = SchemaPb::from(&schema);
    assert_eq!(Schema::try_from(&pb).unwrap(), schema);
    let pb = schema_without_ids(&schema);
    let back = Schema::try_from(&pb).unwrap();
    assert_eq!((back.columns(), back.key_columns(), back.ids()), (schema.columns(), 2, None));
    assert_eq!(pb.columns[2].write_default_value.as_deref(), Some(&(-5i128).to_le_bytes()[..]));
}

#[test]
fn every_type_encoding_and_compression_keeps_its_number() {
    let mut types = 0;
    for number in 0..30 {
        if let Some(data_type) = data_type_from_number(number) {
            assert_eq!(proto::kudu::DataType::from(data_type) as i32, number);
            types += 1;
        }
        let encoding = encoding_from_number(number);
        assert_eq!(proto::kudu::EncodingType::from(encoding) as i32, if number < 7 { number } else { 0 });
        let compression = compression_from_number(number);
        assert_eq!(
            proto::kudu::CompressionType::from(compression) as i32,
            if number < 5 { number } else { 0 }
        );
    }
    assert_eq!(types, 16);
    assert_eq!(encoding_from_number(999), Encoding::Auto);
}

#[test]
fn wrong_schemas_are_refused_with_the_columns_name() {
    let pb = |change: fn(&mut Vec<ColumnSchemaPb>)| {
        let mut pb = SchemaPb::from(&table());
        change(&mut pb.columns);
        Schema::try_from(&pb).unwrap_err()
    };
    let name = |name: &str| name.to_owned();
    assert_eq!(pb(|c| c[1].r#type = 0), WireError::UnknownType { column: name("s"), number: 0 });
    assert_eq!(pb(|c| c[0].is_key = None), WireError::KeyNotFirst { column: name("s") });
    assert_eq!(pb(|c| c[3].id = None), WireError::MixedIds);
    assert_eq!(pb(|c| c[3].id = Some(10)), SchemaError::Ids { ids: 5, columns: 5 }.into());
    let short = |c: &mut Vec<ColumnSchemaPb>| c[2].read_default_value = Some(bytes::Bytes::from_static(&[1]));
    assert_eq!(pb(short), WireError::Default { column: name("d"), bytes: 1 });
    let length = |c: &mut Vec<ColumnSchemaPb>| c[3].type_attributes.as_mut().unwrap().length = Some(65536);
    assert_eq!(pb(length), WireError::Attribute { column: name("v"), value: 65536 });
    let precision = |c: &mut Vec<ColumnSchemaPb>| c[2].type_attributes.as_mut().unwrap().precision = Some(-1);
    assert_eq!(pb(precision), WireError::Attribute { column: name("d"), value: -1 });
    assert!(matches!(pb(|c| c[2].type_attributes = None), WireError::Schema(SchemaError::Column(_))));
    assert!(matches!(
        pb(|c| c[0].is_nullable = Some(true)),
        WireError::Schema(SchemaError::NullableKey { .. })
    ));
}

fn partitioning() -> PartitionSchema {
    let hash = |id, buckets| HashDimension { columns: vec![ColumnId(id)], buckets, seed: 7 };
    PartitionSchema {
        hash_dimensions: vec![hash(10, 2)],
        range_columns: vec![ColumnId(11)],
        custom_ranges: vec![
            RangeWithHash { lower: vec![], upper: b"a\0b".to_vec(), hash_dimensions: vec![hash(10, 3)] },
            RangeWithHash { lower: b"c".to_vec(), upper: vec![], hash_dimensions: vec![hash(10, 4)] },
        ],
    }
}

#[test]
fn partition_schemas_go_both_ways_by_name_and_by_id() {
    let (schema, partitioning) = (table(), partitioning());
    for naming in [Naming::ByName, Naming::ById] {
        let pb = partition_schema_to_pb(&partitioning, &schema, naming).unwrap();
        assert_eq!(partition_schema_from_pb(&pb, &schema).unwrap(), partitioning, "{naming:?}");
    }
}

#[test]
fn a_missing_range_part_is_the_whole_key_and_an_empty_one_none() {
    let schema = table();
    let range = |range_schema| {
        let pb = PartitionSchemaPb { range_schema, ..Default::default() };
        partition_schema_from_pb(&pb, &schema).unwrap().range_columns
    };
    assert_eq!(range(None), [ColumnId(10), ColumnId(11)]);
    assert_eq!(range(Some(Default::default())), []);
}

#[test]
fn wrong_partition_schemas_are_refused() {
    let schema = table();
    let error = |change: fn(&mut PartitionSchemaPb)| {
        let mut pb = partition_schema_to_pb(&partitioning(), &schema, Naming::ByName).unwrap();
        change(&mut pb);
        partition_schema_from_pb(&pb, &schema).unwrap_err()
    };
    let column = |name: &str| ColumnIdentifierPb { identifier: Some(Identifier::Name(name.into())) };
    assert_eq!(
        partition_schema_from_pb(
            &PartitionSchemaPb {
                hash_schema: vec![HashBucketSchemaPb { columns: vec![column("x")], ..Default::default() }],
                ..Default::default()
            },
            &schema
        ),
        Err(PartitionError::NoSuchColumn { column: "x".into() }.into())
    );
    let buckets = PartitionError::TooFewBuckets { buckets: 0 };
    assert_eq!(error(|pb| pb.hash_schema[0].num_buckets = -3), buckets.into());
    assert_eq!(
        error(|pb| pb.hash_schema[0].hash_algorithm = Some(2)),
        WireError::HashAlgorithm { number: 2 }
    );
    assert_eq!(
        error(|pb| pb.hash_schema[0].columns[0].identifier = None),
        PartitionError::UnnamedColumn.into()
    );
    assert_eq!(
        error(|pb| pb.custom_hash_schema_ranges[0].range_bounds = None),
        WireError::CustomBounds { ranges: 0 }
    );
    assert_eq!(
        error(|pb| pb.custom_hash_schema_ranges[0].hash_schema.clear()),
        PartitionError::DimensionCount { expected: 1, given: 0 }.into()
    );
}

#[test]
fn partitions_go_both_ways() {
    let partition = Partition { hash_buckets: vec![0, 3], start: vec![0, 1], end: vec![] };
    let pb = proto::kudu::PartitionPb::from(&partition);
    assert_eq!(Partition::try_from(&pb), Ok(partition));
    let negative = proto::kudu::PartitionPb { hash_buckets: vec![-1], ..pb };
    assert_eq!(Partition::try_from(&negative), Err(WireError::Bucket { bucket: -1 }));
}

#[test]
fn predicates_go_both_ways() {
    let value = bytes::Bytes::from_static(&[1, 0, 0, 0]);
    let mut builder = BlockBloomFilter::builder(7, 3);
    builder.insert(&value);
    let filters = vec![builder.build()];
    let bound = Some(value.clone());
    for predicate in [
        Predicate::Range { column: 0, lower: bound.clone(), upper: None },
        Predicate::Equality { column: 0, value: value.clone() },
        Predicate::InList { column: 0, values: vec![value.clone(), value] },
        Predicate::IsNull { column: 2 },
        Predicate::IsNotNull { column: 1 },
        Predicate::InBloomFilter { column: 0, filters, lower: None, upper: bound },
    ] {
        let pb = predicate_to_pb(&predicate, &table()).unwrap();
        assert_eq!(predicate_from_pb(&pb, &table()), Ok(predicate));
    }
}

#[test]
fn wrong_predicates_are_refused_with_the_columns_name() {
    let error = |column: &str, predicate| {
        let pb = ColumnPredicatePb { column: Some(column.into()), predicate };
        predicate_from_pb(&pb, &table()).unwrap_err()
    };
    assert_eq!(error("x", None), PredicateError::NoSuchColumn { column: "x".into() });
    assert_eq!(error("k", None), PredicateError::NoKind { column: "k".into() });
    let bare = column_predicate_pb::Predicate::Equality(Default::default());
    assert_eq!(error("k", Some(bare)), PredicateError::NoValue { column: "k".into() });
    let filter = BlockBloomFilterPb { hash_algorithm: Some(1), ..Default::default() };
    let bloom = column_predicate_pb::InBloomFilter { bloom_filters: vec![filter], ..Default::default() };
    assert_eq!(
        error("k", Some(column_predicate_pb::Predicate::InBloomFilter(bloom))),
        PredicateError::Bloom { column: "k".into(), source: BloomError::Algorithm { algorithm: 1 } }
    );
}
